// Maintenance of levels, at an instant ($now): what expired or faded goes, twins become one, and a level keeps to
// its capacity. What writes here has locked the stream of the level. Entries with a key have no twins.

// name: upkeep.levels
// doc: The levels with entries of their own: all, those of an agent, or one; with the ends of their streams.
// param: agent string = null, name string = null
// returns: id string, name string, stream string, last integer, capacity integer, decay float, prune float, dedup float, reindex float
// returns: embedded_at integer, compared integer, compared_with string
MATCH (l:Level)
WHERE l.ns = $ns AND l.holds = 'entries' AND ($name IS NULL OR l.name = $name)
  AND ($agent IS NULL OR (l.owner_kind = 'agent' AND l.owner = $agent))
MATCH (l)-[:WRITES]->(t:Stream)
RETURN l.id AS id, l.name AS name, t.id AS stream, t.last AS last, l.capacity AS capacity, l.decay AS decay, l.prune AS prune, l.dedup AS
  dedup, l.reindex AS reindex, coalesce(l.reindexed_at, l.created_at) AS embedded_at, coalesce(l.compared, 0) AS compared, l.compared_with
  AS compared_with
ORDER BY name;

// name: upkeep.look
// doc: How many entries a level has, how many of them expired or faded and are to be removed, and when the next one expires or fades
// doc: (without reads from now on).
// returns: entries integer, going integer, expires_at integer, fades_at float
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e.expires_at AS expires_at, fades_at(e.base, e.at, e.reads, l.decay, l.prune) AS fades_at,
  CASE WHEN living(e.expires_at, $now) AND relevance(e.base, e.at, e.reads, $now, l.decay) >= l.prune THEN 0 ELSE 1 END AS gone
RETURN count(*) AS entries, sum(gone) AS going, min(expires_at) AS expires_at, min(fades_at) AS fades_at;

// name: upkeep.fade
// mode: write
// doc: Removes the entries of a level that expired, or whose relevance is under what the level prunes.
// returns: expired integer, pruned integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e, CASE WHEN living(e.expires_at, $now) THEN 0 ELSE 1 END AS expired, relevance(e.base, e.at, e.reads, $now, l.decay) AS relevance,
  l.prune AS prune
WHERE expired = 1 OR relevance < prune
DETACH DELETE e
RETURN coalesce(sum(expired), 0) AS expired, count(*) - coalesce(sum(expired), 0) AS pruned;

// name: upkeep.same
// doc: Entries of a level without a key that have the same content as others: the ids of each content, in the order of storing.
// returns: ids list
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WHERE e.key IS NULL
WITH e.id AS id, e.content AS content, e.format AS format
ORDER BY e.seq
WITH content, format, collect(id) AS ids
WHERE size(ids) > 1
RETURN ids
ORDER BY ids[0];

// name: upkeep.twins
// doc: Entries (ids) as they are before merging, in the order of storing.
// returns: id string, seq integer, key string, text string, tags list, base float, at integer, expires_at integer, reads integer
// returns: last_read_at integer, relevance float
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:IN]->(l:Level)
RETURN e.id AS id, e.seq AS seq, e.key AS key, e.text AS text, e.tags AS tags, e.base AS base, e.at AS at, e.expires_at AS expires_at,
  e.reads AS reads, e.last_read_at AS last_read_at, relevance(e.base, e.at, e.reads, $now, l.decay) AS relevance
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

// name: upkeep.inherit
// mode: write
// doc: Links entries to the sources of their twins. Rows: {id, twin}.
// returns: edges integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
MATCH (o:Entry {id: row.twin})-[:MADE_FROM]->(s:Entry)
WITH e, s, e.ns AS ns, s.ns AS other WHERE ns = $ns AND other = $ns
MERGE (e)-[m:MADE_FROM]->(s)
RETURN count(m) AS edges;

// name: upkeep.bequeath
// mode: write
// doc: Links what was made from the twins of entries to these entries. Rows: {id, twin}.
// returns: edges integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
MATCH (o:Entry {id: row.twin})<-[:MADE_FROM]-(r:Entry)
WITH e, r, e.ns AS ns, r.ns AS other WHERE ns = $ns AND other = $ns
MERGE (r)-[m:MADE_FROM]->(e)
RETURN count(m) AS edges;

// name: upkeep.became_{kind}
// each: Label kind = Episode episodes, Knowledge knowledge
// mode: write
// doc: Links entries to the {kind} that their twins became. Rows: {id, twin}.
// returns: edges integer
UNWIND $rows AS row
MATCH (e:Entry {id: row.id})
MATCH (o:Entry {id: row.twin})-[:BECAME]->(n:{Label})
WITH e, n, e.ns AS ns, n.ns AS other WHERE ns = $ns AND other = $ns
MERGE (e)-[b:BECAME]->(n)
RETURN count(b) AS edges;

// name: upkeep.remove
// mode: write
// doc: Removes entries (ids).
// returns: removed integer
MATCH (e:Entry)
WHERE e.id IN $ids AND toString(e.ns) = $ns
DETACH DELETE e
RETURN count(*) AS removed;

// name: upkeep.shrink
// mode: write
// doc: Removes the least relevant entries of a level beyond a number; of equally relevant ones, the oldest.
// returns: removed integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (l)<-[:IN]-(e:Entry)
WITH e, relevance(e.base, e.at, e.reads, $now, l.decay) AS relevance, e.seq AS seq
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

// name: upkeep.pass
// mode: write
// doc: Moves cursors of levels that had ingested a whole stream past its last event, which stored no entry.
// param: stream string
// returns: cursors integer
MATCH (t:Stream {id: $stream})
WITH t, t.ns AS ns, t.last AS last WHERE ns = $ns
MATCH (c:Cursor)-[:READS]->(t)
WHERE c.group STARTS WITH 'pull:'
SET c.ns = $ns
WITH c, c.position AS position, last
WHERE position = last - 1
SET c.position = last
RETURN count(*) AS cursors;
