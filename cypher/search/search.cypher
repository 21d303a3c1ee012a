// Search on a server, by its own indexes: what the embedded engine does beside the graph.
//
// A node that was embedded holds its vector (embedding), the digest of the text that it was made of
// (embedded) and the words to find it by (words). The indexes span namespaces: their answers are
// filtered, and asked for more where too few are left.

// name: search.held_strategies
// mode: read
// engine: neo4j
// doc: Which texts of strategies have a vector, and of how many dimensions.
// param: ns string
// param: ids list
// returns: id string, digest string, dimensions integer
MATCH (n:Strategy)
WHERE n.id IN $ids AND n.ns = $ns AND n.embedding IS NOT NULL
RETURN n.id AS id, n.embedded AS digest, size(n.embedding) AS dimensions;

// name: search.held_tasks
// mode: read
// engine: neo4j
// doc: Which descriptions of tasks have a vector, and of how many dimensions.
// param: ns string
// param: ids list
// returns: id string, digest string, dimensions integer
MATCH (n:Task)
WHERE n.id IN $ids AND n.ns = $ns AND n.embedding IS NOT NULL
RETURN n.id AS id, n.embedded AS digest, size(n.embedding) AS dimensions;

// name: search.put_strategies
// mode: write
// engine: neo4j
// doc: Writes the vectors and words of strategies.
// param: ns string
// param: rows list
// returns: written integer
UNWIND $rows AS row
MATCH (n:Strategy {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
SET n.embedded = row.digest, n.words = row.words
WITH n, row
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector)
RETURN count(*) AS written;

// name: search.put_tasks
// mode: write
// engine: neo4j
// doc: Writes the vectors and words of tasks.
// param: ns string
// param: rows list
// returns: written integer
UNWIND $rows AS row
MATCH (n:Task {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
SET n.embedded = row.digest, n.words = row.words
WITH n, row
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector)
RETURN count(*) AS written;

// name: search.near_strategies
// mode: read
// engine: neo4j
// doc: The strategies whose vectors are nearest to one, over all namespaces; those of this one are marked.
// param: ns string
// param: vector list
// param: limit integer
// returns: id string, own boolean, similarity float
CALL db.index.vector.queryNodes('graphmem_strategy_embedding', $limit, $vector) YIELD node, score
RETURN node.id AS id, node.ns = $ns AS own, 2.0 * score - 1.0 AS similarity
ORDER BY similarity DESC, id;

// name: search.near_tasks
// mode: read
// engine: neo4j
// doc: The tasks whose vectors are nearest to one, over all namespaces; those of this one are marked.
// param: ns string
// param: vector list
// param: limit integer
// returns: id string, own boolean, similarity float
CALL db.index.vector.queryNodes('graphmem_task_embedding', $limit, $vector) YIELD node, score
RETURN node.id AS id, node.ns = $ns AS own, 2.0 * score - 1.0 AS similarity
ORDER BY similarity DESC, id;

// name: search.strategies_by_words
// mode: read
// engine: neo4j
// doc: The strategies that fit words best (BM25), over all namespaces; those of this one are marked.
// param: ns string
// param: words string
// param: limit integer
// returns: id string, own boolean, score float
CALL db.index.fulltext.queryNodes('graphmem_strategy_words', $words, {limit: $limit}) YIELD node, score
RETURN node.id AS id, node.ns = $ns AS own, score AS score
ORDER BY score DESC, id;

// name: search.tasks_by_words
// mode: read
// engine: neo4j
// doc: The tasks that fit words best (BM25), over all namespaces; those of this one are marked.
// param: ns string
// param: words string
// param: limit integer
// returns: id string, own boolean, score float
CALL db.index.fulltext.queryNodes('graphmem_task_words', $words, {limit: $limit}) YIELD node, score
RETURN node.id AS id, node.ns = $ns AS own, score AS score
ORDER BY score DESC, id;

// name: search.vectors_of_strategies
// mode: read
// engine: neo4j
// doc: The vectors of strategies.
// param: ns string
// param: ids list
// returns: id string, vector list
MATCH (n:Strategy)
WHERE n.id IN $ids AND n.ns = $ns AND n.embedding IS NOT NULL
RETURN n.id AS id, n.embedding AS vector;

// name: search.vectors_of_tasks
// mode: read
// engine: neo4j
// doc: The vectors of tasks.
// param: ns string
// param: ids list
// returns: id string, vector list
MATCH (n:Task)
WHERE n.id IN $ids AND n.ns = $ns AND n.embedding IS NOT NULL
RETURN n.id AS id, n.embedding AS vector;

// name: search.count_strategies
// mode: read
// engine: neo4j
// doc: How many strategies there are.
// param: ns string
// returns: nodes integer
MATCH (n:Strategy)
WHERE n.ns = $ns
RETURN count(*) AS nodes;

// name: search.count_tasks
// mode: read
// engine: neo4j
// doc: How many tasks there are.
// param: ns string
// returns: nodes integer
MATCH (n:Task)
WHERE n.ns = $ns
RETURN count(*) AS nodes;
