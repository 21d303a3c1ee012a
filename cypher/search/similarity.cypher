// Similarity: which texts wait for a vector, and which strategies and tasks are linked as similar.
//
// A node that is new, whose text changed, or that lost a similar one has a Pending node of the same
// id beside it until its vector is there and its edges are drawn. A namespace without an Embedder
// node was never searched: there all texts wait. An edge SIMILAR_TO goes from a node to each of the
// most similar ones over the embedder's threshold; it is directed, so that a node has few of them.

// name: similarity.embedder
// mode: read
// doc: What the vectors of a namespace were made with (no row: none were).
// param: id string
// returns: name string, dimensions integer, similar float, near float
MATCH (n:Embedder {id: $id})
RETURN n.name AS name, n.dimensions AS dimensions, n.similar AS similar, n.near AS near;

// name: similarity.adopt
// mode: write
// doc: Notes what the vectors of a namespace are made with, and from which cosine on nodes are linked, and tasks are near.
// param: id string
// param: ns string
// param: name string
// param: dimensions integer
// param: similar float
// param: near float
// param: now integer
// returns: name string
OPTIONAL MATCH (n:Embedder {id: $id})
FOREACH (ignored IN CASE WHEN n IS NULL THEN [1] ELSE [] END |
  CREATE (:Embedder {id: $id, ns: $ns, created_at: $now, name: $name, dimensions: $dimensions, similar: $similar, near: $near}))
FOREACH (node IN CASE WHEN n IS NULL THEN [] ELSE [n] END |
  SET node.name = $name, node.dimensions = $dimensions, node.similar = $similar, node.near = $near)
RETURN $name AS name;

// name: similarity.pending
// mode: read
// install: pending_texts
// doc: Strategies and tasks whose vector or edges are not made yet.
// param: ns string
// returns: id string, kind string
MATCH (p:Pending)
WHERE p.ns = $ns
RETURN p.id AS id, p.kind AS kind
ORDER BY kind, id;

// name: similarity.pend
// mode: write
// doc: Marks nodes whose vector or edges are to be made.
// param: ns string
// param: now integer
// param: rows list
// returns: pending integer
UNWIND $rows AS row
OPTIONAL MATCH (p:Pending {id: row.id})
WITH row, p WHERE p IS NULL
CREATE (:Pending {id: row.id, ns: $ns, kind: row.kind, created_at: $now})
RETURN count(*) AS pending;

// name: similarity.settle
// mode: write
// doc: Removes the marks of nodes whose vector and edges are made, or that are gone.
// param: ns string
// param: ids list
// returns: settled integer
MATCH (p:Pending)
WHERE p.id IN $ids AND p.ns = $ns
DETACH DELETE p
RETURN count(*) AS settled;

// name: similarity.texts_of_strategies
// mode: read
// doc: The texts of all strategies.
// param: ns string
// returns: id string, text string
MATCH (s:Strategy)
WHERE s.ns = $ns
RETURN s.id AS id, s.text AS text;

// name: similarity.texts_of_tasks
// mode: read
// doc: The descriptions of all tasks.
// param: ns string
// returns: id string, text string
MATCH (t:Task)
WHERE t.ns = $ns
RETURN t.id AS id, t.description AS text;

// name: similarity.strategies
// mode: read
// doc: The texts of some strategies.
// param: ns string
// param: ids list
// returns: id string, text string
MATCH (s:Strategy)
WHERE s.id IN $ids AND s.ns = $ns
RETURN s.id AS id, s.text AS text;

// name: similarity.tasks
// mode: read
// doc: The descriptions of some tasks.
// param: ns string
// param: ids list
// returns: id string, text string
MATCH (t:Task)
WHERE t.id IN $ids AND t.ns = $ns
RETURN t.id AS id, t.description AS text;

// name: similarity.links_of_strategies
// mode: read
// doc: The similar strategies that strategies are linked to.
// param: ns string
// param: ids list
// returns: id string, other string, similarity float, embedder string
MATCH (s:Strategy)
WHERE s.id IN $ids AND s.ns = $ns
MATCH (s)-[r:SIMILAR_TO]->(o:Strategy)
RETURN s.id AS id, o.id AS other, r.similarity AS similarity, r.embedder AS embedder;

