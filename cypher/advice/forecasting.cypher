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

// name: forecasting.counts
// doc: The counts of an estimate. Parts: all (uses of strategies, those on the type, and whose), strengths (of pooling), task (the given
// doc: tasks together), near (of the near tasks), strategies (the given ones), links (to strategies like these), outcomes (of the given
// doc: ones on the tasks), near outcomes (of the given ones on near tasks, also by weight), merged (what strategies count as, if any are
// doc: merged). cosines are those of near tasks, by id; at the edge one counts for nothing.
// option: some  only episodes of some agents (and types) count, so those of tasks are counted one by one
// param: own list, tasks list, near_tasks list, cosines map, edge float, type string = null, pooling string
// param: types list = null
// returns: part string, rows list
MATCH (y:Tally)
WHERE y.ns = $ns
  AND y.agent IN $agents AND ($types IS NULL OR y.type IN $types)                                               //? some
WITH sum(y.trials) AS trials, sum(y.successes) AS successes, sum(CASE WHEN y.type = $type THEN y.trials ELSE 0 END) AS type_trials,
  sum(CASE WHEN y.type = $type THEN y.successes ELSE 0 END) AS type_successes,
  collect(CASE WHEN y.type = $type THEN {agent: y.agent, type: y.type} END) AS tallies                          //? !some
  collect({agent: y.agent, type: y.type}) AS tallies                                                            //? some
RETURN 'all' AS part, [{trials: trials, successes: successes, type_trials: type_trials, type_successes: type_successes,
  tallies: tallies}] AS rows
UNION ALL
MATCH (p:Pooling {id: $pooling})
WITH p, p.ns AS ns WHERE ns = $ns
RETURN 'strengths' AS part, [{task_strength: p.task_strength, strategy_strength: p.strategy_strength, cell_strength: p.cell_strength,
  task_slope: p.task_slope, strategy_slope: p.strategy_slope, trials: p.trials, gain: p.gain, score: p.score, fitted: p.fitted}] AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
WITH sum(t.episodes) AS trials, sum(t.successes) AS successes                                                   //? !some
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                           //? some
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                //? some
WITH count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes                                //? some
RETURN 'task' AS part, [{trials: trials, successes: successes}] AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $near_tasks AND toString(t.ns) = $ns
WITH t, t.episodes AS trials, t.successes AS successes                                                          //? !some
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                           //? some
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                //? some
WITH t, count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes                                //? some
RETURN 'near' AS part, collect({id: t.id, text: t.description, similarity: $cosines[t.id], weight: nearness($cosines[t.id], $edge),
  trials: trials, successes: successes}) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
RETURN 'strategies' AS part, collect({id: s.id, text: s.text, trials: s.trials, successes: s.successes}) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
MATCH (s)-[l:SIMILAR_TO]->(n:Strategy)
RETURN 'links' AS part, collect({id: s.id, other: n.id, similarity: l.similarity}) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE s.id IN $own
  AND o.agent IN $agents                                                                                        //? some
WITH s.id AS id, sum(o.trials) AS trials, sum(o.successes) AS successes
RETURN 'outcomes' AS part, collect({id: id, here_trials: trials, here_successes: successes}) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $near_tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE s.id IN $own
  AND o.agent IN $agents                                                                                        //? some
WITH s.id AS id, o.trials AS trials, o.successes AS successes, $cosines[t.id] AS cosine
WITH id, trials, successes, nearness(cosine, $edge) AS weight
WITH id, sum(trials) AS near_trials, sum(successes) AS near_successes, sum(weight * trials) AS near_weight,
  sum(weight * successes) AS near_won
RETURN 'near outcomes' AS part, collect({id: id, near_trials: near_trials, near_successes: near_successes, near_weight: near_weight,
  near_won: near_won}) AS rows
UNION ALL
CALL { MATCH ()-[l:MERGED_INTO]->() RETURN count(l) AS links }
WITH links
WHERE links > 0
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN 'merged' AS part, collect({id: s.id, whole: s.merged_into}) AS rows;

// name: forecasting.typed
// doc: The outcomes of heuristics: of agents on types of tasks with strategies.
// returns: id string, trials integer, successes integer
MATCH (h:Heuristic)
WHERE h.id IN $ids AND toString(h.ns) = $ns
RETURN h.id AS id, h.trials AS trials, h.successes AS successes
ORDER BY id;

// name: forecasting.lent
// doc: What similar strategies lend to others: rows {borrower, id, similarity, members}, members being the ids that count as one with it.
// doc: One outcome has a weight from 0 (not similar enough) to 1.
// option: some  only episodes of some agents (and types) count
// param: types list = null, similar float = null
// returns: borrower string, id string, text string, similarity float, weight float, trials integer, successes integer
OPTIONAL MATCH (v:Embedder {id: $id})
WITH coalesce($similar, v.similar, 1.0) AS edge
UNWIND $rows AS row
UNWIND row.members AS member
MATCH (n:Strategy {id: member})
WITH edge, row, n, n.ns AS ns WHERE ns = $ns
WITH edge, row, n.trials AS trials, n.successes AS successes                                                    //? !some
MATCH (n)<-[:RECOMMENDS]-(h:Heuristic)                                                                          //? some
WHERE h.agent IN $agents AND ($types IS NULL OR h.type IN $types)                                               //? some
WITH edge, row, h.trials AS trials, h.successes AS successes                                                    //? some
WITH edge, row.borrower AS borrower, row.id AS id, row.similarity AS similarity, sum(trials) AS trials, sum(successes) AS successes
WHERE trials > 0
MATCH (n:Strategy {id: id})
RETURN borrower, id, n.text AS text, similarity, nearness(similarity, edge) AS weight, trials, successes
ORDER BY similarity DESC, id, borrower;

