// Levels: what agents hold for a time. A level writes a stream of its own, in which each entry that is stored is an event; a level that
// pulls from it has a cursor there (the group 'pull:' + its name). The stream is locked before entries of its level are written.

// name: levels.put
// mode: write
// doc: Creates levels with their streams, or replaces the settings of those that are there. Rows: {id, stream, name, kind, owner_kind,
// doc: owner, purpose, holds, ttl (milliseconds), capacity, members, decay, prune, dedup, reindex}.
// returns: levels integer
UNWIND $rows AS row
WITH row ORDER BY row.id
OPTIONAL MATCH (l:Level {id: row.id})
WITH row, l WHERE l IS NULL OR l.ns = $ns
FOREACH (ignored IN CASE WHEN l IS NULL THEN [1] ELSE [] END |
  CREATE (:Level {id: row.id, ns: $ns, created_at: $now, name: row.name, kind: row.kind, owner_kind: row.owner_kind, owner: row.owner,
    purpose: row.purpose, holds: row.holds, ttl: row.ttl, capacity: row.capacity, members: row.members, decay: row.decay, prune: row.prune,
    dedup: row.dedup, reindex: row.reindex, missed: 0, failed: 0, reindexed_at: null})
    -[:WRITES]->(:Stream {id: row.stream, ns: $ns, created_at: $now, agent: row.name, level: row.id, last: 0, unrecorded: 0}))
FOREACH (level IN CASE WHEN l IS NULL THEN [] ELSE [l] END |
  SET level.purpose = row.purpose, level.ttl = row.ttl, level.capacity = row.capacity, level.members = row.members, level.decay = row.decay,
    level.prune = row.prune, level.dedup = row.dedup, level.reindex = row.reindex)
RETURN count(*) AS levels;

// name: levels.list
// install: levels
// doc: The levels of a namespace, of all owners or of one, or some of them (ids).
// param: owner_kind string = null, owner string = null, ids list = null
// returns: level_columns
MATCH (l:Level)
WHERE l.ns = $ns AND ($owner_kind IS NULL OR l.owner_kind = $owner_kind) AND ($owner IS NULL OR l.owner = $owner)
  AND ($ids IS NULL OR l.id IN $ids)
RETURN level_columns(l)
ORDER BY name;

// name: levels.subscribe
// mode: write
// doc: Lets levels pull from others, or changes how they do. Rows: {id (of the one that pulls), source, transformer, arguments (JSON)}.
// returns: subscriptions integer
UNWIND $rows AS row
MATCH (l:Level {id: row.id})
MATCH (s:Level {id: row.source})
WITH row, l, s, l.ns AS ns, s.ns AS other WHERE ns = $ns AND other = $ns
MERGE (l)-[p:PULLS]->(s)
ON CREATE SET p.at = $now
SET p.transformer = row.transformer, p.arguments = row.arguments
RETURN count(*) AS subscriptions;

// name: levels.leave
// mode: write
// doc: Lets an agent be no member of levels.
// param: agent string
// returns: levels integer
MATCH (l:Level)
WHERE l.ns = $ns AND $agent IN l.members
WITH l, [name IN l.members WHERE name <> $agent] AS members
SET l.members = members
RETURN count(*) AS levels;

// name: levels.unsubscribe
// mode: write
// doc: Ends that levels pull from others, and removes their cursors there. Rows: {id (of the level that pulls), source}.
// returns: subscriptions integer
UNWIND $rows AS row
MATCH (l:Level {id: row.id})
WITH row, l, l.ns AS ns WHERE ns = $ns
MATCH (l)-[p:PULLS]->(s:Level)
WHERE s.id = row.source
OPTIONAL MATCH (s)-[:WRITES]->(t:Stream)
OPTIONAL MATCH (c:Cursor {group: 'pull:' + l.name})-[:READS]->(t)
DELETE p
DETACH DELETE c
RETURN count(*) AS subscriptions;

// name: levels.flow
// install: level_flow
// doc: What pulls from what: a row for each level and source, with the last event of the source and the position of the level there; for
// doc: all levels of a namespace, those of an agent, or some (ids).
// param: agent string = null, ids list = null
// returns: id string, level string, holds string, owner_kind string, owner string, source_id string, source string
// returns: transformer string, arguments string, since integer, stream string, last integer, position integer
MATCH (l:Level)
WHERE l.ns = $ns AND ($agent IS NULL OR (l.owner_kind = 'agent' AND l.owner = $agent)) AND ($ids IS NULL OR l.id IN $ids)
MATCH (l)-[p:PULLS]->(s:Level)-[:WRITES]->(t:Stream)
OPTIONAL MATCH (c:Cursor {group: 'pull:' + l.name})-[:READS]->(t)
RETURN l.id AS id, l.name AS level, l.holds AS holds, l.owner_kind AS owner_kind, l.owner AS owner, s.id AS source_id,
  s.name AS source, p.transformer AS transformer, p.arguments AS arguments,
  p.at AS since, t.id AS stream, t.last AS last, coalesce(c.position, 0) AS position
