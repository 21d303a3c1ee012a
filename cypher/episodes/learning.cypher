// Learning: facts and the counts that follow from them, in one transaction.
//
// Nodes are created with all their properties at once: the embedded engine copies a label whose
// nodes got theirs by SET in every later transaction. Where two writers of a server create the
// same node, a constraint stops one of them, and its transaction is run again.
//
// `learning.add` is the ordinary case, and one statement. Everything else goes by `learning.look_at` and `learning.add_many`.
//
// An episode is what episodes/rows.py makes of it:
//   {id, content_hash, agent, agent_name, task, task_key, keyed, description, task_type, at,
//    used_at, success (0 or 1), score, reward, error, feedback, summary, started_at, ended_at,
//    duration, step_count, use_count, source_key, occurrence, source, user, extra, type, type_rule, inferred, inferred_rule, error_class,
//    steps [{id, index, action_type, action, observation, reward, error, state, next_state, terminal}]}
// `at` orders episodes (ended, else started, else recorded), `used_at` is null without a date. Of a strategy, `worth` is credit times
// score. A co-occurrence goes from the smaller id; its weight is a count that decays with the half-life, held at last_at, and episodes
// without a time add 1 that does not decay (kept in undated).
//
// Nodes are locked by a SET of a constant before they are read: streams, then tasks, then strategies, each in the order of ids. (On a
// server, six writers of one node that read it in the SET that locks it met 78 deadlocks in 476 calls; with a constant first, none.)

// name: learning.add
// mode: write
// doc: One new episode with a time and all that it adds, if everything that it is about is known and stays as it is, and its agent may
// doc: learn it; else there is no row, and nothing is written. A row for each strategy: {strategy, heuristic, anti_pattern, rank, credit,
// doc: shown, worth, failed}, in the order of their ids; all were applied. Strategies that were chosen by chance also have {propensity,
// doc: explore, candidates (JSON)}.
// option: failed  it failed, with a class of errors
// option: worked  it succeeded, which speaks against the anti-patterns of its strategies
// option: typed  its type of task was given
// option: detailed  it has a user, an error (or the class of one), feedback, summary, duration, source or extra data
// option: stepped  it has steps
// option: together  it used several strategies
// option: chosen  it is known how one of them was chosen
// option: locked  other processes may write: nodes are locked before they are read
// param: agent string, agent_name string, task string, stream string, tally string, scope string, namespace string, half_life_days float
// param: half_life float, heuristics list, anti_patterns list, used integer, uses list, pairs list, steps list, at integer
// param: supports boolean, content_hash string, description string, keyed boolean, task_type string, success integer
// param: score float, reward float, error string, feedback string, summary string, started_at integer, ended_at integer
// param: duration float, step_count integer, source_key string, occurrence string, source string, user string, extra string, type string
// param: type_rule string, error_class string
// returns: episodes integer, heuristic string, trials integer, successes integer, occurrences integer
//? !failed
MATCH (h:Heuristic)
WHERE h.id IN $heuristics AND h.created_at <= $now
//? failed
MATCH (p:AntiPattern)-[:OPPOSED_BY]->(h:Heuristic)
WHERE p.id IN $anti_patterns AND h.id IN $heuristics AND h.created_at <= $now AND p.created_at <= $now
//? together
WITH count(h) AS known
WHERE known = $used
//?
MATCH (t:Task {id: $task})
MATCH (a:Agent {id: $agent})
MATCH (m:Stream {id: $stream})
MATCH (y:Tally {id: $tally})
WHERE toString(t.ns) = $ns
//? locked
SET m.ns = $ns, t.ns = $ns
WITH t, a, m, y
  , h                                                                                                           //? !together
  , p                                                                                                           //? !together failed
WHERE t.ns = $ns
//?
  AND t.description = $description AND t.created_at <= $now
  AND t.type = $task_type AND t.typed_at IS NOT NULL                                                            //? typed
  AND EXISTS { MATCH (n:Namespace {id: $namespace}) WHERE n.co_occurrence_half_life_days = $half_life_days }    //? together
  AND NOT EXISTS { MATCH (:Episode {id: $id}) } AND NOT EXISTS { MATCH (:LearningScope {id: $scope}) }
SET m.last = m.last + 1, t.episodes = t.episodes + 1, t.score_sum = t.score_sum + $score,
  t.successes = t.successes + $success, y.trials = y.trials + $used, y.successes = y.successes + $used * $success
