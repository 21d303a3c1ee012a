// Lessons: what strategies, errors and sentences of episodes add up to. Counters are kept in the
// transaction of `learn`, in constant time; `maintenance` derives the same from the facts.
//
// (Heuristic)-[:RECOMMENDS]->(Strategy)         one an agent, type of task and strategy
// (AntiPattern)-[:WARNS_AGAINST]->(Strategy)    one an agent, strategy and class of errors
// (AntiPattern)-[:OPPOSED_BY]->(Heuristic)      what the strategy achieved on the types of tasks where it failed so
// (either)-[:DERIVED_FROM {supports, at}]->(Episode)   the latest five for, the latest five against
// (Task)-[:HAS_RULE]->(Rule)<-[:LISTED {as_success, rank}]-(Episode)
// (Mistake)<-[:MADE {rank, evidence, lesson, extra}]-(Episode)
// (Task)-[:RECENT {at}]->(Episode)              the latest twenty
//
// Rows are those of learning.cypher.

// name: lessons.count_heuristics
// mode: write
// doc: Adds the outcomes of new episodes to heuristics; returns which have more than five successes, or failures.
// returns: heuristics integer, crowded list
UNWIND $rows AS row
UNWIND row.uses AS use
WITH row, use WHERE use.applied
WITH use.heuristic AS id, use.strategy AS strategy, collect(row)[0] AS any, count(*) AS trials, sum(row.success) AS successes,
     sum(use.credit) AS credit_sum, sum(use.credit * row.score) AS score_sum, min(row.used_at) AS first_at, max(row.used_at) AS last_at
ORDER BY id
MATCH (s:Strategy {id: strategy})
OPTIONAL MATCH (h:Heuristic {id: id})
WITH s, h, id, any, coalesce(h.trials, 0) + trials AS trials, coalesce(h.successes, 0) + successes AS successes,
     coalesce(h.credit_sum, 0.0) + credit_sum AS credit_sum, coalesce(h.score_sum, 0.0) + score_sum AS score_sum,
     earlier(h.first_at, first_at) AS first_at, later(h.last_at, last_at) AS last_at, earlier(h.created_at, $now) AS created_at
FOREACH (ignored IN CASE WHEN h IS NULL THEN [1] ELSE [] END |
  CREATE (:Heuristic {id: id, ns: $ns, created_at: created_at, agent: any.agent_name, type: any.type, text: s.text, trials: trials,
    successes: successes, credit_sum: credit_sum, score_sum: score_sum, first_at: first_at, last_at: last_at})-[:RECOMMENDS]->(s))
FOREACH (known IN CASE WHEN h IS NULL THEN [] ELSE [h] END |
  SET known.trials = trials, known.successes = successes, known.credit_sum = credit_sum, known.score_sum = score_sum,
      known.first_at = first_at, known.last_at = last_at, known.created_at = created_at)
RETURN count(*) AS heuristics, collect(CASE WHEN successes > 5 OR trials - successes > 5 THEN id ELSE null END) AS crowded;

// name: lessons.count_anti_patterns
// mode: write
// doc: Adds failures with an error to anti-patterns; returns which have more than five.
// returns: anti_patterns integer, crowded list
UNWIND $rows AS row
UNWIND row.uses AS use
WITH row, use WHERE use.applied AND use.anti_pattern IS NOT NULL
WITH use.anti_pattern AS id, use.strategy AS strategy, collect(row)[0] AS any, count(*) AS occurrences, collect(DISTINCT row.type) AS new,
     min(row.used_at) AS first_at, max(row.used_at) AS last_at
ORDER BY id
MATCH (s:Strategy {id: strategy})
OPTIONAL MATCH (p:AntiPattern {id: id})
WITH s, p, id, any, coalesce(p.occurrences, 0) + occurrences AS occurrences, new, coalesce(p.types, []) AS known_types,
     earlier(p.first_at, first_at) AS first_at, later(p.last_at, last_at) AS last_at, earlier(p.created_at, $now) AS created_at
WITH s, p, id, any, occurrences, first_at, last_at, created_at, known_types + [type IN new WHERE NOT type IN known_types] AS types
FOREACH (ignored IN CASE WHEN p IS NULL THEN [1] ELSE [] END |
  CREATE (:AntiPattern {id: id, ns: $ns, created_at: created_at, agent: any.agent_name, error_class: any.error_class, text: s.text,
    types: types, occurrences: occurrences, first_at: first_at, last_at: last_at})-[:WARNS_AGAINST]->(s))
FOREACH (known IN CASE WHEN p IS NULL THEN [] ELSE [p] END | SET known.occurrences = occurrences, known.types = types,
  known.first_at = first_at, known.last_at = last_at, known.created_at = created_at)
