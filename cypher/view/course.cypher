// How agents and strategies did over time, for curves.

// name: course.parts
// doc: The episodes of each agent in order of their times (else of recording), in parts of equal length: how many there are, and how many
// doc: succeeded.
// param: parts integer = 40
// returns: agent string, part integer, episodes integer, successes integer
MATCH (a:Agent)-[:RAN]->(e:Episode)
WHERE a.ns = $ns
WITH a.name AS agent, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, e.id AS id, CASE WHEN e.success THEN 1 ELSE 0 END AS worked
ORDER BY at, id
WITH agent, collect(worked) AS outcomes
UNWIND range(0, $parts - 1) AS part
WITH agent, part, outcomes[toInteger(size(outcomes) * part / $parts)..toInteger(size(outcomes) * (part + 1) / $parts)] AS some
WHERE size(some) > 0
RETURN agent, part, size(some) AS episodes, reduce(sum = 0, one IN some | sum + one) AS successes
ORDER BY agent, part;

// name: course.uses
// doc: The times of recording of the episodes in which a strategy was applied, and whether it worked (1), the latest first; of one agent or
// doc: type of task, or of all.
// param: agent string = null, task_type string = null
// returns: times list, outcomes list
MATCH (s:Strategy {id: $id})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[u:USED]-(e:Episode)<-[:ABOUT]-(v:Event)
WHERE u.applied AND ($task_type IS NULL OR e.type = $task_type)
MATCH (e)<-[:RAN]-(a:Agent)
WHERE $agent IS NULL OR a.name = $agent
WITH e.recorded_at AS recorded_at, v.seq AS seq, e.id AS id, CASE WHEN worked(e.success, u.failed) THEN 1 ELSE 0 END AS worked
ORDER BY recorded_at DESC, seq DESC, id DESC
RETURN collect(recorded_at) AS times, collect(worked) AS outcomes;
