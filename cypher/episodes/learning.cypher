// Learning: facts and the counts that follow from them, in one transaction.
//
// Nodes are created with all their properties at once: the embedded engine copies a label whose
// nodes got theirs by SET in every later transaction. Where two writers of a server create the
// same node, a constraint stops one of them, and its transaction is run again.
//
// Every procedure takes a batch of rows, one an episode:
//   {id, content_hash, agent, agent_name, task, task_key, keyed, description, task_type, at,
//    used_at, success (0 or 1), score, reward, error, feedback, summary, started_at, ended_at,
//    duration, step_count, use_count, source_key, source, extra, type, type_rule, inferred, inferred_rule, error_class,
//    steps [{id, index, action_type, action, observation, reward, error, state, next_state,
//      terminal}], uses [{strategy, text, rank, credit, shown, applied, heuristic, anti_pattern}]}
// `at` orders episodes (ended, else started, else recorded), `used_at` is null without a date.
// Rows come in the order of their ids, and nodes are touched in the order of theirs: agents,
// tasks, strategies. Each is locked, by a SET, before it is read.

// name: learning.known
// doc: Which episodes are known, and what they hold.
// returns: id string, content_hash string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
RETURN e.id AS id, e.content_hash AS content_hash;

// name: learning.there
// doc: Which of some agents, tasks and strategies there are.
// param: agents list, tasks list, strategies list
// returns: id string
MATCH (a:Agent)
WHERE a.id IN $agents AND toString(a.ns) = $ns
RETURN a.id AS id
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
RETURN t.id AS id
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $strategies AND toString(s.ns) = $ns
RETURN s.id AS id;

// name: learning.lock_agents
// mode: write
// doc: Locks agents, in the order of their ids, until the transaction ends.
// returns: agents integer
UNWIND $ids AS id
WITH id ORDER BY id
MATCH (a:Agent {id: id})
WITH a, a.ns AS ns WHERE ns = $ns
SET a.ns = ns
RETURN count(*) AS agents;

// name: learning.entities
// mode: write
// doc: Creates the agents, tasks and strategies of new episodes that are not there yet; the texts of the latter two wait for their vectors.
// returns: agents integer, tasks integer, strategies integer
UNWIND $rows AS row
WITH DISTINCT row.agent AS id, row.agent_name AS name
ORDER BY id
OPTIONAL MATCH (a:Agent {id: id})
WITH id, name, a WHERE a IS NULL
CREATE (:Agent {id: id, ns: $ns, name: name, created_at: $now})
WITH count(*) AS agents
UNWIND $rows AS row
WITH agents, row.task AS id, collect(row)[0] AS any
ORDER BY id
OPTIONAL MATCH (t:Task {id: id})
WITH agents, id, any, t WHERE t IS NULL
CREATE (:Task {id: id, ns: $ns, key: any.task_key, description: any.description, described_at: any.at, described_by: any.id,
  type: any.inferred, type_rule: any.inferred_rule, typed_at: null, typed_by: null, created_at: $now, episodes: 0, score_sum: 0.0}),
  (:Pending {id: id, ns: $ns, kind: 'Task', created_at: $now})
WITH max(agents) AS agents, count(*) AS tasks
UNWIND $rows AS row
UNWIND row.uses AS use
WITH DISTINCT agents, tasks, use.strategy AS id, use.text AS text
ORDER BY id
OPTIONAL MATCH (s:Strategy {id: id})
WITH agents, tasks, id, text, s WHERE s IS NULL
CREATE (:Strategy {id: id, ns: $ns, text: text, created_at: $now, trials: 0, successes: 0, credit_sum: 0.0, score_sum: 0.0,
  last_used_at: null, reads: 0, last_read_at: null, merged_into: null}), (:Pending {id: id, ns: $ns, kind: 'Strategy', created_at: $now})
RETURN coalesce(max(agents), 0) AS agents, coalesce(max(tasks), 0) AS tasks, count(*) AS strategies;

// name: learning.agents
// mode: write
// doc: The date of agents is that of their first episode.
// returns: agents integer
UNWIND $rows AS row
WITH DISTINCT row.agent AS id ORDER BY id
MATCH (a:Agent {id: id})
SET a.ns = $ns
WITH a, CASE WHEN a.created_at > $now THEN $now ELSE a.created_at END AS created_at
SET a.created_at = created_at
RETURN count(*) AS agents;