RETURN count(*) AS anti_patterns, collect(CASE WHEN occurrences > 5 THEN id ELSE null END) AS crowded;

// name: lessons.oppose
// mode: write
// doc: Links anti-patterns to the heuristics on the same strategy and type of task, where they are not yet. Rows: {id, heuristic}, in
// doc: order.
// returns: links integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
MATCH (h:Heuristic {id: row.heuristic})
OPTIONAL MATCH (p)-[o:OPPOSED_BY]->(h)
WITH p, h, o WHERE o IS NULL
CREATE (p)-[:OPPOSED_BY]->(h)
RETURN count(*) AS links;

// name: lessons.add_heuristic_evidence
// mode: write
// doc: Links heuristics to new episodes. Rows: {id, episode, supports, at}.
// returns: links integer
UNWIND $rows AS row
MATCH (h:Heuristic {id: row.id})
MATCH (e:Episode {id: row.episode})
CREATE (h)-[:DERIVED_FROM {supports: row.supports, at: row.at}]->(e)
RETURN count(*) AS links;

// name: lessons.trim_heuristic_evidence
// mode: write
// doc: Keeps the latest five episodes for and the latest five against each heuristic.
// returns: removed integer
MATCH (h:Heuristic)
WHERE h.id IN $ids
MATCH (h)-[d:DERIVED_FROM]->(e:Episode)
WITH h.id AS id, d.supports AS supports, d, d.at AS at, e.id AS episode
ORDER BY at DESC, episode DESC
WITH id, supports, collect(d) AS links
WHERE size(links) > 5
UNWIND links[5..] AS gone
DELETE gone
RETURN count(*) AS removed;

// name: lessons.add_anti_pattern_evidence
// mode: write
// doc: Links anti-patterns to new failures. Rows: {id, episode, at}.
// returns: links integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
MATCH (e:Episode {id: row.episode})
CREATE (p)-[:DERIVED_FROM {supports: true, at: row.at}]->(e)
RETURN count(*) AS links;

// name: lessons.trim_anti_pattern_evidence
// mode: write
// doc: Keeps the latest five failures of each anti-pattern.
// returns: removed integer
MATCH (p:AntiPattern)
WHERE p.id IN $ids
MATCH (p)-[d:DERIVED_FROM]->(e:Episode)
WITH p.id AS id, d, d.at AS at, e.id AS episode
ORDER BY at DESC, episode DESC
WITH id, collect(d) AS links
WHERE size(links) > 5
UNWIND links[5..] AS gone
DELETE gone
RETURN count(*) AS removed;

// name: lessons.add_recent
// mode: write
// doc: Links tasks to their latest episodes. Rows: {id, episode, at}.
// returns: links integer
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
MATCH (e:Episode {id: row.episode})
CREATE (t)-[:RECENT {at: row.at}]->(e)
RETURN count(*) AS links;

// name: lessons.trim_recent
// mode: write
// doc: Keeps the latest twenty episodes of each task.
// returns: removed integer
MATCH (t:Task)
WHERE t.id IN $ids
MATCH (t)-[d:RECENT]->(e:Episode)
WITH t.id AS id, d, d.at AS at, e.id AS episode
ORDER BY at DESC, episode DESC
WITH id, collect(d) AS links
WHERE size(links) > 20
UNWIND links[20..] AS gone
DELETE gone
RETURN count(*) AS removed;

// name: lessons.list
// mode: write
// doc: Creates the rules that new episodes list, and says who listed them. Rows: {id, task, listed [{rule, text, as_success, rank}]}.
// returns: listed integer
UNWIND $rows AS row
UNWIND row.listed AS item
WITH item.rule AS id, collect(item)[0] AS any, collect(row)[0] AS first
ORDER BY id
MATCH (t:Task {id: first.task})
OPTIONAL MATCH (r:Rule {id: id})
WITH id, any, t, r WHERE r IS NULL
CREATE (t)-[:HAS_RULE]->(:Rule {id: id, ns: $ns, created_at: $now, text: any.text, task: t.key, source: 'episodes', verdict: null,
  worked: 0, praised: 0, failed: 0, blamed: 0, first_at: null, last_at: null, worked_at: null, failed_at: null})
WITH count(*) AS created
UNWIND $rows AS row
UNWIND row.listed AS item
MATCH (e:Episode {id: row.id})
MATCH (r:Rule {id: item.rule})
CREATE (e)-[:LISTED {as_success: item.as_success, rank: item.rank}]->(r)
RETURN count(*) AS listed;

