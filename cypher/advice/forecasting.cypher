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

// name: forecasting.links
// doc: What is similar to strategies, or to what counts as one with them, by the id of the whole.
// returns: id string, similar string, similarity float
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH DISTINCT whole(s) AS id
MATCH (:Strategy {id: id})<-[:MERGED_INTO*0..1]-(m:Strategy)
MATCH (m)-[l:SIMILAR_TO]->(n:Strategy)
RETURN id, n.id AS similar, l.similarity AS similarity
ORDER BY id, similar;

// name: forecasting.counts
// doc: The counts of an estimate. Parts: types (of uses of strategies, by type of task), tasks (the given ones), near (of nearby, rows
// doc: {id, similarity}), strategies (ids; with what they count as), typed (own ones by type of task), outcomes (of own ones on the tasks,
// doc: and on near ones, also by weight), weights (of similar strategies, by similarities, in order). least is the cosine of the farthest
// doc: of many that are near, else 0.
// option: some  only episodes of some agents (and types) count, so those of tasks are counted one by one
// param: own list, tasks list, nearby list, least float = 0.0, similarities list, types list = null
// returns: part string, rows list
MATCH (y:Tally)
WHERE y.ns = $ns
  AND y.agent IN $agents AND ($types IS NULL OR y.type IN $types)                                               //? some
