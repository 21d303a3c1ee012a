// Lessons: conclusions from the strategies, errors and sentences of episodes. The transaction of `learn` updates their counters in
// constant time; `maintenance` derives the same from the facts.
//
// (Heuristic)-[:RECOMMENDS]->(Strategy)         one an agent, type of task and strategy
// (AntiPattern)-[:WARNS_AGAINST]->(Strategy)    one an agent, strategy and class of errors
// (AntiPattern)-[:OPPOSED_BY]->(Heuristic)      what the strategy achieved on the types of tasks where it failed so
// (either)-[:DERIVED_FROM {supports, at}]->(Episode)   the latest five for, the latest five against, and some before
// (Task)-[:HAS_RULE]->(Rule)<-[:LISTED {as_success, rank}]-(Episode)
// (Mistake)<-[:MADE {rank, bad_decision, evidence, lesson, extra}]-(Episode)
// (Task)-[:RECENT {at}]->(Episode)              the latest twenty, and some before
//
// What is before the latest is cut off after every twenty episodes; how much there is depends on the order of calls, so that readers leave
// it out.
//

// each: Label kind LINK most = Heuristic heuristics DERIVED_FROM 5, AntiPattern anti_patterns DERIVED_FROM 5, Task tasks RECENT 20
// name: lessons.trim_{kind}
// mode: write
// doc: Trims the links of {kind} to the latest {most} episodes; of evidence, to that many for and that many against.
// returns: removed integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
SET n.ns = $ns
WITH n
MATCH (n)-[d:{LINK}]->(e:Episode)
WITH n.id AS id, d.supports AS supports, d, d.at AS at, e.id AS episode
ORDER BY at DESC, episode DESC
WITH id, supports, collect(d) AS links
WHERE size(links) > {most}
UNWIND links[{most}..] AS gone
DELETE gone
RETURN count(*) AS removed;

// name: lessons.heuristics
// install: heuristics
// doc: The heuristics of agents on types of tasks, best lower bound first; those of merged strategies count as one.
// param: agents, task_type string = null, at_least integer = 3, above float = 0.5, min_confidence float = 0.0, z_value, prior_successes
// param: prior_failures, established, refuted, limit integer = 1000000000
// returns: heuristic_columns
CALL {
  MATCH (h:Heuristic) WHERE h.ns = $ns AND h.trials >= $at_least RETURN h.id AS id
  UNION
  MATCH (s:Strategy) WHERE s.ns = $ns AND s.merged_into IS NOT NULL MATCH (s)<-[:RECOMMENDS]-(h:Heuristic) RETURN h.id AS id
}
MATCH (h:Heuristic {id: id})
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WHERE ($agents IS NULL OR h.agent IN $agents) AND ($task_type IS NULL OR h.type = $task_type)
WITH h.agent AS agent, h.type AS task_type, whole(s) AS one, min(CASE WHEN s.id = whole(s) THEN h.id END) AS own, min(h.id) AS first,
     collect(h.id) AS members, sum(h.trials) AS trials, sum(h.successes) AS successes, sum(h.credit_sum) AS credit_sum,
     sum(h.score_sum) AS score_sum, min(h.first_at) AS first_at, max(h.last_at) AS last_at
