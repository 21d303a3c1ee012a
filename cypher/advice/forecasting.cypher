// Predicts outcomes of strategies on tasks by partial pooling. A trial of a task is an episode that
// attempted it; a trial of a strategy is an episode that applied it. Merged strategies count as
// one, under the id of the whole. `agents` are the agents whose episodes count (null: all),
// `types` the included types of tasks (null: all).

// name: forecasting.totals
// doc: Trials and successes of all strategies together, over all tasks and agents.
// returns: trials integer, successes integer
MATCH (s:Strategy)
WHERE s.ns = $ns
RETURN coalesce(sum(s.trials), 0) AS trials, coalesce(sum(s.successes), 0) AS successes;

// name: forecasting.totals_of
// doc: The same for given agents, on given types of tasks.
// param: agents list, types list = null
// returns: trials integer, successes integer
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.agent IN $agents AND ($types IS NULL OR h.type IN $types)
RETURN coalesce(sum(h.trials), 0) AS trials, coalesce(sum(h.successes), 0) AS successes;

// name: forecasting.tasks
// install: task_rates
// doc: Trials and successes of tasks; tasks without trials are left out.
// param: ids, agents, types list = null
// returns: id string, text string, trials integer, successes integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
RETURN t.id AS id, t.description AS text, count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
ORDER BY id;

// name: forecasting.strategies
// install: strategy_rates
// doc: Trials and successes of strategies over all tasks and agents, including merged ones.
// returns: id string, whole string, text string, members list, trials integer, successes integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH s.id AS id, s.text AS text, s.merged_into AS merged, whole(s) AS whole
OPTIONAL MATCH (w:Strategy {id: merged})<-[:MERGED_INTO]-(m:Strategy)
WITH id, text, whole, collect(m.id) AS parts
UNWIND parts + [whole] AS member
MATCH (m:Strategy {id: member})
RETURN id, whole, text, collect(m.id) AS members, sum(m.trials) AS trials, sum(m.successes) AS successes
ORDER BY id;

// name: forecasting.strategies_of
// doc: Trials and successes of strategies by given agents, by the id of the strategy or of its whole. Rows: {whole, members}.
// param: agents list, types list = null
// returns: whole string, trials integer, successes integer
UNWIND $rows AS row
UNWIND row.members AS member
MATCH (s:Strategy {id: member})
WITH row, s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
WHERE h.agent IN $agents AND ($types IS NULL OR h.type IN $types)
RETURN row.whole AS whole, sum(h.trials) AS trials, sum(h.successes) AS successes
ORDER BY whole;

// name: forecasting.outcomes
// doc: Trials and successes of strategies (wholes, by id) on tasks.
// param: tasks list
// returns: whole string, trials integer, successes integer
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE whole(s) IN $ids AND ($agents IS NULL OR o.agent IN $agents)
WITH whole(s) AS whole, sum(o.trials) AS trials, sum(o.successes) AS successes
RETURN whole, trials, successes
ORDER BY whole;

// each: Label kind = Task tasks, Strategy strategies
// name: forecasting.similar_{kind}
// doc: The {kind} that are similar to given ones.
// returns: id string, similar string, similarity float
MATCH (o:{Label})
WHERE o.id IN $ids AND toString(o.ns) = $ns
MATCH (o)-[l:SIMILAR_TO]->(n:{Label})
RETURN o.id AS id, n.id AS similar, l.similarity AS similarity
ORDER BY id, similarity DESC, similar;

// name: forecasting.pool
// install: pooled_outcome
// doc: The probability that strategies work on a task, from counts. The rates of the task and of a strategy, shrunk toward the overall
// doc: rate, add up as logits; the trials of the strategy on the task update this prior. Several strategies give the mean of their logits,
// doc: weighted by 1/(trials + 1)². A task or strategy without trials borrows from similar ones, weighted by similarity; these count as one
// doc: trial at most for the concentration. Rows: {place, trials, successes, cell_trials, cell_successes, borrowed [{similarity, trials,
// doc: successes}]}; the last like `task_borrowed`.
// param: trials integer, successes integer, task_trials integer, task_successes integer, task_borrowed list, rows, prior_successes
// param: prior_failures, task_strength float = 2.0, strategy_strength float = 2.0, cell_strength float = 2.0, task_slope float = 1.0
// param: strategy_slope float = 1.0
// returns: probability float, concentration float, parts list
WITH posterior_mean($successes, $trials, $prior_successes, $prior_failures) AS rate,
     CASE WHEN $task_trials > 0 THEN [] ELSE $task_borrowed END AS near
WITH rate, $task_successes + reduce(sum = 0.0, n IN near | sum + n.similarity * n.successes) AS k,
     $task_trials + reduce(sum = 0.0, n IN near | sum + n.similarity * n.trials) AS n,
     $task_trials + $task_strength + reduce(sum = 0.0, n IN near | sum + n.similarity) AS task_known
