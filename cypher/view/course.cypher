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