// name: lessons.count_rules
// mode: write
// doc: Adds to rules what new episodes say for and against them. Rows: {score, at, used_at, sentences [{rule, success, mistake}]}, each
// doc: rule once an episode.
// returns: rules integer
UNWIND $rows AS row
UNWIND row.sentences AS item
WITH item.rule AS id,
     sum(CASE WHEN praised(row.score) AND item.success THEN 1 ELSE 0 END) AS worked,
     sum(CASE WHEN praised(row.score) THEN 1 ELSE 0 END) AS praised,
     sum(CASE WHEN blamed(row.score) AND item.mistake THEN 1 ELSE 0 END) AS failed,
     sum(CASE WHEN blamed(row.score) THEN 1 ELSE 0 END) AS blamed,
     min(row.used_at) AS first_at, max(row.used_at) AS last_at,
     max(CASE WHEN praised(row.score) AND item.success THEN row.at ELSE null END) AS worked_at,
     max(CASE WHEN blamed(row.score) AND item.mistake THEN row.at ELSE null END) AS failed_at
ORDER BY id
MATCH (r:Rule {id: id})
WITH r, r.worked + worked AS worked, r.praised + praised AS praised, r.failed + failed AS failed, r.blamed + blamed AS blamed,
     earlier(r.first_at, first_at) AS first_at, later(r.last_at, last_at) AS last_at,
     later(r.worked_at, worked_at) AS worked_at, later(r.failed_at, failed_at) AS failed_at, earlier(r.created_at, $now) AS created_at
SET r.worked = worked, r.praised = praised, r.failed = failed, r.blamed = blamed, r.first_at = first_at, r.last_at = last_at,
    r.worked_at = worked_at, r.failed_at = failed_at, r.created_at = created_at, r.verdict = verdict(worked, praised, failed, blamed)
RETURN count(*) AS rules;

// name: lessons.make
// mode: write
// doc: Creates the mistakes that cards of new episodes describe, and says who made them. Rows: {id, made [{mistake, type, about,
// doc: about_given, worker, correct_decision, rank, evidence, lesson, extra}]}.
// returns: made integer
UNWIND $rows AS row
UNWIND row.made AS card
WITH card.mistake AS id, collect(card)[0] AS any
ORDER BY id
OPTIONAL MATCH (m:Mistake {id: id})
WITH id, any, m WHERE m IS NULL
CREATE (:Mistake {id: id, ns: $ns, created_at: $now, type: any.type, task: any.about, worker: any.worker,
  correct_decision: any.correct_decision, seen: 0, evidence: null, lesson: null, first_episode: null, first_order: null, last_episode: null,
  last_order: null, last_rank: null, first_at: null, last_at: null})
WITH count(*) AS created
UNWIND $rows AS row
UNWIND row.made AS card
MATCH (e:Episode {id: row.id})
MATCH (m:Mistake {id: card.mistake})
CREATE (e)-[:MADE {rank: card.rank, about_given: card.about_given, evidence: card.evidence, lesson: card.lesson, extra: card.extra}]->(m)
RETURN count(*) AS made;

// name: lessons.count_mistakes
// mode: write
// doc: Adds the cards of new episodes to mistakes; evidence and lesson are those of the latest card.
// returns: mistakes integer
UNWIND $rows AS row
UNWIND row.made AS card
WITH card.mistake AS id, row, card
ORDER BY id, row.at DESC, row.id DESC, card.rank DESC
WITH id, collect({at: row.at, episode: row.id, rank: card.rank, evidence: card.evidence, lesson: card.lesson}) AS cards,
     min(row.used_at) AS first_at, max(row.used_at) AS last_at
MATCH (m:Mistake {id: id})
SET m.ns = $ns
WITH m, size(cards) AS seen, cards[0] AS latest, cards[size(cards) - 1] AS earliest, first_at, last_at
WITH m, seen, latest, earliest, earlier(m.first_at, first_at) AS first_at, later(m.last_at, last_at) AS last_at,
     earlier(m.created_at, $now) AS created_at,
     m.last_order IS NULL OR latest.at > m.last_order OR (latest.at = m.last_order AND latest.episode > m.last_episode)
       OR (latest.at = m.last_order AND latest.episode = m.last_episode AND latest.rank > m.last_rank) AS newer,
     m.first_order IS NULL OR earliest.at < m.first_order OR (earliest.at = m.first_order AND earliest.episode < m.first_episode) AS older
