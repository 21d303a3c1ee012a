// Analysis queries on policies: what agents do in which state, and how certain that is. Run one
// with `graphmem query NAME`, or paste the output of `graphmem procedures list analysis.NAME` into
// Neo4j Browser. A state is shown as the JSON of its features, or as its fingerprint if its
// features are unknown.

// name: analysis.best_actions
// install: best_actions
// doc: The action with the highest value in every state, for each agent.
// returns: state string, agent string, action string, spec string, value float, updates integer, trials integer, actions integer
MATCH (p:Policy)
WHERE p.ns = $ns AND p.active
MATCH (p)-[:IN_STATE]->(s:State)
WITH coalesce(s.features, s.fingerprint) AS state, p
ORDER BY p.q DESC, p.id
WITH state, p.agent AS agent, count(p) AS actions,
     collect({action: p.action_type, spec: p.action_spec, value: p.q, updates: p.updates, trials: p.trials}) AS ranked
WITH state, agent, actions, ranked[0] AS best
RETURN state, agent, best.action AS action, best.spec AS spec, best.value AS value, best.updates AS updates, best.trials AS trials, actions
ORDER BY value DESC, state, agent
LIMIT $limit;

// name: analysis.undecided
// install: undecided
// doc: States in which the best action is uncertain: the upper bound of another action is over the lower bound of the first. Most trials
// doc: first.
// param: at_least integer = 3
// returns: state string, agent string, action string, lower float, rival string, rival_upper float, trials integer
MATCH (p:Policy)
WHERE p.ns = $ns AND p.trials >= $at_least
MATCH (p)-[:IN_STATE]->(s:State)
WITH coalesce(s.features, s.fingerprint) AS state, p.agent AS agent, p.id AS id, p.trials AS trials,
     p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END AS action,
     wilson_lower(p.successes, p.trials, $z_value) AS lower, wilson_upper(p.successes, p.trials, $z_value) AS upper
ORDER BY lower DESC, trials DESC, id
WITH state, agent, collect({action: action, lower: lower, upper: upper, trials: trials}) AS ranked
WITH state, agent, ranked[0] AS best, ranked[1..] AS others
UNWIND others AS other
WITH state, agent, best, other
WHERE other.upper > best.lower
RETURN state, agent, best.action AS action, best.lower AS lower, other.action AS rival, other.upper AS rival_upper,
  best.trials + other.trials AS trials
ORDER BY trials DESC, state, agent, action, rival
LIMIT $limit;

// name: analysis.agents_disagree
// install: agents_disagree
// doc: States in which agents have at least a given number of different best actions.
// param: at_least integer = 2
// returns: state string, agents integer, favourites integer, choices list
MATCH (p:Policy)
WHERE p.ns = $ns AND p.active
MATCH (p)-[:IN_STATE]->(s:State)
WITH coalesce(s.features, s.fingerprint) AS state, p
ORDER BY p.q DESC, p.id
WITH state, p.agent AS agent,
     collect(p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END) AS ranked
WITH state, agent, ranked[0] AS favourite
ORDER BY agent
WITH state, count(agent) AS agents, count(DISTINCT favourite) AS favourites, collect(agent + ': ' + favourite) AS choices
WHERE favourites >= $at_least
RETURN state, agents, favourites, choices
ORDER BY favourites DESC, agents DESC, state
LIMIT $limit;

// name: analysis.taken_back
// install: taken_back
// doc: Policies that crystallizing took back, most often first, with their present lower bound.
// returns: state string, agent string, action string, taken_back integer, crystallized boolean, trials integer, successes integer
// returns: lower float
MATCH (p:Policy)<-[:ABOUT]-(x:Event)
WHERE p.ns = $ns AND x.kind = 'taken_back'
WITH p, count(x) AS taken_back
MATCH (p)-[:IN_STATE]->(s:State)
RETURN coalesce(s.features, s.fingerprint) AS state, p.agent AS agent,
       p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END AS action, taken_back,
       p.crystallized AS crystallized, p.trials AS trials, p.successes AS successes, wilson_lower(p.successes, p.trials, $z_value) AS lower
ORDER BY taken_back DESC, trials DESC, state, agent, action
LIMIT $limit;

// name: analysis.rewarding_steps
// install: rewarding_steps
// doc: Steps between states: how often each was taken, and its mean reward. The next state is null if the step was terminal or none was
// doc: given.
// param: at_least integer = 1
// returns: state string, action string, next_state string, agent string, times integer, mean_reward float
MATCH (p:Policy)
WHERE p.ns = $ns
MATCH (p)-[:IN_STATE]->(s:State)
MATCH (p)<-[:UPDATED]-(t:Transition)
OPTIONAL MATCH (n:State)-[:REACHED_BY]->(t)
WITH coalesce(s.features, s.fingerprint) AS state, p.agent AS agent, coalesce(n.features, n.fingerprint) AS next_state, t.reward AS reward,
     p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END AS action
WITH state, action, next_state, agent, count(*) AS times, sum(reward) / count(*) AS mean_reward
WHERE times >= $at_least
RETURN state, action, next_state, agent, times, mean_reward
ORDER BY mean_reward DESC, times DESC, state, action, next_state, agent
LIMIT $limit;

// name: analysis.never_read
// install: never_read
// doc: Policies that were learned and never read since, most updates and trials first.
// returns: state string, agent string, action string, value float, updates integer, trials integer
MATCH (p:Policy)
WHERE p.ns = $ns AND p.active AND p.reads = 0
MATCH (p)-[:IN_STATE]->(s:State)
RETURN coalesce(s.features, s.fingerprint) AS state, p.agent AS agent,
       p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END AS action, p.q AS value,
       p.updates AS updates, p.trials AS trials
ORDER BY updates + trials DESC, value DESC, state, agent, action
LIMIT $limit;
