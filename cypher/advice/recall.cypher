// Recall: from the tasks and strategies of a search to strategies that worked on similar tasks,
// with their evidence. The relevance of a node from the search is the square of its cosine, if that
// is positive. A strategy tried on a task has the relevance of the task. Every further step, over
// SIMILAR_TO and CO_OCCURS_WITH, reduces it. Merged strategies count as one.

// name: recall.ranked
// doc: Strategies and their expected success on a task, best first. They come from seeds: rows {task, strategy, relevance, weight}, each
// doc: with the id of a task, whose strategies (those with most trials there) have its relevance, or with the id of a strategy. own is the
// doc: most relevant of the latter, [strategy, relevance]; first is the task with the most weight of those where it was tried, [task,
// doc: trials, successes]; near are its outcomes on all of these. Partial pooling: the rate on these tasks, by their weights, and the rate
// doc: of a strategy on all tasks, both shrunk toward the overall rate of these rows, make a prior; the weighted outcomes update it.
// doc: Without merged, merged strategies count separately.
// option: agents  the outcomes of some agents alone, on some types of tasks
// option: merged  strategies that were merged count as one, of all the members
// param: seeds list, types list = null, fan_out integer = 32, strength float = 2.0, z float = 1.0, half_life float = 7776000000.0
// returns: id string, text string, score float, relevance float, mean float, lower float, freshness float, own list, first list
// returns: near_trials integer, near_successes integer, trials integer, successes integer, last_at integer, members list
// returns: merged_into string
UNWIND $seeds AS seed
OPTIONAL MATCH (d:Strategy {id: seed.strategy})
OPTIONAL MATCH (t:Task {id: seed.task})<-[o:OUTCOME]-(s:Strategy)
WHERE o.agent IN $agents                                                                                            //? agents
WITH seed, coalesce(s.merged_into, s.id, d.merged_into, d.id) AS id, sum(o.trials) AS trials, sum(o.successes) AS successes
ORDER BY trials DESC, id
WITH seed, collect({id: id, trials: trials, successes: successes})[..$fan_out] AS most
UNWIND most AS row
WITH row.id AS id, seed.relevance AS relevance, seed.weight AS weight, seed.task AS task, seed.strategy AS via, row.trials AS trials,
     row.successes AS successes
ORDER BY weight DESC, relevance DESC, trials DESC, task, via
WITH id, max(relevance) AS relevance, collect(CASE WHEN task IS NULL THEN [via, relevance] END)[0] AS own,
     collect(CASE WHEN via IS NULL THEN [task, trials, successes] END)[0] AS first, sum(trials) AS near_trials,
     sum(successes) AS near_successes, sum(weight * trials) AS weight, sum(weight * successes) AS won
WHERE relevance > 0
MATCH (p:Strategy {id: id})                                                                                         //? !merged
MATCH (:Strategy {id: id})<-[:MERGED_INTO*0..1]-(p:Strategy)                                                        //? merged
MATCH (p)<-[:RECOMMENDS]-(o:Heuristic)                                                                              //? agents
WHERE o.agent IN $agents AND ($types IS NULL OR o.type IN $types)                                                   //? agents
WITH id, relevance, own, first, near_trials, near_successes, weight, won, p.ns AS ns,
     p.text AS text, p.merged_into AS merged_into, p.trials AS trials, p.successes AS successes,                    //? !merged !agents
     p.last_used_at AS last_at                                                                                      //? !merged !agents
     max(CASE WHEN p.id = id THEN p.text END) AS text, collect(p.id) AS members, max(p.merged_into) AS merged_into, //? merged !agents
     sum(p.trials) AS trials, sum(p.successes) AS successes, max(p.last_used_at) AS last_at                         //? merged !agents
     max(CASE WHEN p.id = id THEN p.text END) AS text, collect(DISTINCT p.id) AS members,                           //? agents
     max(p.merged_into) AS merged_into, sum(o.trials) AS trials, sum(o.successes) AS successes,                     //? agents
     max(o.last_at) AS last_at                                                                                      //? agents
WHERE ns = $ns
WITH collect({id: id, relevance: relevance, own: own, first: first, near_trials: near_trials, near_successes: near_successes,
       members: members,                                                                                            //? merged !agents
       members: members,                                                                                            //? agents
       weight: weight, won: won, text: text, merged_into: merged_into, trials: trials, successes: successes, last_at: last_at}) AS rows,
     sum(trials) AS trials, sum(successes) AS successes, sum(weight) AS weight, sum(won) AS won
WITH rows, weight, won, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS base
WITH rows, base, shrunk(won, weight, base, $strength) AS like
WITH rows, base, logit(like) - logit(base) AS lift
UNWIND rows AS row
WITH row, lift, shrunk(row.successes, row.trials, base, $strength) AS own
WITH row, lift + logit(own) AS odds
WITH row, logistic(odds) AS prior
WITH row, row.won + $strength * prior AS k, row.weight + $strength AS n
WITH row, k / n AS mean, wilson_lower(k, n, $z) AS lower, freshness(row.last_at, $now, $half_life) AS freshness
RETURN row.id AS id, row.text AS text, row.relevance * lower * freshness AS score, toFloat(row.relevance) AS relevance, mean, lower,
       freshness, row.own AS own, row.first AS first, row.near_trials AS near_trials, row.near_successes AS near_successes,
       row.trials AS trials, row.successes AS successes, row.last_at AS last_at, row.members AS members, row.merged_into AS merged_into
ORDER BY score DESC, text, id;