SET t.described_by = CASE WHEN newer($at, $id, t.described_at, t.described_by) THEN $id ELSE t.described_by END
SET t.described_at = later_given(t.described_at, $at)
//? typed
SET t.typed_by = CASE WHEN newer($at, $id, t.typed_at, t.typed_by) THEN $id ELSE t.typed_by END
SET t.typed_at = later_given(t.typed_at, $at)
//?
CREATE (a)-[:RAN]->(e:Episode {id: $id, ns: $ns, created_at: $now, recorded_at: $now, content_hash: $content_hash, task: $description,
  keyed: $keyed, success: $supports, score: $score, reward: $reward, step_count: $step_count, use_count: $used, source_key: $source_key,
  occurrence: $occurrence, task_type: $task_type, started_at: $started_at, ended_at: $ended_at,
//? detailed
  user: $user, error: $error, feedback: $feedback, summary: $summary, duration: $duration, source: $source, extra: $extra,
  error_class: $error_class,
//?
  type: $type, type_rule: $type_rule})-[:ATTEMPTED]->(t)
CREATE (t)-[:RECENT {at: $at}]->(e)
CREATE (:Event {id: m.id + ':' + toString(m.last), ns: $ns, created_at: $now, stream: m.id, seq: m.last,
  kind: 'episode', subject: $id})-[:ABOUT]->(e)
//? stepped
FOREACH (step IN $steps | CREATE (e)-[:HAS_STEP]->(:Step {step_properties(step)}))
//? together
WITH t, e, y
UNWIND $pairs AS pair
MATCH (x:Strategy {id: pair.low})
MATCH (z:Strategy {id: pair.high})
SET x.ns = $ns, z.ns = $ns
MERGE (x)-[c:CO_OCCURS_WITH]->(z)
ON CREATE SET c.count = 0, c.successes = 0, c.undated = 0, c.weight = 0.0, c.last_at = $at
SET c.count = c.count + 1, c.successes = c.successes + $success,
  c.weight = c.undated + CASE WHEN c.last_at < $at THEN (c.weight - c.undated) * decayed(c.last_at, $at, $half_life) + 1.0
    ELSE c.weight - c.undated + decayed($at, coalesce(c.last_at, $at), $half_life) END
SET c.last_at = later_given(c.last_at, $at)
WITH t, e, y, count(*) AS pairs
//? !together
WITH t, e, y, h
  , p                                                                                                           //? failed
//?
UNWIND $uses AS use
MATCH (s:Strategy {id: use.strategy})
MATCH (h:Heuristic {id: use.heuristic})                                                                         //? together
MATCH (p:AntiPattern {id: use.anti_pattern})                                                                    //? together failed
SET s.ns = $ns                                                                                                  //? locked
MERGE (t)<-[o:OUTCOME {agent: $agent_name}]-(s)
ON CREATE SET o.trials = 0, o.successes = 0, o.credit_sum = 0.0, o.score_sum = 0.0, o.latest = []
SET o.latest = coalesce(o.latest, [])                                                                           //? locked
SET more_outcomes(o, 1, $success, use.credit, use.worth), o.last_at = later_given(o.last_at, $at), o.latest = joined(o.latest, use.stamp)
SET more_outcomes(s, 1, $success, use.credit, use.worth), s.last_used_at = later_given(s.last_used_at, $at),
  s.latest = joined(s.latest, use.stamp), next_effective(s, o, $success)
SET more_outcomes(h, 1, $success, use.credit, use.worth), h.first_at = earlier_given(h.first_at, $at),
  h.last_at = later_given(h.last_at, $at)
SET h.odds = odds(h.successes, h.trials - h.successes), next_effective(y, h, $success)
CREATE (h)-[:DERIVED_FROM {supports: $supports, at: $at}]->(e)-[:USED {rank: use.rank, credit: use.credit, shown: use.shown, applied: true
  , propensity: use.propensity, explore: use.explore, candidates: use.candidates                                //? chosen
  , failed: use.failed                                                                                          //? failed
  }]->(s)
//? failed
SET p.occurrences = p.occurrences + 1, p.first_at = earlier_given(p.first_at, $at), p.last_at = later_given(p.last_at, $at)
SET p.odds = odds(p.occurrences, p.successes)
CREATE (p)-[:DERIVED_FROM {supports: true, at: $at}]->(e)
//? worked !failed
WITH t, h
OPTIONAL MATCH (h)<-[:OPPOSED_BY]-(p:AntiPattern)
SET p.odds = odds(p.occurrences, p.successes + 1), p.successes = p.successes + 1
//?
RETURN DISTINCT t.episodes AS episodes, h.id AS heuristic, h.trials AS trials, h.successes AS successes,
       p.occurrences AS occurrences                                                                             //? failed
       0 AS occurrences                                                                                         //? !failed
;

