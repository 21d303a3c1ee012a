// Context: what a system prompt is made of, in two statements. Nothing here walks the episodes of a task or the outcomes of a strategy.
// What is shown is a few of many, so that the many are ranked by their counts alone; texts are read of the few. The embedded engine looks
// through a label several times as fast where all conditions are plain comparisons. It makes those with `=` first, of all nodes: where
// another one leaves few, `IN [..]` is quicker.

// name: context.own
// doc: The episodes of given agents on tasks, on given types of tasks: how many, their mean score, and the latest, latest first.
// param: tasks list, agents list, types list = null, most_episodes integer
// returns: episodes integer, mean_score float, latest list
UNWIND $tasks AS task
MATCH (t:Task {id: task})
WITH t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)
WITH e.score AS score, e.summary AS summary, e.id AS id, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, id DESC
WITH count(*) AS episodes, sum(score) AS total, collect({id: id, score: score, summary: summary})[..$most_episodes] AS latest
WHERE episodes > 0
RETURN episodes, total / episodes AS mean_score, latest;

// name: context.tried
// doc: The strategies that were tried on tasks, rows {id, weight, own}, best first: outcomes on the task itself (own), and on near tasks by
// doc: their weights. Only the strategies with most trials count; merged ones are one.
// param: limit integer = 64
// returns: id string, strategy string, here_trials integer, here_successes integer, near_trials integer, near_successes integer
// returns: confidence float, lower float, failing float
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
WITH row.own AS own, row.weight AS weight, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE $agents IS NULL OR o.agent IN $agents
WITH whole(s) AS id, sum(CASE WHEN own THEN o.trials ELSE 0 END) AS here_trials,
     sum(CASE WHEN own THEN o.successes ELSE 0 END) AS here_successes, sum(CASE WHEN own THEN 0 ELSE o.trials END) AS near_trials,
     sum(CASE WHEN own THEN 0 ELSE o.successes END) AS near_successes, sum(weight * o.trials) AS n, sum(weight * o.successes) AS k
ORDER BY n DESC, id
LIMIT $limit
MATCH (s:Strategy {id: id})
RETURN id, s.text AS strategy, here_trials, here_successes, near_trials, near_successes,
       posterior_mean(k, n, $prior_successes, $prior_failures) AS confidence, wilson_lower(k, n, $z_value) AS lower,
       posterior_mean(n - k, n, $prior_successes, $prior_failures) AS failing
ORDER BY lower DESC, confidence DESC, strategy, id;

// name: context.errors
// doc: The class of the latest error of strategies on tasks, among the latest twenty episodes of each task.
// param: tasks list
// returns: id string, error_class string
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
MATCH (a:Agent)-[:RAN]->(e)
WHERE $agents IS NULL OR a.name IN $agents
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied AND whole(s) IN $ids
WITH whole(s) AS id, fault(e.success, u.failed, e.error_class) AS error_class, d.at AS at, e.id AS episode
WHERE error_class IS NOT NULL
WITH id, error_class, at, episode
ORDER BY at DESC, episode DESC
RETURN id, collect(error_class)[0] AS error_class
ORDER BY id;

// name: context.made_before
// doc: What agents did wrong on other tasks, most frequent first: mistakes of a worker, mistakes made at least twice (the same one on
// doc: several tasks is one), and sentences to avoid that at least two episodes of a task list. Only the most frequent ones are
// doc: looked at.
// option: agents  by the episodes of given agents, on given types of tasks, alone
// param: worker string, types list = null, most integer = 50, limit integer = 3
// returns: part string, rows list
MATCH (m:Mistake)
WHERE m.ns = $ns
WITH m, CASE WHEN m.worker = $worker THEN 1 ELSE 0 END AS own
ORDER BY own DESC, m.seen DESC, m.last_order DESC, m.id
LIMIT $most
WITH m, own, m.seen AS seen, m.lesson AS lesson, m.evidence AS evidence, m.last_order AS at                               //? !agents
//? agents
MATCH (m)<-[k:MADE]-(e:Episode)
WITH m, own, k, e
MATCH (e)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)
WITH m, own, k, e.id AS episode, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC, k.rank DESC
WITH m, own, count(k) AS seen, collect(said(k.lesson))[0] AS lesson, collect(said(k.evidence))[0] AS evidence, max(at) AS at
//?
ORDER BY at DESC, m.id
WITH m.type AS type, m.worker AS worker, m.correct_decision AS correct_decision, max(own) AS own, sum(seen) AS seen, max(at) AS at,
     collect(lesson)[0] AS lesson, collect(evidence)[0] AS evidence
