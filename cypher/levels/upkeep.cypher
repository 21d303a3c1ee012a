// Maintenance of levels, at an instant ($now): what expired or faded goes, twins become one, and a level keeps to
// its capacity. What writes here has locked the stream of the level. Entries with a key have no twins.

// name: upkeep.levels
// doc: Levels with the streams that they write: all, those of an agent, or one; what was embedded, and what was compared with what.
// param: agent string = null, name string = null
// returns: id string, name string, holds string, stream string, home string, last integer, capacity integer, decay float, prune float
// returns: dedup float, reindex float, embedded_at integer, compared integer, compared_with string
MATCH (l:Level)
WHERE l.ns = $ns AND ($name IS NULL OR l.name = $name) AND ($agent IS NULL OR (l.owner_kind = 'agent' AND l.owner = $agent))
OPTIONAL MATCH (l)-[:WRITES]->(t:Stream)
RETURN l.id AS id, l.name AS name, l.holds AS holds, t.id AS stream, t.level AS home, t.last AS last, l.capacity AS capacity,
  l.decay AS decay, l.prune AS prune, l.dedup AS dedup, l.reindex AS reindex, coalesce(l.reindexed_at, l.created_at) AS embedded_at,
  coalesce(l.compared, 0) AS compared, l.compared_with AS compared_with
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
