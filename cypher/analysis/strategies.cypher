// Analysis queries on strategies. Run one with `graphmem query NAME`, or paste the output of
// `graphmem procedures list analysis.NAME` into Neo4j Browser.

// name: analysis.what_works
// install: what_works
// doc: Strategies by the lower bound of their success rate, over all tasks and agents.
// returns: strategy string, trials integer, successes integer, lower float, upper float
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.trials > 0
RETURN s.text AS strategy, s.trials AS trials, s.successes AS successes,
       wilson_lower(s.successes, s.trials, $z_value) AS lower, wilson_upper(s.successes, s.trials, $z_value) AS upper
ORDER BY lower DESC, trials DESC, strategy
LIMIT $limit;

// name: analysis.together
// install: together
// doc: Pairs of strategies that were used in the same episodes, and how often that worked.
// param: at_least integer = 3
// returns: one string, other string, times integer, successes integer, weight float
MATCH (x:Strategy)-[c:CO_OCCURS_WITH]->(y:Strategy)
WHERE x.ns = $ns AND c.count >= $at_least
RETURN x.text AS one, y.text AS other, c.count AS times, c.successes AS successes, c.weight AS weight
ORDER BY times DESC, one, other
LIMIT $limit;

// name: analysis.bonds
// install: bonds
// doc: Pairs of strategies that belong together: how many episodes used both, and how alike their texts are (0: they are not linked). The
// doc: strongest come first, where an episode counts 1. Merged strategies count as one.
// returns: one string, other string, together integer, similarity float, one_id string, other_id string
MATCH (x:Strategy)-[r:CO_OCCURS_WITH|SIMILAR_TO]->(y:Strategy)
WHERE x.ns = $ns
WITH whole(x) AS a, whole(y) AS b, coalesce(r.count, 0) AS times, coalesce(r.similarity, 0.0) AS similarity
WHERE a <> b
WITH smaller(a, b) AS one_id, larger(a, b) AS other_id, sum(times) AS together, max(similarity) AS similarity
ORDER BY together + similarity DESC, one_id, other_id
LIMIT $limit
MATCH (x:Strategy {id: one_id})
MATCH (y:Strategy {id: other_id})
RETURN x.text AS one, y.text AS other, together, similarity, one_id, other_id
ORDER BY together + similarity DESC, one_id, other_id;

// name: analysis.hard_tasks
// install: hard_tasks
// doc: Tasks by the number of failed attempts, most first.
// returns: key string, task string, attempts integer, successes integer
MATCH (e:Episode)-[:ATTEMPTED]->(t:Task)
WHERE t.ns = $ns
WITH t, count(e) AS attempts, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
RETURN t.key AS key, t.description AS task, attempts, successes
ORDER BY attempts - successes DESC, key
LIMIT $limit;

// name: analysis.task_types
// install: task_types
// doc: The types of tasks, with their episodes and successes.
// returns: type string, tasks integer, episodes integer, successes integer
MATCH (e:Episode)-[:ATTEMPTED]->(t:Task)
WHERE t.ns = $ns
RETURN t.type AS type, count(DISTINCT t.id) AS tasks, count(e) AS episodes, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
ORDER BY type;

// name: analysis.agents
// install: agents
// doc: Agents by their success rate.
// returns: agent string, episodes integer, successes integer, rate float
MATCH (a:Agent)-[:RAN]->(e:Episode)
WHERE a.ns = $ns
WITH a.name AS agent, count(e) AS episodes, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
RETURN agent, episodes, successes, toFloat(successes) / episodes AS rate
ORDER BY rate DESC, agent;

// name: analysis.outcomes
// install: outcomes
// doc: The outcome edges of one task, by its key.
// param: task string
// returns: strategy string, agent string, trials integer, successes integer, last_at integer
MATCH (s:Strategy)-[o:OUTCOME]->(t:Task {key: $task})
WHERE t.ns = $ns
RETURN s.text AS strategy, o.agent AS agent, o.trials AS trials, o.successes AS successes, o.last_at AS last_at
ORDER BY successes DESC, trials, strategy, agent;