// name: forecasting.pool
// install: pooled_outcome
// doc: The probability that strategies work on a task, from counts. Every rate is shrunk toward the next wider one. For the task: that of
// doc: near tasks (by weight), of its type, of all. For a strategy on the type: that on other types, of similar strategies (by weight), of
// doc: all; its outcomes on the task itself count later. The distances of task and strategy from the rate of the type add up in logits;
// doc: they count the less, the less the two rates are known. This prior is updated by the outcomes of the strategy on near tasks, then by
// doc: those on the task itself. Several strategies give the mean of their logits, weighted by 1/(trials + 1)². The concentration is the
// doc: worth of the rate on this task in trials; worth leaves out what no trial elsewhere tells, that tasks differ; lower is its Wilson
// doc: bound. Rows: {place, trials, successes, type_trials, type_successes, near_weight, near_won, here_trials, here_successes, borrowed
// doc: [{weight, trials, successes}]}; the last like `task_borrowed`.
// param: trials integer, successes integer, type_trials integer = 0, type_successes integer = 0, task_trials integer
// param: task_successes integer, task_borrowed list, rows, prior_successes
// param: prior_failures, task_strength float = 2.0, strategy_strength float = 2.0, cell_strength float = 1.0, near_strength float = 2.0
// param: task_slope float = 1.0, strategy_slope float = 1.0, z float = 1.0
// returns: probability float, concentration float, parts list
WITH posterior_mean($successes, $trials, $prior_successes, $prior_failures) AS rate
WITH rate, shrunk($type_successes, $type_trials, rate, $task_strength) AS type_rate,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight * n.successes) AS k,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight * n.trials) AS n,
     reduce(sum = 0.0, n IN $task_borrowed | sum + n.weight) AS lent
WITH *, shrunk(k, n, type_rate, $task_strength) AS near_rate, logit(rate) AS middle, logit(type_rate) AS typical
WITH *, shrunk($task_successes, $task_trials, near_rate, $task_strength) AS task_rate
WITH rate, type_rate, near_rate, task_rate, middle, typical, $task_slope * (logit(task_rate) - typical) AS start,
     blurred($task_slope, $task_trials, task_rate, $task_strength + lent, near_rate) AS task_blur
UNWIND $rows AS row
WITH *, reduce(sum = 0.0, n IN row.borrowed | sum + n.weight * n.successes) AS k,
     reduce(sum = 0.0, n IN row.borrowed | sum + n.weight * n.trials) AS n,
     less(row.type_trials, row.here_trials) AS typed, less(row.type_successes, row.here_successes) AS typed_won,
     less(row.trials, larger(row.type_trials, row.here_trials)) AS others,
     less(row.successes, larger(row.type_successes, row.here_successes)) AS others_won
WITH *, shrunk(k, n, rate, $strategy_strength) AS lent_rate
WITH *, shrunk(smaller(others_won, others), others, lent_rate, $strategy_strength) AS other_rate
WITH *, logit(other_rate) - middle + typical AS position
WITH *, logistic(position) AS expected
WITH *, shrunk(smaller(typed_won, typed), typed, expected, $strategy_strength) AS strategy_rate
WITH *, blurred($strategy_slope, typed + others, strategy_rate, $strategy_strength, expected) AS blur
WITH *, typical + (start + $strategy_slope * (logit(strategy_rate) - typical)) / sqrt(1.0 + (task_blur + blur) / 8.0) AS there
WITH *, logistic(there) AS prior
WITH *, shrunk(row.near_won, row.near_weight, prior, $near_strength) AS near, prior * (1.0 - prior) AS spread,
     strategy_rate * (1.0 - strategy_rate) AS own_spread
WITH *, shrunk(row.here_successes, row.here_trials, near, $cell_strength) AS probability,
     1.0 / ((row.trials + 1) * (row.trials + 1)) AS weight,
     row.here_trials + row.near_weight + 1.0 / (smaller(spread, own_spread) * blur) AS worth,
     row.here_trials + 1.0 / (1.0 / $cell_strength + 1.0 / (1.0 / (spread * (task_blur + blur)) + row.near_weight)) AS concentration
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
// doc: The counts of all strategies, and the ids of what they count as.
// returns: id string, whole string, trials integer, successes integer
MATCH (s:Strategy)
WHERE s.ns = $ns
RETURN s.id AS id, whole(s) AS whole, s.trials AS trials, s.successes AS successes
ORDER BY id;

// name: forecasting.cells
// doc: The counts of strategies on tasks, and those of these tasks: the data for fitting strengths.
// returns: task string, task_trials integer, task_successes integer, whole string, trials integer, successes integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
RETURN t.id AS task, t.episodes AS task_trials, t.successes AS task_successes, whole(s) AS whole,
       sum(o.trials) AS trials, sum(o.successes) AS successes
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
