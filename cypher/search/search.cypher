// Search on a server, by its own indexes, which span all namespaces: answers are filtered, and the limit is raised if too few remain. An
// embedded node has its vector (embedding), the digest of the embedded text (embedded) and its searchable words (words).

// each: Label kind = Strategy strategies, Task tasks
// name: search.digests_of_{kind}
// engine: neo4j
// doc: The {kind} that have a vector and words, with the digest of the text and the dimensions.
// returns: id string, digest string, dimensions integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns AND n.embedding IS NOT NULL AND n.words IS NOT NULL
RETURN n.id AS id, n.embedded AS digest, size(n.embedding) AS dimensions;

// each: Label kind = Strategy strategies, Task tasks
// name: search.lacking_{kind}
// engine: neo4j
// doc: The {kind} that lack their vector, its digest or their words, or have a vector of another size, and are not in the queue.
// param: dimensions integer
// returns: id string
MATCH (n:{Label})
WHERE n.ns = $ns AND (n.embedded IS NULL OR n.words IS NULL OR n.embedding IS NULL OR size(n.embedding) <> $dimensions)
OPTIONAL MATCH (p:Pending {id: n.id})
WITH n, p WHERE p IS NULL
RETURN n.id AS id
ORDER BY id;

// each: Label kind = Strategy strategies, Task tasks
// name: search.put_{kind}
// mode: write
// engine: neo4j
// doc: Writes the vectors and words of {kind}.
// returns: written integer
UNWIND $rows AS row
MATCH (n:{Label} {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
SET n.embedded = row.digest, n.words = row.words
WITH n, row
CALL db.create.setNodeVectorProperty(n, 'embedding', row.vector)
RETURN count(*) AS written;

// name: search.near
// engine: neo4j
// doc: The nodes of this namespace among those of all whose vectors are nearest to a given one, nearest first, with their similarities; how
// doc: many were seen, and the least similarity of these.
// param: index string, vector list, size integer
// returns: seen integer, least float, ids list, scores list
CALL db.index.vector.queryNodes('graphmem_' + $index + '_embedding', $size, $vector) YIELD node, score
WITH node.ns = $ns AS own, node.id AS id, 2.0 * score - 1.0 AS similarity
ORDER BY similarity DESC, id
RETURN count(*) AS seen, min(similarity) AS least, collect(CASE WHEN own THEN id END) AS ids,
  collect(CASE WHEN own THEN similarity END) AS scores;

// name: search.matching
// engine: neo4j
// doc: The nodes of this namespace among those of all that match words best (BM25), the best first, with the similarities of their vectors
// doc: to a given one; how many were seen, and the least score of these.
// param: index string, words string, vector list, size integer
// returns: seen integer, least float, ids list, scores list
CALL db.index.fulltext.queryNodes('graphmem_' + $index + '_words', $words, {limit: $size}) YIELD node, score
WITH node, score ORDER BY score DESC, node.id
WITH collect(node) AS nodes, min(score) AS least
WITH size(nodes) AS seen, least, [node IN nodes WHERE node.ns = $ns] AS nodes
RETURN seen, least, [node IN nodes | node.id] AS ids, [node IN nodes | coalesce(cosine_of(node.embedding, $vector), 0.0)] AS scores;

// each: Label kind = Strategy strategies, Task tasks
// name: search.vectors_of_{kind}
// engine: neo4j
// doc: The vectors of {kind}.
// returns: id string, vector list
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns AND n.embedding IS NOT NULL
RETURN n.id AS id, n.embedding AS vector;

// name: search.same_tasks
// engine: neo4j
// doc: The tasks whose vectors were made of a text, by its digest.
// param: digest string
// returns: id string
MATCH (n:Task)
WHERE n.embedded = $digest AND toString(n.ns) = $ns
RETURN n.id AS id
ORDER BY id;

// each: Label kind = Strategy strategies, Task tasks
// name: search.count_{kind}
// engine: neo4j
// doc: The number of {kind}.
// returns: nodes integer
MATCH (n:{Label})
WHERE n.ns = $ns
RETURN count(*) AS nodes;

// each: Label kind = Strategy strategies, Task tasks
// name: search.cosines_of_{kind}
// engine: neo4j
// doc: The cosines of the vectors of {kind} and those of others, in the order of these; null if one has none of this size.
// param: others list, dimensions integer
// returns: id string, cosines list
UNWIND range(0, size($others) - 1) AS place
OPTIONAL MATCH (o:{Label} {id: $others[place]})
WITH place, CASE WHEN o.ns = $ns AND size(o.embedding) = $dimensions THEN o.embedding ELSE [] END AS vector
ORDER BY place
WITH collect(vector) AS vectors
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns AND size(n.embedding) = $dimensions
RETURN n.id AS id, [vector IN vectors | cosine_of(n.embedding, vector)] AS cosines;

// name: search.lacking_entries
// engine: neo4j
// doc: The entries of levels without a vector of their present words by an embedder.
// param: levels list, embedder string
// returns: id string, text string, seq integer
MATCH (l:Level)
WHERE l.id IN $levels AND toString(l.ns) = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.embedded IS NULL OR e.embedded <> $embedder + ':' + toString(e.seq)
RETURN e.id AS id, e.text AS text, e.seq AS seq
ORDER BY id;

// name: search.put_entries
// mode: write
// engine: neo4j
// doc: Writes the vectors of entries. Rows: {id, seq, vector}.
// param: embedder string
// returns: written integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
WITH row, e, e.ns AS ns, e.seq AS seq WHERE ns = $ns AND seq = row.seq
SET e.embedded = $embedder + ':' + toString(row.seq)
WITH e, row
CALL db.create.setNodeVectorProperty(e, 'embedding', row.vector)
RETURN count(*) AS written;

// name: search.twin_entries
// engine: neo4j
// doc: Pairs of near entries of a level without a key, of which the later one was stored after a number.
// param: level string, embedder string, compared integer, near float
// returns: id string, seq integer, twin string, twin_seq integer
MATCH (l:Level {id: $level})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.seq > $compared AND e.key IS NULL AND e.embedded = $embedder + ':' + toString(e.seq)
MATCH (l)<-[:IN]-(o:Entry)
WHERE o.seq < e.seq AND o.key IS NULL AND o.embedded = $embedder + ':' + toString(o.seq)
  AND cosine_of(e.embedding, o.embedding) >= $near - 0.000001
RETURN e.id AS id, e.seq AS seq, o.id AS twin, o.seq AS twin_seq
ORDER BY seq, twin_seq;

// name: search.nearest_entries
// engine: neo4j
// doc: All entries that match a question, the nearest to a vector first. The options are those of entries.matching.
// option: tagged  with one of some sets of tags, as JSON
// option: pattern whose key matches a pattern
// option: since  from a time on
// option: until  before a time
// option: at_least of some relevance at least
// option: living  that have not expired
// param: vector list, levels list, tagsets list, prefix string, pattern string, since integer, until integer, at_least float
// returns: similarity float, entry_columns
MATCH (l:Level)
WHERE l.id IN $levels AND toString(l.ns) = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.embedding IS NOT NULL
  AND e.tagset IN $tagsets                                           //? tagged
  AND e.key STARTS WITH $prefix AND e.key =~ $pattern                //? pattern
  AND e.at >= $since                                                 //? since
  AND e.at < $until                                                  //? until
  AND relevance(e, l, $now) >= $at_least                             //? at_least
  AND (living(e.expires_at, $now))                                   //? living
WITH e, l, round(cosine_of(e.embedding, $vector), 6) AS similarity
RETURN similarity, entry_columns(e, l)
ORDER BY similarity DESC, relevance DESC, at DESC, id
LIMIT $limit;

// each: Label kind = Strategy strategies, Task tasks, Knowledge knowledge
// name: search.ranked_{kind}
// engine: neo4j
// doc: The {kind} nearest to a vector, exactly, because the server looks at all.
// param: vector list
// returns: id string, similarity float
MATCH (n:{Label})
WHERE n.ns = $ns AND size(n.embedding) = size($vector)
WITH n.id AS id, round(cosine_of(n.embedding, $vector), 6) AS similarity
RETURN id, similarity
ORDER BY similarity DESC, id
LIMIT $limit;

// name: search.lacking_facts
// engine: neo4j
// doc: Facts without a vector by an embedder.
// param: embedder string
// returns: id string, text string
MATCH (k:Knowledge)
WHERE k.ns = $ns AND (k.embedded IS NULL OR k.embedded <> $embedder)
RETURN k.id AS id, k.fact AS text
ORDER BY id;

// name: search.put_facts
// mode: write
// engine: neo4j
// doc: Writes the vectors of facts. Rows: {id, vector}.
// param: embedder string
// returns: written integer
UNWIND $rows AS row
MATCH (k:Knowledge {id: row.id})
WITH row, k, k.ns AS ns WHERE ns = $ns
SET k.embedded = $embedder
WITH k, row
CALL db.create.setNodeVectorProperty(k, 'embedding', row.vector)
RETURN count(*) AS written;