// name: learning.look_at
// doc: What the memory has of the nodes that new episodes are about: the hashes of episodes, when nodes were created, and how many
// doc: successes and failures (or episodes) lessons and tasks have.
// param: episodes list, agents list, streams list, tallies list, tasks list, strategies list, heuristics list, anti_patterns list
// returns: label string, id string, content_hash string, created_at integer, won integer, lost integer
MATCH (n:Episode)
WHERE n.id IN $episodes AND toString(n.ns) = $ns
RETURN 'Episode' AS label, n.id AS id, n.content_hash AS content_hash, n.created_at AS created_at, null AS won, null AS lost
UNION ALL
MATCH (n:Agent)
WHERE n.id IN $agents AND toString(n.ns) = $ns
RETURN 'Agent' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, null AS won, null AS lost
UNION ALL
MATCH (n:Stream)
WHERE n.id IN $streams AND toString(n.ns) = $ns
RETURN 'Stream' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, null AS won, null AS lost
UNION ALL
MATCH (n:Tally)
WHERE n.id IN $tallies AND toString(n.ns) = $ns
RETURN 'Tally' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, null AS won, null AS lost
UNION ALL
MATCH (n:Task)
WHERE n.id IN $tasks AND toString(n.ns) = $ns
RETURN 'Task' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, n.episodes AS won, 0 AS lost
UNION ALL
MATCH (n:Strategy)
WHERE n.id IN $strategies AND toString(n.ns) = $ns
RETURN 'Strategy' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, null AS won, null AS lost
UNION ALL
MATCH (n:Heuristic)
WHERE n.id IN $heuristics AND toString(n.ns) = $ns
RETURN 'Heuristic' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, n.successes AS won,
       n.trials - n.successes AS lost
UNION ALL
MATCH (n:AntiPattern)
WHERE n.id IN $anti_patterns AND toString(n.ns) = $ns
RETURN 'AntiPattern' AS label, n.id AS id, null AS content_hash, n.created_at AS created_at, n.occurrences AS won, 0 AS lost;

// name: learning.add_many
// mode: write
// doc: New episodes and all that they add, in parts. A part is sent only if there is something for it: to the embedded engine as one
// doc: statement, to a server one by one. Nodes and edges that grow have a row each, with what to add, in the order of ids.
// option: new  agents, streams, tasks and strategies that are not there yet, with what they begin with; texts wait for their vectors
// option: advanced  the numbers of streams: {id, episodes}
// option: older  agents that have an episode before what was their first
// option: new_tallies  tallies that are not there yet, with what they begin with
// option: tallies  the uses of strategies of an agent on a type of tasks
// option: tasks  what tasks say of themselves, and their scores: {id, latest and typed (episodes), episodes, successes, score_sum}
// option: strategies  the counts of strategies over all tasks and agents
// option: recorded  the episodes with their steps and events, and their places among the latest of a task
// option: used  the strategies that they used, and how these were chosen, if known
// option: outcomes  the weighted edges from strategies to tasks, one an agent
// option: together  the co-occurrence edges between strategies of one episode: {low, high (ids), times, successes, dates, last_at}
// option: new_heuristics  heuristics that are not there yet, with what they begin with
// option: heuristics  what works for an agent on a type of tasks
// option: new_anti_patterns  anti-patterns that are not there yet, with what they begin with
// option: anti_patterns  what fails for an agent with a class of errors; opposing are heuristics on the same strategy and types
// option: opposing  heuristics (ids) of which the successes count against anti-patterns, where either changed
// option: evidence  the latest episodes of heuristics
// option: failures  the latest episodes of anti-patterns
// option: new_rules  the sentences that they list
// option: sentences  who listed them
// option: rules  what they say for and against these: {score, at, used_at, sentences [{rule, success, mistake}]}
// option: new_mistakes  the mistakes that cards describe
// option: cards  who made them
// option: mistakes  how often they were made, with evidence and lesson of the latest card
// param: half_life float, new_agents list, new_streams list, new_tasks list, new_strategies list, advanced list, older list
// param: new_tallies list, tallies list, tasks list, strategies list, recorded list, used list, outcomes list, together list
// param: new_heuristics list, heuristics list, new_anti_patterns list, anti_patterns list, opposing list, evidence list, failures list
// param: new_rules list, sentences list, rules list, new_mistakes list, cards list, mistakes list
// returns: done integer
//? new
FOREACH (row IN $new_agents | CREATE (:Agent {id: row.id, ns: $ns, name: row.name, created_at: $now}))
FOREACH (row IN $new_streams |
  CREATE (:Stream {id: row.id, ns: $ns, created_at: $now, agent: row.agent, last: row.episodes, unrecorded: 0}))
