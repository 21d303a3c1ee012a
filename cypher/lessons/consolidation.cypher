// Consolidation: a finding that repeats over several tasks becomes a general rule, a Rule without a task.
//
// (Consolidation)-[:HAS_RULE]->(Rule)                one Consolidation a namespace
// (Rule)-[:DERIVED_FROM {supports, at}]->(Episode)   the latest five for, the latest five against
// (Rule)-[:SAW]->(Episode)                           all episodes that a model was sent before it said so
// Only episodes with a score that praises or blames (formulas.cypher) count, each once for a rule. A Consolidation has `episodes`, the
// number of episodes at the last consolidation, and `stamp`, the number of episodes from which its rules follow: as long as both agree,
// they can be derived again (null: never). `method` is the way in which they were derived; rules of another one stay until the next
// consolidation. Erasing increments `renewals`, so that rules derived before an erasure are not written after it.

// name: consolidation.state
// doc: The consolidation of a namespace, if there was one, with the quantile of its bounds, how often its rules were derived again, and
// doc: whether some are from summaries; and the present number of episodes.
// returns: at integer, before integer, stamp integer, z float, renewals integer, told boolean, episodes integer
CALL { MATCH (t:Task) WHERE t.ns = $ns RETURN sum(t.episodes) AS episodes }
WITH episodes
OPTIONAL MATCH (c:Consolidation {id: $id})
OPTIONAL MATCH (c)-[:HAS_RULE]->(r:Rule {source: 'summaries'})
WITH episodes, c, count(r) AS rules
RETURN c.at AS at, c.episodes AS before, CASE WHEN c.method = 2 THEN c.stamp ELSE null END AS stamp, c.z AS z,
       c.renewals AS renewals, rules > 0 AS told, episodes;

// name: consolidation.likely_strategies
// doc: Strategies with at least three praised episodes, whose share among praised and blamed episodes has a lower bound over a half; all,
// doc: or those with the given texts; of those in a range of ids. Only episodes of tasks with a type count.
// option: agents  by the episodes of given agents, on given types of tasks, recorded until a time, alone
// param: texts list = null, types list = null, until integer = null
// returns: id string, counted integer
//? !agents
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.trials >= 3 AND ($texts IS NULL OR s.text IN $texts)
  AND s.id >= $first AND s.id < $beyond
MATCH (s)<-[u:USED]-(e:Episode)
WHERE u.applied AND e.type <> 'general' AND (praised(earned(e.score, u.failed)) OR blamed(earned(e.score, u.failed)))
//? agents
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)
WHERE ($types IS NULL OR e.type IN $types) AND ($until IS NULL OR e.recorded_at <= $until)
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied AND e.type <> 'general' AND (praised(earned(e.score, u.failed)) OR blamed(earned(e.score, u.failed)))
//?
WITH s.id AS id, count(*) AS counted, sum(CASE WHEN praised(earned(e.score, u.failed)) THEN 1 ELSE 0 END) AS worked
WITH id, counted, worked, wilson_lower(worked, counted, $z_value) AS lower
WHERE worked >= 3 AND lower > 0.5
RETURN id, counted
ORDER BY id;

// name: consolidation.repeated_strategies
// doc: The given strategies that were applied in praised episodes of at least two tasks with a type.
// option: agents  by the episodes of given agents, on given types of tasks, recorded until a time, alone
// param: types list = null, until integer = null
// returns: text string, rule_columns, supporting list, opposing list
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH s, s.text AS text
MATCH (s)<-[u:USED]-(e:Episode)
WHERE u.applied AND e.type <> 'general' AND (praised(earned(e.score, u.failed)) OR blamed(earned(e.score, u.failed)))
MATCH (e)-[:ATTEMPTED]->(t:Task)
MATCH (a:Agent)-[:RAN]->(e)
//? agents
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)
  AND ($until IS NULL OR e.recorded_at <= $until)
//?
WITH text, t.id AS task, a.name AS agent, e.id AS episode, e.type AS task_type, e.recorded_at AS recorded_at,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
     CASE WHEN praised(earned(e.score, u.failed)) THEN 1 ELSE 0 END AS good
ORDER BY at DESC, episode DESC
WITH text, count(*) AS counted, sum(good) AS worked, count(DISTINCT CASE WHEN good = 1 THEN task ELSE null END) AS tasks,
     rule_evidence(good, 1 - good)
