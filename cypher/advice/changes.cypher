// name: changes.mixed
// doc: What both worked and failed, in 5 trials or more, and its latest outcomes (lists of time * 2 + success): strategies on all tasks
// doc: (task: null), or on each; on given tasks (ids) also with fewer trials.
// option: pairs  strategies on each task
// option: some  only outcomes of some agents, on some types of tasks
// param: tasks list = null, types list = null
// returns: id string, members list, task string, trials integer, successes integer, latest list
//? !pairs !some
MATCH (s:Strategy)
WHERE s.ns = $ns
WITH whole(s) AS id, null AS task, collect(s.id) AS members, sum(s.trials) AS trials, sum(s.successes) AS successes,
  collect(s.latest) AS latest
//? pairs
MATCH (s:Strategy)-[o:OUTCOME]->(t:Task)
WHERE s.ns = $ns AND ($tasks IS NULL OR t.id IN $tasks)
  AND o.agent IN $agents AND ($types IS NULL OR t.type IN $types)                                               //? pairs some
WITH whole(s) AS id, t.id AS task, null AS members, sum(o.trials) AS trials, sum(o.successes) AS successes, collect(o.latest) AS latest
//? !pairs some
MATCH (s:Strategy)-[o:OUTCOME]->(t:Task)
WHERE s.ns = $ns AND o.agent IN $agents AND ($types IS NULL OR t.type IN $types)
WITH s, o ORDER BY o.last_at DESC
WITH whole(s) AS id, null AS task, collect(DISTINCT s.id) AS members, sum(o.trials) AS trials, sum(o.successes) AS successes,
  collect(o.latest)[..32] AS latest
//?
WHERE $tasks IS NOT NULL OR (trials >= 5 AND successes > 0 AND successes < trials)
RETURN id, members, task, trials, successes, latest
ORDER BY id, task;
