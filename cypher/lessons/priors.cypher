// Priors: what imported Sentinel files concluded beside the episodes of their logs. A file is one
// JSON text of a Document; nothing of it is stored a second time. What its own episodes account for
// is left out, as it counts by these.

// name: priors.documents
// doc: The imported files with other content than episodes, and when that was stored.
// returns: id string, at integer
MATCH (d:Document)
WHERE d.ns = $ns AND d.rest IS NOT NULL
RETURN d.id AS id, coalesce(d.described_at, d.created_at) AS at
ORDER BY id;

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

// name: priors.rules
// doc: The rules of tasks that files state, as far as they hold together with the episodes of agents on types of tasks. Rows: {id, task,
// doc: text, works, avoids (how many files say so)}. The columns are those of lessons.rules.
// param: types list = null
// returns: id string, verdict string, text string, task string, source string, supporting integer, opposing integer, first_at integer
// returns: last_at integer, at integer
UNWIND $rows AS row
OPTIONAL MATCH (r:Rule {id: row.id})<-[l:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE r.ns = $ns AND ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
WITH row, e, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH row, coalesce(e.ended_at, e.started_at) AS dated, CASE WHEN praised(e.score) THEN 1 ELSE 0 END AS good,
     CASE WHEN blamed(e.score) THEN 1 ELSE 0 END AS bad, success, mistake
WITH row, min(dated) AS first_at, max(dated) AS last_at, row.works + sum(good * success) AS worked, row.works + sum(good) AS praised,
     row.avoids + sum(bad * mistake) AS failed, row.avoids + sum(bad) AS blamed
WITH row, first_at, last_at, worked, praised, failed, blamed, verdict(worked, praised, failed, blamed) AS verdict
WHERE verdict IS NOT NULL
RETURN row.id AS id, verdict, row.text AS text, row.task AS task, 'sentinel' AS source,
       CASE verdict WHEN 'WORKS' THEN worked ELSE failed END AS supporting,
       CASE verdict WHEN 'WORKS' THEN blamed ELSE praised END AS opposing, first_at, last_at, last_at AS at
ORDER BY supporting - opposing DESC, at DESC, id;
