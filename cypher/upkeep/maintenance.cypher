// Derives all data from the facts: verify compares it, rebuild writes it, erase uses both.

// name: maintenance.sizes
// doc: How many nodes there are of each label with derived items, how many episodes these have together, and the episodes themselves.
// returns: label string, nodes integer, uses integer
MATCH (n:Episode) WHERE n.ns = $ns RETURN 'Episode' AS label, count(n) AS nodes, count(n) AS uses
UNION ALL
MATCH (n:Strategy) WHERE n.ns = $ns RETURN 'Strategy' AS label, count(n) AS nodes, sum(COUNT { (n)<-[:USED]-() }) AS uses
UNION ALL
MATCH (n:Task) WHERE n.ns = $ns RETURN 'Task' AS label, count(n) AS nodes, sum(COUNT { (n)<-[:ATTEMPTED]-() }) AS uses
UNION ALL
MATCH (n:Agent) WHERE n.ns = $ns RETURN 'Agent' AS label, count(n) AS nodes, sum(COUNT { (n)-[:RAN]->() }) AS uses
UNION ALL
MATCH (n:Rule) WHERE n.ns = $ns AND n.source = 'episodes'
RETURN 'Rule' AS label, count(n) AS nodes, sum(COUNT { (n)<-[:LISTED]-() }) AS uses
UNION ALL
MATCH (n:Mistake) WHERE n.ns = $ns RETURN 'Mistake' AS label, count(n) AS nodes, sum(COUNT { (n)<-[:MADE]-() }) AS uses;

// each: Label kind by other = Strategy strategies <-[:USED]- false, Task tasks <-[:ATTEMPTED]- false, Agent agents -[:RAN]-> false,
// each: Rule rules <-[:LISTED]- n.source<>'episodes', Mistake mistakes <-[:MADE]- false, Episode episodes -[:HAS_STEP]-> false
// name: maintenance.ids_{kind}
// doc: A range of the ids of {kind} (of rules those that episodes list), in order, and how many episodes (or an episode: steps) each has.
// returns: id string, uses integer
MATCH (n:{Label})
WHERE n.ns = $ns AND NOT coalesce({other}, false) AND n.id >= $first AND n.id < $beyond
RETURN n.id AS id, COUNT { (n){by}() } AS uses
ORDER BY id;

// each: Label kind = Strategy strategies, Task tasks, Agent agents, Rule rules, Mistake mistakes, Consolidation consolidations
// name: maintenance.lock_{kind}
// mode: write
// doc: Locks {kind} until the transaction ends.
// returns: locked integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
SET n.ns = $ns
RETURN count(n) AS locked;

// name: maintenance.derive_strategies
// doc: The counts of strategies, derived from the facts.
// option: share  derived from episodes (ids) alone: their share
// returns: id string, uses integer, trials integer, successes integer, credit_sum float, score_sum float, last_used_at integer
// returns: created_at integer, effective_trials float, effective_successes float, latest list
//? !share
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (e:Episode)-[u:USED]->(s)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
//?
MATCH (a:Agent)-[:RAN]->(e)
MATCH (e)-[:ATTEMPTED]->(t:Task)
WITH s.id AS id, t.id AS task, a.name AS agent, u.applied AS applied, u.credit AS credit, worked(e.success, u.failed) AS success,
     earned(e.score, u.failed) AS score, e.recorded_at AS recorded_at, coalesce(e.ended_at, e.started_at) AS dated,
     stamp(e, worked(e.success, u.failed)) AS stamp
ORDER BY stamp
WITH id, task, agent, count(*) AS uses, min(recorded_at) AS created, newest(collect(CASE WHEN applied THEN stamp ELSE null END)) AS stamps,
     sum(CASE WHEN applied THEN 1 ELSE 0 END) AS n, sum(CASE WHEN applied AND success THEN 1 ELSE 0 END) AS k,
     sum(CASE WHEN applied THEN credit ELSE 0.0 END) AS credits, sum(CASE WHEN applied THEN credit * score ELSE 0.0 END) AS scores,
     max(CASE WHEN applied THEN dated ELSE null END) AS used_at
