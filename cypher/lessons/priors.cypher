// Priors: what imported Sentinel files concluded beside the episodes of their logs. A file is one JSON text of a Document; nothing of it
// is stored a second time. What its own episodes account for is left out, as it counts by these.

// name: priors.files
// doc: The files that concluded something, and when their content was stored.
// returns: id string, name string, described_at integer
MATCH (d:Document)
WHERE d.ns = $ns AND d.rest IS NOT NULL
RETURN d.id AS id, d.name AS name, d.described_at AS described_at
ORDER BY id;

// name: priors.accounted
// doc: What the episodes of a file (those that it holds, and earlier ones with keys of its name) account for: tasks, sentences (also by
// doc: their text) and mistakes, with the episode or card. It is the same until the content of the file is replaced or cleared.
// param: prefix string, described_at integer
// returns: id string, item string
MATCH (d:Document {id: $id})-[:HOLDS]->(e:Episode)-[:ATTEMPTED]->(t:Task)
WHERE d.ns = $ns
RETURN t.id AS id, e.id AS item
UNION
MATCH (e:Episode)
WHERE e.ns = $ns AND e.source_key STARTS WITH $prefix AND ($described_at IS NULL OR e.recorded_at <= $described_at)
MATCH (e)-[:ATTEMPTED]->(t:Task)
RETURN t.id AS id, e.id AS item
UNION
MATCH (d:Document {id: $id})-[:HOLDS]->(e:Episode)-[:LISTED]->(r:Rule)
WHERE d.ns = $ns
UNWIND [r.id, r.text] AS id
RETURN id, e.id AS item
UNION
MATCH (d:Document {id: $id})-[:HOLDS]->(e:Episode)-[k:MADE]->(m:Mistake)
WHERE d.ns = $ns
RETURN m.id AS id, e.id + ':' + toString(k.rank) AS item;