WHERE own = 1 OR seen >= 2
WITH type, correct_decision, seen, lesson, evidence, at
ORDER BY seen DESC, at DESC, type, correct_decision
LIMIT $limit
RETURN 'mistakes' AS part,
       collect({type: type, correct_decision: correct_decision, seen: seen, lesson: lesson, evidence: evidence}) AS rows
UNION ALL
MATCH (r:Rule)
WHERE r.ns = $ns AND r.task IS NOT NULL AND r.failed >= 2
WITH r
ORDER BY r.failed DESC, r.failed_at DESC, r.id
LIMIT $most
//? agents
MATCH (r)<-[l:LISTED]-(e:Episode)
WITH r, l, e
MATCH (e)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types) AND (praised(e.score) OR blamed(e.score))
WITH r, e.id AS episode, e.score AS score, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH r, sum(CASE WHEN blamed(score) THEN mistake ELSE 0 END) AS failed,
     sum(CASE WHEN praised(score) THEN 1 ELSE 0 END) AS praised
WHERE failed >= 2
WITH r.text AS text, sum(failed) AS supporting, sum(praised) AS opposing
//?
WITH r.text AS text, sum(r.failed) AS supporting, sum(r.praised) AS opposing                                        //? !agents
WHERE supporting >= 2 AND supporting > opposing
WITH text, supporting, opposing
ORDER BY supporting - opposing DESC, text
LIMIT $limit
RETURN 'sentences' AS part, collect({text: text, supporting: supporting, opposing: opposing}) AS rows;

// name: context.parts
// doc: The lessons for tasks of a type: one row for each part that is not empty. Parts: rules (those of the tasks that hold, latest first),
// doc: mistakes (on the tasks with the keys, most frequent first), slips (sentences that the latest twenty episodes of a task list as
// doc: mistakes, and that are no rule), heuristics and anti-patterns (of the type, best and most certain first, ignoring merging), general
// doc: rules (best supported first; those of models last), episodes (of the tasks, latest first), merged (a merged strategy, if any; it
// doc: looks through the strategies only if the store has links of merged ones), documents (imported files), knowledge (a fact,
// doc: if any), others (an agent besides the given ones, if any). The parameters most_... limit the numbers of rows; of heuristics and
// doc: anti-patterns those with the best odds are looked at.
// param: tasks list, keys list, task_type string, consolidation string, at_least integer, at_least_failures integer
// param: above float = 0.5
// param: most_rules integer, most_mistakes integer, most_heuristics integer, most_anti_patterns integer, most_general_rules integer
// param: most_episodes integer, looked_at integer
// returns: part string, rows list
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[:HAS_RULE]->(r:Rule)
WHERE r.verdict IS NOT NULL
WITH r.verdict AS verdict, r.text AS text, sum(supporting(r)) AS supporting, sum(opposing(r)) AS opposing, min(r.id) AS id,
     max(CASE r.verdict WHEN 'WORKS' THEN r.worked_at ELSE r.failed_at END) AS at
ORDER BY at DESC, id
LIMIT $most_rules
RETURN 'rules' AS part, collect({verdict: verdict, text: text, supporting: supporting, opposing: opposing}) AS rows
UNION ALL
UNWIND $keys AS key
MATCH (m:Mistake)
WHERE m.task = key AND m.ns = $ns
WITH m
ORDER BY m.seen DESC, m.last_order DESC, m.id
LIMIT $most_mistakes
RETURN 'mistakes' AS part,
       collect({type: m.type, correct_decision: m.correct_decision, seen: m.seen, lesson: m.lesson, evidence: m.evidence}) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
