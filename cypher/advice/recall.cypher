// Recall: from the tasks and strategies that a search found, to what worked on the like, with its
// evidence.
//
// The relevance of what a search found is the square of its cosine, where that is positive. What was
// tried on a task is as relevant as the task. Every further step, over SIMILAR_TO and CO_OCCURS_WITH,
// leaves some of it. Merged strategies count as one.

// name: recall.tried
// doc: What was tried on tasks, rows {id, relevance}: each strategy with the most relevant of them (task, and its outcomes there), its
// doc: outcomes on all of them, and those weighted by relevance. Of a task the strategies with most trials count.
// param: fan_out integer = 32
// returns: id string, relevance float, task string, task_trials integer, task_successes integer, near_trials integer
// returns: near_successes integer, weight float, won float
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
WITH task, relevance, tried.id AS id, tried.trials AS trials, tried.successes AS successes
ORDER BY id, relevance DESC, trials DESC, task
WITH id, collect({task: task, relevance: relevance, trials: trials, successes: successes})[0] AS first, sum(trials) AS near_trials,
     sum(successes) AS near_successes, sum(relevance * trials) AS weight, sum(relevance * successes) AS won
RETURN id, first.relevance AS relevance, first.task AS task, first.trials AS task_trials, first.successes AS task_successes, near_trials,
       near_successes, weight, won
ORDER BY id;

// name: recall.counts
// doc: Strategies, what they count as (another one, where they were merged), and their outcomes over all tasks and agents.
// returns: id string, text string, merged_into string, trials integer, successes integer, last_at integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, s.text AS text, s.merged_into AS merged_into, s.trials AS trials, s.successes AS successes, s.last_used_at AS last_at
ORDER BY id;

// name: recall.counts_of_merged
// doc: Strategies that others were merged into, with these (members) and the outcomes of all of them.
// returns: id string, text string, members list, trials integer, successes integer, last_at integer
MATCH (w:Strategy)
WHERE w.id IN $ids AND toString(w.ns) = $ns
MATCH (w)<-[:MERGED_INTO]-(m:Strategy)
WITH w.id AS id, collect(m.id) AS members, sum(m.trials) AS trials, sum(m.successes) AS successes, max(m.last_used_at) AS last_at
MATCH (w:Strategy {id: id})
RETURN id, w.text AS text, members, w.trials + trials AS trials, w.successes + successes AS successes,
  later(w.last_used_at, last_at) AS last_at
ORDER BY id;

// name: recall.counts_by
// doc: The outcomes of strategies by some agents, by type of task.
// param: agents list
// returns: id string, task_type string, trials integer, successes integer, last_at integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[o:OUTCOME]->(t:Task)
WHERE o.agent IN $agents
RETURN s.id AS id, t.type AS task_type, sum(o.trials) AS trials, sum(o.successes) AS successes, max(o.last_at) AS last_at
ORDER BY id, task_type;

// name: recall.near_strategies
// doc: What is one step from strategies: similar ones (strength: the square of the similarity), and those used in the same episodes
// doc: (strength: the share of the trials), the strongest of each.
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
// doc: What is one step from tasks: similar ones (strength: the square of the similarity).
// returns: id string, other string, strength float
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)-[r:SIMILAR_TO]->(o:Task)
RETURN t.id AS id, o.id AS other, r.similarity * r.similarity AS strength
ORDER BY id, strength DESC, other;

// name: recall.rank
// doc: How well strategies may do on a task, best first, by partial pooling: rows {id, relevance, weight, won (outcomes on like tasks,
// doc: weighted), trials, successes (on all tasks), last_at}. The rate on like tasks and that of a strategy on all tasks, both shrunk to
// doc: the rate of all these rows, make a prior; the weighted outcomes are added to it.
// param: strength float = 2.0, z float = 1.0, half_life float = 7776000000.0, limit integer = 64
// returns: id string, score float, relevance float, mean float, lower float, freshness float
UNWIND $rows AS row
WITH collect(row) AS rows, sum(row.trials) AS trials, sum(row.successes) AS successes, sum(row.weight) AS weight, sum(row.won) AS won
WITH rows, weight, won, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS base
WITH rows, base, shrunk(won, weight, base, $strength) AS like
UNWIND rows AS row
WITH row, base, like, shrunk(row.successes, row.trials, base, $strength) AS own
WITH row, logit(like) + logit(own) - logit(base) AS odds
WITH row, logistic(odds) AS prior
WITH row, row.won + $strength * prior AS k, row.weight + $strength AS n
WITH row, k / n AS mean, wilson_lower(k, n, $z) AS lower, freshness(row.last_at, $now, $half_life) AS freshness
RETURN row.id AS id, row.relevance * lower * freshness AS score, toFloat(row.relevance) AS relevance, mean, lower, freshness
ORDER BY score DESC, id
LIMIT $limit;

// name: recall.tasks_of
// doc: The tasks where strategies were tried last, three each.
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
// doc: The latest episodes of tasks (of each among its latest twenty) in which strategies, or what was merged into them, were applied: rows
// doc: {id, task}, latest first.
// returns: id string, episode string, at integer
UNWIND $rows AS row
MATCH (t:Task {id: row.task})
WITH row, t, t.ns AS ns WHERE ns = $ns
MATCH (t)-[d:RECENT]->(e:Episode)-[u:USED]->(s:Strategy)
WHERE u.applied AND coalesce(s.merged_into, s.id) = row.id
MATCH (a:Agent)-[:RAN]->(e)
WHERE $agents IS NULL OR a.name IN $agents
RETURN DISTINCT row.id AS id, e.id AS episode, d.at AS at
ORDER BY at DESC, episode DESC;

// name: recall.tasks
// doc: What tasks are about, and their types.
// returns: id string, text string, task_type string
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS id, t.description AS text, t.type AS task_type
ORDER BY id;

// name: recall.tasks_by
// doc: Those of the tasks on which some agents tried anything.
// param: agents list
// returns: id string
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)<-[o:OUTCOME]-(:Strategy)
WHERE o.agent IN $agents
RETURN DISTINCT t.id AS id
ORDER BY id;

// name: recall.warnings
// doc: The anti-patterns of strategies on types of tasks, those that failed so more often than they worked; strategies that were merged
// doc: count as one.
// param: types list, at_least integer = 2, above float = 0.5
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern)
WHERE ($agents IS NULL OR p.agent IN $agents) AND any(type IN p.types WHERE type IN $types)
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