OPTIONAL MATCH (:Task {id: task})<-[o:OUTCOME {agent: agent}]-(:Strategy {id: id})                              //? share
WITH *, n AS held, k AS won                                                                                     //? !share
WITH *, o.trials AS held, o.successes AS won                                                                    //? share
ORDER BY stamps[-1]
WITH id, sum(uses) AS uses, sum(n) AS trials, sum(k) AS successes, sum(credits) AS credit_sum, sum(scores) AS score_sum,
     max(used_at) AS last_used_at, min(created) AS created_at, summed_effective(won, held, k, n),
     newest(collect(CASE WHEN size(stamps) > 0 THEN stamps ELSE null END)) AS parts
UNWIND reduce(found = [null], part IN parts | found + part) AS stamp
WITH * ORDER BY stamp
RETURN id, uses, trials, successes, credit_sum, score_sum, last_used_at, created_at, effective_trials, effective_successes,
       newest(collect(stamp)) AS latest
ORDER BY id;

// name: maintenance.derive_outcomes
// doc: The outcome edges of strategies, derived from the facts; of all tasks, or of given ones.
// option: share  derived from episodes (ids) alone: their share
// param: tasks list = null
// returns: strategy string, task string, agent string, trials integer, successes integer, credit_sum float, score_sum float
// returns: last_at integer, latest list
//? !share
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[u:USED]-(e:Episode)-[:ATTEMPTED]->(t:Task)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
MATCH (e)-[:ATTEMPTED]->(t:Task)
//?
WHERE u.applied AND ($tasks IS NULL OR t.id IN $tasks)
MATCH (a:Agent)-[:RAN]->(e)
WITH s.id AS strategy, t.id AS task, a.name AS agent, worked(e.success, u.failed) AS success, u.credit AS credit,
     earned(e.score, u.failed) AS score, coalesce(e.ended_at, e.started_at) AS dated, stamp(e, worked(e.success, u.failed)) AS stamp
ORDER BY stamp
RETURN strategy, task, agent, summed_outcomes(success, credit, score), max(dated) AS last_at, newest(collect(stamp)) AS latest
ORDER BY strategy, task, agent;

// name: maintenance.derive_co_occurrences
// doc: The co-occurrence edges from strategies, derived from the facts; to all strategies, or to given ones.
// option: share  derived from episodes (ids) alone: their share
// param: half_life float, others list = null
// returns: low string, high string, count integer, successes integer, undated integer, weight float, last_at integer
//? !share
MATCH (x:Strategy)
WHERE x.id IN $ids AND toString(x.ns) = $ns
MATCH (x)<-[u:USED]-(e:Episode)-[v:USED]->(y:Strategy)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(x:Strategy)
MATCH (e)-[v:USED]->(y:Strategy)
//?
WHERE u.applied AND v.applied AND x.id < y.id AND ($others IS NULL OR y.id IN $others)
WITH x.id AS low, y.id AS high, count(*) AS count, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes,
     collect(coalesce(e.ended_at, e.started_at)) AS dates, max(coalesce(e.ended_at, e.started_at)) AS last_at
RETURN low, high, count, successes, count - size(dates) AS undated,
       reduce(sum = 0.0, date IN dates | sum + decayed(date, last_at, $half_life)) + count - size(dates) AS weight, last_at
ORDER BY low, high;

// name: maintenance.derive_tasks
// doc: Description, given type, scores and date of tasks, derived from the facts.
// option: share  derived from episodes (ids) alone: their share
// returns: id string, uses integer, description string, described_at integer, described_by string, type string, typed_at integer
// returns: typed_by string, created_at integer, episodes integer, successes integer, score_sum float
//? !share
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
OPTIONAL MATCH (e:Episode)-[:ATTEMPTED]->(t)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:ATTEMPTED]->(t:Task)
//?
WITH t.id AS id, e.id AS episode, e.task AS description, e.task_type AS type, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
  e.recorded_at AS recorded_at, e.score AS score, e.success AS success
ORDER BY id, at DESC, episode DESC
WITH id, count(episode) AS uses, min(recorded_at) AS created_at, sum(score) AS score_sum,
     sum(CASE WHEN success THEN 1 ELSE 0 END) AS successes, collect({id: episode, at: at, text: description})[0] AS latest,
     collect(CASE WHEN type IS NULL THEN null ELSE {id: episode, at: at, text: type} END)[0] AS typed