WHERE tasks >= 2
RETURN text, 'WORKS' AS verdict, worked, worked AS praised, counted - worked AS failed, counted - worked AS blamed, first_at, last_at,
       worked_at, failed_at, created_at, agents, task_types, praising[..5] AS supporting, blaming[..5] AS opposing
ORDER BY text;

// name: consolidation.sentences
// doc: The sentences that episodes list about tasks.
// option: agents  by the episodes of given agents, on given types of tasks, recorded until a time, alone
// param: types list = null, until integer = null
// returns: id string, text string, task string, worked integer, failed integer
//? !agents
MATCH (r:Rule)
WHERE r.ns = $ns AND r.task IS NOT NULL
WITH r, r.worked AS worked, r.failed AS failed
//? agents
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)
WHERE ($types IS NULL OR e.type IN $types) AND (praised(e.score) OR blamed(e.score))
  AND ($until IS NULL OR e.recorded_at <= $until)
MATCH (e)-[l:LISTED]->(r:Rule)
WITH r, sum(CASE WHEN l.as_success AND praised(e.score) THEN 1 ELSE 0 END) AS worked,
     sum(CASE WHEN NOT l.as_success AND blamed(e.score) THEN 1 ELSE 0 END) AS failed
//?
RETURN r.id AS id, r.text AS text, r.task AS task, worked, failed
ORDER BY id;

// name: consolidation.repeated_sentences
// doc: The sentences that hold on at least two tasks: praised episodes of these tasks list them as successes, or blamed ones as mistakes.
// doc: Rows: {text, rules: ids of the rules with the same sentence}.
// option: agents  by the episodes of given agents, on given types of tasks, recorded until a time, alone
// param: types list = null, until integer = null
// returns: text string, rule_columns, supporting list, opposing list
UNWIND $rows AS row
UNWIND row.rules AS rule
MATCH (r:Rule {id: rule})
WITH row, r, r.ns AS ns WHERE ns = $ns
MATCH (r)<-[l:LISTED]-(e:Episode)
WHERE praised(e.score) OR blamed(e.score)
MATCH (e)-[:ATTEMPTED]->(t:Task)
MATCH (a:Agent)-[:RAN]->(e)
//? agents
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)
  AND ($until IS NULL OR e.recorded_at <= $until)
//?
WITH row.text AS text, t.id AS task, a.name AS agent, e.id AS episode, e.type AS task_type, e.recorded_at AS recorded_at,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
     CASE WHEN praised(e.score) THEN 1 ELSE 0 END AS good, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success,
     max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH text, task, agent, episode, task_type, recorded_at, dated, at, good, good * success AS works, (1 - good) * mistake AS fails
ORDER BY at DESC, episode DESC
WITH text, sum(works) AS worked, sum(good) AS praised, sum(fails) AS failed, sum(1 - good) AS blamed,
     count(DISTINCT CASE WHEN works = 1 THEN task ELSE null END) AS works_on,
     count(DISTINCT CASE WHEN fails = 1 THEN task ELSE null END) AS fails_on,
     rule_evidence(works, fails), collect(CASE WHEN good = 1 THEN {episode: episode, at: at} END) AS good,
     collect(CASE WHEN good = 0 THEN {episode: episode, at: at} END) AS bad
WITH text, worked, praised, failed, blamed, works_on, fails_on, first_at, last_at, worked_at, failed_at, created_at, agents, task_types,
     praising, blaming, good, bad, verdict(worked, praised, failed, blamed) AS verdict
WHERE (verdict = 'WORKS' AND works_on >= 2) OR (verdict = 'AVOID' AND fails_on >= 2)
RETURN text, rule_columns(), CASE verdict WHEN 'WORKS' THEN praising[..5] ELSE blaming[..5] END AS supporting,
       CASE verdict WHEN 'WORKS' THEN bad[..5] ELSE good[..5] END AS opposing
ORDER BY text;

// name: consolidation.summaries
// doc: The summaries (4,000 characters at most), by id, of praised and blamed episodes that have no strategies and list no sentences.
// option: agents  by the episodes of given agents, on given types of tasks, recorded until a time, alone
// param: types list = null, until integer = null
// returns: id string, task string, good boolean, summary string
//? !agents
MATCH (e:Episode)
WHERE e.ns = $ns AND e.summary IS NOT NULL AND e.use_count = 0
  AND (praised(e.score) OR blamed(e.score)) AND NOT (e)-[:LISTED]->()