FOREACH (row IN $new_tasks |
  CREATE (:Task {id: row.id, ns: $ns, key: row.key, description: row.latest.description, described_at: row.latest.at,
    described_by: row.latest.id, type: row.type, type_rule: row.type_rule, typed_at: row.typed.at, typed_by: row.typed.id, created_at: $now,
    episodes: row.episodes, successes: row.successes, score_sum: row.score_sum})
  CREATE (:Pending {id: row.id, ns: $ns, kind: 'Task', created_at: $now}))
FOREACH (row IN $new_strategies |
  CREATE (:Strategy {id: row.id, ns: $ns, text: row.text, created_at: $now, outcomes(row), effective_trials: 0.0,
    effective_successes: 0.0, latest: newest(row.latest), last_used_at: row.last_at, reads: 0, last_read_at: null, merged_into: null})
  CREATE (:Pending {id: row.id, ns: $ns, kind: 'Strategy', created_at: $now}))
WITH count(*) AS done
//? advanced
UNWIND $advanced AS row
MATCH (m:Stream {id: row.id})
SET m.ns = $ns
WITH m, m.last + row.episodes AS last
SET m.last = last
WITH count(*) AS done
//? older
MATCH (a:Agent)
WHERE a.id IN $older AND a.created_at > $now
SET a.created_at = $now
WITH count(*) AS done
//? new_tallies
UNWIND $new_tallies AS row
MATCH (a:Agent {id: row.home})
CREATE (:Tally {id: row.id, ns: $ns, created_at: $now, agent: row.agent, type: row.type, trials: row.trials,
  successes: row.successes, effective_trials: 0.0, effective_successes: 0.0})-[:COUNTS]->(a)
WITH count(*) AS done
//? tallies
UNWIND $tallies AS row
MATCH (y:Tally {id: row.id})
WITH y, y.trials + row.trials AS trials, y.successes + row.successes AS successes, earlier(y.created_at, $now) AS created_at
SET y.trials = trials, y.successes = successes, y.created_at = created_at
WITH count(*) AS done
//? tasks
UNWIND $tasks AS row
MATCH (t:Task {id: row.id})
SET t.ns = $ns
WITH t, row, row.latest AS latest, row.typed AS typed,
     newer(row.latest.at, row.latest.id, t.described_at, t.described_by) AS describes,
     row.typed IS NOT NULL AND (t.typed_at IS NULL OR newer(row.typed.at, row.typed.id, t.typed_at, t.typed_by)) AS types
WITH t, row, latest, typed, describes, types, describes AND typed IS NULL AND t.typed_at IS NULL AS infers,
     CASE WHEN describes AND latest.description <> t.description THEN [t.id] ELSE [] END AS reworded
FOREACH (id IN reworded | MERGE (waiting:Pending {id: id})
  ON CREATE SET waiting.ns = $ns, waiting.kind = 'Task', waiting.created_at = $now)
SET t += {episodes: coalesce(t.episodes, 0) + row.episodes, successes: coalesce(t.successes, 0) + row.successes,
  score_sum: coalesce(t.score_sum, 0.0) + row.score_sum, created_at: earlier(t.created_at, $now),
  description: CASE WHEN describes THEN latest.description ELSE t.description END,
  described_at: CASE WHEN describes THEN latest.at ELSE t.described_at END,
  described_by: CASE WHEN describes THEN latest.id ELSE t.described_by END,
  type: CASE WHEN infers THEN latest.inferred WHEN types THEN typed.task_type ELSE t.type END,
  type_rule: CASE WHEN infers THEN latest.inferred_rule WHEN types THEN 'given' ELSE t.type_rule END,
  typed_at: CASE WHEN types THEN typed.at ELSE t.typed_at END, typed_by: CASE WHEN types THEN typed.id ELSE t.typed_by END}
WITH count(*) AS done
//? strategies
UNWIND $strategies AS row
MATCH (s:Strategy {id: row.id})
SET s.ns = $ns
SET more_outcomes(s, row.trials, row.successes, row.credit_sum, row.score_sum),
  s.last_used_at = later(s.last_used_at, row.last_at), s.created_at = earlier(s.created_at, $now), s.latest = latest(s.latest, row.latest)
WITH count(*) AS done
//? recorded
UNWIND $recorded AS row
MATCH (a:Agent {id: row.agent})
MATCH (t:Task {id: row.task})
MATCH (m:Stream {id: row.stream})
CREATE (a)-[:RAN]->(e:Episode {id: row.id, ns: $ns, created_at: $now, recorded_at: $now, content_hash: row.content_hash,
  task: row.description, keyed: row.keyed, task_type: row.task_type, success: row.success = 1, score: row.score, reward: row.reward,
  error: row.error, feedback: row.feedback, summary: row.summary, started_at: row.started_at, ended_at: row.ended_at,
  duration: row.duration, step_count: row.step_count, use_count: row.use_count, source_key: row.source_key, occurrence: row.occurrence,
  source: row.source, user: row.user, extra: row.extra, type: row.type, type_rule: row.type_rule,
  error_class: row.error_class})-[:ATTEMPTED]->(t)