WHERE trials >= $at_least
WITH coalesce(own, first) AS id, agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
WHERE confidence > $above AND confidence >= $min_confidence
WITH id, agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at, confidence, lower, upper
ORDER BY lower DESC, confidence DESC, id
LIMIT $limit
MATCH (s:Strategy {id: one})
RETURN heuristic_columns(s)
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.pooled_heuristics
// install: pooled_heuristics
// doc: The heuristics of agents on types of tasks, with the evidence of the agent's similar strategies there (edges SIMILAR_TO), weighted
// doc: by similarity, best lower bound first. Merged strategies count as one. Pooled: {strategy, similarity, trials, successes}.
// param: agents, task_type string = null, at_least integer = 3, above float = 0.5, min_confidence float = 0.0
// returns: heuristic_columns, pooled list, pooled_trials float, pooled_successes float
MATCH (h:Heuristic)
WHERE h.ns = $ns AND ($agents IS NULL OR h.agent IN $agents) AND ($task_type IS NULL OR h.type = $task_type)
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH h, whole(s) AS one, s.id = whole(s) AS itself
ORDER BY itself DESC, h.id
WITH h.agent AS agent, h.type AS task_type, one, collect(h.id) AS members, sum(h.trials) AS trials, sum(h.successes) AS successes,
     sum(h.credit_sum) AS credit_sum, sum(h.score_sum) AS score_sum, min(h.first_at) AS first_at, max(h.last_at) AS last_at
UNWIND members AS member
MATCH (m:Heuristic {id: member})-[:RECOMMENDS]->(s:Strategy)
OPTIONAL MATCH (s)-[l:SIMILAR_TO]-(o:Strategy)<-[:RECOMMENDS]-(g:Heuristic)
WHERE g.agent = agent AND g.type = task_type AND NOT g.id IN members
WITH agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at, g, max(l.similarity) AS similarity
ORDER BY similarity DESC, g.text
WITH agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at,
     collect(CASE WHEN g IS NULL THEN null ELSE {strategy: g.text, similarity: similarity, trials: g.trials, successes: g.successes} END)
       AS pooled
WITH agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at, pooled,
     reduce(sum = toFloat(trials), p IN pooled | sum + p.similarity * p.trials) AS n,
     reduce(sum = toFloat(successes), p IN pooled | sum + p.similarity * p.successes) AS k
WITH members[0] AS id, agent, task_type, one, members, trials, successes, credit_sum, score_sum, first_at, last_at, pooled, n, k,
     posterior_mean(k, n, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(k, n, $z_value) AS lower, wilson_upper(k, n, $z_value) AS upper
WHERE n >= $at_least AND confidence > $above AND confidence >= $min_confidence
MATCH (s:Strategy {id: one})
RETURN heuristic_columns(s), pooled, n AS pooled_trials, k AS pooled_successes
ORDER BY lower DESC, confidence DESC, id;

// each: Label kind = Heuristic heuristics, AntiPattern anti_patterns
// name: lessons.evidence_of_{kind}
// doc: The sample of episodes of {kind}, latest first, with their tasks and errors (else the last error of their steps; where the
// doc: strategy failed by itself, that of its own steps).
// returns: id string, episode string, supports boolean, task string, task_type string, error string, at integer
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[d:DERIVED_FROM]->(e:Episode)
MATCH (e)-[:ATTEMPTED]->(t:Task)
MATCH (e)-[u:USED]->(s:Strategy)
WHERE s.text = n.text
OPTIONAL MATCH (e)-[:HAS_STEP]->(x:Step)
WHERE x.error IS NOT NULL
WITH n, d, e, t, u.failed IS NOT NULL AS failed, x, CASE WHEN u.failed IS NOT NULL AND x.action_type = n.text THEN 1 ELSE 0 END AS own
ORDER BY own DESC, x.index DESC
WITH n, d, e, t, failed, collect(x.error)[0] AS of_step
RETURN n.id AS id, e.id AS episode, d.supports AS supports, t.id AS task, e.type AS task_type,
  told_error(failed, of_step, e.error) AS error, d.at AS at
ORDER BY at DESC, episode DESC;

// name: lessons.anti_patterns
// install: anti_patterns
// doc: The anti-patterns of agents, strategies with classes of errors, most certain first; those of merged strategies count as one.
// doc: Successes are those of the agent with the strategy on the types of tasks of these failures.
// param: agents, task_type string = null, at_least integer = 2, min_confidence float = 0.0, z_value, prior_successes, prior_failures
// param: established, refuted, limit integer = 1000000000
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
CALL {
  MATCH (p:AntiPattern) WHERE p.ns = $ns AND p.occurrences >= $at_least RETURN p.id AS id
  UNION
  MATCH (s:Strategy) WHERE s.ns = $ns AND s.merged_into IS NOT NULL MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern) RETURN p.id AS id
}
MATCH (p:AntiPattern {id: id})
MATCH (p)-[:WARNS_AGAINST]->(s:Strategy)
WHERE ($agents IS NULL OR p.agent IN $agents) AND ($task_type IS NULL OR $task_type IN p.types)
WITH p.agent AS agent, p.error_class AS error_class, whole(s) AS one, min(CASE WHEN s.id = whole(s) THEN p.id END) AS own,
     min(p.id) AS first, collect(p.id) AS members, collect(p.types) AS types, sum(p.occurrences) AS occurrences,
     sum(p.successes) AS successes, min(p.first_at) AS first_at, max(p.last_at) AS last_at
