// Priors: what imported Sentinel files concluded beside the episodes of their logs. A file is one JSON text of a Document; nothing of it
// is stored a second time. What its own episodes account for is left out, as it counts by these.

// name: priors.accounted
// doc: What the episodes of a file (those that it holds, and others with keys of its name) account for: tasks, sentences (also by their
// doc: text) and mistakes, with the episode or card.
// param: prefix string
// returns: id string, item string
MATCH (d:Document {id: $id})-[:HOLDS]->(e:Episode)-[:ATTEMPTED]->(t:Task)
WHERE d.ns = $ns
RETURN t.id AS id, e.id AS item
UNION
MATCH (e:Episode)
WHERE e.ns = $ns AND e.source_key STARTS WITH $prefix
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