CREATE (:Event {id: m.id + ':' + toString(m.last - row.followers), ns: $ns, created_at: $now, stream: m.id, seq: m.last - row.followers,
  kind: 'episode', subject: row.id})-[:ABOUT]->(e)
FOREACH (at IN row.recent | CREATE (t)-[:RECENT {at: at}]->(e))
FOREACH (step IN row.steps | CREATE (e)-[:HAS_STEP]->(:Step {step_properties(step)}))
WITH count(*) AS done
//? used
UNWIND $used AS row
MATCH (e:Episode {id: row.episode})
MATCH (s:Strategy {id: row.strategy})
CREATE (e)-[:USED {rank: row.rank, credit: row.credit, shown: row.shown, applied: row.applied, failed: row.failed,
  propensity: row.propensity, explore: row.explore, candidates: row.candidates}]->(s)
WITH count(*) AS done
//? outcomes
UNWIND $outcomes AS row
MATCH (s:Strategy {id: row.strategy})
MATCH (t:Task {id: row.task})
MERGE (t)<-[o:OUTCOME {agent: row.agent}]-(s)
ON CREATE SET o.trials = 0, o.successes = 0, o.credit_sum = 0.0, o.score_sum = 0.0
SET more_outcomes(o, row.trials, row.successes, row.credit_sum, row.score_sum), o.last_at = later(o.last_at, row.last_at),
  o.latest = latest(o.latest, row.latest)
SET more_effective(s, o, row.trials, row.successes)
WITH count(*) AS done
//? together
UNWIND $together AS row
MATCH (x:Strategy {id: row.low})
MATCH (y:Strategy {id: row.high})
OPTIONAL MATCH (x)-[c:CO_OCCURS_WITH]->(y)
WITH x, y, c, row.dates AS dates, coalesce(c.count, 0) + row.times AS count, coalesce(c.successes, 0) + row.successes AS successes,
     coalesce(c.undated, 0) + row.times - size(row.dates) AS undated, coalesce(c.weight - c.undated, 0.0) AS dated, c.last_at AS before,
     later(c.last_at, row.last_at) AS last_at
WITH x, y, c, count, successes, undated, last_at,
     undated + CASE WHEN before IS NULL THEN 0.0 ELSE dated * decayed(before, last_at, $half_life) END
     + reduce(sum = 0.0, date IN dates | sum + decayed(date, last_at, $half_life)) AS weight
FOREACH (ignored IN CASE WHEN c IS NULL THEN [1] ELSE [] END |
  CREATE (x)-[:CO_OCCURS_WITH {count: count, successes: successes, undated: undated, weight: weight, last_at: last_at}]->(y))
FOREACH (edge IN CASE WHEN c IS NULL THEN [] ELSE [c] END |
  SET edge.count = count, edge.successes = successes, edge.undated = undated, edge.weight = weight, edge.last_at = last_at)
WITH count(*) AS done
//? new_heuristics
UNWIND $new_heuristics AS row
MATCH (s:Strategy {id: row.strategy})
MATCH (y:Tally {id: row.tally})
CREATE (h:Heuristic {id: row.id, ns: $ns, created_at: $now, agent: row.agent, type: row.type, text: s.text, outcomes(row),
  odds: odds(row.successes, row.trials - row.successes), first_at: row.first_at, last_at: row.last_at})-[:RECOMMENDS]->(s)
SET more_effective(y, h, row.trials, row.successes)
WITH count(*) AS done
//? heuristics
UNWIND $heuristics AS row
MATCH (h:Heuristic {id: row.id})
MATCH (y:Tally {id: row.tally})
SET more_outcomes(h, row.trials, row.successes, row.credit_sum, row.score_sum), h.first_at = earlier(h.first_at, row.first_at),
  h.last_at = later(h.last_at, row.last_at), h.created_at = earlier(h.created_at, $now)
SET h.odds = odds(h.successes, h.trials - h.successes), more_effective(y, h, row.trials, row.successes)
WITH count(*) AS done
//? new_anti_patterns
UNWIND $new_anti_patterns AS row
MATCH (s:Strategy {id: row.strategy})
CREATE (p:AntiPattern {id: row.id, ns: $ns, created_at: $now, agent: row.agent, error_class: row.error_class, text: s.text,
  types: row.types, occurrences: row.trials, successes: 0, odds: 0.0, first_at: row.first_at, last_at: row.last_at})-[:WARNS_AGAINST]->(s)