//? agents
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)
WHERE ($types IS NULL OR e.type IN $types) AND e.summary IS NOT NULL AND e.use_count = 0
  AND ($until IS NULL OR e.recorded_at <= $until)
  AND (praised(e.score) OR blamed(e.score)) AND NOT (e)-[:LISTED]->()
//?
MATCH (e)-[:ATTEMPTED]->(t:Task)
RETURN e.id AS id, t.id AS task, praised(e.score) AS good, left(e.summary, 4000) AS summary
ORDER BY id;

// name: consolidation.shown
// doc: The general rules that given episodes show. A clause of summaries (without a verdict): at least three praised episodes say it, more
// doc: than blamed ones, and a greater share of the praised than of the blamed ones; to avoid one, the other way round. A rule of a model
// doc: (with its verdict): more of these episodes are for it than against it. Rows: {id, text, episodes, praised and blamed: how many there
// doc: are on the tasks of a clause, verdict}.
// returns: id string, text string, rule_columns, supporting list, opposing list
UNWIND $rows AS row
UNWIND row.episodes AS shows
MATCH (e:Episode {id: shows})
WITH row, e, e.ns AS ns WHERE ns = $ns
MATCH (a:Agent)-[:RAN]->(e)
WITH row, a.name AS agent, e.id AS episode, e.type AS task_type, e.recorded_at AS recorded_at,
     coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
     CASE WHEN praised(e.score) THEN 1 ELSE 0 END AS good, CASE WHEN blamed(e.score) THEN 1 ELSE 0 END AS bad
ORDER BY at DESC, episode DESC
WITH row.id AS id, row.text AS text, row.verdict AS said, row.praised AS praised_there, row.blamed AS blamed_there, sum(good) AS worked,
     sum(bad) AS failed, rule_evidence(good, bad)
WITH id, text, worked, worked AS praised, failed, failed AS blamed, first_at, last_at, worked_at, failed_at, created_at, agents, task_types,
  praising, blaming,
  CASE WHEN worked > failed AND (said = 'WORKS' OR (said IS NULL AND worked >= 3
      AND (failed = 0 OR worked * blamed_there > failed * praised_there))) THEN 'WORKS'
    WHEN failed > worked AND (said = 'AVOID' OR (said IS NULL AND failed >= 3
      AND (worked = 0 OR failed * praised_there > worked * blamed_there))) THEN 'AVOID' END AS verdict
WHERE verdict IS NOT NULL
RETURN id, text, rule_columns(), CASE verdict WHEN 'WORKS' THEN praising[..5] ELSE blaming[..5] END AS supporting,
  CASE verdict WHEN 'WORKS' THEN blaming[..5] ELSE praising[..5] END AS opposing
ORDER BY id;

// name: consolidation.stored
// doc: The general rules of a namespace, as stored. Evidence for and against: {episode, at}, latest first.
// returns: id string, text string, source string, rule_columns, supporting list, opposing list
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (c)-[:HAS_RULE]->(r:Rule)
OPTIONAL MATCH (r)-[d:DERIVED_FROM]->(e:Episode)
WITH r.id AS id, d.supports AS supports, d.at AS at, e.id AS episode
ORDER BY at DESC, episode DESC
WITH id, collect(CASE WHEN supports THEN {episode: episode, at: at} END) AS supporting,
     collect(CASE WHEN NOT supports THEN {episode: episode, at: at} END) AS opposing
MATCH (r:Rule {id: id})
RETURN id, r.text AS text, r.source AS source, stored_rule(r), r.agents AS agents, r.task_types AS task_types, supporting, opposing
ORDER BY id;

// name: consolidation.open
// mode: write
// doc: Creates the consolidation of a namespace, if it has none.
// returns: created integer
OPTIONAL MATCH (c:Consolidation {id: $id})
WITH c WHERE c IS NULL
CREATE (:Consolidation {id: $id, ns: $ns, created_at: $now, at: $now, episodes: 0, stamp: null, z: null, renewals: 0, method: 2})
RETURN count(*) AS created;