WITH m, m.seen + seen AS seen, first_at, last_at, created_at,
     CASE WHEN newer THEN left(latest.evidence, 300) ELSE m.evidence END AS evidence,
     CASE WHEN newer THEN left(latest.lesson, 300) ELSE m.lesson END AS lesson,
     CASE WHEN newer THEN latest.episode ELSE m.last_episode END AS last_episode,
     CASE WHEN newer THEN latest.at ELSE m.last_order END AS last_order,
     CASE WHEN newer THEN latest.rank ELSE m.last_rank END AS last_rank,
     CASE WHEN older THEN earliest.episode ELSE m.first_episode END AS first_episode,
     CASE WHEN older THEN earliest.at ELSE m.first_order END AS first_order
SET m.seen = seen, m.evidence = evidence, m.lesson = lesson, m.first_episode = first_episode, m.first_order = first_order,
    m.last_episode = last_episode, m.last_order = last_order, m.last_rank = last_rank, m.first_at = first_at, m.last_at = last_at,
    m.created_at = created_at
RETURN count(*) AS mistakes;

// name: lessons.listed_of
// doc: What episodes list as successes and mistakes, in their order.
// returns: id string, as_success boolean, rank integer, text string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[l:LISTED]->(r:Rule)
RETURN e.id AS id, l.as_success AS as_success, l.rank AS rank, r.text AS text
ORDER BY id, as_success DESC, rank;

// name: lessons.cards_of
// doc: The mistake cards of episodes, in their order.
// returns: id string, rank integer, type string, about string, about_given boolean, worker string, correct_decision string, evidence string
// returns: lesson string, extra string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[k:MADE]->(m:Mistake)
RETURN e.id AS id, k.rank AS rank, m.type AS type, m.task AS about, k.about_given AS about_given, m.worker AS worker,
       m.correct_decision AS correct_decision, k.evidence AS evidence, k.lesson AS lesson, k.extra AS extra
ORDER BY id, rank;

// name: lessons.heuristics
// install: heuristics
// doc: What works for agents on types of tasks, best lower bound first; without strategies that were merged.
// param: agents, task_type string = null, at_least integer = 3, above float = 0.5, min_confidence float = 0.0, z, prior_successes
// param: prior_failures, established, refuted, limit integer = 1000000000
// returns: id string, agent string, task_type string, strategy string, trials integer, successes integer, confidence float, lower float
// returns: upper float, status string, mean_score float, first_at integer, last_at integer, members list
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.trials >= $at_least AND ($agents IS NULL OR h.agent IN $agents) AND ($task_type IS NULL OR h.type = $task_type)
WITH h, posterior_mean(h.successes, h.trials, $prior_successes, $prior_failures) AS confidence
WHERE confidence > $above AND confidence >= $min_confidence
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WHERE s.merged_into IS NULL
WITH h, confidence, wilson_lower(h.successes, h.trials, $z) AS lower
ORDER BY lower DESC, confidence DESC, h.id
LIMIT $limit
WITH h, confidence, lower, wilson_upper(h.successes, h.trials, $z) AS upper
RETURN h.id AS id, h.agent AS agent, h.type AS task_type, h.text AS strategy, h.trials AS trials, h.successes AS successes, confidence,
  lower, upper, status(lower, upper, $established, $refuted) AS status,
  CASE WHEN h.credit_sum > 0 THEN h.score_sum / h.credit_sum ELSE null END AS mean_score, h.first_at AS first_at, h.last_at AS last_at,
  [h.id] AS members
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.heuristics_of_merged
// install: heuristics_of_merged
// doc: The same of strategies that were merged, which count as one.
// param: agents, task_type string = null, at_least integer = 3, above float = 0.5, min_confidence float = 0.0
// returns: id string, agent string, task_type string, strategy string, trials integer, successes integer, confidence float, lower float
// returns: upper float, status string, mean_score float, first_at integer, last_at integer, members list
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
WHERE ($agents IS NULL OR h.agent IN $agents) AND ($task_type IS NULL OR h.type = $task_type)
WITH h, s.merged_into AS whole, s.id = s.merged_into AS itself
ORDER BY itself DESC, h.id
WITH h.agent AS agent, h.type AS task_type, whole, collect(h.id) AS members, sum(h.trials) AS trials, sum(h.successes) AS successes,
     sum(h.credit_sum) AS credit_sum, sum(h.score_sum) AS score_sum, min(h.first_at) AS first_at, max(h.last_at) AS last_at
WITH agent, task_type, whole, members, trials, successes, credit_sum, score_sum, first_at, last_at,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS confidence
WHERE trials >= $at_least AND confidence > $above AND confidence >= $min_confidence
WITH agent, task_type, whole, members, trials, successes, credit_sum, score_sum, first_at, last_at, confidence,
     wilson_lower(successes, trials, $z) AS lower, wilson_upper(successes, trials, $z) AS upper
