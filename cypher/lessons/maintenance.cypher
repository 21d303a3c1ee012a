// Derives lessons from the facts: verify compares them, rebuild writes them, erase uses both.

// name: maintenance.derive_heuristics
// doc: The heuristics on strategies, derived from the facts; all, or those of given agents and types of task.
// option: share  derived from episodes (ids) alone: their share
// param: types list = null
// returns: agent string, type string, text string, strategy string, trials integer, successes integer, odds float, credit_sum float
// returns: score_sum float, first_at integer, last_at integer, created_at integer, supporting list, opposing list, won_at integer
// returns: lost_at integer
//? !share
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[u:USED]-(e:Episode)<-[:RAN]-(a:Agent)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
MATCH (a:Agent)-[:RAN]->(e)
//?
WHERE u.applied AND e.type IS NOT NULL AND ($types IS NULL OR e.type IN $types) AND ($agents IS NULL OR a.name IN $agents)
WITH s.id AS strategy, s.text AS text, a.name AS agent, e.type AS type, e.id AS episode,
     worked(e.success, u.failed) AS success, earned(e.score, u.failed) AS score, u.credit AS credit, e.recorded_at AS recorded_at,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH strategy, text, agent, type, summed_outcomes(success, credit, score), min(dated) AS first_at, max(dated) AS last_at,
     min(recorded_at) AS created_at, max(CASE WHEN success THEN at ELSE null END) AS won_at,
     max(CASE WHEN success THEN null ELSE at END) AS lost_at, collect(CASE WHEN success THEN episode ELSE null END) AS supporting,
     collect(CASE WHEN success THEN null ELSE episode END) AS opposing
RETURN agent, type, text, strategy, trials, successes, odds(successes, trials - successes) AS odds, credit_sum, score_sum, first_at,
       last_at, created_at, supporting[..5] AS supporting, opposing[..5] AS opposing, won_at, lost_at
ORDER BY strategy, agent, type;

// name: maintenance.stored_heuristics
// doc: The heuristics on strategies, as stored.
// returns: id string, agent string, type string, text string, strategy string, trials integer, successes integer, odds float
// returns: credit_sum float, score_sum float, first_at integer, last_at integer, created_at integer, supporting list, opposing list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
OPTIONAL MATCH (h)-[d:DERIVED_FROM]->(e:Episode)
WITH h.id AS id, s.id AS strategy, d.supports AS supports, e.id AS episode, d.at AS at
ORDER BY at DESC, episode DESC
WITH id, strategy, collect(CASE WHEN supports THEN episode ELSE null END) AS supporting,
  collect(CASE WHEN supports THEN null ELSE episode END) AS opposing
MATCH (h:Heuristic {id: id})
RETURN id, h.agent AS agent, h.type AS type, h.text AS text, strategy, h.trials AS trials, h.successes AS successes,
       h.odds AS odds, h.credit_sum AS credit_sum, h.score_sum AS score_sum, h.first_at AS first_at, h.last_at AS last_at,
       h.created_at AS created_at, supporting[..5] AS supporting, opposing[..5] AS opposing
ORDER BY id;

// name: maintenance.put_heuristics
// mode: write
// doc: Writes derived heuristics; there must be none.
// returns: written integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.strategy})
WITH row, s, s.ns AS ns WHERE ns = $ns
CREATE (:Heuristic {id: row.id, ns: $ns, created_at: row.created_at, agent: row.agent, type: row.type, text: row.text, outcomes(row),
  odds: row.odds, first_at: row.first_at, last_at: row.last_at})-[:RECOMMENDS]->(s)
RETURN count(*) AS written;

// name: maintenance.link_heuristics
// mode: write
// doc: Links derived heuristics to their sample of episodes.
// returns: links integer
UNWIND $rows AS row
UNWIND row.supporting + row.opposing AS episode
MATCH (h:Heuristic {id: row.id})
MATCH (e:Episode {id: episode})
WITH h, e, episode IN row.supporting AS supports, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
CREATE (h)-[:DERIVED_FROM {supports: supports, at: at}]->(e)
RETURN count(*) AS links;