// name: consolidation.hold
// mode: write
// doc: Links general rules to the consolidation that lost their edge to it.
// returns: linked integer
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
MATCH (r:Rule)
WHERE r.ns = $ns AND r.task IS NULL AND NOT (r)<-[:HAS_RULE]-()
CREATE (c)-[:HAS_RULE]->(r)
RETURN count(*) AS linked;

// name: consolidation.note
// mode: write
// doc: Stores the basis of the present rules: the number of episodes (null: unknown) and the quantile. With a time, the consolidation was
// doc: done then; without one, its rules were derived again.
// param: episodes integer, stamp integer, z float, at integer = null
// returns: noted integer
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
WITH c, coalesce($at, c.at) AS at, CASE WHEN $at IS NULL AND c.episodes < $episodes THEN c.episodes ELSE $episodes END AS episodes,
     CASE WHEN $at IS NULL THEN c.renewals + 1 ELSE c.renewals END AS renewals
SET c.at = at, c.episodes = episodes, c.stamp = $stamp, c.z = $z, c.renewals = renewals, c.method = 2
RETURN count(*) AS noted;

// name: consolidation.close
// mode: write
// doc: Removes the consolidation of a namespace, and all general rules.
// returns: removed integer
MATCH (c:Consolidation)
WHERE c.id IN $ids AND toString(c.ns) = $ns
OPTIONAL MATCH (c)-[:HAS_RULE]->(r:Rule)
WITH c, collect(r) AS rules
FOREACH (rule IN rules | DETACH DELETE rule)
DETACH DELETE c
RETURN count(*) AS removed;

// name: consolidation.create
// mode: write
// doc: Creates general rules with their evidence. Rows: the properties, and links {episode, supports, at}, or {episode, sent: true} to all
// doc: episodes that were sent to a model.
// returns: links integer
MATCH (c:Consolidation {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
UNWIND $rows AS row
CREATE (c)-[:HAS_RULE]->(r:Rule {id: row.id, ns: $ns, created_at: row.created_at, text: row.text, task: null, source: row.source,
  verdict: row.verdict, worked: row.worked, praised: row.praised, failed: row.failed, blamed: row.blamed, first_at: row.first_at,
  last_at: row.last_at, worked_at: row.worked_at, failed_at: row.failed_at, agents: row.agents, task_types: row.task_types})
WITH row, r
UNWIND row.links AS link
MATCH (e:Episode {id: link.episode})
WITH r, e, link
FOREACH (one IN CASE WHEN link.sent THEN [] ELSE [link] END | CREATE (r)-[:DERIVED_FROM {supports: one.supports, at: one.at}]->(e))
FOREACH (one IN CASE WHEN link.sent THEN [link] ELSE [] END | CREATE (r)-[:SAW]->(e))
RETURN count(*) AS links;

// name: consolidation.touched
// doc: What of the general rules depends on given episodes: the texts of their applied strategies and listed sentences, the summaries of
// doc: episodes that have neither, and the rules (ids) of models that one of them was sent to. Kinds: strategy, sentence, summary, model.
// returns: text string, kind string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied
RETURN DISTINCT s.text AS text, 'strategy' AS kind
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:LISTED]->(r:Rule)
RETURN DISTINCT r.text AS text, 'sentence' AS kind
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns AND e.summary IS NOT NULL AND e.use_count = 0
  AND (praised(e.score) OR blamed(e.score)) AND NOT (e)-[:LISTED]->()
RETURN DISTINCT left(e.summary, 1000) AS text, 'summary' AS kind
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)<-[:SAW]-(r:Rule)
RETURN DISTINCT r.id AS text, 'model' AS kind;

// name: consolidation.material
// doc: The latest praised or blamed episodes of the namespace, to be sent to a model; at most the latest twenty of each task.
// param: limit integer = 40
// returns: id string, task string, score float, at integer, error string, summary string
MATCH (t:Task)
WHERE t.ns = $ns
MATCH (t)-[d:RECENT]->(e:Episode)
WITH t, d, e ORDER BY d.at DESC, e.id DESC
WITH t, collect({id: e.id, at: d.at}) AS recent
UNWIND recent[..20] AS one
MATCH (e:Episode {id: one.id})
WITH e, one.at AS at WHERE praised(e.score) OR blamed(e.score)
RETURN e.id AS id, e.task AS task, e.score AS score, at, left(e.error, 1000) AS error, left(e.summary, 1000) AS summary
ORDER BY at DESC, id DESC
LIMIT $limit;