WITH p, row
UNWIND row.opposing AS heuristic
MATCH (h:Heuristic {id: heuristic})
CREATE (p)-[:OPPOSED_BY]->(h)
WITH count(*) AS done
//? anti_patterns
UNWIND $anti_patterns AS row
MATCH (p:AntiPattern {id: row.id})
WITH p, row.opposing AS opposing, p.occurrences + row.trials AS occurrences, earlier(p.first_at, row.first_at) AS first_at,
     later(p.last_at, row.last_at) AS last_at, earlier(p.created_at, $now) AS created_at,
     p.types + [type IN row.types WHERE NOT type IN p.types] AS types
SET p.occurrences = occurrences, p.types = types, p.first_at = first_at, p.last_at = last_at, p.created_at = created_at
WITH p, opposing
UNWIND opposing AS heuristic
MATCH (h:Heuristic {id: heuristic})
MERGE (p)-[:OPPOSED_BY]->(h)
WITH count(*) AS done
//? opposing
UNWIND $opposing AS id
MATCH (g:Heuristic {id: id})
MATCH (g)<-[:OPPOSED_BY]-(p:AntiPattern)
WITH DISTINCT p
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, sum(h.successes) AS successes
SET p.successes = successes, p.odds = odds(p.occurrences, successes)
WITH count(*) AS done
//? evidence
UNWIND $evidence AS row
MATCH (h:Heuristic {id: row.id})
MATCH (e:Episode {id: row.episode})
CREATE (h)-[:DERIVED_FROM {supports: row.supports, at: row.at}]->(e)
WITH count(*) AS done
//? failures
UNWIND $failures AS row
MATCH (p:AntiPattern {id: row.id})
MATCH (e:Episode {id: row.episode})
CREATE (p)-[:DERIVED_FROM {supports: true, at: row.at}]->(e)
WITH count(*) AS done
//? new_rules
UNWIND $new_rules AS row
MATCH (t:Task {id: row.task})
OPTIONAL MATCH (r:Rule {id: row.id})
WITH row, t, r WHERE r IS NULL
CREATE (t)-[:HAS_RULE]->(:Rule {id: row.id, ns: $ns, created_at: $now, text: row.text, task: t.key, source: 'episodes', verdict: null,
  worked: 0, praised: 0, failed: 0, blamed: 0, first_at: null, last_at: null, worked_at: null, failed_at: null})
WITH count(*) AS done
//? sentences
UNWIND $sentences AS row
MATCH (e:Episode {id: row.episode})
MATCH (r:Rule {id: row.rule})
CREATE (e)-[:LISTED {as_success: row.as_success, rank: row.rank}]->(r)
WITH count(*) AS done
//? rules
UNWIND $rules AS row
UNWIND row.sentences AS item
WITH item.rule AS id,
     sum(CASE WHEN praised(row.score) AND item.success THEN 1 ELSE 0 END) AS worked,
     sum(CASE WHEN praised(row.score) THEN 1 ELSE 0 END) AS praised,
     sum(CASE WHEN blamed(row.score) AND item.mistake THEN 1 ELSE 0 END) AS failed,
     sum(CASE WHEN blamed(row.score) THEN 1 ELSE 0 END) AS blamed, min(row.used_at) AS first_at, max(row.used_at) AS last_at,
     max(CASE WHEN praised(row.score) AND item.success THEN row.at ELSE null END) AS worked_at,
     max(CASE WHEN blamed(row.score) AND item.mistake THEN row.at ELSE null END) AS failed_at
ORDER BY id
MATCH (r:Rule {id: id})
WITH r, r.worked + worked AS worked, r.praised + praised AS praised, r.failed + failed AS failed, r.blamed + blamed AS blamed,
     earlier(r.first_at, first_at) AS first_at, later(r.last_at, last_at) AS last_at,
     later(r.worked_at, worked_at) AS worked_at, later(r.failed_at, failed_at) AS failed_at, earlier(r.created_at, $now) AS created_at
SET r.worked = worked, r.praised = praised, r.failed = failed, r.blamed = blamed, r.first_at = first_at, r.last_at = last_at,
    r.worked_at = worked_at, r.failed_at = failed_at, r.created_at = created_at, r.verdict = verdict(worked, praised, failed, blamed)
WITH count(*) AS done
//? new_mistakes
UNWIND $new_mistakes AS row
OPTIONAL MATCH (m:Mistake {id: row.mistake})
WITH row, m WHERE m IS NULL
CREATE (:Mistake {id: row.mistake, ns: $ns, created_at: $now, type: row.type, task: row.about, worker: row.worker,
  correct_decision: row.correct_decision, seen: 0, evidence: null, lesson: null, first_episode: null, first_order: null,
  last_episode: null, last_order: null, last_rank: null, first_at: null, last_at: null})
