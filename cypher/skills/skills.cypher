// Skills: what was learned by kind of task, for files that agents and people read.

// name: skills.tasks
// doc: How often tasks were attempted (by given agents) and solved, by whom, and when.
// returns: id string, key string, runs integer, solved integer, agents list, first_at integer, last_at integer
MATCH (t:Task)
WHERE t.ns = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE $agents IS NULL OR a.name IN $agents
RETURN t.id AS id, t.key AS key, count(*) AS runs, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS solved, collect(DISTINCT a.name) AS agents,
  min(coalesce(e.started_at, e.ended_at)) AS first_at, max(coalesce(e.ended_at, e.started_at)) AS last_at
ORDER BY id;

// name: skills.outcomes
// doc: What strategies did on kinds of tasks. Rows: {kind, tasks (ids)}; merged strategies count as one. Compared are the trials on tasks
// doc: where others were tried, too; expected is how many of them had worked at the rate of the others, task by task.
// returns: kind integer, id string, text string, trials integer, successes integer, last_at integer, compared integer, expected float
UNWIND $rows AS row
UNWIND row.tasks AS task
WITH row.kind AS kind, task
MATCH (t:Task {id: task})
WITH kind, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE $agents IS NULL OR o.agent IN $agents
WITH kind, t, whole(s) AS one, sum(o.trials) AS n, sum(o.successes) AS k, max(o.last_at) AS at
WITH kind, t, collect({one: one, n: n, k: k, at: at}) AS tried, sum(n) AS trials, sum(k) AS successes
UNWIND tried AS own
WITH kind, own.one AS one, own.n AS n, own.k AS k, own.at AS at, trials - own.n AS others, successes - own.k AS won
WITH kind, one, sum(n) AS trials, sum(k) AS successes, max(at) AS last_at, sum(CASE WHEN others > 0 THEN n ELSE 0 END) AS compared,
  sum(CASE WHEN others > 0 THEN toFloat(n) * won / others ELSE 0.0 END) AS expected
MATCH (s:Strategy {id: one})
RETURN kind, one AS id, s.text AS text, trials, successes, last_at, compared, expected
ORDER BY kind, id;