WITH y.type AS type, sum(y.trials) AS trials, sum(y.successes) AS successes
RETURN 'types' AS part, collect({type: type, trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
WITH t, t.episodes AS trials, t.successes AS successes                                                          //? !some
OPTIONAL MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                  //? some
WITH t, CASE WHEN a.name IN $agents AND ($types IS NULL OR e.type IN $types) THEN e END AS e                    //? some
WITH t, count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes                             //? some
RETURN 'tasks' AS part, collect({id: t.id, type: t.type, trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (v:Embedder {id: $id})
UNWIND $nearby AS row
MATCH (t:Task {id: row.id})
WITH row.similarity AS similarity, edge_of($least, coalesce(v.floor, v.near)) AS edge, t, t.ns AS ns WHERE ns = $ns
WITH t, similarity, edge, t.episodes AS trials, t.successes AS successes                                        //? !some
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                           //? some
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                //? some
WITH t, similarity, edge, count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes           //? some
RETURN 'near' AS part, collect({id: t.id, text: t.description, similarity: similarity, weight: nearness(similarity, edge),
  trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH s.id AS id, s.text AS text, whole(s) AS whole
MATCH (:Strategy {id: whole})<-[:MERGED_INTO*0..1]-(m:Strategy)
WITH id, text, whole, sum(m.trials) AS trials, sum(m.successes) AS successes
RETURN 'strategies' AS part, collect({id: id, whole: whole, text: text, trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
WITH DISTINCT whole(s) AS whole
MATCH (:Strategy {id: whole})<-[:MERGED_INTO*0..1]-(m:Strategy)
MATCH (m)<-[:RECOMMENDS]-(h:Heuristic)
WHERE h.agent IN $agents AND ($types IS NULL OR h.type IN $types)                                               //? some
WITH whole, h.type AS type, sum(h.trials) AS trials, sum(h.successes) AS successes
RETURN 'typed' AS part, collect({whole: whole, type: type, trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
WITH collect(DISTINCT whole(s)) AS wholes
OPTIONAL MATCH (v:Embedder {id: $id})
WITH wholes, edge_of($least, coalesce(v.floor, v.near, 1.0)) AS edge
UNWIND [task IN $tasks | {id: task, similarity: null}] + $nearby AS row
MATCH (t:Task {id: row.id})
WITH wholes, row.similarity IS NULL AS own, nearness(coalesce(row.similarity, 0.0), edge) AS weight, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE whole(s) IN wholes
  AND o.agent IN $agents                                                                                        //? some
WITH whole(s) AS whole, sum(CASE WHEN own THEN o.trials ELSE 0 END) AS trials,
  sum(CASE WHEN own THEN o.successes ELSE 0 END) AS successes, sum(CASE WHEN own THEN 0 ELSE o.trials END) AS near_trials,
  sum(CASE WHEN own THEN 0 ELSE o.successes END) AS near_successes, sum(CASE WHEN own THEN 0.0 ELSE weight * o.trials END) AS near_weight,
  sum(CASE WHEN own THEN 0.0 ELSE weight * o.successes END) AS near_won
RETURN 'outcomes' AS part, collect({whole: whole, trials: trials, successes: successes, near_trials: near_trials,
  near_successes: near_successes, near_weight: near_weight, near_won: near_won}) AS rows
UNION ALL
MATCH (v:Embedder {id: $id})
UNWIND $similarities AS similarity
WITH nearness(similarity, v.similar) AS weight
RETURN 'weights' AS part, collect({weight: weight}) AS rows;

// name: forecasting.pool
// install: pooled_outcome
// doc: The probability that strategies work on a task, from counts. Every rate is shrunk toward the next wider one: that of the task to
// doc: that of near tasks (by weight), of its type, of all; that of a strategy on the type to that on other types, of similar strategies
// doc: (by weight), of all. Task and strategy add up as logits; the outcomes of the strategy on near tasks, then on the task itself,
// doc: update this prior. Several strategies give the mean of their logits, weighted by 1/(trials + 1)². The concentration is what the
// doc: rate on this task is worth in trials; worth leaves out what no trial elsewhere tells, that tasks differ; lower is the Wilson bound
// doc: of that. Rows: {place, trials, successes, type_trials, type_successes, near_weight, near_won, cell_trials, cell_successes, borrowed
// doc: [{weight, trials, successes}]}; the last like `task_borrowed`.
// param: trials integer, successes integer, type_trials integer = 0, type_successes integer = 0, task_trials integer
// param: task_successes integer, task_borrowed list, rows, prior_successes
// param: prior_failures, task_strength float = 2.0, strategy_strength float = 2.0, cell_strength float = 2.0, near_strength float = 2.0
// param: task_slope float = 1.0, strategy_slope float = 1.0, z float = 1.0
// returns: probability float, concentration float, parts list
WITH posterior_mean($successes, $trials, $prior_successes, $prior_failures) AS rate
WITH rate, shrunk($type_successes, $type_trials, rate, $task_strength) AS type_rate,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight * n.successes) AS k,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight * n.trials) AS n,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight) AS lent
WITH rate, type_rate, $task_trials + $task_strength + lent AS task_known, shrunk(k, n, type_rate, $task_strength) AS near_rate
WITH rate, type_rate, near_rate, task_known, shrunk($task_successes, $task_trials, near_rate, $task_strength) AS task_rate
UNWIND $rows AS row
WITH rate, type_rate, near_rate, task_known, task_rate, row,
     row.trials - row.type_trials AS others, row.successes - row.type_successes AS others_won,
     reduce(sum = 0.0, n IN row.borrowed | sum + n.weight * n.successes) AS k,
     reduce(sum = 0.0, n IN row.borrowed | sum + n.weight * n.trials) AS n
WITH rate, type_rate, near_rate, task_known, task_rate, row, others, others_won, shrunk(k, n, rate, $strategy_strength) AS lent_rate
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate,
     shrunk(others_won, others, lent_rate, $strategy_strength) AS other_rate
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate, other_rate,
     logit(other_rate) - logit(rate) + logit(type_rate) AS position
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate, other_rate, logistic(position) AS expected
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate, other_rate,
     shrunk(row.type_successes, row.type_trials, expected, $strategy_strength) AS strategy_rate
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate, other_rate, strategy_rate,
     logit(type_rate) + $task_slope * (logit(task_rate) - logit(type_rate))
     + $strategy_slope * (logit(strategy_rate) - logit(type_rate)) AS position
WITH rate, type_rate, near_rate, task_known, task_rate, row, lent_rate, other_rate, strategy_rate, logistic(position) AS prior
WITH rate, type_rate, near_rate, task_rate, row, lent_rate, other_rate, strategy_rate, prior,
     shrunk(row.near_won, row.near_weight, prior, $near_strength) AS near,
     prior * (1.0 - prior) * $strategy_slope * $strategy_slope
       / ((row.trials + $strategy_strength) * strategy_rate * (1.0 - strategy_rate)) AS unknown,
     prior * (1.0 - prior) * $task_slope * $task_slope / (task_known * task_rate * (1.0 - task_rate)) AS unknown_task
WITH rate, type_rate, near_rate, task_rate, row, lent_rate, other_rate, strategy_rate, prior, near,
     shrunk(row.cell_successes, row.cell_trials, near, $cell_strength) AS probability,
     row.cell_trials + 1.0 / (1.0 / $cell_strength + 1.0 / (1.0 / (unknown + unknown_task) + row.near_weight)) AS concentration,
     row.cell_trials + row.near_weight + 1.0 / unknown AS worth,
     1.0 / ((row.trials + 1) * (row.trials + 1)) AS weight
ORDER BY row.place
WITH sum(weight * logit(probability)) AS position, sum(weight * concentration) AS concentrations, sum(weight) AS weights,
  collect({rate: rate, type_rate: type_rate, near_rate: near_rate, task_rate: task_rate, lent_rate: lent_rate, other_rate: other_rate,
  strategy_rate: strategy_rate, prior: prior, near: near, probability: probability, concentration: concentration, worth: worth,
  weight: weight, lower: wilson_lower(probability * worth, worth, $z)}) AS parts
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