// name: maintenance.derive_anti_patterns
// doc: The anti-patterns on strategies, derived from the facts; all, or those of given agents and classes of errors.
// option: share  derived from episodes (ids) alone: their share
// param: classes list = null
// returns: agent string, error_class string, text string, strategy string, types list, occurrences integer, first_at integer
// returns: last_at integer, created_at integer, supporting list, failed_at integer
//? !share
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[u:USED]-(e:Episode)<-[:RAN]-(a:Agent)
//? share
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
MATCH (a:Agent)-[:RAN]->(e)
//?
WITH s, e, a, CASE WHEN u.applied THEN fault(e.success, u.failed, e.error_class) END AS error_class
WHERE error_class IS NOT NULL AND ($classes IS NULL OR error_class IN $classes) AND ($agents IS NULL OR a.name IN $agents)
WITH s.id AS strategy, s.text AS text, a.name AS agent, error_class, e.type AS type, e.id AS episode,
     e.recorded_at AS recorded_at, coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH strategy, text, agent, error_class, count(*) AS occurrences, collect(DISTINCT type) AS types, min(dated) AS first_at,
     max(dated) AS last_at, min(recorded_at) AS created_at, max(at) AS failed_at, collect(episode) AS supporting
RETURN agent, error_class, text, strategy, types, occurrences, first_at, last_at, created_at, supporting[..5] AS supporting, failed_at
ORDER BY strategy, agent, error_class;

// name: maintenance.stored_anti_patterns
// doc: The anti-patterns on strategies, as stored.
// returns: id string, agent string, error_class string, text string, strategy string, types list, opposed list, occurrences integer
// returns: first_at integer, last_at integer, created_at integer, supporting list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern)
OPTIONAL MATCH (p)-[d:DERIVED_FROM]->(e:Episode)
WITH p.id AS id, s.id AS strategy, e.id AS episode, d.at AS at
ORDER BY at DESC, episode DESC
WITH id, strategy, collect(episode) AS supporting
MATCH (p:AntiPattern {id: id})
OPTIONAL MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, strategy, supporting, collect(h.type) AS opposed
RETURN p.id AS id, p.agent AS agent, p.error_class AS error_class, p.text AS text, strategy, p.types AS types, opposed,
       p.occurrences AS occurrences, p.first_at AS first_at, p.last_at AS last_at, p.created_at AS created_at, supporting[..5] AS supporting
ORDER BY id;

// name: maintenance.opposing
// doc: The count of opposing successes of the anti-patterns on strategies, and what follows from it, as stored and by their heuristics.
// returns: id string, successes integer, odds float, right_successes integer, right_odds float
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern)
OPTIONAL MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, sum(h.successes) AS right_successes
RETURN p.id AS id, p.successes AS successes, p.odds AS odds, right_successes, odds(p.occurrences, right_successes) AS right_odds
ORDER BY id;

// name: maintenance.put_anti_patterns
// mode: write
// doc: Writes derived anti-patterns; there must be none.
// returns: written integer
UNWIND $rows AS row
MATCH (s:Strategy {id: row.strategy})
WITH row, s, s.ns AS ns WHERE ns = $ns
CREATE (:AntiPattern {id: row.id, ns: $ns, created_at: row.created_at, agent: row.agent, error_class: row.error_class, text: row.text,
  types: row.types, occurrences: row.occurrences, successes: 0, odds: 0.0, first_at: row.first_at,
  last_at: row.last_at})-[:WARNS_AGAINST]->(s)
RETURN count(*) AS written;

// name: maintenance.link_anti_patterns
// mode: write
// doc: Links derived anti-patterns to their sample of episodes and to the heuristics whose successes oppose them, which it counts.
// returns: links integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
UNWIND row.opposing AS heuristic
MATCH (h:Heuristic {id: heuristic})
CREATE (p)-[:OPPOSED_BY]->(h)
WITH row.id AS id, row.supporting AS supporting, p, sum(h.successes) AS successes
SET p.successes = successes, p.odds = odds(p.occurrences, successes)
WITH id, supporting
UNWIND supporting AS episode
MATCH (p:AntiPattern {id: id})
MATCH (e:Episode {id: episode})
WITH p, e, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
CREATE (p)-[:DERIVED_FROM {supports: true, at: at}]->(e)
RETURN count(*) AS links;

