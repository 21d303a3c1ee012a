// Predicts outcomes of strategies on tasks by partial pooling. A trial of a task is an episode that
// attempted it; a trial of a strategy is an episode that applied it. Merged strategies count as
// one, under the id of the whole. `agents` are the agents whose episodes count (null: all),
// `types` the included types of tasks (null: all).

// name: forecasting.totals
// doc: Trials of all strategies together, over all tasks and agents, and what they count.
// option: some  only episodes of some agents (and types) count
// param: types list = null
// returns: trials integer, n float, k float
MATCH (y:Tally)
WHERE y.ns = $ns
  AND y.agent IN $agents AND ($types IS NULL OR y.type IN $types)                                               //? some
RETURN coalesce(sum(y.trials), 0) AS trials, coalesce(sum(y.effective_trials), 0.0) AS n,
  coalesce(sum(y.effective_successes), 0.0) AS k;

// name: forecasting.counts
// doc: The counts of an estimate. Parts: all (uses of strategies, those on the type, and whose: [agent, type]), strengths (of pooling),
// doc: task (episodes of the given tasks), here (uses of all strategies on them), near (near tasks: [id, episodes, successes]), nearest
// doc: (texts of a few tasks: [id, text]), strategies (the given ones: [id, text, trials, successes, n, k, latest]), links (to strategies
// doc: like these: [id, id of the other, similarity, its text, trials and successes]), outcomes (of the given ones on the tasks: [id,
// doc: trials, successes, n, k, latest]), near outcomes (of these on near tasks: [strategy, task, trials, successes, latest]), merged (what
// doc: strategies count as, if any are merged: [id, id of the whole]).
// option: some  only episodes of some agents (and types) count, so those of tasks and strategies are counted one by one
// param: own list, tasks list, near_tasks list, nearest list, type string = null, pooling string
// param: types list = null
// returns: part string, rows list
MATCH (y:Tally)
WHERE y.ns = $ns
  AND y.agent IN $agents AND ($types IS NULL OR y.type IN $types)                                               //? some
WITH sum(y.trials) AS trials, sum(y.successes) AS successes, sum(y.effective_trials) AS n, sum(y.effective_successes) AS k,
  sum(CASE WHEN y.type = $type THEN y.trials ELSE 0 END) AS type_trials,
  sum(CASE WHEN y.type = $type THEN y.successes ELSE 0 END) AS type_successes,
  sum(CASE WHEN y.type = $type THEN y.effective_trials ELSE 0.0 END) AS type_n,
  sum(CASE WHEN y.type = $type THEN y.effective_successes ELSE 0.0 END) AS type_k,
  collect([y.agent, y.type]) AS tallies
RETURN 'all' AS part, [{trials: trials, successes: successes, n: n, k: k, type_trials: type_trials, type_successes: type_successes,
  type_n: type_n, type_k: type_k, tallies: tallies}] AS rows
UNION ALL
MATCH (p:Pooling {id: $pooling})
WITH p, p.ns AS ns WHERE ns = $ns
RETURN 'strengths' AS part, [{task_strength: p.task_strength, strategy_strength: p.strategy_strength, cell_strength: p.cell_strength,
  trials: p.trials, gain: p.gain, score: p.score, fitted: p.fitted}] AS rows
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
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(:Strategy)
WHERE o.agent IN $agents                                                                                        //? some
WITH sum(o.trials) AS trials, sum(o.successes) AS successes, sum(effective(o.trials, o.trials)) AS n,
  sum(effective(o.successes, o.trials)) AS k
RETURN 'here' AS part, [{trials: trials, successes: successes, n: n, k: k}] AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $near_tasks AND toString(t.ns) = $ns
WITH t, t.episodes AS trials, t.successes AS successes                                                          //? !some
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                           //? some
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                //? some
WITH t, count(e) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes                             //? some
RETURN 'near' AS part, collect([t.id, trials, successes]) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $nearest AND toString(t.ns) = $ns
RETURN 'nearest' AS part, collect([t.id, t.description]) AS rows
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
OPTIONAL MATCH (s)-[o:OUTCOME]->(:Task)                                                                         //? some
WHERE o.agent IN $agents                                                                                        //? some
WITH s, o ORDER BY o.last_at DESC                                                                               //? some
WITH s, sum(effective(o.trials, o.trials)) AS n, sum(effective(o.successes, o.trials)) AS k,                     //? some
  collect(o.latest)[..32] AS latest                                                                             //? some