WITH rate, task_known, shrunk(k, n, rate, $task_strength) AS task_rate
UNWIND $rows AS row
WITH rate, task_known, task_rate, row, CASE WHEN row.trials > 0 THEN [] ELSE row.borrowed END AS near
WITH rate, task_known, task_rate, row, row.successes + reduce(sum = 0.0, n IN near | sum + n.similarity * n.successes) AS k,
     row.trials + reduce(sum = 0.0, n IN near | sum + n.similarity * n.trials) AS n,
     row.trials + $strategy_strength + reduce(sum = 0.0, n IN near | sum + n.similarity) AS known
WITH rate, task_known, task_rate, row, known, shrunk(k, n, rate, $strategy_strength) AS strategy_rate
WITH rate, task_known, task_rate, row, known, strategy_rate,
     logit(rate) + $task_slope * (logit(task_rate) - logit(rate)) + $strategy_slope * (logit(strategy_rate) - logit(rate)) AS position
WITH rate, task_known, task_rate, row, known, strategy_rate, logistic(position) AS prior
WITH rate, task_rate, row, strategy_rate, prior, shrunk(row.cell_successes, row.cell_trials, prior, $cell_strength) AS probability,
  row.cell_trials + 1.0 / (1.0 / $cell_strength + prior * (1.0 - prior)
  * ($task_slope * $task_slope / (task_known * task_rate * (1.0 - task_rate)) + $strategy_slope
  * $strategy_slope / (known * strategy_rate * (1.0 - strategy_rate)))) AS concentration,
  1.0 / ((row.trials + 1) * (row.trials + 1)) AS weight
ORDER BY row.place
WITH sum(weight * logit(probability)) AS position, sum(weight * concentration) AS concentrations, sum(weight) AS weights,
  collect({rate: rate, task_rate: task_rate, strategy_rate: strategy_rate, prior: prior, probability: probability,
  concentration: concentration, weight: weight}) AS parts
WITH position, concentrations, CASE WHEN weights > 0.0 THEN weights ELSE null END AS weights, parts
RETURN CASE WHEN size(parts) = 1 THEN parts[0].probability WHEN weights IS NULL THEN null
  ELSE logistic(position / weights) END AS probability, concentrations / weights AS concentration, parts;

// name: forecasting.task_keys
// doc: The attempted tasks.
// returns: id string, key string
MATCH (t:Task)
WHERE t.ns = $ns AND t.episodes > 0
RETURN t.id AS id, t.key AS key
ORDER BY key, id;

// name: forecasting.wholes
// doc: The counts of all strategies, by the id of the strategy or of its whole.
// returns: whole string, trials integer, successes integer
MATCH (s:Strategy)
WHERE s.ns = $ns
RETURN whole(s) AS whole, sum(s.trials) AS trials, sum(s.successes) AS successes
ORDER BY whole;

// name: forecasting.cells
// doc: The counts of strategies on tasks, and of these tasks: the data for fitting strengths.
// returns: task string, task_trials integer, task_successes integer, whole string, trials integer, successes integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)
WITH t.id AS task, count(e) AS task_trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS task_successes
MATCH (t:Task {id: task})
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
RETURN task, task_trials, task_successes, whole(s) AS whole, sum(o.trials) AS trials, sum(o.successes) AS successes
ORDER BY task, whole;

// name: forecasting.pooling
// doc: The strengths of pooling, and the data on which they were fitted.
// returns: task_strength float, strategy_strength float, cell_strength float, task_slope float, strategy_slope float, trials integer
// returns: gain float, score float, fitted boolean
MATCH (p:Pooling)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.task_strength AS task_strength, p.strategy_strength AS strategy_strength, p.cell_strength AS cell_strength,
  p.task_slope AS task_slope, p.strategy_slope AS strategy_slope, p.trials AS trials, p.gain AS gain, p.score AS score, p.fitted AS fitted;

// name: forecasting.drop_pooling
// mode: write
// doc: Removes the strengths of pooling; they are fitted again when needed.
// returns: removed integer
MATCH (p:Pooling)
WHERE p.ns = $ns
DETACH DELETE p
RETURN count(*) AS removed;

// name: forecasting.put_pooling
// mode: write
// doc: Stores strengths of pooling, with a description of their data, if there are none.
// param: strengths map
// returns: written integer
CREATE (:Pooling {id: $id, ns: $ns, created_at: $now, task_strength: $strengths.task_strength,
  strategy_strength: $strengths.strategy_strength, cell_strength: $strengths.cell_strength, task_slope: $strengths.task_slope,
  strategy_slope: $strengths.strategy_slope, trials: $strengths.trials, gain: $strengths.gain, score: $strengths.score,
  fitted: $strengths.fitted})
RETURN count(*) AS written;