RETURN id, uses, latest.text AS description, latest.at AS described_at, latest.id AS described_by,
       typed.text AS type, typed.at AS typed_at, typed.id AS typed_by, created_at, uses AS episodes, successes,
       toFloat(score_sum) AS score_sum
ORDER BY id;

// name: maintenance.derive_agents
// doc: The date of agents, derived from the facts.
// option: share  derived from episodes (ids) alone: their share
// returns: id string, uses integer, created_at integer
//? !share
MATCH (a:Agent)
WHERE a.id IN $ids AND toString(a.ns) = $ns
OPTIONAL MATCH (a)-[:RAN]->(e:Episode)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (a:Agent)-[:RAN]->(e)
//?
RETURN a.id AS id, count(e) AS uses, min(e.recorded_at) AS created_at
ORDER BY id;

// name: maintenance.derive_tallies
// doc: How often agents used strategies on types of tasks, derived from the facts; on all types, or on given ones.
// option: share  derived from episodes (ids) alone: their share
// param: types list = null
// returns: home string, agent string, type string, trials integer, successes integer, created_at integer
// returns: effective_trials float, effective_successes float
//? !share
MATCH (a:Agent)
WHERE a.id IN $ids AND toString(a.ns) = $ns
MATCH (a)-[:RAN]->(e:Episode)-[u:USED]->(s:Strategy)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
MATCH (a:Agent)-[:RAN]->(e)
//?
WHERE u.applied AND e.type IS NOT NULL AND ($types IS NULL OR e.type IN $types)
WITH s.id AS strategy, a.id AS home, a.name AS agent, e.type AS type, count(*) AS n,
     sum(CASE WHEN worked(e.success, u.failed) THEN 1 ELSE 0 END) AS k, min(e.recorded_at) AS created
OPTIONAL MATCH (:Strategy {id: strategy})<-[:RECOMMENDS]-(h:Heuristic {agent: agent, type: type})               //? share
WITH *, n AS held, k AS won                                                                                     //? !share
WITH *, h.trials AS held, h.successes AS won                                                                    //? share
RETURN home, agent, type, sum(n) AS trials, sum(k) AS successes, min(created) AS created_at, summed_effective(won, held, k, n)
ORDER BY home, type;

// name: maintenance.stored_strategies
// doc: The counts of strategies, as stored.
// returns: id string, trials integer, successes integer, credit_sum float, score_sum float, last_used_at integer, created_at integer
// returns: effective_trials float, effective_successes float, latest list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, s.trials AS trials, s.successes AS successes, s.credit_sum AS credit_sum, s.score_sum AS score_sum,
       s.last_used_at AS last_used_at, s.created_at AS created_at, s.effective_trials AS effective_trials,
       s.effective_successes AS effective_successes, coalesce(s.latest, []) AS latest
ORDER BY id;

// name: maintenance.stored_outcomes
// doc: The outcome edges of strategies, as stored.
// returns: strategy string, task string, agent string, trials integer, successes integer, credit_sum float, score_sum float
// returns: last_at integer, latest list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[o:OUTCOME]->(t:Task)
RETURN s.id AS strategy, t.id AS task, o.agent AS agent, o.trials AS trials, o.successes AS successes, o.credit_sum AS credit_sum,
       o.score_sum AS score_sum, o.last_at AS last_at, coalesce(o.latest, []) AS latest
ORDER BY strategy, task, agent;

// name: maintenance.stored_co_occurrences
// doc: The co-occurrence edges from strategies, as stored.
// returns: low string, high string, count integer, successes integer, undated integer, weight float, last_at integer
MATCH (x:Strategy)
WHERE x.id IN $ids AND toString(x.ns) = $ns
MATCH (x)-[c:CO_OCCURS_WITH]->(y:Strategy)
RETURN x.id AS low, y.id AS high, c.count AS count, c.successes AS successes, c.undated AS undated, c.weight AS weight, c.last_at AS last_at
ORDER BY low, high;

