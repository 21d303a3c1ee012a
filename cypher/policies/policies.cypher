// Policies: the learned value and evidence of an agent's action in a state. Every change is made under the lock of the agent's stream and
// is an event in it, so that the events, in the order of their numbers, give the same policies again. SET t.last = t.last + ... takes the
// lock before it reads. Nodes are matched again after that: their values are then read under the lock, and the embedded engine is slow to
// carry nodes from one part of a statement to the next.

// name: policies.open_states
// mode: write
// install: open_states
// doc: Creates missing states, and sets the features of those with only a fingerprint. Rows: {id, fingerprint, features (JSON or null)}.
// returns: states integer
UNWIND $rows AS row
WITH row ORDER BY row.id
OPTIONAL MATCH (s:State {id: row.id})
WITH row, s, s.ns AS ns, s.features AS features
FOREACH (ignored IN CASE WHEN s IS NULL THEN [1] ELSE [] END |
  CREATE (:State {id: row.id, ns: $ns, created_at: $now, fingerprint: row.fingerprint, features: row.features}))
FOREACH (known IN CASE WHEN ns = $ns AND features IS NULL AND row.features IS NOT NULL THEN [s] ELSE [] END |
  SET known.features = row.features)
RETURN count(*) AS states;

// name: policies.open
// mode: write
// install: open_policies
// doc: Creates missing policies. Rows: {id, state_id, state, stream, agent, action_type, action_spec}.
// returns: policies integer
UNWIND $rows AS row
WITH row ORDER BY row.id
OPTIONAL MATCH (p:Policy {id: row.id})
WITH row, p WHERE p IS NULL
MATCH (s:State {id: row.state_id})
WITH row, s, s.ns AS ns WHERE ns = $ns
CREATE (:Policy {id: row.id, ns: $ns, created_at: $now, stream: row.stream, agent: row.agent, state: row.state,
  action_type: row.action_type, action_spec: row.action_spec, q: 0.0, updates: 0, trials: 0, successes: 0, confidence: 0.5, signals: 0,
  active: false, crystallized: false, q_set: false, last_updated_at: null, reads: 0, last_read_at: null})-[:IN_STATE]->(s)
RETURN count(*) AS policies;

// name: policies.td_update
// mode: write
// install: td_update
// doc: TD(0): q <- q + alpha * (reward + gamma * max q(next state) - q). The max is computed under the lock of the agent's stream;
// doc: next_max_q replaces it if given. With next_actions, the number of actions of the next state, untried actions count with 0. Stores
// doc: the transition. Does nothing and returns no row if the policy is not in this stream, or the next state does not exist. An invalid
// doc: number (NaN, infinite, alpha outside (0, 1], gamma outside [0, 1]) is an error.
// param: stream_id string, policy_id string, next_state_id string, reward float, now, next_max_q float = null, next_actions integer = null
// param: alpha float = 0.1, gamma float = 0.95, at integer = null
// returns: q_value float, td_error float, seq integer
MATCH (t:Stream {id: $stream_id})
WHERE must_learn($reward, $alpha, $gamma, $next_max_q)
MATCH (p:Policy {id: $policy_id})
MATCH (n:State {id: $next_state_id})
SET t.last = t.last + CASE WHEN t.ns = $ns AND p.stream = $stream_id THEN 1 ELSE 0 END
WITH t.last AS seq
MATCH (n:State {id: $next_state_id})
OPTIONAL MATCH (n)<-[:IN_STATE]-(o:Policy)
WITH seq, CASE WHEN o.active AND o.stream = $stream_id THEN o.q END AS q
WITH seq, count(q) AS known, max(q) AS best
MATCH (p:Policy {id: $policy_id})
WITH seq, p.q AS before, td_error($reward, $gamma, best_next($next_max_q, $next_actions, known, best), p.q) AS td_error, p.ns AS ns,
  p.stream AS stream