ORDER BY level, source;

// name: levels.waiting
// doc: The entries that levels have not pulled from other levels yet: a row for each level, source and set of tags.
// returns: id string, source_id string, tagset string, entries integer
MATCH (l:Level)
WHERE l.id IN $ids AND toString(l.ns) = $ns
MATCH (l)-[:PULLS]->(s:Level)-[:WRITES]->(t:Stream)
OPTIONAL MATCH (c:Cursor {group: 'pull:' + l.name})-[:READS]->(t)
WITH l, s, coalesce(c.position, 0) AS position
MATCH (s)<-[:IN]-(e:Entry)
WHERE e.seq > position AND (living(e.expires_at, $now))
RETURN l.id AS id, s.id AS source_id, e.tagset AS tagset, count(*) AS entries
ORDER BY id, source_id, tagset;

// name: levels.holdings
// doc: What is in levels at a time: a row for each level and set of tags.
// returns: id string, tagset string, entries integer, expired integer
MATCH (l:Level)
WHERE l.id IN $ids AND toString(l.ns) = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH l.id AS id, e.tagset AS tagset, CASE WHEN living(e.expires_at, $now) THEN 0 ELSE 1 END AS gone
RETURN id, tagset, count(*) - sum(gone) AS entries, sum(gone) AS expired
ORDER BY id, tagset;

// name: levels.note
// mode: write
// doc: Appends an event that stores no entry to the stream of a level; cursors of levels that had ingested the whole stream move past it.
// param: stream string, kind string, data string
// returns: cursors integer
MATCH (t:Stream {id: $stream})
WITH t, t.ns AS ns WHERE ns = $ns
SET t.ns = $ns
WITH t, t.last + 1 AS seq
SET t.last = seq
CREATE (:Event {id: $stream + ':' + toString(seq), ns: $ns, created_at: $now, stream: $stream, seq: seq, kind: $kind, subject: null,
  other: null, value: null, success: null, at: $now, data: $data})
WITH t, seq
MATCH (c:Cursor)-[:READS]->(t)
WHERE c.group STARTS WITH 'pull:'
SET c.ns = $ns
WITH c, c.position AS position, seq
WHERE position = seq - 1
SET c.position = seq
RETURN count(*) AS cursors;

// name: levels.count
// mode: write
// doc: Counts entries of a level that went before they were pulled, and calls of functions that a producer could not remember there.
// param: missed integer = 0, failed integer = 0
// returns: missed integer, failed integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
SET l.ns = $ns
WITH l, l.missed + $missed AS missed, coalesce(l.failed, 0) + $failed AS failed
SET l.missed = missed, l.failed = failed
RETURN missed, failed;

// name: levels.drop
// mode: write
// doc: Removes a level without entries, its stream, its cursors elsewhere, and those of others in its stream with their claims.
// param: stream string
// returns: removed integer
MATCH (l:Level {id: $id})
MATCH (t:Stream {id: $stream})
WITH l, t, l.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (l)-[:PULLS]->(:Level)-[:WRITES]->(source:Stream)
OPTIONAL MATCH (own:Cursor {group: 'pull:' + l.name})-[:READS]->(source)
WITH l, t, collect(own) AS own
OPTIONAL MATCH (c:Cursor)-[:READS]->(t)
OPTIONAL MATCH (k:Claim)-[:UNDER]->(c)
WITH l, t, own, collect(DISTINCT c) AS cursors, collect(DISTINCT k) AS claims
FOREACH (claim IN claims | DETACH DELETE claim)
FOREACH (cursor IN cursors | DETACH DELETE cursor)
FOREACH (cursor IN own | DETACH DELETE cursor)
DETACH DELETE l, t
RETURN count(*) AS removed;

// name: levels.ends
// doc: The numbers of the last events of levels (ids of streams).
// returns: stream string, level string, last integer
MATCH (t:Stream)
WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS stream, t.level AS level, t.last AS last
ORDER BY stream;