// name: maintenance.stored_tasks
// doc: Description, type, scores and date of tasks, as stored.
// returns: id string, description string, described_at integer, described_by string, type string, type_rule string, typed_at integer
// returns: typed_by string, created_at integer, episodes integer, successes integer, score_sum float
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS id, t.description AS description, t.described_at AS described_at, t.described_by AS described_by,
       t.type AS type, t.type_rule AS type_rule, t.typed_at AS typed_at, t.typed_by AS typed_by, t.created_at AS created_at,
       t.episodes AS episodes, t.successes AS successes, t.score_sum AS score_sum
ORDER BY id;

// name: maintenance.stored_agents
// doc: The names and dates of agents, as stored.
// returns: id string, name string, created_at integer
MATCH (a:Agent)
WHERE a.id IN $ids AND toString(a.ns) = $ns
RETURN a.id AS id, a.name AS name, a.created_at AS created_at
ORDER BY id;

// name: maintenance.stored_tallies
// doc: How often agents used strategies on types of tasks, as stored.
// returns: id string, home string, agent string, type string, trials integer, successes integer, created_at integer
// returns: effective_trials float, effective_successes float
MATCH (a:Agent)
WHERE a.id IN $ids AND toString(a.ns) = $ns
MATCH (a)<-[:COUNTS]-(y:Tally)
RETURN y.id AS id, a.id AS home, y.agent AS agent, y.type AS type, y.trials AS trials, y.successes AS successes,
       y.created_at AS created_at, y.effective_trials AS effective_trials, y.effective_successes AS effective_successes
ORDER BY id;

// name: maintenance.put_strategies
// mode: write
// doc: Writes derived counts of strategies.
// returns: written integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.id})
WITH row, s, s.ns AS ns WHERE ns = $ns
SET s.trials = row.trials, s.successes = row.successes, s.credit_sum = row.credit_sum, s.score_sum = row.score_sum,
    s.last_used_at = row.last_used_at, s.created_at = row.created_at, s.effective_trials = row.effective_trials,
    s.effective_successes = row.effective_successes, s.latest = row.latest
RETURN count(s) AS written;

// each: kind Home edge Label = outcomes Strategy OUTCOME Task, co_occurrences Strategy CO_OCCURS_WITH Strategy,
// each: recent Task RECENT Episode
// name: maintenance.clear_{kind}
// mode: write
// doc: Removes the edges {edge} from nodes {Home}.
// returns: removed integer
MATCH (n:{Home})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:{edge}]->(:{Label})
DELETE r
RETURN count(*) AS removed;

// name: maintenance.put_outcomes
// mode: write
// doc: Writes derived outcome edges; there must be none.
// returns: written integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.strategy})
MATCH (t:Task {id: row.task})
WITH row, s, t, s.ns AS ns, t.ns AS other WHERE ns = $ns AND other = $ns
CREATE (s)-[:OUTCOME {agent: row.agent, outcomes(row), last_at: row.last_at, latest: row.latest}]->(t)
RETURN count(*) AS written;

// name: maintenance.put_co_occurrences
// mode: write
// doc: Writes derived co-occurrence edges; there must be none.
// returns: written integer
UNWIND $rows AS row
MATCH (x:Strategy {id: row.low})
MATCH (y:Strategy {id: row.high})
WITH row, x, y, x.ns AS ns, y.ns AS other WHERE ns = $ns AND other = $ns
CREATE (x)-[:CO_OCCURS_WITH {count: row.count, successes: row.successes, undated: row.undated, weight: row.weight,
  last_at: row.last_at}]->(y)
RETURN count(*) AS written;

// name: maintenance.put_tasks
// mode: write
// doc: Writes derived descriptions, types, scores and dates of tasks.
// returns: written integer
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
WITH row, t, t.ns AS ns WHERE ns = $ns
SET t.description = row.description, t.described_at = row.described_at, t.described_by = row.described_by,
    t.type = row.type, t.type_rule = row.type_rule, t.typed_at = row.typed_at, t.typed_by = row.typed_by, t.created_at = row.created_at,
    t.episodes = row.episodes, t.successes = row.successes, t.score_sum = row.score_sum
RETURN count(t) AS written;

// name: maintenance.put_agents
// mode: write
// doc: Writes derived dates of agents.
// returns: written integer
UNWIND $rows AS row
MATCH (a:Agent {id: row.id})
WITH row, a, a.ns AS ns WHERE ns = $ns
SET a.created_at = row.created_at
RETURN count(a) AS written;