WHERE ns = $ns AND stream = $stream_id
WITH seq, td_error, before + $alpha * td_error AS q_value
MATCH (p:Policy {id: $policy_id})
MATCH (n:State {id: $next_state_id})
SET p.q = q_value, p.updates = p.updates + 1, p.active = true, p.last_updated_at = coalesce($at, $now)
CREATE (n)-[:REACHED_BY]->(:Transition {id: $stream_id + ':' + seq, ns: $ns, created_at: $now, stream: $stream_id, seq: seq,
  reward: $reward, alpha: $alpha, gamma: $gamma, terminal: false, next_max: $next_max_q, next_actions: $next_actions,
  at: $at})-[:UPDATED]->(p)
RETURN q_value, td_error, seq;

// name: policies.td_finish
// mode: write
// install: td_finish
// doc: TD(0) for a step without a next state in the graph: a terminal step bootstraps from 0, any other from next_max_q. Stores the
// doc: transition. Does nothing and returns no row if the policy is not in this stream. An invalid number is an error, as in td_update.
// param: stream_id string, policy_id string, reward float, now, next_max_q float = null, alpha float = 0.1, gamma float = 0.95
// param: at integer = null
// returns: q_value float, td_error float, seq integer
MATCH (t:Stream {id: $stream_id})
MATCH (p:Policy {id: $policy_id})
WITH t, t.ns AS ns, p.stream AS stream
WHERE ns = $ns AND stream = $stream_id AND must_learn($reward, $alpha, $gamma, $next_max_q)
SET t.last = t.last + 1
WITH t.last AS seq
MATCH (p:Policy {id: $policy_id})
WITH p, seq, p.updates + 1 AS updates, td_error($reward, $gamma, coalesce($next_max_q, 0.0), p.q) AS td_error
WITH p, seq, updates, td_error, p.q + $alpha * td_error AS q_value
SET p.q = q_value, p.updates = updates, p.active = true, p.last_updated_at = coalesce($at, $now)
CREATE (:Transition {id: $stream_id + ':' + seq, ns: $ns, created_at: $now, stream: $stream_id, seq: seq, reward: $reward,
  alpha: $alpha, gamma: $gamma, terminal: $next_max_q IS NULL, next_max: $next_max_q, next_actions: null, at: $at})-[:UPDATED]->(p)
RETURN q_value, td_error, seq;

// name: policies.load
// doc: Policies by id, and the policies in states, of all agents, with their changeable properties; a state without policies has one row.
// param: states list
// returns: state_id string, policy_facts
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN null AS state_id, policy_facts(p)
UNION ALL
MATCH (s:State)
WHERE s.id IN $states AND toString(s.ns) = $ns
OPTIONAL MATCH (s)<-[:IN_STATE]-(p:Policy)
RETURN s.id AS state_id, policy_facts(p);

// name: policies.load_links
// doc: The co-occurrence edges between policies.
// returns: low string, high string, count integer, weight float, held integer
MATCH (x:Policy)
WHERE x.id IN $ids AND toString(x.ns) = $ns
MATCH (x)-[c:CO_OCCURS_WITH]->(y:Policy)
WHERE y.id IN $ids
RETURN x.id AS low, y.id AS high, c.count AS count, c.weight AS weight, c.held AS held;

// name: policies.put
// mode: write
// doc: Writes the changed properties of policies.
// returns: written integer
UNWIND $rows AS row
MATCH (p:Policy {id: row.id})
WITH row, p, p.ns AS ns WHERE ns = $ns
SET p.created_at = row.created_at, p.q = row.q, p.updates = row.updates, p.trials = row.trials, p.successes = row.successes,
  p.confidence = row.confidence, p.signals = row.signals, p.active = row.active, p.crystallized = row.crystallized, p.q_set = row.q_set,
  p.last_updated_at = row.last_updated_at
RETURN count(p) AS written;