// name: learning.tasks
// mode: write
// doc: What tasks say of themselves: description and type are those of the latest episode that has one; without a type that was given, it
// doc: is the type of the description. Adds the scores; returns whose description changed, and which have more than twenty episodes.
// returns: tasks integer, described list, crowded list
UNWIND $rows AS row
WITH row ORDER BY row.task, row.at DESC, row.id DESC
WITH row.task AS id, collect(row)[0] AS latest, collect(CASE WHEN row.task_type IS NULL THEN null ELSE row END)[0] AS typed,
     count(*) AS episodes, sum(row.score) AS score_sum
ORDER BY id
MATCH (t:Task {id: id})
SET t.ns = $ns
WITH t, latest, typed, coalesce(t.episodes, 0) + episodes AS episodes, coalesce(t.score_sum, 0.0) + score_sum AS score_sum,
     CASE WHEN t.created_at > $now THEN $now ELSE t.created_at END AS created_at,
     latest.at > t.described_at OR (latest.at = t.described_at AND latest.id > t.described_by) AS describes,
     typed IS NOT NULL AND (t.typed_at IS NULL OR typed.at > t.typed_at OR (typed.at = t.typed_at AND typed.id > t.typed_by)) AS types
WITH t, created_at, episodes, score_sum, describes AND typed IS NULL AND t.typed_at IS NULL AS infers, latest,
     CASE WHEN describes THEN latest.description ELSE t.description END AS description,
     CASE WHEN describes THEN latest.at ELSE t.described_at END AS described_at,
     CASE WHEN describes THEN latest.id ELSE t.described_by END AS described_by,
     CASE WHEN types THEN typed.task_type ELSE t.type END AS type, CASE WHEN types THEN 'given' ELSE t.type_rule END AS type_rule,
     CASE WHEN types THEN typed.at ELSE t.typed_at END AS typed_at,
     CASE WHEN types THEN typed.id ELSE t.typed_by END AS typed_by
WITH t, created_at, episodes, score_sum, description, described_at, described_by, typed_at, typed_by,
  CASE WHEN infers THEN latest.inferred ELSE type END AS type, CASE WHEN infers THEN latest.inferred_rule ELSE type_rule END AS type_rule,
  CASE WHEN description <> t.description THEN t.id ELSE null END AS described
SET t.created_at = created_at, t.description = description, t.described_at = described_at, t.described_by = described_by,
    t.type = type, t.type_rule = type_rule, t.typed_at = typed_at, t.typed_by = typed_by, t.episodes = episodes, t.score_sum = score_sum
RETURN count(*) AS tasks, collect(described) AS described, collect(CASE WHEN episodes > 20 THEN t.id ELSE null END) AS crowded;

// name: learning.strategies
// mode: write
// doc: The counts of strategies over all tasks and agents.
// returns: strategies integer
UNWIND $rows AS row
UNWIND row.uses AS use
WITH use.strategy AS id,
     sum(CASE WHEN use.applied THEN 1 ELSE 0 END) AS trials,
     sum(CASE WHEN use.applied THEN row.success ELSE 0 END) AS successes,
     sum(CASE WHEN use.applied THEN use.credit ELSE 0.0 END) AS credit_sum,
     sum(CASE WHEN use.applied THEN use.credit * row.score ELSE 0.0 END) AS score_sum,
     max(CASE WHEN use.applied THEN row.used_at ELSE null END) AS used_at
ORDER BY id
MATCH (s:Strategy {id: id})
SET s.ns = $ns
WITH s,
     s.trials + trials AS trials,
     s.successes + successes AS successes,
     s.credit_sum + credit_sum AS credit_sum,
     s.score_sum + score_sum AS score_sum,
     later(s.last_used_at, used_at) AS last_used_at,
     CASE WHEN s.created_at > $now THEN $now ELSE s.created_at END AS created_at
SET s.trials = trials, s.successes = successes, s.credit_sum = credit_sum, s.score_sum = score_sum,
    s.last_used_at = last_used_at, s.created_at = created_at
RETURN count(*) AS strategies;

