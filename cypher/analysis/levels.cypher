// Analysis queries on levels: what they hold, what flows between them, and what comes of it. Run one with
// `graphmem query NAME`, or paste the output of `graphmem procedures list analysis.NAME` into Neo4j Browser. Times
// are milliseconds.

// name: analysis.level_contents
// install: level_contents
// doc: Levels by the number of their entries, most first: living ones at a time (null: also those that expired), how often they were
// doc: read, and what was missed before it was pulled.
// param: at integer = null
// returns: level string, holds string, entries integer, capacity integer, reads integer, missed integer, oldest_at integer
// returns: newest_at integer
MATCH (l:Level)
WHERE l.ns = $ns
OPTIONAL MATCH (l)<-[:IN]-(e:Entry)
WHERE $at IS NULL OR (living(e.expires_at, $at))
WITH l.name AS level, l.holds AS holds, l.capacity AS capacity, l.missed AS missed, count(e) AS entries, sum(e.reads) AS read,
  min(e.at) AS oldest_at, max(e.at) AS newest_at
RETURN level, holds, entries, capacity, coalesce(read, 0) AS reads, missed, oldest_at, newest_at
ORDER BY entries DESC, level
LIMIT $limit;

// name: analysis.dataflow
// install: dataflow
// doc: Which level pulls from which, through which transformer, how many entries it has not pulled
// doc: yet (of any tags), and how many of its entries were made from
// doc: entries that are still there. Most pending first.
// returns: source string, target string, transformer string, pending integer, made integer, missed integer
MATCH (l:Level)-[p:PULLS]->(s:Level)
WHERE l.ns = $ns
MATCH (s)-[:WRITES]->(t:Stream)
OPTIONAL MATCH (c:Cursor {group: 'pull:' + l.name})-[:READS]->(t)
WITH l, s, p.transformer AS transformer, coalesce(c.position, 0) AS position
OPTIONAL MATCH (s)<-[:IN]-(w:Entry)
WHERE w.seq > position
WITH l, s, transformer, count(w) AS pending
OPTIONAL MATCH (l)<-[:IN]-(e:Entry)-[:MADE_FROM]->(o:Entry)
WHERE o.level = s.id
RETURN s.name AS source, l.name AS target, transformer, pending, count(DISTINCT e.id) AS made, s.missed AS missed
ORDER BY pending DESC, source, target
LIMIT $limit;

// name: analysis.level_tags
// install: level_tags
// doc: The tags of entries, with how many entries and levels have them.
// returns: tag string, entries integer, levels integer
MATCH (e:Entry)-[:IN]->(l:Level)
WHERE e.ns = $ns
UNWIND e.tags AS tag
RETURN tag, count(*) AS entries, count(DISTINCT l.name) AS levels
ORDER BY entries DESC, tag
LIMIT $limit;

// name: analysis.became
// install: became
// doc: How many entries of each level became episodes and knowledge.
// returns: level string, episodes integer, knowledge integer
MATCH (e:Entry)-[:BECAME]->(n)
WHERE e.ns = $ns
MATCH (e)-[:IN]->(l:Level)
WITH l.name AS level, CASE WHEN 'Episode' IN labels(n) THEN 1 ELSE 0 END AS episode
RETURN level, sum(episode) AS episodes, count(*) - sum(episode) AS knowledge
ORDER BY level;

// name: analysis.going
// install: going
// doc: The entries that go next, when and why: those that expire, and those that fade under what maintenance of their level removes.
// returns: level string, key string, text string, goes_at integer, why string
MATCH (e:Entry)-[:IN]->(l:Level)
WHERE e.ns = $ns
WITH e, l, fades_at(e, l) AS fades_at
WHERE e.expires_at IS NOT NULL OR fades_at IS NOT NULL
WITH e, l, CASE WHEN fades_at IS NULL OR e.expires_at <= fades_at THEN 'expires' ELSE 'fades' END AS why, fades_at
WITH l.name AS level, e.key AS key, e.text AS text, why, toInteger(CASE WHEN why = 'expires' THEN e.expires_at ELSE fades_at END) AS goes_at
RETURN level, key, text, goes_at, why
ORDER BY goes_at, level, text
LIMIT $limit;

// name: analysis.lens_views
// install: lens_views
// doc: Lenses and the levels at which they look, with the entries there that are not older than the lens says (tags are not compared).
// param: at integer = null
// returns: lens string, level string, entries integer, most integer
MATCH (n:Lens)-[:LOOKS_AT]->(l:Level)
WHERE n.ns = $ns
OPTIONAL MATCH (l)<-[:IN]-(e:Entry)
WHERE $at IS NULL OR ((living(e.expires_at, $at)) AND (n.max_age IS NULL OR e.at >= $at - n.max_age))
RETURN n.name AS lens, l.name AS level, count(e) AS entries, n.most AS most
ORDER BY lens, level;
