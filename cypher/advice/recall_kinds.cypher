// What recall tells beside strategies: rules, heuristics and policies that fit a text. All are scored like strategies, relevance * lower
// bound * freshness: outcomes count by the relevance, with a success and a failure more (the prior).

// name: recall_kinds.told
// doc: The rules, heuristics and policies that fit a text, by kind: rules of near tasks, rows {id, relevance}; policies that the latest
// doc: episodes on these took, if they are the best of their states or crystallized; general rules and heuristics of its type. Items of the
// doc: type have the relevance fits. Items that repeat shown strategies are left out (their ids, and their texts). Without the option
// doc: merged, merged strategies count separately, and a row of that kind says if there are any. Of the
// doc: heuristics those are looked at that have the best odds. Without the option stated, a row of the kind documents says if there are
// doc: imported files.
// option: agents  by the episodes of given agents, on given types of tasks, alone
// option: given   general are the rules that hold for the reader
// option: stated  stated are the rules of the tasks (near) by episodes and imported files
// option: limited  of policies those alone that were never taken on other types of tasks
// option: untyped  nothing that is said of a type
// option: merged  strategies that were merged count as one
// param: task_type string = null, fits float = 0.0, types list = null, consolidation string, general list = [], stated list = []
// param: shown list = [], texts list = [], at_least integer = 3, above float = 0.5
// param: half_life float = 7776000000.0, bounds float = 1.96, limit integer = 3
// returns: kind string, rows list
UNWIND $rows AS near
//? stated
UNWIND [rule IN $stated WHERE rule.near = near.id AND NOT rule.text IN $texts] AS r
WITH near, r, r.verdict AS verdict, r.supporting AS won, r.supporting + r.opposing AS tried, r.last_at AS last_at, r.latest AS latest
//? !stated
MATCH (t:Task {id: near.id})
WITH near, t, t.ns AS ns WHERE ns = $ns
MATCH (t)-[:HAS_RULE]->(r:Rule)
//? !agents !stated
WHERE r.verdict IS NOT NULL AND NOT r.text IN $texts
WITH near, r, r.verdict AS verdict, supporting(r) AS won, supporting(r) + opposing(r) AS tried, r.last_at AS last_at, [] AS latest
//? agents !stated
WHERE NOT r.text IN $texts
MATCH (r)<-[l:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)
WITH near, r, e, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, e.id DESC
WITH near, r, sum(CASE WHEN praised(e.score) THEN success ELSE 0 END) AS worked, max(dated) AS last_at,
     sum(CASE WHEN praised(e.score) THEN 1 ELSE 0 END) AS praised, sum(CASE WHEN blamed(e.score) THEN mistake ELSE 0 END) AS failed,
     sum(CASE WHEN blamed(e.score) THEN 1 ELSE 0 END) AS blamed, collect({id: e.id, at: at})[..5] AS latest
WITH near, r, worked, praised, failed, blamed, last_at, latest, verdict(worked, praised, failed, blamed) AS verdict
WHERE verdict IS NOT NULL
WITH near, r, verdict, CASE verdict WHEN 'WORKS' THEN worked ELSE failed END AS won,
     CASE verdict WHEN 'WORKS' THEN worked + blamed ELSE failed + praised END AS tried, last_at, latest
//?
ORDER BY near.relevance DESC, won DESC, r.id
WITH r.text AS text, verdict, collect({id: r.id, task: near.id, latest: latest}) AS each, max(near.relevance) AS relevance,
     sum(won) AS successes, sum(tried) AS trials, sum(near.relevance * won) + $prior_successes AS k,
     sum(near.relevance * tried) + $prior_successes + $prior_failures AS n, max(last_at) AS last_at
WITH {text: text, verdict: verdict, each: each, relevance: relevance, successes: successes, trials: trials, last_at: last_at, mean: k / n,
       lower: wilson_lower(k, n, $z), freshness: freshness(last_at, $now, $half_life)} AS row
