// name: changes.mixed
// doc: What both worked and failed, in 5 trials or more, and its latest outcomes (lists of time * 2 + success): strategies on all tasks
// doc: (task: null), or on each; on given tasks (ids) also with fewer trials.
// option: pairs  strategies on each task
// option: some  only outcomes of some agents, on some types of tasks
// option: given  only strategies of given ids
// param: tasks list = null, types list = null
// returns: id string, members list, task string, trials integer, successes integer, effective list, latest list
//? given
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
//? !pairs !some !given
MATCH (s:Strategy)
WHERE s.ns = $ns
//? !pairs !some
WITH whole(s) AS id, null AS task, collect(s.id) AS members, sum(s.trials) AS trials, sum(s.successes) AS successes,
  [sum(s.effective_trials), sum(s.effective_successes)] AS effective, collect(s.latest) AS latest
//? pairs
MATCH (s:Strategy)-[o:OUTCOME]->(t:Task)
WHERE s.ns = $ns AND ($tasks IS NULL OR t.id IN $tasks)
  AND o.agent IN $agents AND ($types IS NULL OR t.type IN $types)                                               //? pairs some
WITH whole(s) AS id, t.id AS task, null AS members, sum(o.trials) AS trials, sum(o.successes) AS successes, null AS effective,
  collect(o.latest) AS latest
//? !pairs some
MATCH (s)-[o:OUTCOME]->(t:Task)                                                                                //? given
MATCH (s:Strategy)-[o:OUTCOME]->(t:Task)                                                                       //? !given
WHERE s.ns = $ns AND o.agent IN $agents AND ($types IS NULL OR t.type IN $types)
WITH s, o ORDER BY o.last_at DESC
WITH whole(s) AS id, null AS task, collect(DISTINCT s.id) AS members, sum(o.trials) AS trials, sum(o.successes) AS successes,
  [sum(effective(o.trials, o.trials)), sum(effective(o.successes, o.trials))] AS effective, collect(o.latest)[..32] AS latest
//?
WHERE $tasks IS NOT NULL OR (trials >= 5 AND successes > 0 AND successes < trials)
RETURN id, members, task, trials, successes, effective, latest
ORDER BY id, task;

// name: changes.of_episodes
// doc: The strategies of episodes that have a time, and what they have done on the task and on all tasks, with the latest outcomes.
// returns: episode string, stamp integer, id string, strategy string, task string, trials integer, successes integer, latest list
// returns: all_trials integer, all_successes integer, all_effective list, all_latest list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:ATTEMPTED]->(t:Task)
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied
WITH e, t, s, stamp(e, worked(e.success, u.failed)) AS stamp
WHERE stamp IS NOT NULL
MATCH (t)<-[o:OUTCOME]-(s)
WITH e, t, s, stamp, sum(o.trials) AS trials, sum(o.successes) AS successes, collect(o.latest) AS latest
RETURN e.id AS episode, stamp, s.id AS id, s.text AS strategy, t.description AS task, trials, successes, latest, s.trials AS all_trials,
  s.successes AS all_successes, [s.effective_trials, s.effective_successes] AS all_effective, s.latest AS all_latest
ORDER BY stamp, episode, id;