// each: kind Home edge = heuristics Strategy RECOMMENDS, anti_patterns Strategy WARNS_AGAINST, tallies Agent COUNTS
// name: maintenance.clear_{kind}
// mode: write
// doc: Removes the {kind} of nodes {Home}.
// returns: removed integer
MATCH (h:{Home})
WHERE h.id IN $ids AND toString(h.ns) = $ns
MATCH (h)<-[:{edge}]-(n)
DETACH DELETE n
RETURN count(*) AS removed;

// name: maintenance.put_tallies
// mode: write
// doc: Writes derived tallies of agents; there must be none.
// returns: written integer
UNWIND $rows AS row
MATCH (a:Agent {id: row.home})
WITH row, a, a.ns AS ns WHERE ns = $ns
CREATE (:Tally {id: row.id, ns: $ns, created_at: row.created_at, agent: row.agent, type: row.type, trials: row.trials,
  successes: row.successes, effective_trials: row.effective_trials, effective_successes: row.effective_successes})-[:COUNTS]->(a)
RETURN count(*) AS written;

// each: Label kind edge other = Strategy strategies USED false, Task tasks ATTEMPTED false, Rule rules LISTED n.source<>'episodes',
// each: Mistake mistakes MADE false
// name: maintenance.drop_{kind}
// mode: write
// doc: Removes the given {kind} (of rules those of episodes) that no episode has any more.
// returns: removed integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns AND NOT coalesce({other}, false) AND NOT (n)<-[:{edge}]-()
DETACH DELETE n
RETURN count(*) AS removed;

// each: Label kind edge = Heuristic heuristics RECOMMENDS, AntiPattern anti_patterns WARNS_AGAINST, Tally tallies COUNTS
// name: maintenance.drop_loose_{kind}
// mode: write
// doc: Removes {kind} that lost their edge {edge}: nothing finds them, and their ids are taken.
// returns: removed integer
MATCH (n:{Label})
WHERE n.ns = $ns AND NOT (n)-[:{edge}]->()
DETACH DELETE n
RETURN count(*) AS removed;

// name: maintenance.drop_agents
// mode: write
// doc: Removes the given agents that ran no episode, with their tallies.
// returns: removed integer
MATCH (n:Agent)
WHERE n.id IN $ids AND toString(n.ns) = $ns AND NOT (n)-[:RAN]->()
OPTIONAL MATCH (n)<-[:COUNTS]-(y:Tally)
WITH n, collect(y) AS tallies
FOREACH (gone IN tallies | DETACH DELETE gone)
DETACH DELETE n
RETURN count(*) AS removed;

// name: maintenance.stats
// install: stats
// doc: Counts of a namespace.
// returns: name string, value integer
MATCH (t:Task) WHERE t.ns = $ns
WITH count(t) AS tasks, sum(t.episodes) AS episodes, sum(t.successes) AS successes
UNWIND [{name: 'tasks', value: tasks}, {name: 'episodes', value: episodes}, {name: 'successes', value: successes}] AS one
RETURN one.name AS name, one.value AS value
UNION ALL
MATCH (e:Episode) WHERE e.ns = $ns
WITH sum(e.step_count) AS steps, min(coalesce(e.started_at, e.ended_at)) AS first, max(coalesce(e.ended_at, e.started_at)) AS last
UNWIND [{name: 'steps', value: steps}, {name: 'first_at', value: first}, {name: 'last_at', value: last}] AS one
RETURN one.name AS name, one.value AS value
UNION ALL
MATCH (a:Agent) WHERE a.ns = $ns RETURN 'agents' AS name, count(a) AS value
UNION ALL
MATCH (s:Strategy) WHERE s.ns = $ns
WITH count(s) AS strategies, sum(COUNT { (s)-[:OUTCOME]->() }) AS outcomes, sum(COUNT { (s)-[:CO_OCCURS_WITH]->() }) AS pairs
UNWIND [{name: 'strategies', value: strategies}, {name: 'outcomes', value: outcomes}, {name: 'co_occurrences', value: pairs}] AS one
RETURN one.name AS name, one.value AS value
UNION ALL
MATCH (t:Stream) WHERE t.ns = $ns RETURN 'events' AS name, sum(t.last) AS value
UNION ALL
MATCH (p:Policy) WHERE p.ns = $ns RETURN 'policies' AS name, count(p) AS value
UNION ALL
MATCH (s:State) WHERE s.ns = $ns RETURN 'states' AS name, count(s) AS value
UNION ALL
MATCH (a:Abandoned) WHERE a.ns = $ns RETURN 'abandoned' AS name, count(a) AS value;

