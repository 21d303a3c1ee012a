// The dataflow: levels pull what others got. What is made of it, its evidence and the move of the cursor
// are written in one transaction, which takes the cursor first.

// name: flow.pending
// doc: The entries that events (ids) of a level stored, as they are now; without columns of an entry where it is gone.
// returns: number integer, subject string, stored_at integer, seq integer, id string, level string, key string, content string
// returns: format string, text string, said string, tags list, tagset string, metadata string, base float, relevance float
// returns: at integer, expires_at integer, reads integer
MATCH (x:Event)
WHERE x.id IN $ids AND toString(x.ns) = $ns AND x.kind = 'entry'
OPTIONAL MATCH (e:Entry {id: x.subject})-[:IN]->(l:Level)
RETURN x.seq AS number, x.subject AS subject, x.created_at AS stored_at, e.seq AS seq, e.id AS id, l.name AS level, e.key AS key,
  e.content AS content, e.format AS format, e.text AS text, coalesce(e.said, e.content) AS said, e.tags AS tags, e.tagset AS tagset,
  e.metadata AS metadata, e.base AS base, relevance(e, l, $now) AS relevance, e.at AS at, e.expires_at AS expires_at, e.reads AS reads
ORDER BY number;

// name: flow.advance
// mode: write
// doc: Moves and locks the cursor of a level that pulls from a source. No row: the cursor is elsewhere, or the level pulls no longer.
// param: level string, source string, after integer, position integer
// returns: position integer
MATCH (l:Level {id: $level})
MATCH (l)-[:PULLS]->(s)
MATCH (c:Cursor {id: $id})
WITH c, c.ns AS ns, s.id AS pulled WHERE ns = $ns AND pulled = $source
SET c.ns = $ns
WITH c, c.position AS before WHERE before = $after
SET c.position = $position
RETURN c.position AS position;

// name: flow.alike
// doc: The entries of a level that say one of some things and have not expired, the oldest first.
// param: level string, said list
// returns: id string, said string
MATCH (l:Level {id: $level})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.said IN $said AND (living(e.expires_at, $now))
RETURN e.id AS id, e.said AS said
ORDER BY e.at, id;

// name: flow.link
// mode: write
// doc: Links entries to entries that they were made from, and to episodes and knowledge that they became. Rows: {id, target}.
// returns: edges integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
OPTIONAL MATCH (s:Entry {id: row.target})
OPTIONAL MATCH (n:Episode {id: row.target})
OPTIONAL MATCH (k:Knowledge {id: row.target})
WITH e, s, coalesce(n, k) AS other, e.ns AS ns, coalesce(s.ns, n.ns, k.ns) AS theirs WHERE ns = $ns AND theirs = $ns
FOREACH (source IN CASE WHEN s IS NULL THEN [] ELSE [s] END | MERGE (e)-[:MADE_FROM]->(source))
FOREACH (grown IN CASE WHEN other IS NULL THEN [] ELSE [other] END | MERGE (e)-[:BECAME]->(grown))
RETURN count(*) AS edges;

// name: flow.episodes_of
// doc: The episodes that entries became, or others with the same content and the same sources.
// returns: id string, source_key string
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:BECAME]->(n:Episode)
RETURN e.id AS id, n.source_key AS source_key
UNION
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:MADE_FROM]->(:Entry)<-[:MADE_FROM]-(o:Entry)-[:BECAME]->(n:Episode)
WHERE o.level = e.level AND o.content = e.content AND o.format = e.format
RETURN e.id AS id, n.source_key AS source_key;