WITH count(*) AS done
//? cards
UNWIND $cards AS row
MATCH (e:Episode {id: row.episode})
MATCH (m:Mistake {id: row.mistake})
CREATE (e)-[:MADE {rank: row.rank, about_given: row.about_given, bad_decision: row.bad_decision, evidence: row.evidence,
  lesson: row.lesson, extra: row.extra}]->(m)
WITH count(*) AS done
//? mistakes
UNWIND $mistakes AS row
MATCH (m:Mistake {id: row.id})
SET m.ns = $ns
WITH m, row.seen AS seen, row.latest AS latest, row.earliest AS earliest, earlier(m.first_at, row.first_at) AS first_at,
     later(m.last_at, row.last_at) AS last_at, earlier(m.created_at, $now) AS created_at,
     m.last_order IS NULL OR row.latest.at > m.last_order OR (row.latest.at = m.last_order AND row.latest.episode > m.last_episode)
       OR (row.latest.at = m.last_order AND row.latest.episode = m.last_episode AND row.latest.rank > m.last_rank) AS newer,
     m.first_order IS NULL OR row.earliest.at < m.first_order
       OR (row.earliest.at = m.first_order AND row.earliest.episode < m.first_episode) AS older,
     CASE WHEN m.last_order IS NULL OR row.earliest.at > m.last_order
       OR (row.earliest.at = m.last_order AND row.earliest.episode > m.last_episode) THEN null ELSE m.id END AS mixed
OPTIONAL MATCH (:Mistake {id: mixed})<-[k:MADE]-(e:Episode)
WITH m, seen, latest, earliest, first_at, last_at, created_at, newer, older, mixed, k, e
ORDER BY coalesce(e.ended_at, e.started_at, e.recorded_at) DESC, e.id DESC, k.rank DESC
WITH m, seen, latest, earliest, first_at, last_at, created_at, newer, older, mixed, collect(said(k.bad_decision)) AS bad_decisions,
     collect(said(k.evidence)) AS evidence, collect(said(k.lesson)) AS lessons
WITH m, m.seen + seen AS seen, first_at, last_at, created_at,
     CASE WHEN mixed IS NULL THEN coalesce(said(latest.bad_decision), m.bad_decision) ELSE bad_decisions[0] END AS bad_decision,
     CASE WHEN mixed IS NULL THEN coalesce(said(latest.evidence), m.evidence) ELSE evidence[0] END AS evidence,
     CASE WHEN mixed IS NULL THEN coalesce(said(latest.lesson), m.lesson) ELSE lessons[0] END AS lesson,
     CASE WHEN newer THEN latest.episode ELSE m.last_episode END AS last_episode,
     CASE WHEN newer THEN latest.at ELSE m.last_order END AS last_order, CASE WHEN newer THEN latest.rank ELSE m.last_rank END AS last_rank,
     CASE WHEN older THEN earliest.episode ELSE m.first_episode END AS first_episode,
     CASE WHEN older THEN earliest.at ELSE m.first_order END AS first_order
SET m.seen = seen, m.bad_decision = bad_decision, m.evidence = evidence, m.lesson = lesson, m.first_episode = first_episode,
    m.first_order = first_order, m.last_episode = last_episode, m.last_order = last_order, m.last_rank = last_rank, m.first_at = first_at,
    m.last_at = last_at, m.created_at = created_at
WITH count(*) AS done
//?
RETURN done;

// name: learning.episodes
// doc: What was learned of episodes, but their steps, in parts: the episode itself, the strategies that it used, the sentences that it
// doc: lists, its cards of mistakes; `rank` is the place of a strategy, a sentence or a card.
// returns: id string, part string, rank integer, fields map
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (a:Agent)-[:RAN]->(e)
MATCH (e)-[:ATTEMPTED]->(t:Task)
RETURN e.id AS id, 'episode' AS part, 0 AS rank,
  {agent: a.name, user: e.user, task_key: CASE WHEN e.keyed THEN t.key END, task: e.task, task_type: e.task_type, success: e.success,
  score: e.score, reward: e.reward, error: e.error, feedback: e.feedback, summary: e.summary, started_at: e.started_at,
  ended_at: e.ended_at,
  duration: e.duration, extra: e.extra} AS fields
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
RETURN e.id AS id, 'strategy' AS part, u.rank AS rank, {text: s.text, credit: u.credit, applied: u.applied, shown: u.shown,
  propensity: u.propensity, explore: u.explore, candidates: u.candidates} AS fields
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[l:LISTED]->(r:Rule)
RETURN e.id AS id, CASE WHEN l.as_success THEN 'successes' ELSE 'mistakes' END AS part, l.rank AS rank, {text: r.text} AS fields
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[k:MADE]->(m:Mistake)
RETURN e.id AS id, 'mistake_cards' AS part, k.rank AS rank, {type: m.type, task: CASE WHEN k.about_given THEN m.task END,
  worker: m.worker, correct_decision: m.correct_decision, bad_decision: k.bad_decision, evidence: k.evidence, lesson: k.lesson,
  extra: k.extra} AS fields;