// name: policies.put_links
// mode: write
// doc: Writes co-occurrence edges from the smaller id; removes those without a weight. Rows: {low, high, count, weight, held}.
// returns: written integer
UNWIND $rows AS row
MATCH (x:Policy {id: row.low})
MATCH (y:Policy {id: row.high})
WITH row, x, y, x.ns AS ns, y.ns AS other WHERE ns = $ns AND other = $ns
OPTIONAL MATCH (x)-[c:CO_OCCURS_WITH]->(y)
FOREACH (ignored IN CASE WHEN c IS NULL AND row.weight IS NOT NULL THEN [1] ELSE [] END |
  CREATE (x)-[:CO_OCCURS_WITH {count: row.count, weight: row.weight, held: row.held}]->(y))
FOREACH (edge IN CASE WHEN c IS NULL OR row.weight IS NULL THEN [] ELSE [c] END |
  SET edge.count = row.count, edge.weight = row.weight, edge.held = row.held)
FOREACH (edge IN CASE WHEN c IS NULL OR row.weight IS NOT NULL THEN [] ELSE [c] END | DELETE edge)
RETURN count(*) AS written;

// name: policies.took
// mode: write
// doc: The policies that new episodes took. Rows: {episode, policies [{id, steps, first}]}.
// returns: took integer
UNWIND $rows AS row
MATCH (e:Episode {id: row.episode})
WITH row, e, e.ns AS ns WHERE ns = $ns
UNWIND row.policies AS taken
MATCH (p:Policy {id: taken.id})
CREATE (e)-[:TOOK {steps: taken.steps, first: taken.first}]->(p)
RETURN count(*) AS took;

// name: policies.best
// install: best_policy
// doc: The policy of an agent in a state with the highest value at a time, decayed since its last update (without a time: as stored), of
// doc: those that were learned, set or crystallized. If policies of the state have cycles (cyclic), policies.values adds their bonuses.
// param: state_id string, agent string, at integer = null, rate float = 0.1, strength float = 0.5
// returns: policy_columns, score float, cyclic boolean
MATCH (s:State {id: $state_id})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[:IN_STATE]-(p:Policy)
WHERE p.agent = $agent AND p.active
WITH s, p, worth(p, $at, $rate, $strength) AS score
ORDER BY score DESC, p.id LIMIT 1
WITH s, p, score, wilson_lower(p.successes, p.trials, $z_value) AS lower, wilson_upper(p.successes, p.trials, $z_value) AS upper
RETURN policy_columns(p, s, lower, upper), score, EXISTS { MATCH (s)<-[:IN_STATE]-(:Policy)-[:HAS_CYCLE]->(:Cycle) } AS cyclic;

// name: policies.values
// install: policy_values
// doc: The policies of an agent, or of all, in a state, with their values at a time: decayed since the last update, more slowly if
// doc: confidence is high, plus bonuses for cycles and waiting. Clocks: {kind, timezone, clock} in seconds, for the timezones of cycles.
// param: state_id string, agent string = null, at integer = null, rate float = 0.1, strength float = 0.5, pressure float = 0.0
// param: clocks list = [], only_active boolean = false
// returns: policy_columns, score float, timezones list
MATCH (s:State {id: $state_id})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[:IN_STATE]-(p:Policy)
WHERE ($agent IS NULL OR p.agent = $agent) AND (p.active OR NOT $only_active)
OPTIONAL MATCH (p)-[:HAS_CYCLE]->(c:Cycle)
WITH s, p, collect(c) AS cycles, wilson_lower(p.successes, p.trials, $z_value) AS lower,
     wilson_upper(p.successes, p.trials, $z_value) AS upper
WITH s, p, lower, upper, [c IN cycles | c.timezone] AS timezones, worth(p, $at, $rate, $strength) + swung(cycles, $clocks)
     + coalesce(pressed($pressure, ($at - p.last_updated_at) / 86400000.0), 0.0) AS score
RETURN policy_columns(p, s, lower, upper), score, timezones
ORDER BY score DESC, id;

// name: policies.get
// install: policy
// doc: One policy by id.
// returns: policy_columns, score float
MATCH (p:Policy {id: $id})
WITH p, p.ns AS ns WHERE ns = $ns
MATCH (p)-[:IN_STATE]->(s:State)
WITH s, p, wilson_lower(p.successes, p.trials, $z_value) AS lower, wilson_upper(p.successes, p.trials, $z_value) AS upper
RETURN policy_columns(p, s, lower, upper), p.q AS score;