MATCH (s:Strategy {id: whole})
RETURN members[0] AS id, agent, task_type, s.text AS strategy, trials, successes, confidence, lower, upper,
  status(lower, upper, $established, $refuted) AS status, CASE WHEN credit_sum > 0 THEN score_sum / credit_sum ELSE null END AS mean_score,
  first_at, last_at, members
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.evidence_of_heuristics
// doc: The sample of episodes of heuristics, latest first.
// returns: id string, episode string, supports boolean, at integer
MATCH (h:Heuristic)
WHERE h.id IN $ids AND toString(h.ns) = $ns
MATCH (h)-[d:DERIVED_FROM]->(e:Episode)
RETURN h.id AS id, e.id AS episode, d.supports AS supports, d.at AS at
ORDER BY at DESC, episode DESC;

// name: lessons.anti_patterns
// install: anti_patterns
// doc: What fails for agents: strategies with classes of errors, most certain first; without strategies that were merged. Successes are
// doc: those of the agent with the strategy on the types of tasks where it failed so.
// param: agents, task_type string = null, at_least integer = 2, min_confidence float = 0.0, z, prior_successes, prior_failures, established
// param: refuted, limit integer = 1000000000
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
MATCH (p:AntiPattern)
WHERE p.ns = $ns AND p.occurrences >= $at_least AND ($agents IS NULL OR p.agent IN $agents)
  AND ($task_type IS NULL OR $task_type IN p.types)
MATCH (p)-[:WARNS_AGAINST]->(s:Strategy)
WHERE s.merged_into IS NULL
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p.id AS id, p.occurrences AS occurrences, sum(h.successes) AS successes
WITH id, occurrences, successes, occurrences + successes AS trials
WITH id, occurrences, successes, posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z) AS lower, wilson_upper(occurrences, trials, $z) AS upper
WHERE confidence >= $min_confidence
WITH id, successes, confidence, lower, upper
ORDER BY lower DESC, confidence DESC, id
LIMIT $limit
MATCH (p:AntiPattern {id: id})
MATCH (p)-[:WARNS_AGAINST]->(s:Strategy)
RETURN p.id AS id, p.agent AS agent, s.id AS strategy_id, s.text AS strategy, p.error_class AS error_class, p.types AS task_types,
       p.occurrences AS occurrences, successes, confidence, lower, upper, status(lower, upper, $established, $refuted) AS status,
       p.first_at AS first_at, p.last_at AS last_at, [p.id] AS members
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.anti_patterns_of_merged
// install: anti_patterns_of_merged
// doc: The same of strategies that were merged, which count as one.
// param: agents, task_type string = null, at_least integer = 2, min_confidence float = 0.0
// returns: id string, agent string, strategy_id string, strategy string, error_class string, task_types list, occurrences integer
// returns: successes integer, confidence float, lower float, upper float, status string, first_at integer, last_at integer, members list
MATCH (w:Strategy)
WHERE w.ns = $ns AND w.merged_into IS NOT NULL
MATCH (w)<-[:WARNS_AGAINST]-(p:AntiPattern)
WHERE ($agents IS NULL OR p.agent IN $agents) AND ($task_type IS NULL OR $task_type IN p.types)
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, w.merged_into AS whole, w.id = w.merged_into AS itself, sum(h.successes) AS successes
ORDER BY itself DESC, p.id
WITH p.agent AS agent, p.error_class AS error_class, whole, collect(p.id) AS members, collect(p.types) AS types,
     sum(p.occurrences) AS occurrences, sum(successes) AS successes, min(p.first_at) AS first_at, max(p.last_at) AS last_at
WHERE occurrences >= $at_least
WITH agent, error_class, whole, members, reduce(known = [], some IN types | known + [type IN some WHERE NOT type IN known]) AS types,
     occurrences, first_at, last_at, successes, occurrences + successes AS trials
WITH agent, error_class, whole, members, types, occurrences, first_at, last_at, successes,
     posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS confidence,
     wilson_lower(occurrences, trials, $z) AS lower, wilson_upper(occurrences, trials, $z) AS upper
WHERE confidence >= $min_confidence
MATCH (s:Strategy {id: whole})
RETURN members[0] AS id, agent, s.id AS strategy_id, s.text AS strategy, error_class, types AS task_types, occurrences, successes,
  confidence, lower, upper, status(lower, upper, $established, $refuted) AS status, first_at, last_at, members
ORDER BY lower DESC, confidence DESC, id;

