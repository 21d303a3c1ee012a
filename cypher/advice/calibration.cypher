// Calibration: the history, which is replayed to measure how well outcomes are predicted.

// name: calibration.ids
// doc: All episodes, with the times of their run and their recording; `key` is the same in every namespace.
// returns: id string, key string, used_at integer, recorded_at integer
MATCH (e:Episode)
WHERE e.ns = $ns
RETURN e.id AS id, coalesce(e.source_key, e.content_hash + coalesce(e.occurrence, '')) AS key,
  coalesce(e.ended_at, e.started_at) AS used_at, e.recorded_at AS recorded_at;

// name: calibration.episodes
// doc: The tasks, outcomes and applied strategies of episodes; `seq` is the number of their event in the stream of their agent. Uses are
// doc: {whole, failed (whether it did, though the run succeeded), propensity, candidates}, by rank.
// returns: id string, task string, name string, success boolean, type string, seq integer, uses list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:ATTEMPTED]->(t:Task)
OPTIONAL MATCH (e)<-[:ABOUT]-(v:Event)
WITH e, t, min(CASE v.kind WHEN 'episode' THEN v.seq ELSE null END) AS seq
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied
WITH e, t, seq, u, s
ORDER BY u.rank
WITH e, t, seq,
  collect(CASE WHEN s IS NULL THEN null
    ELSE {whole: whole(s), failed: u.failed IS NOT NULL, propensity: u.propensity, candidates: u.candidates} END) AS uses
RETURN e.id AS id, t.id AS task, e.task AS name, e.success AS success, e.type AS type, seq, uses
ORDER BY id;

// name: calibration.similar
// doc: Tasks, and strategies (by whole), with the similar ones, and the weight of one of their outcomes: [id, weight].
// param: links integer
// returns: id string, similar list
MATCH (v:Embedder {id: $id})
WITH v WHERE toString(v.ns) = $ns
MATCH (t:Task) WHERE t.ns = $ns
MATCH (t)-[l:SIMILAR_TO]->(n:Task)
WITH coalesce(v.floor, v.near) AS floor, t.id AS id, min(l.similarity) AS least, collect({id: n.id, similarity: l.similarity}) AS links
WITH id, links, edge_of(CASE WHEN size(links) < $links THEN 0.0 ELSE least END, floor) AS edge
UNWIND links AS link
WITH id, link.id AS other, max(nearness(link.similarity, edge)) AS weight
WHERE id <> other AND weight > 0.0
RETURN id, collect([other, weight]) AS similar
UNION ALL
MATCH (v:Embedder {id: $id})
WITH v WHERE toString(v.ns) = $ns
MATCH (s:Strategy) WHERE s.ns = $ns
MATCH (s)-[l:SIMILAR_TO]->(n:Strategy)
WITH whole(s) AS id, whole(n) AS other, max(nearness(l.similarity, v.similar)) AS weight
WHERE id <> other AND weight > 0.0
RETURN id, collect([other, weight]) AS similar;