// name: recall.tried
// doc: The strategies tried on tasks, rows {id, relevance}: each with the most relevant task, and its outcomes there. Only the strategies
// doc: with most trials of each task count.
// param: fan_out integer = 32
// returns: id string, task string, task_trials integer, task_successes integer
UNWIND $rows AS seed
MATCH (t:Task {id: seed.id})
WITH seed, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE $agents IS NULL OR o.agent IN $agents
WITH seed.id AS task, seed.relevance AS relevance, coalesce(s.merged_into, s.id) AS id, sum(o.trials) AS trials,
  sum(o.successes) AS successes
ORDER BY task, trials DESC, id
WITH task, relevance, collect({id: id, trials: trials, successes: successes})[..$fan_out] AS most
UNWIND most AS tried
WITH tried.id AS id, task, relevance, tried.trials AS trials, tried.successes AS successes
ORDER BY id, relevance DESC, trials DESC, task
WITH id, collect({task: task, trials: trials, successes: successes})[0] AS first
RETURN id, first.task AS task, first.trials AS task_trials, first.successes AS task_successes
ORDER BY id;

// name: recall.near_strategies
// doc: The neighbours of strategies: similar ones (strength: the square of the similarity), and those used in the same episodes (strength:
// doc: the share of the trials); the strongest of each.
// param: together boolean = true, fan_out integer = 32
// returns: id string, other string, edge string, strength float
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[r:SIMILAR_TO]->(o:Strategy)
RETURN s.id AS id, o.id AS other, 'SIMILAR_TO' AS edge, r.similarity * r.similarity AS strength
UNION ALL
MATCH (s:Strategy)
WHERE $together AND s.id IN $ids AND toString(s.ns) = $ns AND s.trials > 0
MATCH (s)-[c:CO_OCCURS_WITH]-(o:Strategy)
WITH s.id AS id, s.trials AS trials, o.id AS other, c.count AS count
WITH id, other, CASE WHEN count < trials THEN toFloat(count) / trials ELSE 1.0 END AS strength
ORDER BY id, strength DESC, other
WITH id, collect({other: other, strength: strength})[..$fan_out] AS most
UNWIND most AS step
RETURN id, step.other AS other, 'CO_OCCURS_WITH' AS edge, step.strength AS strength;

// name: recall.near_tasks
// doc: The neighbours of tasks: similar ones (strength: the square of the similarity).
// returns: id string, other string, strength float
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)-[r:SIMILAR_TO]->(o:Task)
RETURN t.id AS id, o.id AS other, r.similarity * r.similarity AS strength
ORDER BY id, strength DESC, other;

// name: recall.tasks_of
// doc: The last three tasks on which each strategy was tried.
// returns: id string, task string
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[o:OUTCOME]->(t:Task)
WHERE $agents IS NULL OR o.agent IN $agents
WITH s.id AS id, t.id AS task, max(coalesce(o.last_at, 0)) AS last_at
ORDER BY id, last_at DESC, task
WITH id, collect(task)[..3] AS tasks
UNWIND tasks AS task
RETURN id, task;

// name: recall.episodes
// doc: The latest episodes of tasks (among the latest twenty of each) that applied strategies, or those merged into them: rows {id, task},
// doc: latest first.
// option: agents  those of some agents alone
// returns: id string, episode string, at integer
UNWIND $rows AS row
MATCH (t:Task {id: row.task})
WITH row, t, t.ns AS ns WHERE ns = $ns
MATCH (t)-[d:RECENT]->(e:Episode)                                                                                   //? !agents
WITH row, d.at AS at, e                                                                                             //? !agents
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                               //? agents
WHERE a.name IN $agents                                                                                             //? agents
WITH row, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, e                                                //? agents
ORDER BY at DESC, e.id DESC
WITH row, collect({id: e.id, at: at}) AS recent
UNWIND recent[..20] AS one
MATCH (e:Episode {id: one.id})
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied AND coalesce(s.merged_into, s.id) = row.id
RETURN DISTINCT row.id AS id, e.id AS episode, one.at AS at
ORDER BY at DESC, episode DESC;

// name: recall.warnings
// doc: The anti-patterns of strategies on types of tasks (null: on all), or of some of them (untyped) on tasks without a type, that failed
// doc: more often with their error than they worked; merged strategies count as one.
// param: types list = null, untyped list = [], at_least integer = 2, above float = 0.5
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern)
WHERE ($agents IS NULL OR p.agent IN $agents)
  AND (any(type IN p.types WHERE type IN $types) OR ($types IS NULL AND any(type IN p.types WHERE type <> 'general'))
    OR (s.id IN $untyped AND 'general' IN p.types))
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p.id AS id, coalesce(s.merged_into, s.id) AS whole, coalesce(s.merged_into, s.id) = s.id AS itself, p.agent AS agent,
     p.error_class AS error_class, p.types AS types, p.occurrences AS occurrences, p.first_at AS first_at, p.last_at AS last_at,
     sum(h.successes) AS successes
ORDER BY itself DESC, id
WITH agent, error_class, whole, collect(id) AS members, collect(types) AS types, sum(occurrences) AS occurrences,
  sum(successes) AS successes, min(first_at) AS first_at, max(last_at) AS last_at
WHERE occurrences >= $at_least
WITH agent, error_class, whole, members, reduce(known = [], some IN types | known + [type IN some WHERE NOT type IN known]) AS types,
     occurrences, first_at, last_at, successes, occurrences + successes AS trials
WITH agent, error_class, whole, members, types, occurrences, first_at, last_at, successes,
     posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z) AS lower, wilson_upper(occurrences, trials, $z) AS upper
WHERE confidence > $above
MATCH (s:Strategy {id: whole})
RETURN members[0] AS id, agent, whole AS strategy_id, s.text AS strategy, error_class, types AS task_types, occurrences, successes,
  confidence, lower, upper, status(lower, upper, $established, $refuted) AS status, first_at, last_at, members
ORDER BY lower DESC, confidence DESC, id;