// name: similarity.links_of_tasks
// mode: read
// doc: The similar tasks that tasks are linked to.
// param: ns string
// param: ids list
// returns: id string, other string, similarity float, embedder string
MATCH (t:Task)
WHERE t.id IN $ids AND t.ns = $ns
MATCH (t)-[r:SIMILAR_TO]->(o:Task)
RETURN t.id AS id, o.id AS other, r.similarity AS similarity, r.embedder AS embedder;

// name: similarity.linked_to_strategies
// mode: read
// doc: Which strategies are linked to some.
// param: ns string
// param: ids list
// returns: id string, linked string
MATCH (s:Strategy)
WHERE s.id IN $ids AND s.ns = $ns
MATCH (o:Strategy)-[:SIMILAR_TO]->(s)
RETURN s.id AS id, o.id AS linked
ORDER BY id, linked;

// name: similarity.linked_to_tasks
// mode: read
// doc: Which tasks are linked to some.
// param: ns string
// param: ids list
// returns: id string, linked string
MATCH (t:Task)
WHERE t.id IN $ids AND t.ns = $ns
MATCH (o:Task)-[:SIMILAR_TO]->(t)
RETURN t.id AS id, o.id AS linked
ORDER BY id, linked;

// name: similarity.unlink_strategies
// mode: write
// doc: Removes the edges from strategies to similar ones.
// param: ns string
// param: ids list
// returns: removed integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND s.ns = $ns
MATCH (s)-[r:SIMILAR_TO]->(:Strategy)
DELETE r
RETURN count(*) AS removed;

// name: similarity.unlink_tasks
// mode: write
// doc: Removes the edges from tasks to similar ones.
// param: ns string
// param: ids list
// returns: removed integer
MATCH (t:Task)
WHERE t.id IN $ids AND t.ns = $ns
MATCH (t)-[r:SIMILAR_TO]->(:Task)
DELETE r
RETURN count(*) AS removed;

// name: similarity.link_strategies
// mode: write
// doc: Draws edges from strategies to similar ones: rows {id, other, similarity}.
// param: ns string
// param: embedder string
// param: rows list
// returns: linked integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.id})
MATCH (o:Strategy {id: row.other})
WITH row, s, o, s.ns AS ns, o.ns AS other WHERE ns = $ns AND other = $ns
CREATE (s)-[:SIMILAR_TO {similarity: row.similarity, embedder: $embedder}]->(o)
RETURN count(*) AS linked;

// name: similarity.link_tasks
// mode: write
// doc: Draws edges from tasks to similar ones: rows {id, other, similarity}.
// param: ns string
// param: embedder string
// param: rows list
// returns: linked integer
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
MATCH (o:Task {id: row.other})
WITH row, t, o, t.ns AS ns, o.ns AS other WHERE ns = $ns AND other = $ns
CREATE (t)-[:SIMILAR_TO {similarity: row.similarity, embedder: $embedder}]->(o)
RETURN count(*) AS linked;

// name: similarity.rates
// mode: read
// doc: How well strategies did, over all tasks and agents.
// param: ns string
// param: ids list
// param: z float = 1.96
// param: prior_successes float = 1.0
// param: prior_failures float = 1.0
// param: established float = 0.6
// param: refuted float = 0.4
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, merged_into string
MATCH (s:Strategy)
WHERE s.id IN $ids AND s.ns = $ns
WITH s, wilson_lower(s.successes, s.trials, $z) AS lower, wilson_upper(s.successes, s.trials, $z) AS upper
RETURN s.id AS id, s.text AS text, s.trials AS trials, s.successes AS successes,
       posterior_mean(s.successes, s.trials, $prior_successes, $prior_failures) AS mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status, s.merged_into AS merged_into;

// name: similarity.any_text
// mode: read
// doc: Whether there is anything to search: a row for a task, if there is one.
// param: ns string
// returns: id string
MATCH (t:Task)
WHERE t.ns = $ns
RETURN t.id AS id
LIMIT 1;
