// How agents did over time, for a learning curve.

// name: course.parts
// doc: The episodes of each agent in the order of recording, in parts of equal length: how many there are, and how many succeeded.
// param: parts integer = 40
// returns: agent string, part integer, episodes integer, successes integer
MATCH (t:Stream)
WHERE t.ns = $ns AND t.level IS NULL
MATCH (v:Event {stream: t.id})-[:ABOUT]->(e:Episode)
WITH t.agent AS agent, (v.seq - 1) * $parts / t.last AS part, e.success AS success
RETURN agent, toInteger(part) AS part, count(*) AS episodes, sum(CASE WHEN success THEN 1 ELSE 0 END) AS successes
ORDER BY agent, part;

// name: course.uses
// doc: Counts and bounds after the episodes so far in which a strategy was applied, in the order in which they were recorded, at a limited
// doc: number of points; those of one agent or type of task, or of all.
// param: agent string = null, task_type string = null, parts integer = 40
// returns: trials integer, successes integer, mean float, lower float, upper float
MATCH (s:Strategy {id: $id})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[u:USED]-(e:Episode)<-[:ABOUT]-(v:Event)
WHERE u.applied AND ($task_type IS NULL OR e.type = $task_type)
MATCH (e)<-[:RAN]-(a:Agent)
WHERE $agent IS NULL OR a.name = $agent
WITH e.recorded_at AS recorded_at, v.seq AS seq, e.id AS id, CASE WHEN worked(e.success, u.failed) THEN 1 ELSE 0 END AS worked
ORDER BY recorded_at, seq, id
WITH collect(worked) AS outcomes
WITH outcomes, CASE WHEN size(outcomes) < $parts THEN size(outcomes) ELSE $parts END AS points
UNWIND range(1, points) AS place
WITH outcomes[size(outcomes) * (place - 1) / points..size(outcomes) * place / points] AS some, place
UNWIND some AS worked
WITH place, count(*) AS trials, sum(worked) AS successes
ORDER BY place
WITH collect(trials) AS trials_of, collect(successes) AS successes_of
UNWIND range(1, size(trials_of)) AS place
WITH reduce(sum = 0, one IN trials_of[..place] | sum + one) AS trials,
     reduce(sum = 0, one IN successes_of[..place] | sum + one) AS successes
RETURN trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
  wilson_lower(successes, trials, $z) AS lower, wilson_upper(successes, trials, $z) AS upper
ORDER BY trials;