ORDER BY row.relevance * row.lower * row.freshness DESC, row.text, row.verdict
LIMIT $limit
UNWIND row.each AS one                                                                                              //? !given
OPTIONAL MATCH (:Task {id: one.task})-[d:RECENT]->(e:Episode)-[:LISTED]->(r:Rule)                                   //? !given
WHERE r.id = one.id                                                                                                 //? !given
WITH row, collect(CASE WHEN r IS NULL THEN null ELSE {id: e.id, at: d.at} END) AS latest                            //? !given
WITH row, reduce(known = [], one IN row.each | known + one.latest) AS latest                                            //? given
RETURN 'rules of tasks' AS kind, collect({row: row, latest: latest}) AS rows
UNION ALL
MATCH (p:Policy)
WHERE p.ns = $ns AND p.active
WITH p.id AS some
LIMIT 1
UNWIND $rows AS near
MATCH (t:Task {id: near.id})
WITH near, t, t.ns AS ns WHERE ns = $ns
MATCH (t)-[d:RECENT]->(e:Episode)                                                                                   //? !agents
WITH near, e, d.at AS at                                                                                            //? !agents
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                               //? agents
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                    //? agents
WITH near, e, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at                                               //? agents
ORDER BY near.relevance DESC, at DESC, e.id DESC
LIMIT 5
MATCH (e)-[:TOOK]->(p:Policy)
WHERE p.active AND p.trials >= $at_least AND posterior_mean(p.successes, p.trials, $prior_successes, $prior_failures) > $above
WITH p, near, {id: e.id, at: at} AS one
ORDER BY near.relevance DESC, at DESC, e.id DESC
WITH p, max(near.relevance) AS relevance, collect(near.id)[0] AS task, collect(one) AS latest
WITH p, relevance, task, latest, relevance * p.successes + $prior_successes AS k,
     relevance * p.trials + $prior_successes + $prior_failures AS n
WITH p, latest, {relevance: relevance, task: task, mean: k / n, lower: wilson_lower(k, n, $z),
       freshness: freshness(p.last_updated_at, $now, $half_life)} AS row
ORDER BY row.relevance * row.lower * row.freshness DESC, p.id
LIMIT 8
OPTIONAL MATCH (p)<-[:TOOK]-(x:Episode)                                                                             //? limited
WHERE NOT x.type IN $types                                                                                          //? limited
WITH p, latest, row, count(x) AS others                                                                             //? limited
WHERE others = 0                                                                                                    //? limited
MATCH (p)-[:IN_STATE]->(s:State)
OPTIONAL MATCH (s)<-[:IN_STATE]-(o:Policy)
WHERE o.active AND o.agent = p.agent AND o.q > p.q
WITH p, s, latest, row, count(o) AS better
WHERE better = 0 OR p.crystallized
WITH p, s, latest, row
ORDER BY row.relevance * row.lower * row.freshness DESC, p.id
LIMIT $limit
RETURN 'policies' AS kind, collect({row: row, latest: latest, id: p.id, agent: p.agent, state: p.state, features: s.features,
         action: p.action_type, spec: p.action_spec, q: p.q, crystallized: p.crystallized, trials: p.trials, successes: p.successes,
         last_at: p.last_updated_at}) AS rows
//? !untyped
UNION ALL
//? !untyped !given
MATCH (c:Consolidation {id: $consolidation})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (c)-[:HAS_RULE]->(r:Rule)
WITH r, supporting(r) AS won, supporting(r) + opposing(r) AS tried, [] AS latest
//? !untyped given
UNWIND $general AS r
WITH r, r.supporting AS won, r.supporting + r.opposing AS tried, r.latest AS latest
//? !untyped
WHERE $task_type IN r.task_types AND NOT r.text IN $texts
WITH r, won, tried, latest, $fits * CASE r.source WHEN 'model' THEN 0.5 ELSE 1.0 END AS relevance
WITH r, won, tried, latest, relevance, relevance * won + $prior_successes AS k, relevance * tried + $prior_successes + $prior_failures AS n
WITH latest, {id: r.id, text: r.text, verdict: r.verdict, source: r.source, relevance: relevance, successes: won, trials: tried,
       last_at: r.last_at, mean: k / n, lower: wilson_lower(k, n, $z), freshness: freshness(r.last_at, $now, $half_life)} AS row