// name: maintenance.derive_recent
// doc: The latest twenty episodes of tasks, derived from the facts.
// returns: id string, episodes list
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (e:Episode)-[:ATTEMPTED]->(t)
WITH t.id AS id, e.id AS episode, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at DESC, episode DESC
WITH id, collect(episode) AS episodes
RETURN id, episodes[..20] AS episodes
ORDER BY id;

// name: maintenance.stored_recent
// doc: The latest episodes of tasks, as stored, and how many links to them have another time than the episode.
// returns: id string, episodes list, misdated integer
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
WITH t.id AS id, e.id AS episode, d.at AS at, CASE WHEN d.at = coalesce(e.ended_at, e.started_at, e.recorded_at) THEN 0 ELSE 1 END AS wrong
ORDER BY at DESC, episode DESC
WITH id, collect(episode) AS episodes, sum(wrong) AS misdated
RETURN id, episodes[..20] AS episodes, misdated
ORDER BY id;

// name: maintenance.put_recent
// mode: write
// doc: Links tasks to their latest episodes; there must be no links.
// returns: written integer
UNWIND $rows AS row
UNWIND row.episodes AS episode
MATCH (t:Task {id: row.id})
MATCH (e:Episode {id: episode})
WITH t, e, t.ns AS ns, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at WHERE ns = $ns
CREATE (t)-[:RECENT {at: at}]->(e)
RETURN count(*) AS written;

// name: maintenance.derive_rules
// doc: The counts for and against rules, derived from the episodes that list them.
// returns: id string, uses integer, stored_rule
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
MATCH (e:Episode)-[l:LISTED]->(r)
WITH r.id AS id, e, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
WITH id, count(e) AS uses, sum(CASE WHEN praised(e.score) AND success = 1 THEN 1 ELSE 0 END) AS worked,
  sum(CASE WHEN praised(e.score) THEN 1 ELSE 0 END) AS praised, sum(CASE WHEN blamed(e.score) AND mistake = 1 THEN 1 ELSE 0 END) AS failed,
  sum(CASE WHEN blamed(e.score) THEN 1 ELSE 0 END) AS blamed, min(dated) AS first_at, max(dated) AS last_at,
  min(e.recorded_at) AS created_at, max(CASE WHEN praised(e.score) AND success = 1 THEN at ELSE null END) AS worked_at,
  max(CASE WHEN blamed(e.score) AND mistake = 1 THEN at ELSE null END) AS failed_at
RETURN id, uses, verdict(worked, praised, failed, blamed) AS verdict, worked, praised, failed, blamed, first_at, last_at, worked_at,
  failed_at, created_at
ORDER BY id;

// name: maintenance.stored_rules
// doc: The rules, as stored, and how many tasks hold them.
// returns: id string, stored_rule, held integer
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
RETURN r.id AS id, stored_rule(r), COUNT { (r)<-[:HAS_RULE]-(:Task) } AS held
ORDER BY id;

// name: maintenance.hold_rules
// mode: write
// doc: Links tasks to the rules that lost their edge to them, or that have more than one.
// returns: linked integer
MATCH (r:Rule)
WHERE r.ns = $ns AND r.source = 'episodes' AND COUNT { (r)<-[:HAS_RULE]-(:Task) } <> 1
OPTIONAL MATCH (r)<-[h:HAS_RULE]-(:Task)
WITH r, collect(h) AS held
FOREACH (one IN held | DELETE one)
WITH r
MATCH (r)<-[:LISTED]-(:Episode)-[:ATTEMPTED]->(t:Task)
WITH DISTINCT r, t
CREATE (t)-[:HAS_RULE]->(r)
RETURN count(*) AS linked;

// name: maintenance.put_rules
// mode: write
// doc: Writes derived numbers of rules.
// returns: written integer
UNWIND $rows AS row
MATCH (r:Rule {id: row.id})
WITH row, r, r.ns AS ns WHERE ns = $ns
SET r.verdict = row.verdict, r.worked = row.worked, r.praised = row.praised, r.failed = row.failed, r.blamed = row.blamed,
  r.first_at = row.first_at, r.last_at = row.last_at, r.worked_at = row.worked_at, r.failed_at = row.failed_at,
  r.created_at = row.created_at
RETURN count(r) AS written;

