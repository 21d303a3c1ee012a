// Erases facts; what was derived from them is then derived again (maintenance.cypher).

// name: erasing.touched
// doc: The nodes that episodes refer to, each once.
// returns: id string, recorded_at integer, agent string, agent_name string, task string, strategies list, rules list, mistakes list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (a:Agent)-[:RAN]->(e)
MATCH (e)-[:ATTEMPTED]->(t:Task)
OPTIONAL MATCH (e)-[:USED]->(s:Strategy)
WITH e, a, t, collect(s.id) AS strategies
OPTIONAL MATCH (e)-[:LISTED]->(r:Rule)
WITH e, a, t, strategies, collect(DISTINCT r.id) AS rules
OPTIONAL MATCH (e)-[:MADE]->(m:Mistake)
RETURN e.id AS id, e.recorded_at AS recorded_at, a.id AS agent, a.name AS agent_name, t.id AS task, strategies, rules,
       collect(DISTINCT m.id) AS mistakes
ORDER BY id;

// name: erasing.experience
// doc: The states and policies of each episode, and the transitions taken from it.
// returns: id string, took list, states list, transitions list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
OPTIONAL MATCH (e)-[:TOOK]->(p:Policy)-[:IN_STATE]->(home:State)
WITH e, collect(p.id) AS took, collect(DISTINCT home.id) AS states
OPTIONAL MATCH (e)<-[:OF]-(t:Transition)
WITH e, took, states, collect(t.id) AS transitions
OPTIONAL MATCH (e)<-[:OF]-(:Transition)<-[:REACHED_BY]-(s:State)
WITH e, took, states, transitions, collect(DISTINCT s.id) AS others
RETURN e.id AS id, took, states + others AS states, transitions;

// name: erasing.sizes
// doc: How many steps the given episodes have.
// returns: steps integer
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
RETURN sum(COUNT { (e)-[:HAS_STEP]->() }) AS steps;

// name: erasing.drop_events
// mode: write
// doc: Removes the events of episodes, the outcomes that were told later, and the transitions taken from them.
// returns: removed integer
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
OPTIONAL MATCH (x)-[:ABOUT|SETTLES]->(e)
WITH e, collect(x) AS events
OPTIONAL MATCH (t:Transition)-[:OF]->(e)
WITH events, collect(t) AS transitions
FOREACH (gone IN events | DETACH DELETE gone)
FOREACH (gone IN transitions | DETACH DELETE gone)
RETURN sum(size(events) + size(transitions)) AS removed;

// name: erasing.drop_steps
// mode: write
// doc: Removes the steps of episodes.
// returns: removed integer
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:HAS_STEP]->(s:Step)
DETACH DELETE s
RETURN count(*) AS removed;

// name: erasing.drop_runs
// mode: write
// doc: Removes the edges from agents to their episodes: in the embedded engine four times as fast as with the episodes.
// returns: removed integer
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (:Agent)-[r:RAN]->(e)
DELETE r
RETURN count(*) AS removed;

// each: Label kind = Episode episodes, Abandoned abandoned, Transition transitions, Event noted, Entry entries, Lens lenses,
// each: Rule general_rules, Pending pending
// name: erasing.drop_{kind}
// mode: write
// doc: Removes nodes {Label} and their edges.
// returns: removed integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
DETACH DELETE n
RETURN count(*) AS removed;

// name: erasing.drop_crystallizations
// mode: write
// doc: Removes the marks of crystallizing from policies; the next crystallize decides again.
// returns: removed integer
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (x:Event)-[:ABOUT]->(p)
WHERE x.kind IN ['crystallized', 'taken_back']
DETACH DELETE x
RETURN count(*) AS removed;

// name: erasing.states_of
// doc: The next states of transitions.
// returns: id string
MATCH (t:Transition)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (s:State)-[:REACHED_BY]->(t)
RETURN DISTINCT s.id AS id;

// name: erasing.drop_predictions
// mode: write
// doc: Removes the predictions of an agent.
// param: agent string
// returns: removed integer
MATCH (p:Prediction)
WHERE p.ns = $ns AND p.agent = $agent
DETACH DELETE p
RETURN count(*) AS removed;

// name: erasing.episodes_of
// doc: The episodes of an agent.
// param: agent string
// returns: id string
MATCH (a:Agent {id: $agent})
WITH a, a.ns AS ns WHERE ns = $ns
MATCH (a)-[:RAN]->(e:Episode)
RETURN e.id AS id
ORDER BY id;

// name: erasing.episodes_of_user
// doc: The episodes of a user.
// param: user string
// returns: id string
MATCH (e:Episode)
WHERE e.ns = $ns AND e.user = $user
RETURN e.id AS id
ORDER BY id;

// name: erasing.aged
// doc: The episodes before a time (or of any age), of one agent or of all, with their applied strategies.
// param: before integer = null, agent string = null
// returns: id string, agent string, type string, at integer, strategies list
MATCH (e:Episode)
WHERE e.ns = $ns AND ($before IS NULL OR coalesce(e.ended_at, e.started_at, e.recorded_at) < $before)
MATCH (a:Agent)-[:RAN]->(e)
WHERE $agent IS NULL OR a.name = $agent
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WITH e, a, collect(CASE WHEN u.applied THEN s.text ELSE null END) AS strategies
RETURN e.id AS id, a.name AS agent, e.type AS type, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, strategies
ORDER BY id;

// name: erasing.beliefs
// doc: The confidence in strategies for each agent and type of task, if it is at least a limit.
// param: below float
// returns: agent string, type string, strategy string, confidence float
MATCH (h:Heuristic)
WHERE h.ns = $ns
WITH h, posterior_mean(h.successes, h.trials, $prior_successes, $prior_failures) AS confidence
WHERE confidence >= $below
RETURN h.agent AS agent, h.type AS type, h.text AS strategy, confidence;
