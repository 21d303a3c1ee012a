// How agents and strategies did over time, for curves.

// name: course.parts
// doc: The episodes of each agent in order of their times (else of recording), in parts of equal length, at most a number: how many there
// doc: are, and how many succeeded. A part has twenty or more, as a rate of few says little, unless the agent has fewer in all. The middle
// doc: of a part lies at some share of all episodes of the agent.
// param: parts integer = 40
// returns: agent string, at float, episodes integer, successes integer
MATCH (a:Agent)-[:RAN]->(e:Episode)
WHERE a.ns = $ns
WITH a.name AS agent, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, e.id AS id, CASE WHEN e.success THEN 1 ELSE 0 END AS worked
ORDER BY at, id
WITH agent, collect(worked) AS outcomes
WITH agent, outcomes, size(outcomes) AS total, toInteger(size(outcomes) / 20) AS full
WITH agent, outcomes, total, CASE WHEN full > $parts THEN $parts WHEN full > 0 THEN full ELSE 1 END AS parts
UNWIND range(0, parts - 1) AS part
WITH agent, outcomes, total, toInteger(total * part / parts) AS first, toInteger(total * (part + 1) / parts) AS last
WITH agent, (first + last) / (2.0 * total) AS at, last - first AS episodes, outcomes[first..last] AS some
RETURN agent, at, episodes, reduce(sum = 0, one IN some | sum + one) AS successes
ORDER BY agent, at;

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
