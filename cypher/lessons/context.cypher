// Context: what a system prompt is made of, beside the procedures of lessons.cypher. Nothing here
// walks the episodes of a task or the outcomes of a strategy. What is shown is a few of many, so
// that the many are ranked by their counts alone; texts are read of the few. The embedded engine
// looks through a label several times as fast where all conditions are plain comparisons.

// name: context.task
// doc: What is known of a task (no row: nothing).
// param: task string
// returns: key string, task_type string, episodes integer, mean_score float
MATCH (t:Task {id: $task})
WITH t, t.ns AS ns WHERE ns = $ns AND t.episodes > 0
RETURN t.key AS key, t.type AS task_type, t.episodes AS episodes, t.score_sum / t.episodes AS mean_score;

// name: context.heuristics
// doc: What works on a type of tasks, best lower bound first; for a namespace in which no strategy was merged.
// param: task_type string, at_least integer, above float = 0.5, z float, prior_successes float, prior_failures float, limit integer
// returns: id string, strategy string, trials integer, successes integer, confidence float, lower float
MATCH (h:Heuristic)
WHERE h.type = $task_type AND h.ns = $ns AND h.trials >= $at_least
WITH h.id AS id, h.agent AS agent, h.text AS strategy, h.trials AS trials, h.successes AS successes
WITH id, agent, strategy, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS confidence
WHERE confidence > $above AND ($agents IS NULL OR agent IN $agents)
RETURN id, strategy, trials, successes, confidence, wilson_lower(successes, trials, $z) AS lower
ORDER BY lower DESC, confidence DESC, id
LIMIT $limit;

// name: context.anti_patterns
// doc: What fails on a type of tasks, most certain first; for a namespace in which no strategy was merged.
// param: task_type string, at_least integer, z float, prior_successes float, prior_failures float, limit integer
// returns: id string, strategy string, error_class string, task_types list, occurrences integer, successes integer, confidence float
// returns: lower float
MATCH (p:AntiPattern)
WHERE p.ns = $ns AND p.occurrences >= $at_least AND $task_type IN p.types AND ($agents IS NULL OR p.agent IN $agents)
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p.id AS id, p.occurrences AS occurrences, sum(h.successes) AS successes
WITH id, occurrences, successes, occurrences + successes AS trials
WITH id, occurrences, successes, posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z) AS lower
ORDER BY lower DESC, confidence DESC, id
LIMIT $limit
MATCH (p:AntiPattern {id: id})
RETURN id, p.text AS strategy, p.error_class AS error_class, p.types AS task_types, occurrences, successes, confidence, lower
ORDER BY lower DESC, confidence DESC, id;

// name: context.mistakes
// doc: The mistakes on a task by how often they were seen, then the latest first.
// param: task string, limit integer
// returns: id string, type string, correct_decision string, seen integer, lesson string
MATCH (m:Mistake)
WHERE m.task = $task AND m.ns = $ns
RETURN m.id AS id, m.type AS type, m.correct_decision AS correct_decision, m.seen AS seen, m.lesson AS lesson
ORDER BY seen DESC, m.last_order DESC, id
LIMIT $limit;

// name: context.agents
// doc: The agents of a namespace.
// returns: agent string
MATCH (a:Agent)
WHERE a.ns = $ns
RETURN a.name AS agent
ORDER BY agent;

// name: context.general_rules
// doc: The general rules, those of models last, then the best supported first.
// param: limit integer
// returns: id string, verdict string, text string, source string, supporting integer, opposing integer, agents list, task_types list
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (c)-[:HAS_RULE]->(r:Rule)
WITH r, CASE r.source WHEN 'model' THEN 1 ELSE 0 END AS said,
     CASE r.verdict WHEN 'WORKS' THEN r.worked ELSE r.failed END AS supporting,
     CASE r.verdict WHEN 'WORKS' THEN r.blamed ELSE r.praised END AS opposing
RETURN r.id AS id, r.verdict AS verdict, r.text AS text, r.source AS source, supporting, opposing, r.agents AS agents,
  r.task_types AS task_types
ORDER BY said, supporting - opposing DESC, id
LIMIT $limit;
