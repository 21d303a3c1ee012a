// Maintenance of levels, at an instant ($now): what expired or faded goes, twins become one, and a level keeps to
// its capacity. What writes here has locked the stream of the level. Entries with a key have no twins.

// name: upkeep.astray
// doc: Levels without a stream of their own, entries not in exactly one level or without an event, lenses whose edges lead elsewhere.
// returns: kind string, key string, field string, stored list, expected list
MATCH (l:Level)
WHERE l.ns = $ns
OPTIONAL MATCH (l)-[:WRITES]->(t:Stream)
WITH l, collect(t.level) AS homes
WHERE size(homes) <> 1 OR homes[0] <> l.id
RETURN 'levels' AS kind, l.name AS key, 'stream' AS field, homes AS stored, [l.id] AS expected
UNION
MATCH (e:Entry)
WHERE e.ns = $ns
OPTIONAL MATCH (e)-[:IN]->(l:Level)
WITH e, l ORDER BY l.id
WITH e, collect(l.id) AS homes, collect(l)[0] AS home
OPTIONAL MATCH (home)-[:WRITES]->(t:Stream)
WITH e, homes, t.last AS last, t.id + ':' + toString(e.seq) AS event
OPTIONAL MATCH (x:Event {id: event})
WITH e.id AS id, e.level AS level, e.seq AS seq, homes, x.subject AS subject, last
WITH id, level, homes, subject, size(homes) = 1 AND homes[0] = level AS home, subject IS NULL OR subject <> id OR seq > last AS silent
WHERE NOT home OR silent
RETURN 'entries' AS kind, id AS key, CASE WHEN home THEN 'event' ELSE 'level' END AS field,
  CASE WHEN home THEN [subject] ELSE homes END AS stored, CASE WHEN home THEN [id] ELSE [level] END AS expected
UNION
MATCH (n:Lens)
WHERE n.ns = $ns
OPTIONAL MATCH (n)-[:LOOKS_AT]->(l:Level)
WITH n, CASE WHEN l.ns = $ns THEN l.name ELSE null END AS level
ORDER BY level
WITH n, collect(level) AS levels
WHERE size(levels) = 0 OR levels <> n.levels
RETURN 'lenses' AS kind, n.name AS key, 'levels' AS field, levels AS stored, n.levels AS expected;

// name: upkeep.look
// doc: How many entries a level has, and how many of them expired or faded and are to be removed.
// returns: entries integer, going integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH CASE WHEN living(e.expires_at, $now) AND relevance(e, l, $now) >= l.prune THEN 0 ELSE 1 END AS gone
RETURN count(*) AS entries, coalesce(sum(gone), 0) AS going;

// name: upkeep.fade
// mode: write
// doc: Removes the entries of a level that expired, or whose relevance is under what the level prunes.
// returns: expired integer, pruned integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e, CASE WHEN living(e.expires_at, $now) THEN 0 ELSE 1 END AS expired, relevance(e, l, $now) AS relevance,
  l.prune AS prune
WHERE expired = 1 OR relevance < prune
DETACH DELETE e
RETURN coalesce(sum(expired), 0) AS expired, count(*) - coalesce(sum(expired), 0) AS pruned;

// name: upkeep.same
// doc: Entries of a level without a key that say the same as an earlier one, each with the first that says it.
// returns: id string, seq integer, twin string, twin_seq integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.key IS NULL
WITH e.id AS id, e.seq AS seq, coalesce(e.said, e.content) AS said
ORDER BY seq
WITH said, collect({id: id, seq: seq}) AS alike
WHERE size(alike) > 1
UNWIND alike[1..] AS one
RETURN one.id AS id, one.seq AS seq, alike[0].id AS twin, alike[0].seq AS twin_seq
ORDER BY seq;

// name: upkeep.absorb
// mode: write
// doc: Gives entries the marks of their twins. Rows: {id, tags, tagset, base, at, expires_at, reads, last_read_at}.
// returns: entries integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
WITH e, row, e.ns AS ns WHERE ns = $ns
SET e.tags = row.tags, e.tagset = row.tagset, e.base = row.base, e.at = row.at, e.expires_at = row.expires_at, e.reads = row.reads,
  e.last_read_at = row.last_read_at
RETURN count(*) AS entries;

// name: upkeep.shrink
// mode: write
// doc: Removes the least relevant entries of a level beyond a number; of equally relevant ones, the oldest.
// returns: removed integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e, relevance(e, l, $now) AS relevance, e.seq AS seq
ORDER BY relevance DESC, seq DESC
SKIP $limit
DETACH DELETE e
RETURN count(*) AS removed;

// name: upkeep.mark
// mode: write
// doc: Stores when the entries of a level were embedded, and up to which number they were compared, with which embedder and threshold.
// param: embedded_at integer, compared integer, compared_with string
// returns: levels integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
SET l.reindexed_at = $embedded_at, l.compared = $compared, l.compared_with = $compared_with
RETURN count(*) AS levels;