// name: policies.list
// install: policies
// doc: Policies of a namespace by value.
// param: agent string = null, limit
// returns: policy_columns, score float
MATCH (p:Policy)
WHERE p.ns = $ns AND ($agent IS NULL OR p.agent = $agent)
WITH p ORDER BY p.active DESC, p.q DESC, p.id LIMIT $limit
MATCH (p)-[:IN_STATE]->(s:State)
WITH s, p, wilson_lower(p.successes, p.trials, $z_value) AS lower, wilson_upper(p.successes, p.trials, $z_value) AS upper
RETURN policy_columns(p, s, lower, upper), p.q AS score
ORDER BY p.active DESC, score DESC, id;

// name: policies.seen
// install: policies_seen
// doc: The given policies that were tried: updated, or counted in an episode or outcome.
// returns: id string
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns AND (p.updates > 0 OR p.trials > 0)
RETURN p.id AS id;

// name: policies.spread
// install: spread_policies
// doc: One hop of spreading activation, over the strongest edges of the rows {id, energy}: a neighbour gets the largest energy that arrives
// doc: over one edge; with an energy and a decay of 1, its present weight. Count is the number of episodes that took both.
// param: decay float = 0.5, limit integer = 100
// returns: id string, energy float, count integer
UNWIND $rows AS row
MATCH (p:Policy {id: row.id})
WITH row, p, p.ns AS ns WHERE ns = $ns
MATCH (p)-[c:CO_OCCURS_WITH]-(o:Policy)
WITH row, p, o.id AS id, bond(c.weight, c.held, p.trials + o.trials) AS weight, c.count AS count
WHERE weight >= 0.001
WITH row, p, id, weight, count
ORDER BY weight DESC, id
WITH row, p, collect({id: id, weight: weight, count: count})[0..$limit] AS strongest
UNWIND strongest AS link
WITH link.id AS id, max(row.energy * link.weight * $decay) AS energy, max(link.count) AS count
RETURN id, energy, count
ORDER BY energy DESC, id;

// name: policies.crystallizing
// install: crystallizing
// doc: What crystallizing would do with each tried policy: create, keep, update or take it back; or its lower bound is too low.
// param: agent string = null, min_events integer = 3, threshold float = 0.6, z_score float = 1.96
// returns: id string, stream string, agent string, state string, action_type string, action_spec string, trials integer, successes integer
// returns: lower float, change string, q_value float
MATCH (p:Policy)
WHERE p.ns = $ns AND p.trials > 0 AND ($agent IS NULL OR p.agent = $agent)
WITH p, wilson_lower(p.successes, p.trials, $z_score) AS lower
WITH p, lower, p.trials >= $min_events AND lower > $threshold AS holds, p.updates = 0 AND NOT p.q_set AS own
RETURN p.id AS id, p.stream AS stream, p.agent AS agent, p.state AS state, p.action_type AS action_type, p.action_spec AS action_spec,
       p.trials AS trials, p.successes AS successes, lower,
       CASE WHEN holds AND NOT p.crystallized THEN 'created' WHEN holds AND own AND p.q <> lower THEN 'updated' WHEN holds THEN 'kept'
            WHEN p.crystallized THEN 'taken_back' ELSE 'below' END AS change, p.q AS q_value
ORDER BY lower DESC, trials DESC, id;

// each: Label subject = Policy policies, Strategy learning, Entry entries
// name: {subject}.count_reads
// mode: write
// doc: Adds reads that were counted outside of the graph. Rows: {id, reads, at}.
// returns: items integer
UNWIND $rows AS row
WITH row ORDER BY row.id
MATCH (n:{Label} {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
SET n.ns = $ns
WITH n, coalesce(n.reads, 0) + row.reads AS reads, later(n.last_read_at, row.at) AS last_read_at
SET n.reads = reads, n.last_read_at = last_read_at
RETURN count(*) AS items;