// name: maintenance.namespaces
// doc: The namespaces of a store, with their sizes.
// returns: namespace string, episodes integer
MATCH (e:Episode)
RETURN e.ns AS namespace, count(e) AS episodes
ORDER BY namespace;

// name: maintenance.inhabited
// doc: The namespaces of a store that hold anything.
// returns: namespace string
MATCH (n:Agent) RETURN n.ns AS namespace
UNION MATCH (n:Stream) RETURN n.ns AS namespace
UNION MATCH (n:User) RETURN n.ns AS namespace
UNION MATCH (n:Knowledge) RETURN n.ns AS namespace
UNION MATCH (n:LearningScope) RETURN n.ns AS namespace
UNION MATCH (n:Level) RETURN n.ns AS namespace
UNION MATCH (n:Lens) RETURN n.ns AS namespace
UNION MATCH (n:Prediction) RETURN n.ns AS namespace
UNION MATCH (n:Abandoned) RETURN n.ns AS namespace
UNION MATCH (n:Document) RETURN n.ns AS namespace;

// name: maintenance.stored_policies
// doc: The policies of a stream, as stored.
// param: stream string
// returns: agent string, policy_facts
MATCH (p:Policy)
WHERE p.ns = $ns AND p.stream = $stream
RETURN p.agent AS agent, policy_facts(p)
ORDER BY id;

// name: maintenance.own_policies
// mode: write
// doc: Writes the name of the agent of policies.
// param: agent string
// returns: written integer
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
SET p.agent = $agent
RETURN count(p) AS written;

// name: maintenance.stored_links
// doc: The co-occurrence edges between the policies of a stream, as stored.
// param: stream string
// returns: low string, high string, count integer, weight float, held integer
MATCH (x:Policy)
WHERE x.ns = $ns AND x.stream = $stream
MATCH (x)-[c:CO_OCCURS_WITH]->(y:Policy)
RETURN x.id AS low, y.id AS high, c.count AS count, c.weight AS weight, c.held AS held
ORDER BY low, high;

// name: maintenance.stored_took
// doc: Whether episodes have an event (those from schema version 1 have none, and count for no policy), and each policy that they took.
// returns: episode string, noted boolean, policy string, steps integer, first integer
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
OPTIONAL MATCH (e)-[k:TOOK]->(p:Policy)
RETURN e.id AS episode, COUNT { (e)<-[:ABOUT]-(:Event) } > 0 AS noted, p.id AS policy, k.steps AS steps, k.first AS first
ORDER BY episode, first;

// name: maintenance.drop_policies
// mode: write
// doc: Removes policies, with their cycles and edges.
// returns: removed integer
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
OPTIONAL MATCH (p)-[:HAS_CYCLE]->(c:Cycle)
WITH p, collect(c) AS cycles
FOREACH (gone IN cycles | DETACH DELETE gone)
DETACH DELETE p
RETURN count(*) AS removed;

// name: maintenance.drop_states
// mode: write
// doc: Removes the given states that have no policy and no transition to them.
// returns: removed integer
MATCH (s:State)
WHERE s.id IN $ids AND toString(s.ns) = $ns AND NOT (s)<-[:IN_STATE]-() AND NOT (s)-[:REACHED_BY]->()
DETACH DELETE s
RETURN count(*) AS removed;

// name: maintenance.drop_stream
// mode: write
// doc: Removes a stream without events, with the cursors of groups in it.
// param: stream string
// returns: removed integer
MATCH (t:Stream {id: $stream})
WITH t, t.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (c:Cursor)-[:READS]->(t)
WITH t, collect(c) AS cursors
OPTIONAL MATCH (k:Claim)
WHERE k.stream = $stream AND k.ns = $ns
WITH t, cursors, collect(k) AS claims
FOREACH (gone IN cursors + claims | DETACH DELETE gone)
DETACH DELETE t
RETURN count(*) AS removed;