// name: maintenance.derive_mistakes
// doc: The mistakes, derived from the cards of episodes.
// returns: id string, uses integer, seen integer, bad_decision string, evidence string, lesson string, first_episode string
// returns: first_order integer, last_episode string, last_order integer, last_rank integer, first_at integer, last_at integer
// returns: created_at integer
MATCH (m:Mistake)
WHERE m.id IN $ids AND toString(m.ns) = $ns
MATCH (e:Episode)-[k:MADE]->(m)
WITH m.id AS id, e, k, coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY id, at DESC, e.id DESC, k.rank DESC
WITH id, count(*) AS seen, collect({episode: e.id, at: at, rank: k.rank}) AS cards,
     collect(said(k.bad_decision)) AS bad_decisions, collect(said(k.evidence)) AS evidence, collect(said(k.lesson)) AS lessons,
     min(dated) AS first_at, max(dated) AS last_at, min(e.recorded_at) AS created_at
WITH id, seen, cards[0] AS latest, cards[size(cards) - 1] AS earliest, bad_decisions, evidence, lessons, first_at, last_at, created_at
RETURN id, seen AS uses, seen, bad_decisions[0] AS bad_decision, evidence[0] AS evidence, lessons[0] AS lesson,
       earliest.episode AS first_episode, earliest.at AS first_order, latest.episode AS last_episode, latest.at AS last_order,
       latest.rank AS last_rank, first_at, last_at, created_at
ORDER BY id;

// name: maintenance.stored_mistakes
// doc: The mistakes, as stored.
// returns: id string, seen integer, bad_decision string, evidence string, lesson string, first_episode string, first_order integer
// returns: last_episode string, last_order integer, last_rank integer, first_at integer, last_at integer, created_at integer
MATCH (m:Mistake)
WHERE m.id IN $ids AND toString(m.ns) = $ns
RETURN m.id AS id, m.seen AS seen, m.bad_decision AS bad_decision, m.evidence AS evidence, m.lesson AS lesson,
  m.first_episode AS first_episode, m.first_order AS first_order, m.last_episode AS last_episode, m.last_order AS last_order,
  m.last_rank AS last_rank, m.first_at AS first_at, m.last_at AS last_at, m.created_at AS created_at
ORDER BY id;

// name: maintenance.put_mistakes
// mode: write
// doc: Writes derived numbers of mistakes.
// returns: written integer
UNWIND $rows AS row
MATCH (m:Mistake {id: row.id})
WITH row, m, m.ns AS ns WHERE ns = $ns
SET m.seen = row.seen, m.bad_decision = row.bad_decision, m.evidence = row.evidence, m.lesson = row.lesson,
  m.first_episode = row.first_episode, m.first_order = row.first_order, m.last_episode = row.last_episode, m.last_order = row.last_order,
  m.last_rank = row.last_rank, m.first_at = row.first_at, m.last_at = row.last_at, m.created_at = row.created_at
RETURN count(m) AS written;

// name: maintenance.classes
// doc: The hash of content, the type of task, the class of errors and the outcome of episodes, and the classes of errors of uses that
// doc: failed ("": none), as stored.
// returns: id string, content_hash string, type string, type_rule string, error_class string, success boolean, score float, reward float
// returns: error string, failed list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
OPTIONAL MATCH (e)-[u:USED]->(:Strategy)
WITH e, u ORDER BY u.rank
WITH e, collect(CASE WHEN u IS NULL THEN null ELSE coalesce(u.failed, '') END) AS failed
RETURN e.id AS id, e.content_hash AS content_hash, e.type AS type, e.type_rule AS type_rule, e.error_class AS error_class,
  e.success AS success, e.score AS score, e.reward AS reward, e.error AS error, failed
ORDER BY id;

// name: maintenance.merged
// doc: The strategies whose property for merging differs from their edge.
// returns: id string, stored string, expected string
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
OPTIONAL MATCH (s)-[:MERGED_INTO]->(w:Strategy)
OPTIONAL MATCH (s)<-[:MERGED_INTO]-(m:Strategy)
WITH s.id AS id, s.merged_into AS stored, w.id AS target, count(m) AS members
WITH id, stored, CASE WHEN target IS NULL AND members > 0 THEN id ELSE target END AS expected
WHERE coalesce(stored, '') <> coalesce(expected, '')
RETURN id, stored, expected;
