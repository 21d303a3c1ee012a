// Recall: from the tasks and strategies of a search to strategies that worked on similar tasks, with their evidence. The relevance of a
// node from the search, and of a strategy tried on it, is the square of its cosine, if that is positive. Every further step, over
// SIMILAR_TO and CO_OCCURS_WITH, reduces it. Merged strategies count as one.

// name: recall.reached
// doc: Strategies and the tasks that lead to them, the most promising first. They come from seeds: rows {task, strategy, relevance,
// doc: weight}. A seed with the id of a task gives its relevance to the strategies with most trials there; a seed with the id of a strategy
// doc: is that strategy. A task on which a strategy never worked lends it a part of its relevance, and leads to it only if nothing else
// doc: does. own is the most relevant of the strategies, [strategy, relevance]; first the most relevant of the tasks, [task, trials,
// doc: successes]; near are its outcomes on all of these tasks. The order is only for preselection: relevance and freshness times a rate,
// doc: which is drawn from the rate on all tasks to that on these, by weight. Without merged, merged strategies count separately.
// option: agents  the outcomes of some agents alone, on some types of tasks
// option: merged  strategies that were merged count as one, of all the members
// param: seeds list, types list = null, fan_out integer = 32, half_life float = 7776000000.0, failed float = 0.5
// returns: id string, text string, relevance float, freshness float, own list, first list, trials integer, near_trials integer
// returns: near_successes integer, last_at integer, members list, texts list, merged_into string
UNWIND $seeds AS seed
OPTIONAL MATCH (d:Strategy {id: seed.strategy})
OPTIONAL MATCH (t:Task {id: seed.task})<-[o:OUTCOME]-(s:Strategy)
WHERE o.agent IN $agents                                                                                            //? agents
WITH seed, coalesce(s.merged_into, s.id, d.merged_into, d.id) AS id, sum(o.trials) AS trials, sum(o.successes) AS successes
ORDER BY trials DESC, id
WITH seed, collect({id: id, trials: trials, successes: successes})[..$fan_out] AS most
UNWIND most AS row
WITH row.id AS id, seed.weight AS weight, seed.task AS task, seed.strategy AS via, row.trials AS trials, row.successes AS successes,
     CASE WHEN row.trials > 0 AND row.successes = 0 THEN $failed * seed.relevance ELSE seed.relevance END AS relevance
ORDER BY relevance DESC, trials DESC, task, via
WITH id, coalesce(max(CASE WHEN via IS NOT NULL OR successes > 0 THEN relevance END), max(relevance)) AS relevance,
     collect(CASE WHEN task IS NULL THEN [via, relevance] END)[0] AS own,
     collect(CASE WHEN via IS NULL AND successes > 0 THEN [task, trials, successes] END)
       + collect(CASE WHEN via IS NULL THEN [task, trials, successes] END) AS firsts, sum(trials) AS near_trials,
     sum(successes) AS near_successes, sum(weight * trials) AS weight, sum(weight * successes) AS won
WHERE relevance > 0
MATCH (p:Strategy {id: id})                                                                                         //? !merged
MATCH (:Strategy {id: id})<-[:MERGED_INTO*0..1]-(p:Strategy)                                                        //? merged
MATCH (p)<-[:RECOMMENDS]-(o:Heuristic)                                                                              //? agents
WHERE o.agent IN $agents AND ($types IS NULL OR o.type IN $types)                                                   //? agents
WITH id, relevance, own, firsts[0] AS first, near_trials, near_successes, weight, won, p.ns AS ns,
     max(CASE WHEN p.id = id THEN p.text END) AS text, collect(DISTINCT p.id) AS members, collect(DISTINCT p.text) AS texts,
     max(p.merged_into) AS merged_into,
     sum(p.trials) AS trials, sum(p.successes) AS successes, max(p.last_used_at) AS last_at                         //? !agents
     sum(o.trials) AS trials, sum(o.successes) AS successes, max(o.last_at) AS last_at                              //? agents
WHERE ns = $ns
WITH id, text, relevance, own, first, trials, near_trials, near_successes, weight, won, members, texts, merged_into, last_at,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS rate, freshness(last_at, $now, $half_life) AS freshness
RETURN id, text, toFloat(relevance) AS relevance, freshness, own, first, trials, near_trials, near_successes, last_at, members,
       texts, merged_into
ORDER BY relevance * freshness * shrunk(won, weight, rate, 2.0) DESC, text, id;