ORDER BY row.relevance * row.lower * row.freshness DESC, row.text, row.verdict
LIMIT $limit
OPTIONAL MATCH (:Rule {id: row.id})-[d:DERIVED_FROM]->(e:Episode)                                                   //? !given
WHERE d.supports                                                                                                    //? !given
WITH row, collect(CASE WHEN e IS NULL THEN null ELSE {id: e.id, at: d.at} END) AS latest                            //? !given
RETURN 'general rules' AS kind, collect({row: row, latest: latest}) AS rows
//? !stated
UNION ALL
MATCH (d:Document)
WHERE d.ns = $ns AND d.rest IS NOT NULL
RETURN 'documents' AS kind, collect({id: d.id})[..1] AS rows
//? !untyped !merged
UNION ALL
CALL { MATCH ()-[l:MERGED_INTO]->() RETURN count(l) AS links }
UNWIND CASE WHEN links > 0 THEN [1] ELSE [] END AS once
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN 'merged' AS kind, collect({id: s.id})[..1] AS rows
//? !untyped
UNION ALL
MATCH (h:Heuristic)
WHERE h.type IN [$task_type] AND h.ns IN [$ns]
  AND posterior_mean(h.successes, h.trials, $prior_successes, $prior_failures) > $above
  AND h.trials >= $at_least                                                                                         //? !merged
  AND h.agent IN $agents                                                                                            //? agents
WITH h.id AS id, h.odds AS odds
ORDER BY odds DESC, id
LIMIT 32
MATCH (h:Heuristic {id: id})-[:RECOMMENDS]->(s:Strategy)
WITH h, whole(s) AS strategy
WHERE NOT strategy IN $shown
WITH h.agent AS agent, strategy, h.text AS text, [h.id] AS members, h.trials AS trials,                             //? !merged
     h.successes AS successes, h.last_at AS last_at                                                                 //? !merged
//? !untyped merged
WITH DISTINCT h.agent AS agent, strategy
MATCH (w:Strategy {id: strategy})<-[:MERGED_INTO*0..1]-(p:Strategy)<-[:RECOMMENDS]-(h:Heuristic)
WHERE h.type = $task_type AND h.agent = agent
WITH agent, strategy, w.text AS text, h, p.id = strategy AS itself
ORDER BY itself DESC, h.id
WITH agent, strategy, text, collect(h.id) AS members, sum(h.trials) AS trials, sum(h.successes) AS successes,
     max(h.last_at) AS last_at
//? !untyped
WHERE trials >= $at_least AND posterior_mean(successes, trials, $prior_successes, $prior_failures) > $above
WITH agent, strategy, text, members, trials, successes, last_at, $fits * successes + $prior_successes AS k,
     $fits * trials + $prior_successes + $prior_failures AS n
WITH strategy, {agent: agent, text: text, members: members, relevance: $fits, successes: successes, trials: trials,
       last_at: last_at, mean: k / n, lower: wilson_lower(k, n, $z), freshness: freshness(last_at, $now, $half_life)} AS row
ORDER BY row.lower * row.freshness DESC, row.members[0]
WITH strategy, collect(row)[0] AS row
ORDER BY row.lower * row.freshness DESC, row.text
LIMIT $limit
UNWIND row.members AS member
OPTIONAL MATCH (:Heuristic {id: member})-[d:DERIVED_FROM]->(e:Episode)
WHERE d.supports
WITH strategy, row, collect(CASE WHEN e IS NULL THEN null ELSE {id: e.id, at: d.at} END) AS latest
RETURN 'heuristics' AS kind, collect({row: row, latest: latest, strategy: strategy,
         established: wilson_lower(row.successes, row.trials, $bounds) > $established}) AS rows;
