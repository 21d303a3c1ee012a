// Attempts that ended without an outcome. They are facts of a label of their own, without edges:
// nothing is derived from them, and no other statement sees them.

// name: attempts.abandon
// mode: write
// doc: Stores attempts that ended without an outcome; those that are there, or are episodes by now, stay as they are. Rows, each id once:
// doc: {id, episode, key, agent, task, task_type, strategies, error, started_at, ended_at, step_count, record}.
// returns: created integer
UNWIND $rows AS row
OPTIONAL MATCH (known:Abandoned {id: row.id})
OPTIONAL MATCH (e:Episode {id: row.episode})
WITH row, known, e WHERE known IS NULL AND e IS NULL
CREATE (:Abandoned {id: row.id, ns: $ns, created_at: $now, key: row.key, agent: row.agent, task: row.task, task_type: row.task_type,
  strategies: row.strategies, error: row.error, started_at: row.started_at, ended_at: row.ended_at, step_count: row.step_count,
  record: row.record})
RETURN count(*) AS created;

// name: attempts.abandoned
// install: abandoned
// doc: Attempts that ended without an outcome, the latest first; of an agent, of a task (its wording).
// param: agent string = null, task string = null
// returns: id string, agent string, task string, task_type string, strategies list, error string, started_at integer, ended_at integer
// returns: step_count integer
MATCH (a:Abandoned)
WHERE a.ns = $ns AND ($agent IS NULL OR a.agent = $agent) AND ($task IS NULL OR a.task = $task)
RETURN a.id AS id, a.agent AS agent, a.task AS task, a.task_type AS task_type, a.strategies AS strategies, a.error AS error,
       a.started_at AS started_at, a.ended_at AS ended_at, a.step_count AS step_count
ORDER BY ended_at DESC, id
LIMIT $limit;

// name: attempts.records
// doc: The attempts without an outcome as JSON, the earliest first; of an agent, or of all; those that ended before a time, or all.
// param: before integer = null, agent string = null
// returns: id string, ended_at integer, record string
MATCH (a:Abandoned)
WHERE a.ns = $ns AND ($before IS NULL OR a.ended_at < $before) AND ($agent IS NULL OR a.agent = $agent)
RETURN a.id AS id, a.ended_at AS ended_at, a.record AS record
ORDER BY ended_at, id;