// name: lessons.failures_of
// doc: The latest failures of anti-patterns, latest first, with their tasks and errors.
// returns: id string, episode string, task string, task_type string, error string, at integer
MATCH (p:AntiPattern)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)-[d:DERIVED_FROM]->(e:Episode)
MATCH (e)-[:ATTEMPTED]->(t:Task)
RETURN p.id AS id, e.id AS episode, t.id AS task, e.type AS task_type, e.error AS error, d.at AS at
ORDER BY at DESC, episode DESC;

// name: lessons.step_errors
// doc: The last error of a step in episodes.
// returns: id string, error string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:HAS_STEP]->(x:Step)
WHERE x.error IS NOT NULL
WITH e.id AS id, x.error AS error, x.index AS place
ORDER BY id, place DESC
RETURN id, collect(error)[0] AS error;

// name: lessons.merged
// doc: How many strategies of a namespace were merged.
// returns: merged integer
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN count(s) AS merged;

// name: lessons.alternatives_on_tasks
// doc: What was tried on tasks: strategies with their outcomes over them. Rows: {id, tasks}. Merged strategies count as one.
// returns: id string, strategy_id string, trials integer, successes integer, mean float, lower float
UNWIND $rows AS row
UNWIND row.tasks AS task
MATCH (t:Task {id: task})
WITH row, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME]-(s:Strategy)
WHERE $agents IS NULL OR o.agent IN $agents
WITH row.id AS id, whole(s) AS strategy_id, sum(o.trials) AS trials, sum(o.successes) AS successes
RETURN id, strategy_id, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
       wilson_lower(successes, trials, $z) AS lower
ORDER BY id, lower DESC, mean DESC, strategy_id;

// name: lessons.alternatives_on_types
// doc: The same over types of tasks.
// param: types list
// returns: task_type string, strategy_id string, trials integer, successes integer, mean float, lower float
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.type IN $types AND ($agents IS NULL OR h.agent IN $agents)
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH h.type AS task_type, whole(s) AS strategy_id, sum(h.trials) AS trials, sum(h.successes) AS successes
RETURN task_type, strategy_id, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
       wilson_lower(successes, trials, $z) AS lower
ORDER BY task_type, lower DESC, mean DESC, strategy_id;

// name: lessons.rules_of
// install: rules
// doc: The rules of tasks that hold, latest first.
// param: tasks list, limit integer = 10
// returns: id string, verdict string, text string, task string, source string, supporting integer, opposing integer, first_at integer
// returns: last_at integer, at integer
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[:HAS_RULE]->(r:Rule)
WHERE r.verdict IS NOT NULL
WITH r, CASE r.verdict WHEN 'WORKS' THEN r.worked_at ELSE r.failed_at END AS at
RETURN r.id AS id, r.verdict AS verdict, r.text AS text, r.task AS task, r.source AS source,
       CASE r.verdict WHEN 'WORKS' THEN r.worked ELSE r.failed END AS supporting,
       CASE r.verdict WHEN 'WORKS' THEN r.blamed ELSE r.praised END AS opposing, r.first_at AS first_at, r.last_at AS last_at, at
ORDER BY at DESC, id
LIMIT $limit;

// name: lessons.rules_by
// doc: The rules that hold by the episodes of some agents alone, latest first; of some tasks, or of all.
// param: agents list, tasks list = null
// returns: id string, verdict string, text string, task string, task_type string, source string, supporting integer, opposing integer
// returns: first_at integer, last_at integer, at integer
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)-[l:LISTED]->(r:Rule)
MATCH (e)-[:ATTEMPTED]->(t:Task)
WHERE $tasks IS NULL OR t.id IN $tasks
WITH r, t, e, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
WITH r, t, sum(CASE WHEN praised(e.score) AND success = 1 THEN 1 ELSE 0 END) AS worked,
  sum(CASE WHEN praised(e.score) THEN 1 ELSE 0 END) AS praised, sum(CASE WHEN blamed(e.score) AND mistake = 1 THEN 1 ELSE 0 END) AS failed,
  sum(CASE WHEN blamed(e.score) THEN 1 ELSE 0 END) AS blamed, min(dated) AS first_at, max(dated) AS last_at,
  max(CASE WHEN praised(e.score) AND success = 1 THEN at ELSE null END) AS worked_at,
  max(CASE WHEN blamed(e.score) AND mistake = 1 THEN at ELSE null END) AS failed_at
WITH r, t, worked, praised, failed, blamed, first_at, last_at, worked_at, failed_at, verdict(worked, praised, failed, blamed) AS verdict
WHERE verdict IS NOT NULL
RETURN r.id AS id, verdict, r.text AS text, r.task AS task, t.type AS task_type, r.source AS source,
  CASE verdict WHEN 'WORKS' THEN worked ELSE failed END AS supporting, CASE verdict WHEN 'WORKS' THEN blamed ELSE praised END AS opposing,
  first_at, last_at, CASE verdict WHEN 'WORKS' THEN worked_at ELSE failed_at END AS at