// name: learning.record
// mode: write
// doc: New episodes, who ran them, and what they attempted.
// returns: episodes integer
UNWIND $rows AS row
MATCH (a:Agent {id: row.agent})
MATCH (t:Task {id: row.task})
CREATE (a)-[:RAN]->(e:Episode {id: row.id, ns: $ns, created_at: $now, recorded_at: $now, content_hash: row.content_hash,
  task: row.description, keyed: row.keyed, task_type: row.task_type, success: row.success = 1, score: row.score, reward: row.reward,
  error: row.error, feedback: row.feedback, summary: row.summary, started_at: row.started_at, ended_at: row.ended_at,
  duration: row.duration, step_count: row.step_count, use_count: row.use_count, source_key: row.source_key, source: row.source,
  extra: row.extra, type: row.type, type_rule: row.type_rule, error_class: row.error_class})
CREATE (e)-[:ATTEMPTED]->(t)
RETURN count(*) AS episodes;

// name: learning.uses
// mode: write
// doc: The strategies that new episodes used.
// returns: uses integer
UNWIND $rows AS row
MATCH (e:Episode {id: row.id})
UNWIND row.uses AS use
MATCH (s:Strategy {id: use.strategy})
CREATE (e)-[:USED {rank: use.rank, credit: use.credit, shown: use.shown, applied: use.applied}]->(s)
RETURN count(*) AS uses;

// name: learning.steps
// mode: write
// doc: The steps of new episodes.
// returns: steps integer
UNWIND $rows AS row
MATCH (e:Episode {id: row.id})
UNWIND row.steps AS step
CREATE (e)-[:HAS_STEP]->(:Step {id: step.id, ns: $ns, created_at: $now, index: step.index, action_type: step.action_type,
  action: step.action, observation: step.observation, reward: step.reward, error: step.error, state: step.state,
  next_state: step.next_state, terminal: step.terminal})
RETURN count(*) AS steps;

// name: learning.outcomes
// mode: write
// doc: The weighted outcome edges from strategies to tasks, one an agent.
// returns: outcomes integer
UNWIND $rows AS row
UNWIND row.uses AS use
WITH row, use WHERE use.applied
WITH use.strategy AS strategy, row.task AS task, row.agent_name AS agent,
     count(*) AS trials, sum(row.success) AS successes, sum(use.credit) AS credit_sum,
     sum(use.credit * row.score) AS score_sum, max(row.used_at) AS used_at
ORDER BY strategy, task, agent
MATCH (s:Strategy {id: strategy})
MATCH (t:Task {id: task})
OPTIONAL MATCH (t)<-[o:OUTCOME {agent: agent}]-(s)
WITH s, t, o, agent,
     coalesce(o.trials, 0) + trials AS trials,
     coalesce(o.successes, 0) + successes AS successes,
     coalesce(o.credit_sum, 0.0) + credit_sum AS credit_sum,
     coalesce(o.score_sum, 0.0) + score_sum AS score_sum,
     later(o.last_at, used_at) AS last_at
FOREACH (ignored IN CASE WHEN o IS NULL THEN [1] ELSE [] END |
  CREATE (s)-[:OUTCOME {agent: agent, trials: trials, successes: successes, credit_sum: credit_sum, score_sum: score_sum,
  last_at: last_at}]->(t))
FOREACH (edge IN CASE WHEN o IS NULL THEN [] ELSE [o] END |
  SET edge.trials = trials, edge.successes = successes, edge.credit_sum = credit_sum, edge.score_sum = score_sum, edge.last_at = last_at)
RETURN count(*) AS outcomes;

// name: learning.co_occurrences
// mode: write
// doc: The co-occurrence edges between strategies of one episode, from the smaller id. The weight is a count that decays with the
// doc: half-life, held at last_at; episodes without a time add 1 that does not decay (kept in undated).
// param: half_life float
// returns: co_occurrences integer
UNWIND $rows AS row
UNWIND row.uses AS a
UNWIND row.uses AS b
WITH row, a, b WHERE a.strategy < b.strategy AND a.applied AND b.applied
WITH a.strategy AS low, b.strategy AS high, count(*) AS times, sum(row.success) AS successes,
     collect(row.used_at) AS dates, max(row.used_at) AS latest
