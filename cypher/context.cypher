// Context: what a system prompt is made of, beside the procedures of lessons.cypher. Nothing here
// walks the episodes of a task or the outcomes of a strategy; texts come cut to what is shown.

// name: context.task
// mode: read
// doc: What is known of a task (no row: nothing).
// param: ns string
// param: task string
// returns: key string, task_type string, episodes integer, mean_score float
MATCH (t:Task {id: $task})
WITH t, t.ns AS ns WHERE ns = $ns AND t.episodes > 0
RETURN t.key AS key, t.type AS task_type, t.episodes AS episodes, t.score_sum / t.episodes AS mean_score;

// name: context.agents
// mode: read
// doc: The agents of a namespace.
// param: ns string
// returns: agent string
MATCH (a:Agent)
WHERE a.ns = $ns
RETURN a.name AS agent
ORDER BY agent;

// name: context.general_rules
// mode: read
// doc: The general rules, those of models last, then the best supported first.
// param: ns string
// param: id string
// param: limit integer = 50
// returns: id string, verdict string, text string, source string, supporting integer, opposing integer, agents list, task_types list
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (c)-[:HAS_RULE]->(r:Rule)
WITH r, CASE r.source WHEN 'model' THEN 1 ELSE 0 END AS said,
     CASE r.verdict WHEN 'WORKS' THEN r.worked ELSE r.failed END AS supporting,
     CASE r.verdict WHEN 'WORKS' THEN r.blamed ELSE r.praised END AS opposing
RETURN r.id AS id, r.verdict AS verdict, r.text AS text, r.source AS source, supporting, opposing, r.agents AS agents, r.task_types AS task_types
ORDER BY said, supporting - opposing DESC, id
LIMIT $limit;