ORDER BY at DESC, id;

// name: lessons.mistakes_by
// doc: The mistakes on the cards of some agents' episodes, by how often they were seen there, then the latest first.
// param: agents list, task string = null, worker string = null
// returns: id string, type string, task string, task_type string, worker string, correct_decision string, seen integer, evidence string
// returns: lesson string, first_episode string, last_episode string, first_at integer, last_at integer
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)-[k:MADE]->(m:Mistake)
WHERE ($task IS NULL OR m.task = $task) AND ($worker IS NULL OR m.worker = $worker)
WITH m, e, k, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, e.id DESC, k.rank DESC
WITH m, count(k) AS seen, collect({episode: e.id, at: at, type: e.type, evidence: k.evidence, lesson: k.lesson}) AS cards,
     min(coalesce(e.ended_at, e.started_at)) AS first_at, max(coalesce(e.ended_at, e.started_at)) AS last_at
WITH m, seen, first_at, last_at, cards[0] AS latest, cards[size(cards) - 1] AS earliest
RETURN m.id AS id, m.type AS type, m.task AS task, latest.type AS task_type, m.worker AS worker, m.correct_decision AS correct_decision,
  seen, left(latest.evidence, 300) AS evidence, left(latest.lesson, 300) AS lesson, earliest.episode AS first_episode,
  latest.episode AS last_episode, first_at, last_at
ORDER BY seen DESC, latest.at DESC, id;

// name: lessons.rules
// doc: All rules that hold, of tasks and in general, best supported first.
// param: general boolean = null
// returns: id string, verdict string, text string, task string, source string, supporting integer, opposing integer, first_at integer
// returns: last_at integer, at integer
MATCH (r:Rule)
WHERE r.ns = $ns AND r.verdict IS NOT NULL AND ($general IS NULL OR $general = (r.task IS NULL))
WITH r, CASE r.verdict WHEN 'WORKS' THEN r.worked_at ELSE r.failed_at END AS at,
     CASE r.verdict WHEN 'WORKS' THEN r.worked ELSE r.failed END AS supporting,
     CASE r.verdict WHEN 'WORKS' THEN r.blamed ELSE r.praised END AS opposing
RETURN r.id AS id, r.verdict AS verdict, r.text AS text, r.task AS task, r.source AS source, supporting, opposing, r.first_at AS first_at,
       r.last_at AS last_at, at
ORDER BY supporting - opposing DESC, at DESC, id;

// name: lessons.evidence_of_rules
// doc: The latest episodes that list a rule (or, for general rules, that it was derived from), latest first.
// returns: id string, episode string, at integer
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
MATCH (r)<-[:LISTED]-(e:Episode)
WITH r.id AS id, e.id AS episode, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH id, collect(DISTINCT episode)[..5] AS latest
UNWIND latest AS episode
MATCH (e:Episode {id: episode})
RETURN id, episode, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
UNION ALL
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
MATCH (r)-[d:DERIVED_FROM]->(e:Episode)
RETURN r.id AS id, e.id AS episode, d.at AS at;

// name: lessons.mistakes
// install: mistakes
// doc: Mistakes by how often they were seen, then the latest first.
// param: task string = null, worker string = null, limit integer = 30
// returns: id string, type string, task string, worker string, correct_decision string, seen integer, evidence string, lesson string
// returns: first_episode string, last_episode string, first_at integer, last_at integer
MATCH (m:Mistake)
WHERE m.ns = $ns AND ($task IS NULL OR m.task = $task) AND ($worker IS NULL OR m.worker = $worker)
RETURN m.id AS id, m.type AS type, m.task AS task, m.worker AS worker, m.correct_decision AS correct_decision, m.seen AS seen,
       m.evidence AS evidence, m.lesson AS lesson, m.first_episode AS first_episode, m.last_episode AS last_episode,
       m.first_at AS first_at, m.last_at AS last_at
ORDER BY seen DESC, m.last_order DESC, id
LIMIT $limit;

// name: lessons.recent
// doc: The latest episodes of tasks, latest first (at most twenty).
// param: tasks list
// returns: episode_id string, score float, success boolean, at integer, dated integer, agent string, task_type string, summary string
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
MATCH (a:Agent)-[:RAN]->(e)
WHERE $agents IS NULL OR a.name IN $agents
RETURN e.id AS episode_id, e.score AS score, e.success AS success, d.at AS at, coalesce(e.ended_at, e.started_at) AS dated, a.name AS agent,
       e.type AS task_type, e.summary AS summary
