// Access: what of the memory some agents see, as if there were no others. A task, a strategy and a rule are nodes that all agents share,
// and so are their wording, type and counts; what follows here are those that come from the episodes of these agents alone.

// name: access.tasks
// doc: The tasks, of given ones, that given agents attempted. Text and type are those of the task if they come from an episode of these
// doc: agents, else null.
// param: agents list
// returns: id string, text string, task_type string
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(:Strategy)
WHERE o.agent IN $agents
WITH DISTINCT t
OPTIONAL MATCH (:Episode {id: t.described_by})<-[:RAN]-(d:Agent)
OPTIONAL MATCH (:Episode {id: t.typed_by})<-[:RAN]-(y:Agent)
WITH t, d.name IN $agents AS described, y.name IN $agents OR (t.typed_by IS NULL AND d.name IN $agents) AS typed
RETURN t.id AS id, CASE WHEN described AND typed THEN t.description END AS text, CASE WHEN described AND typed THEN t.type END AS task_type
ORDER BY id;

// name: access.described_tasks
// doc: The tasks that given agents attempted, or some of them, as their episodes describe them: the wording of the latest episode, and the
// doc: type of the latest one with a given type, else of the latest one.
// option: some  of some tasks, by id
// param: agents list
// returns: id string, text string, task_type string
//? !some
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)-[:ATTEMPTED]->(t:Task)
//? some
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents
//?
WITH t.id AS id, e.task AS text, e.type AS type, e.task_type AS given, e.id AS episode,
     coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH id, collect(text)[0] AS text, collect(type)[0] AS type, collect(given)[0] AS given
RETURN id, text, coalesce(given, type) AS task_type
ORDER BY id;

// name: access.strategies
// doc: Those of given strategies that given agents applied on given types of tasks.
// param: agents list, types list = null
// returns: id string
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
WHERE h.agent IN $agents AND ($types IS NULL OR h.type IN $types)
RETURN DISTINCT s.id AS id
ORDER BY id;

// name: access.others
// doc: How many agents other than given ones attempted given tasks.
// param: agents list
// returns: others integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(:Strategy)
WHERE NOT o.agent IN $agents
RETURN count(DISTINCT o.agent) AS others;

// name: access.sent_rules
// doc: The rules of models, of given ones, for which the model was sent only episodes of given agents on given types of tasks.
// param: agents list, types list = null
// returns: id string
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns AND r.source = 'model'
OPTIONAL MATCH (r)-[:SAW]->(e:Episode)<-[:RAN]-(a:Agent)
WITH r.id AS id, sum(CASE WHEN a.name IN $agents AND ($types IS NULL OR e.type IN $types) THEN 0 ELSE 1 END) AS others
WHERE others = 0
RETURN id
ORDER BY id;