WHERE occurrences >= $at_least
WITH coalesce(own, first) AS id, agent, error_class, one, members, types, occurrences, first_at, last_at, successes,
     occurrences + successes AS trials
WITH id, agent, error_class, one, members, types, occurrences, first_at, last_at, successes,
     posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z_value) AS lower, wilson_upper(occurrences, trials, $z_value) AS upper
WHERE confidence >= $min_confidence
WITH id, agent, error_class, one, members, types, occurrences, first_at, last_at, successes, confidence, lower, upper
ORDER BY lower DESC, confidence DESC, id
LIMIT $limit
MATCH (s:Strategy {id: one})
RETURN id, agent, one AS strategy_id, s.text AS strategy, error_class,
  reduce(known = [], some IN types | known + [type IN some WHERE NOT type IN known]) AS task_types, occurrences, successes, confidence,
  lower, upper, status(lower, upper, $established, $refuted) AS status, first_at, last_at, members
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.alternatives_on_tasks
// doc: The strategies that were tried on tasks: one strategy with its outcomes over them, and the best of the others. Rows: {id, strategy,
// doc: tasks}; merged strategies count as one.
// returns: id string, strategy_id string, trials integer, successes integer, mean float, lower float
UNWIND $rows AS row
UNWIND row.tasks AS task
WITH row.id AS id, row.strategy AS own, task
MATCH (t:Task {id: task})
WITH id, own, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE $agents IS NULL OR o.agent IN $agents
WITH id, own, whole(s) AS strategy_id, sum(o.trials) AS trials, sum(o.successes) AS successes
WITH id, strategy_id = own AS itself, strategy_id, trials, successes,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean, wilson_lower(successes, trials, $z_value) AS lower
ORDER BY id, lower DESC, mean DESC, strategy_id
WITH id, itself, collect(strategy_id)[0] AS strategy_id, collect(trials)[0] AS trials, collect(successes)[0] AS successes,
     collect(mean)[0] AS mean, collect(lower)[0] AS lower
RETURN id, strategy_id, trials, successes, mean, lower
ORDER BY id, lower DESC, mean DESC, strategy_id;

// name: lessons.alternatives_on_types
// doc: The strategies that were tried on types of tasks, as in the procedure before.
// param: types list
// returns: task_type string, strategy_id string, trials integer, successes integer, mean float, lower float
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.type IN $types AND ($agents IS NULL OR h.agent IN $agents)
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH h.type AS task_type, whole(s) AS strategy_id, sum(h.trials) AS trials, sum(h.successes) AS successes
RETURN task_type, strategy_id, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
       wilson_lower(successes, trials, $z_value) AS lower
ORDER BY task_type, lower DESC, mean DESC, strategy_id;