ORDER BY at DESC, episode_id DESC
LIMIT $limit;

// name: lessons.scores
// install: scores
// doc: The scores of tasks, all of them, earliest first.
// param: tasks list
// returns: episode_id string, score float, success boolean, at integer, dated integer, agent string, summary string
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)
MATCH (a:Agent)-[:RAN]->(e)
RETURN e.id AS episode_id, e.score AS score, e.success AS success, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
       coalesce(e.ended_at, e.started_at) AS dated, a.name AS agent, e.summary AS summary
ORDER BY at, episode_id;

// name: lessons.task_scores
// doc: How well each task went, the one with most episodes first.
// param: limit integer = 100
// returns: task string, task_type string, episodes integer, mean_score float
MATCH (t:Task)
WHERE t.ns = $ns AND t.episodes > 0
RETURN t.key AS task, t.type AS task_type, t.episodes AS episodes, t.score_sum / t.episodes AS mean_score
ORDER BY episodes DESC, task
LIMIT $limit;

// name: lessons.lock_strategies
// mode: write
// doc: Keeps writers of strategies out until the transaction ends.
// returns: locked integer
UNWIND $ids AS id
WITH id ORDER BY id
MATCH (s:Strategy {id: id})
WITH s, s.ns AS ns
SET s.ns = ns
RETURN count(*) AS locked;

// name: lessons.merge
// mode: write
// doc: Lets a strategy, and what was merged into it, count as another.
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
// doc: Lets strategies count by themselves again: those merged into one, and it itself.
// returns: unmerged integer
MATCH (s:Strategy {id: $id})
OPTIONAL MATCH (s)-[own:MERGED_INTO]->(w:Strategy)
OPTIONAL MATCH (w)<-[other:MERGED_INTO]-(:Strategy)
WITH s, own, w, count(other) AS others
OPTIONAL MATCH (s)<-[old:MERGED_INTO]-(m:Strategy)
WITH s, own, w, others, collect(old) AS olds, collect(m) AS members
FOREACH (gone IN olds + CASE WHEN own IS NULL THEN [] ELSE [own] END | DELETE gone)
FOREACH (part IN members + [s] + CASE WHEN others = 1 THEN [w] ELSE [] END | SET part.merged_into = null)
RETURN size(olds) + CASE WHEN own IS NULL THEN 0 ELSE 1 END AS unmerged;

// name: lessons.release
// mode: write
// doc: Lets strategies that were merged into some of these count by themselves, before those are removed.
// returns: released integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND NOT (s)<-[:USED]-()
OPTIONAL MATCH (s)-[:MERGED_INTO]->(w:Strategy)
OPTIONAL MATCH (w)<-[other:MERGED_INTO]-(:Strategy)
WITH s, w, count(other) AS others
OPTIONAL MATCH (s)<-[old:MERGED_INTO]-(m:Strategy)
WITH s, w, others, collect(old) AS olds, collect(m) AS members
FOREACH (gone IN olds | DELETE gone)
FOREACH (part IN members + CASE WHEN others = 1 THEN [w] ELSE [] END | SET part.merged_into = null)
RETURN size(olds) AS released;

// name: lessons.clear_preferred
// mode: write
// doc: Removes the alternatives of anti-patterns that lead to some strategies, or (without ids) all of a namespace.
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
// doc: Links anti-patterns to what did better. Rows: {id, strategy, lift, trials, successes, lower, ground}.
// returns: written integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
MATCH (s:Strategy {id: row.strategy})
WITH row, p, s, p.ns AS ns WHERE ns = $ns
CREATE (p)-[:PREFER {lift: row.lift, trials: row.trials, successes: row.successes, lower: row.lower, ground: row.ground}]->(s)
RETURN count(*) AS written;

// name: lessons.preferred
// doc: The alternatives of anti-patterns as they are stored.
// returns: id string, strategy string, lift float, trials integer, successes integer, lower float, ground string
MATCH (p:AntiPattern)
WHERE p.ns = $ns
MATCH (p)-[o:PREFER]->(s:Strategy)
RETURN p.id AS id, s.id AS strategy, o.lift AS lift, o.trials AS trials, o.successes AS successes, o.lower AS lower, o.ground AS ground
ORDER BY id;

// name: lessons.counts
// doc: How many episodes, tasks and mistakes there are.
// returns: episodes integer, tasks integer, mistakes integer
MATCH (t:Task)
WHERE t.ns = $ns
WITH sum(t.episodes) AS episodes, count(t) AS tasks
OPTIONAL MATCH (m:Mistake)
WHERE m.ns = $ns
RETURN episodes, tasks, count(m) AS mistakes;