RETURN 'strategies' AS part,
  collect([s.id, s.text, s.trials, s.successes, n, k, latest]) AS rows                                          //? some
  collect([s.id, s.text, s.trials, s.successes, s.effective_trials, s.effective_successes, [s.latest]]) AS rows //? !some
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $own AND toString(s.ns) = $ns
MATCH (s)-[l:SIMILAR_TO]->(n:Strategy)
RETURN 'links' AS part, collect([s.id, n.id, l.similarity, n.text, n.trials, n.successes]) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE s.id IN $own
  AND o.agent IN $agents                                                                                        //? some
WITH s.id AS id, sum(o.trials) AS trials, sum(o.successes) AS successes, sum(effective(o.trials, o.trials)) AS n,
  sum(effective(o.successes, o.trials)) AS k, collect(o.latest) AS latest
RETURN 'outcomes' AS part, collect([id, trials, successes, n, k, latest]) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $near_tasks AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE toString(s.id) IN $own
  AND o.agent IN $agents                                                                                        //? some
RETURN 'near outcomes' AS part, collect([s.id, t.id, o.trials, o.successes, o.latest[-16..]]) AS rows
UNION ALL
CALL { MATCH ()-[l:MERGED_INTO]->() RETURN count(l) AS links }
UNWIND CASE WHEN links > 0 THEN [1] ELSE [] END AS once
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN 'merged' AS part, collect([s.id, s.merged_into]) AS rows;

// name: forecasting.lately
// doc: The latest outcomes of strategies by task, and what others had there: stamps (time * 2 + success), not older than the first of them.
// option: some  only those of some agents
// returns: id string, task string, type string, stamps list, tried integer, won integer, trials integer
// returns: successes integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.id})
WITH row, s, s.ns AS ns WHERE ns = $ns
MATCH (s)-[o:OUTCOME]->(t:Task)
WHERE o.last_at >= row.first
  AND o.agent IN $agents                                                                                        //? some
RETURN s.id AS id, t.id AS task, t.type AS type, o.latest AS stamps,
  o.trials AS tried, o.successes AS won,
//? some
  0 AS trials, 0 AS successes
//? !some
  t.episodes - o.trials AS trials, t.successes - o.successes AS successes
//?
ORDER BY id, task;

// name: forecasting.typed
// doc: The outcomes of heuristics, those of agents on types of tasks with strategies: [id, trials, successes, n, k].
// returns: rows list
MATCH (h:Heuristic)
WHERE h.id IN $ids AND toString(h.ns) = $ns
RETURN collect([h.id, h.trials, h.successes, effective(h.trials, h.trials), effective(h.successes, h.trials)]) AS rows;

// name: forecasting.lenders
// doc: Strategies that lend their outcomes to others like them.
// option: some  only episodes of some agents (and types) count
// param: types list = null
// returns: id string, text string, trials integer, successes integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, s.text AS text, s.trials AS trials, s.successes AS successes                                 //? !some
//? some
OPTIONAL MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
WHERE h.agent IN $agents AND ($types IS NULL OR h.type IN $types)
RETURN s.id AS id, s.text AS text, coalesce(sum(h.trials), 0) AS trials, coalesce(sum(h.successes), 0) AS successes
//?
ORDER BY id;

// name: forecasting.task_keys
// doc: The attempted tasks.
// returns: id string, key string
MATCH (t:Task)
WHERE t.ns = $ns AND t.episodes > 0
RETURN t.id AS id, t.key AS key
ORDER BY key, id;

// name: forecasting.wholes
// doc: What strategies count as.
// returns: id string, whole string
MATCH (s:Strategy)
WHERE s.ns = $ns
RETURN s.id AS id, whole(s) AS whole
ORDER BY id;

// name: forecasting.cells
// doc: The counts of strategies on tasks, and what they are worth elsewhere: the data for fitting strengths.
// returns: task string, type string, whole string, trials integer, successes integer, n float, k float, episodes integer, solved integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
RETURN t.id AS task, t.type AS type, whole(s) AS whole, sum(o.trials) AS trials, sum(o.successes) AS successes,
  sum(effective(o.trials, o.trials)) AS n, sum(effective(o.successes, o.trials)) AS k, t.episodes AS episodes, t.successes AS solved
ORDER BY task, whole;

// name: forecasting.pooling
// doc: The strengths of pooling, and the data on which they were fitted.
// returns: task_strength float, strategy_strength float, cell_strength float, trials integer, gain float, score float, fitted boolean
MATCH (p:Pooling)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.task_strength AS task_strength, p.strategy_strength AS strategy_strength, p.cell_strength AS cell_strength,
  p.trials AS trials, p.gain AS gain, p.score AS score, p.fitted AS fitted;

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
  strategy_strength: $strengths.strategy_strength, cell_strength: $strengths.cell_strength, trials: $strengths.trials,
  gain: $strengths.gain, score: $strengths.score, fitted: $strengths.fitted})
RETURN count(*) AS written;