// name: learning.steps_of
// doc: The steps of episodes, in order.
// returns: id string, index integer, action_type string, action string, observation string, reward float, error string, state string
// returns: next_state string, terminal boolean
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[:HAS_STEP]->(s:Step)
RETURN e.id AS id, s.index AS index, s.action_type AS action_type, s.action AS action, s.observation AS observation,
       s.reward AS reward, s.error AS error, s.state AS state, s.next_state AS next_state, s.terminal AS terminal
ORDER BY id, index;

// name: learning.best
// install: best_strategies
// doc: Strategies by the lower bound of their success rate over all tasks and agents; merged ones count as one.
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, mean_score float
// returns: last_used_at integer, tasks integer, agents list
CALL {
  MATCH (s:Strategy)
  WHERE s.ns = $ns AND s.trials > 0 AND s.merged_into IS NULL
  WITH s, wilson_lower(s.successes, s.trials, $z_value) AS lower,
       posterior_mean(s.successes, s.trials, $prior_successes, $prior_failures) AS mean
  ORDER BY lower DESC, mean DESC, s.id
  LIMIT $limit
  RETURN s.id AS whole, [s.id] AS members, s.trials AS trials, s.successes AS successes, s.credit_sum AS credit_sum,
         s.score_sum AS score_sum, s.last_used_at AS last_used_at
  UNION ALL
  MATCH (s:Strategy)
  WHERE s.ns = $ns AND s.trials > 0 AND s.merged_into IS NOT NULL
  RETURN s.merged_into AS whole, collect(s.id) AS members, sum(s.trials) AS trials, sum(s.successes) AS successes,
         sum(s.credit_sum) AS credit_sum, sum(s.score_sum) AS score_sum, max(s.last_used_at) AS last_used_at
}
WITH whole, members, trials, successes, credit_sum, score_sum, last_used_at, wilson_lower(successes, trials, $z_value) AS lower,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean
ORDER BY lower DESC, mean DESC, whole
LIMIT $limit
UNWIND members AS member
MATCH (s:Strategy {id: member})-[o:OUTCOME]->(t:Task)
WITH whole, trials, successes, credit_sum, score_sum, last_used_at, lower, mean, count(DISTINCT t.id) AS tasks,
     collect(DISTINCT o.agent) AS agents
WITH *, wilson_upper(successes, trials, $z_value) AS upper
MATCH (s:Strategy {id: whole})
RETURN s.id AS id, s.text AS text, trials, successes, mean, lower, upper, status(lower, upper, $established, $refuted) AS status,
       mean_score(score_sum, credit_sum) AS mean_score, last_used_at, tasks, agents
ORDER BY lower DESC, mean DESC, id;

// name: learning.best_on
// install: best_strategies_on
// doc: Strategies by the lower bound of their success rate on one task, or on the tasks of a type (no type: on all), by one agent or by
// doc: all.
// param: tasks list, task_type string = null, agent string = null
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string, mean_score float
// returns: last_used_at integer, tasks integer, agents list
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns AND ($task_type IS NULL OR t.type = $task_type)
MATCH (s:Strategy)-[o:OUTCOME]->(t)
WHERE $agent IS NULL OR o.agent = $agent
WITH whole(s) AS whole, sum(o.trials) AS trials, sum(o.successes) AS successes, sum(o.credit_sum) AS credit_sum,
  sum(o.score_sum) AS score_sum, max(o.last_at) AS last_used_at, count(DISTINCT t.id) AS tasks, collect(DISTINCT o.agent) AS agents
WITH whole, trials, successes, credit_sum, score_sum, last_used_at, tasks, agents,
     posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
     wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
ORDER BY lower DESC, mean DESC, whole
LIMIT $limit
MATCH (s:Strategy {id: whole})
RETURN s.id AS id, s.text AS text, trials, successes, mean, lower, upper, status(lower, upper, $established, $refuted) AS status,
       mean_score(score_sum, credit_sum) AS mean_score, last_used_at, tasks, agents
ORDER BY lower DESC, mean DESC, id
LIMIT $limit;

// name: learning.find_tasks
// doc: The ids of the tasks of a type, or of all.
// param: task_type string
// returns: id string
MATCH (t:Task)
WHERE t.ns = $ns AND ($task_type IS NULL OR t.type = $task_type)
RETURN t.id AS id
ORDER BY id;