WITH t, d.at AS at, e
ORDER BY at DESC, e.id DESC
WITH t, collect({episode: e.id, at: at})[..20] AS recent
UNWIND recent AS one
MATCH (e:Episode {id: one.episode})-[l:LISTED]->(r:Rule)
WHERE r.verdict IS NULL AND NOT l.as_success
WITH r, count(DISTINCT e) AS seen, max(one.at) AS at
ORDER BY seen DESC, at DESC, r.id
LIMIT $most_mistakes
RETURN 'slips' AS part, collect({type: r.text, seen: seen}) AS rows
UNION ALL
MATCH (h:Heuristic)
WHERE h.type IN [$task_type] AND h.ns IN [$ns] AND h.trials >= $at_least AND ($agents IS NULL OR h.agent IN $agents)
  AND posterior_mean(h.successes, h.trials, $prior_successes, $prior_failures) > $above
WITH h.id AS id, h.odds AS odds
ORDER BY odds DESC, id
LIMIT $looked_at
MATCH (h:Heuristic {id: id})
WITH h, posterior_mean(h.successes, h.trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(h.successes, h.trials, $z_value) AS lower
ORDER BY lower DESC, confidence DESC, h.id
LIMIT $most_heuristics
RETURN 'heuristics' AS part,
       collect({strategy: h.text, trials: h.trials, successes: h.successes, confidence: confidence, lower: lower}) AS rows
UNION ALL
MATCH (p:AntiPattern)
WHERE p.occurrences >= $at_least_failures AND p.ns IN [$ns] AND $task_type IN p.types AND ($agents IS NULL OR p.agent IN $agents)
WITH p.id AS id, p.odds AS odds
ORDER BY odds DESC, id
LIMIT $looked_at
MATCH (p:AntiPattern {id: id})
WITH p, p.occurrences + p.successes AS trials
WITH p, posterior_mean(p.occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(p.occurrences, trials, $z_value) AS lower
ORDER BY lower DESC, confidence DESC, p.id
LIMIT $most_anti_patterns
RETURN 'anti-patterns' AS part,
       collect({strategy: p.text, error_class: p.error_class, task_types: p.types, occurrences: p.occurrences, successes: p.successes,
         confidence: confidence}) AS rows
UNION ALL
MATCH (c:Consolidation {id: $consolidation})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (c)-[:HAS_RULE]->(r:Rule)
WITH r, CASE r.source WHEN 'model' THEN 1 ELSE 0 END AS said,
     supporting(r) AS supporting, opposing(r) AS opposing
ORDER BY said, supporting - opposing DESC, r.id
LIMIT $most_general_rules
RETURN 'general rules' AS part,
       collect({verdict: r.verdict, text: r.text, source: r.source, supporting: supporting, opposing: opposing, agents: r.agents,
         task_types: r.task_types}) AS rows
UNION ALL
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
MATCH (a:Agent)-[:RAN]->(e)
WHERE $agents IS NULL OR a.name IN $agents
WITH e, d.at AS at
ORDER BY at DESC, e.id DESC
LIMIT $most_episodes
RETURN 'episodes' AS part, collect({id: e.id, score: e.score, task_type: e.type, summary: e.summary}) AS rows
UNION ALL
CALL { MATCH ()-[l:MERGED_INTO]->() RETURN count(l) AS links }
UNWIND CASE WHEN links > 0 THEN [1] ELSE [] END AS once
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN 'merged' AS part, collect({id: s.id})[..1] AS rows
UNION ALL
MATCH (d:Document)
WHERE d.ns = $ns AND d.rest IS NOT NULL
RETURN 'documents' AS part, collect({id: d.id}) AS rows
UNION ALL
MATCH (k:Knowledge)
WHERE k.ns = $ns
WITH k LIMIT 1
RETURN 'knowledge' AS part, collect({id: k.id}) AS rows
UNION ALL
MATCH (a:Agent)
WHERE a.ns = $ns AND NOT a.name IN $agents
RETURN 'others' AS part, collect({agent: a.name})[..1] AS rows;