// name: recall.beside
// doc: The neighbours of strategies, and of tasks: similar ones (strength: the square of the similarity), and strategies that were used in
// doc: the same episodes (strength: the share of the trials); the strongest of each.
// param: tasks list, together boolean = true, fan_out integer = 32
// returns: label string, id string, other string, edge string, weight float, strength float
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[r:SIMILAR_TO]->(o:Strategy)
RETURN 'Strategy' AS label, s.id AS id, o.id AS other, 'SIMILAR_TO' AS edge, r.similarity AS weight,
  r.similarity * r.similarity AS strength
UNION ALL
MATCH (s:Strategy) WHERE $together AND s.id IN $ids AND toString(s.ns) = $ns AND s.trials > 0
MATCH (s)-[c:CO_OCCURS_WITH]-(o:Strategy)
WITH s.id AS id, s.trials AS trials, o.id AS other, c.count AS count
WITH id, other, CASE WHEN count < trials THEN toFloat(count) / trials ELSE 1.0 END AS strength
ORDER BY id, strength DESC, other
WITH id, collect({other: other, strength: strength})[..$fan_out] AS most
UNWIND most AS step
RETURN 'Strategy' AS label, id, step.other AS other, 'CO_OCCURS_WITH' AS edge, step.strength AS weight,
  step.strength AS strength
UNION ALL
MATCH (t:Task) WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[r:SIMILAR_TO]->(o:Task)
RETURN 'Task' AS label, t.id AS id, o.id AS other, 'SIMILAR_TO' AS edge, r.similarity AS weight,
  r.similarity * r.similarity AS strength;

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
// doc: The latest episodes of tasks (among the latest twenty of each) that applied strategies, or those merged into them: rows {task, ids},
// doc: latest first.
// option: agents  those of some agents alone
// returns: id string, episode string, at integer
UNWIND $rows AS row
MATCH (t:Task {id: row.task})
WITH row.ids AS ids, t, t.ns AS ns WHERE ns = $ns
MATCH (t)-[d:RECENT]->(e:Episode)                                                                                   //? !agents
WITH t, ids, d.at AS at, e                                                                                          //? !agents
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                               //? agents
WHERE a.name IN $agents                                                                                             //? agents
WITH t, ids, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, e                                             //? agents
ORDER BY at DESC, e.id DESC
WITH t, ids, collect({id: e.id, at: at}) AS recent
UNWIND recent[..20] AS one
MATCH (e:Episode {id: one.id})
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied AND whole(s) IN ids
RETURN DISTINCT whole(s) AS id, e.id AS episode, one.at AS at
ORDER BY at DESC, episode DESC;

// name: recall.warnings
// doc: The anti-patterns, on types of tasks (null: on all), of strategies; for some strategies (untyped), those on tasks
// doc: without a type. It looks through all anti-patterns: to find an edge, the embedded engine
// doc: walks along all edges of a node, also those to the episodes that used a strategy.
// param: types list = null, untyped list = [], at_least integer = 2, texts list = []
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
MATCH (p:AntiPattern)
WHERE p.text IN $texts AND p.ns IN [$ns] AND ($agents IS NULL OR p.agent IN $agents)
WITH p
MATCH (p)-[:WARNS_AGAINST]->(s:Strategy)
WHERE whole(s) IN $ids AND (any(type IN p.types WHERE type IN $types)
  OR ($types IS NULL AND any(type IN p.types WHERE type <> 'general'))
  OR (whole(s) IN $untyped AND 'general' IN p.types))
WITH p.id AS id, whole(s) AS whole, whole(s) = s.id AS itself, p.agent AS agent,
     p.error_class AS error_class, p.types AS types, p.occurrences AS occurrences, p.first_at AS first_at, p.last_at AS last_at,
     p.successes AS successes
ORDER BY itself DESC, id
WITH agent, error_class, whole, collect(id) AS members, collect(types) AS types, sum(occurrences) AS occurrences,
  sum(successes) AS successes, min(first_at) AS first_at, max(last_at) AS last_at
WHERE occurrences >= $at_least
WITH agent, error_class, whole, members, reduce(known = [], some IN types | known + [type IN some WHERE NOT type IN known]) AS types,
     occurrences, first_at, last_at, successes, occurrences + successes AS trials
WITH agent, error_class, whole, members, types, occurrences, first_at, last_at, successes,
     posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z_value) AS lower, wilson_upper(occurrences, trials, $z_value) AS upper
MATCH (s:Strategy {id: whole})
RETURN members[0] AS id, agent, whole AS strategy_id, s.text AS strategy, error_class, types AS task_types, occurrences, successes,
  confidence, lower, upper, status(lower, upper, $established, $refuted) AS status, first_at, last_at, members
ORDER BY lower DESC, confidence DESC, id;