// name: lessons.sentences
// doc: What episodes of agents (null: all) on types of tasks say of sentences about tasks, latest first: the verdict if it is a rule, and
// doc: how many list it as a mistake (seen) or as a success (liked).
// option: tasks  about some tasks (ids)
// option: open   that are no rule by what all agents learned
// option: stated  that imported files state: rows {id, task, text, works, avoids (how many files say so)}, which counts, too
// param: tasks list, agents list = null, types list = null
// returns: id string, verdict string, text string, task string, source string, supporting integer, opposing integer, first_at integer
// returns: last_at integer, at integer, seen integer, liked integer, first_episode string, last_episode string
//? tasks !stated
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[:HAS_RULE]->(r:Rule)
//? !tasks !stated
MATCH (r:Rule)
WHERE r.ns = $ns AND r.source = 'episodes'
//? !stated
WITH r, {id: r.id, text: r.text, task: r.task, works: 0, avoids: 0} AS row
WHERE r.verdict IS NULL                                                       //? open !stated
MATCH (r)<-[l:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
//? stated
UNWIND $rows AS row
OPTIONAL MATCH (r:Rule {id: row.id})<-[l:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE r.ns = $ns AND ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
//?
WITH row, e, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH row, e.id AS episode, coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
     CASE WHEN praised(e.score) THEN 1 ELSE 0 END AS good, CASE WHEN blamed(e.score) THEN 1 ELSE 0 END AS bad, success, mistake
ORDER BY at DESC, episode DESC
WITH row, min(dated) AS first_at, max(dated) AS last_at, max(at) AS latest, max(CASE WHEN good * success = 1 THEN at END) AS worked_at,
     max(CASE WHEN bad * mistake = 1 THEN at END) AS failed_at, row.works + sum(good * success) AS worked, row.works + sum(good) AS praised,
     row.avoids + sum(bad * mistake) AS failed, row.avoids + sum(bad) AS blamed, sum(mistake) AS seen, sum(success) AS liked,
     collect(CASE WHEN mistake = 1 THEN episode END) AS made
WITH row, first_at, last_at, latest, worked_at, failed_at, worked, praised, failed, blamed, seen, liked, made,
     verdict(worked, praised, failed, blamed) AS verdict
RETURN row.id AS id, verdict, row.text AS text, row.task AS task,
  CASE WHEN row.works + row.avoids > 0 THEN 'sentinel' ELSE 'episodes' END AS source,
  CASE verdict WHEN 'WORKS' THEN worked ELSE failed END AS supporting, CASE verdict WHEN 'WORKS' THEN blamed ELSE praised END AS opposing,
  first_at, last_at, CASE verdict WHEN 'WORKS' THEN worked_at WHEN 'AVOID' THEN failed_at ELSE latest END AS at, seen, liked,
  made[size(made) - 1] AS first_episode, made[0] AS last_episode
ORDER BY at DESC, id;

// name: lessons.mistakes_by
// doc: The mistakes on the cards of given agents' episodes, most frequent first, then latest first.
// param: agents list, types list = null, task string = null, worker string = null
// returns: id string, type string, task string, worker string, correct_decision string, bad_decision string
// returns: seen integer, evidence string, lesson string, first_episode string, last_episode string, first_at integer, last_at integer
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)-[k:MADE]->(m:Mistake)
WHERE ($task IS NULL OR m.task = $task) AND ($worker IS NULL OR m.worker = $worker) AND ($types IS NULL OR e.type IN $types)
WITH m, e, k, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, e.id DESC, k.rank DESC
WITH m, count(k) AS seen, collect({episode: e.id, at: at}) AS cards,
     collect(said(k.bad_decision)) AS bad_decisions, collect(said(k.evidence)) AS evidence, collect(said(k.lesson)) AS lessons,
     min(coalesce(e.ended_at, e.started_at)) AS first_at, max(coalesce(e.ended_at, e.started_at)) AS last_at
WITH m, seen, first_at, last_at, bad_decisions, evidence, lessons, cards[0] AS latest, cards[size(cards) - 1] AS earliest
RETURN m.id AS id, m.type AS type, m.task AS task, m.worker AS worker, m.correct_decision AS correct_decision,
  bad_decisions[0] AS bad_decision, seen, evidence[0] AS evidence, lessons[0] AS lesson, earliest.episode AS first_episode,
  latest.episode AS last_episode, first_at, last_at
ORDER BY seen DESC, latest.at DESC, id;

// name: lessons.rules
// install: rules
// doc: The rules that hold: of tasks (by key), latest first; or all, which includes the general ones, best supported first.
// param: tasks list = null, limit integer = 1000000000
// returns: id string, verdict string, text string, task string, source string, supporting integer, opposing integer, first_at integer
// returns: last_at integer, at integer
MATCH (r:Rule)
WHERE r.ns = $ns AND r.verdict IS NOT NULL AND ($tasks IS NULL OR r.task IN $tasks)
RETURN r.id AS id, r.verdict AS verdict, r.text AS text, r.task AS task, r.source AS source, supporting(r) AS supporting,
  opposing(r) AS opposing, r.first_at AS first_at, r.last_at AS last_at,
  CASE r.verdict WHEN 'WORKS' THEN r.worked_at ELSE r.failed_at END AS at
ORDER BY CASE WHEN $tasks IS NULL THEN supporting - opposing END DESC, at DESC, id
LIMIT $limit;

// name: lessons.evidence_of_rules
// doc: The latest episodes that list a rule (or, for general rules, from which it was derived), latest first; of all agents, or of given
// doc: ones on given types of tasks.
// param: types list = null
// returns: id string, episode string, at integer
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
MATCH (r)<-[:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)
WHERE ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
WITH r.id AS id, e.id AS episode, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH id, collect(DISTINCT {episode: episode, at: at})[..5] AS latest
UNWIND latest AS one
RETURN id, one.episode AS episode, one.at AS at
UNION ALL
MATCH (r:Rule)
WHERE $agents IS NULL AND r.id IN $ids AND toString(r.ns) = $ns
MATCH (r)-[d:DERIVED_FROM]->(e:Episode)
RETURN r.id AS id, e.id AS episode, d.at AS at;

// name: lessons.mistakes
// install: mistakes
// doc: Mistakes, most frequent first, then latest first.
// param: task string = null, worker string = null, limit integer = 30
// returns: id string, type string, task string, worker string, correct_decision string, bad_decision string
// returns: seen integer, evidence string, lesson string, first_episode string, last_episode string, first_at integer, last_at integer
MATCH (m:Mistake)
WHERE m.ns = $ns AND ($task IS NULL OR m.task = $task) AND ($worker IS NULL OR m.worker = $worker)
RETURN m.id AS id, m.type AS type, m.task AS task, m.worker AS worker, m.correct_decision AS correct_decision,
       m.bad_decision AS bad_decision, m.seen AS seen, m.evidence AS evidence, m.lesson AS lesson, m.first_episode AS first_episode,
       m.last_episode AS last_episode,
       m.first_at AS first_at, m.last_at AS last_at
ORDER BY seen DESC, m.last_order DESC, id
LIMIT $limit;

// each: kind link = scores ATTEMPTED, recent RECENT
// name: lessons.{kind}
// install: {kind}
// doc: The scores of tasks, latest first: of all episodes (scores), or of the latest twenty (recent), without a look at the others.
// param: tasks list, limit integer = 1000000000
// returns: episode_id string, score float, success boolean, at integer, dated integer, agent string, summary string
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[:{link}]-(e:Episode)
WITH e, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, e.id DESC
LIMIT $limit
MATCH (a:Agent)-[:RAN]->(e)
RETURN e.id AS episode_id, e.score AS score, e.success AS success, at, coalesce(e.ended_at, e.started_at) AS dated, a.name AS agent,
       e.summary AS summary
ORDER BY at DESC, episode_id DESC;

// name: lessons.task_scores
// doc: The mean score of each task, most episodes first.
// param: limit integer = 100
// returns: task string, task_type string, episodes integer, mean_score float
MATCH (t:Task)
WHERE t.ns = $ns AND t.episodes > 0
RETURN t.key AS task, t.type AS task_type, t.episodes AS episodes, t.score_sum / t.episodes AS mean_score
ORDER BY episodes DESC, task
LIMIT $limit;

// name: lessons.merge
// mode: write
// doc: Merges a strategy, and those merged into it, into another.
// param: whole string, part string
// returns: merged integer
MATCH (w:Strategy {id: $whole})
MATCH (p:Strategy {id: $part})
OPTIONAL MATCH (p)<-[old:MERGED_INTO]-(m:Strategy)
WITH w, p, collect(old) AS olds, collect(m) AS members
FOREACH (old IN olds | DELETE old)
FOREACH (part IN members + [p] | CREATE (part)-[:MERGED_INTO]->(w))
FOREACH (part IN members + [p, w] | SET part.merged_into = $whole)
RETURN size(members) + 1 AS merged;

// name: lessons.unmerge
// mode: write
// doc: Undoes the merging of strategies (or of those of them that no episode uses): they and those merged into them count separately again.
// param: unused boolean = false
// returns: unmerged integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND NOT ($unused AND (s)<-[:USED]-())
OPTIONAL MATCH (s)<-[:MERGED_INTO]-(m:Strategy)
WITH collect(s) + collect(m) AS parts
UNWIND parts AS part
WITH DISTINCT part
MATCH (part)-[edge:MERGED_INTO]->(w:Strategy)
WITH w, collect(part) AS parts, collect(edge) AS edges, COUNT { (w)<-[:MERGED_INTO]-() } AS every
FOREACH (gone IN edges | DELETE gone)
FOREACH (part IN parts + CASE WHEN every = size(edges) THEN [w] ELSE [] END | SET part.merged_into = null)
RETURN size(edges) AS unmerged;

// name: lessons.clear_preferred
// mode: write
// doc: Removes the edges from anti-patterns to given strategies as alternatives, or (without ids) all of a namespace.
// param: ids list = null
// returns: removed integer
MATCH (p:AntiPattern)
WHERE p.ns = $ns
MATCH (p)-[o:PREFER]->(s:Strategy)
WHERE $ids IS NULL OR s.id IN $ids
DELETE o
RETURN count(*) AS removed;

// name: lessons.put_preferred
// mode: write
// doc: Links anti-patterns to better alternatives. Rows: {id, strategy, lift, trials, successes, lower, ground}.
// returns: written integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
MATCH (s:Strategy {id: row.strategy})
WITH row, p, s, p.ns AS ns WHERE ns = $ns
CREATE (p)-[:PREFER {lift: row.lift, trials: row.trials, successes: row.successes, lower: row.lower, ground: row.ground}]->(s)
RETURN count(*) AS written;

// name: lessons.preferred
// doc: The alternatives of anti-patterns, as stored.
// returns: id string, strategy string, lift float, trials integer, successes integer, lower float, ground string
MATCH (p:AntiPattern)
WHERE p.ns = $ns
MATCH (p)-[o:PREFER]->(s:Strategy)
RETURN p.id AS id, s.id AS strategy, o.lift AS lift, o.trials AS trials, o.successes AS successes, o.lower AS lower, o.ground AS ground
ORDER BY id;

// name: lessons.counts
// doc: The numbers of episodes, tasks and mistakes.
// returns: episodes integer, tasks integer, mistakes integer
MATCH (t:Task)
WHERE t.ns = $ns
WITH sum(t.episodes) AS episodes, count(t) AS tasks
OPTIONAL MATCH (m:Mistake)
WHERE m.ns = $ns
RETURN episodes, tasks, count(m) AS mistakes;