ORDER BY low, high
MATCH (x:Strategy {id: low})
MATCH (y:Strategy {id: high})
OPTIONAL MATCH (x)-[c:CO_OCCURS_WITH]->(y)
WITH x, y, c, dates, coalesce(c.count, 0) + times AS count, coalesce(c.successes, 0) + successes AS successes,
     coalesce(c.undated, 0) + times - size(dates) AS undated, coalesce(c.weight - c.undated, 0.0) AS dated, c.last_at AS before,
     later(c.last_at, latest) AS last_at
WITH x, y, c, count, successes, undated, last_at,
     undated + CASE WHEN before IS NULL THEN 0.0 ELSE dated * decayed(before, last_at, $half_life) END
     + reduce(sum = 0.0, date IN dates | sum + decayed(date, last_at, $half_life)) AS weight
FOREACH (ignored IN CASE WHEN c IS NULL THEN [1] ELSE [] END |
  CREATE (x)-[:CO_OCCURS_WITH {count: count, successes: successes, undated: undated, weight: weight, last_at: last_at}]->(y))
FOREACH (edge IN CASE WHEN c IS NULL THEN [] ELSE [c] END |
  SET edge.count = count, edge.successes = successes, edge.undated = undated, edge.weight = weight, edge.last_at = last_at)
RETURN count(*) AS co_occurrences;

// name: learning.episodes
// doc: Episodes with everything that was learned of them but their steps and strategies.
// returns: id string, agent string, task_key string, facts map
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (a:Agent)-[:RAN]->(e)
MATCH (e)-[:ATTEMPTED]->(t:Task)
RETURN e.id AS id, a.name AS agent, t.key AS task_key,
  {content_hash: e.content_hash, recorded_at: e.recorded_at, task: e.task, keyed: e.keyed, task_type: e.task_type, success: e.success,
  score: e.score, reward: e.reward, error: e.error, feedback: e.feedback, summary: e.summary, started_at: e.started_at,
  ended_at: e.ended_at, duration: e.duration, step_count: e.step_count, use_count: e.use_count, source_key: e.source_key, source: e.source,
  extra: e.extra} AS facts;

// name: learning.uses_of
// doc: The strategies that episodes used, by rank.
// returns: id string, rank integer, text string, credit float, shown boolean, applied boolean
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
RETURN e.id AS id, u.rank AS rank, s.text AS text, u.credit AS credit, u.shown AS shown, u.applied AS applied
ORDER BY id, rank;

// name: learning.steps_of
// doc: The steps of episodes, in order.
// returns: id string, index integer, action_type string, action string, observation string, reward float, error string, state string
// returns: next_state string, terminal boolean
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:HAS_STEP]->(s:Step)
RETURN e.id AS id, s.index AS index, s.action_type AS action_type, s.action AS action, s.observation AS observation,
       s.reward AS reward, s.error AS error, s.state AS state, s.next_state AS next_state, s.terminal AS terminal
ORDER BY id, index;

// name: learning.best
// install: best_strategies
// doc: Strategies by the lower bound of their success rate over all tasks and agents; without those that were merged.
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, mean_score float
// returns: last_used_at integer, tasks integer, agents list
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.trials > 0 AND s.merged_into IS NULL
WITH s, wilson_lower(s.successes, s.trials, $z) AS lower, posterior_mean(s.successes, s.trials, $prior_successes, $prior_failures) AS mean
ORDER BY lower DESC, mean DESC, s.id
LIMIT $limit
WITH s, lower, mean, wilson_upper(s.successes, s.trials, $z) AS upper
MATCH (s)-[o:OUTCOME]->(t:Task)
WITH s, lower, mean, upper, count(DISTINCT t.id) AS tasks, collect(DISTINCT o.agent) AS agents
RETURN s.id AS id, s.text AS text, s.trials AS trials, s.successes AS successes, mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status,
       CASE WHEN s.credit_sum > 0 THEN s.score_sum / s.credit_sum ELSE null END AS mean_score,
       s.last_used_at AS last_used_at, tasks, agents
ORDER BY lower DESC, mean DESC, id;

// name: learning.best_of_merged
// install: best_merged_strategies
// doc: The same of strategies that were merged, which count as one.
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, mean_score float
// returns: last_used_at integer, tasks integer, agents list
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.trials > 0 AND s.merged_into IS NOT NULL
WITH s.merged_into AS whole, collect(s.id) AS members, sum(s.trials) AS trials, sum(s.successes) AS successes,
     sum(s.credit_sum) AS credit_sum, sum(s.score_sum) AS score_sum, max(s.last_used_at) AS last_used_at
UNWIND members AS member
MATCH (s:Strategy {id: member})-[o:OUTCOME]->(t:Task)
WITH whole, trials, successes, credit_sum, score_sum, last_used_at, count(DISTINCT t.id) AS tasks, collect(DISTINCT o.agent) AS agents
WITH whole, trials, successes, credit_sum, score_sum, last_used_at, tasks, agents, wilson_lower(successes, trials, $z) AS lower,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean, wilson_upper(successes, trials, $z) AS upper
ORDER BY lower DESC, mean DESC, whole
LIMIT $limit
MATCH (s:Strategy {id: whole})
RETURN s.id AS id, s.text AS text, trials, successes, mean, lower, upper, status(lower, upper, $established, $refuted) AS status,
       CASE WHEN credit_sum > 0 THEN score_sum / credit_sum ELSE null END AS mean_score, last_used_at, tasks, agents
ORDER BY lower DESC, mean DESC, id;

// name: learning.best_on
// install: best_strategies_on
// doc: Strategies by the lower bound of their success rate on one task, or on the tasks of a type (no type: on all), by one agent or by
// doc: all.
// param: tasks list, task_type string = null, agent string = null
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, mean_score float
// returns: last_used_at integer, tasks integer, agents list
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns AND ($task_type IS NULL OR t.type = $task_type)
MATCH (s:Strategy)-[o:OUTCOME]->(t)
WHERE $agent IS NULL OR o.agent = $agent
WITH coalesce(s.merged_into, s.id) AS whole, sum(o.trials) AS trials, sum(o.successes) AS successes, sum(o.credit_sum) AS credit_sum,
  sum(o.score_sum) AS score_sum, max(o.last_at) AS last_used_at, count(DISTINCT t.id) AS tasks, collect(DISTINCT o.agent) AS agents
WITH whole, trials, successes, credit_sum, score_sum, last_used_at, tasks, agents,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
     wilson_lower(successes, trials, $z) AS lower, wilson_upper(successes, trials, $z) AS upper
ORDER BY lower DESC, mean DESC, whole
LIMIT $limit
MATCH (s:Strategy {id: whole})
RETURN s.id AS id, s.text AS text, trials, successes, mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status,
       CASE WHEN credit_sum > 0 THEN score_sum / credit_sum ELSE null END AS mean_score,
       last_used_at, tasks, agents
ORDER BY lower DESC, mean DESC, id
LIMIT $limit;

// name: learning.find_tasks
// doc: The ids of the tasks of a type, or of all.
// param: task_type string
// returns: id string
MATCH (t:Task)
WHERE t.ns = $ns AND ($task_type IS NULL OR t.type = $task_type)
RETURN t.id AS id
ORDER BY id;

// name: learning.evidence
// install: evidence
// doc: The latest episodes in which a strategy was applied; the error is that of the episode, else the last one of its steps.
// param: strategy string, limit integer
// returns: evidence_columns
MATCH (s:Strategy {id: $strategy})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (a:Agent)-[:RAN]->(e:Episode)-[u:USED]->(s)
WHERE u.applied
WITH e, a ORDER BY coalesce(e.ended_at, e.started_at, e.recorded_at) DESC, e.id LIMIT $limit
OPTIONAL MATCH (e)-[:HAS_STEP]->(x:Step)
WITH e, a, x.error AS error, x.index AS place
ORDER BY place DESC
WITH e, a, collect(error) AS errors
RETURN evidence_columns(e, a, errors)
ORDER BY coalesce(e.ended_at, e.started_at, e.recorded_at) DESC, id;

// name: learning.count_reads
// mode: write
// doc: Adds reads of strategies that were counted beside the graph. Rows: {id, reads, at}.
// returns: items integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.id})
WITH row, s, s.ns AS ns WHERE ns = $ns
SET s.ns = $ns
WITH s, coalesce(s.reads, 0) + row.reads AS reads, later(s.last_read_at, row.at) AS last_read_at
SET s.reads = reads, s.last_read_at = last_read_at
RETURN count(*) AS items;
