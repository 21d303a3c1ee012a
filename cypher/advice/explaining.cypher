// Explanations: the evidence for a belief, and what would change it. It is trials: applied uses of a strategy, episodes that list a rule,
// or trials of a policy. A trial counts as 1 if it supports the belief, else as 0. Times are those of dated trials, in order. Merged
// strategies count as one.

// name: explaining.find
// doc: The explainable item with one of the given ids: a strategy (with its whole), heuristic, anti-pattern, rule or policy.
// returns: kind string, id string, text string, agent string, types list, error_class string, verdict string, task string, source string
// returns: strategy string, whole string, first_at integer, last_at integer
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN 'strategy' AS kind, s.id AS id, s.text AS text, null AS agent, null AS types, null AS error_class, null AS verdict, null AS task,
  null AS source, s.id AS strategy, whole(s) AS whole, null AS first_at, null AS last_at
UNION ALL
MATCH (h:Heuristic) WHERE h.id IN $ids AND toString(h.ns) = $ns
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
RETURN 'heuristic' AS kind, h.id AS id, h.text AS text, h.agent AS agent, [h.type] AS types, null AS error_class, null AS verdict,
  null AS task, null AS source, s.id AS strategy, whole(s) AS whole, null AS first_at, null AS last_at
UNION ALL
MATCH (p:AntiPattern) WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)-[:WARNS_AGAINST]->(s:Strategy)
RETURN 'anti-pattern' AS kind, p.id AS id, p.text AS text, p.agent AS agent, p.types AS types, p.error_class AS error_class,
  null AS verdict, null AS task, null AS source, s.id AS strategy, whole(s) AS whole, null AS first_at, null AS last_at
UNION ALL
MATCH (r:Rule) WHERE r.id IN $ids AND toString(r.ns) = $ns
RETURN 'rule' AS kind, r.id AS id, r.text AS text, null AS agent, null AS types, null AS error_class, r.verdict AS verdict, r.task AS task,
       r.source AS source, null AS strategy, null AS whole, r.first_at AS first_at, r.last_at AS last_at
UNION ALL
MATCH (p:Policy) WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN 'policy' AS kind, p.id AS id, p.action_type + CASE WHEN p.action_spec IS NULL THEN '' ELSE ' ' + p.action_spec END AS text,
  p.agent AS agent, null AS types, null AS error_class, null AS verdict, null AS task, null AS source, null AS strategy, null AS whole,
  null AS first_at, null AS last_at;

// name: explaining.find_text
// doc: Heuristics, anti-patterns and rules with a given text (for an anti-pattern also its class of errors), by kind and id; those of all
// doc: agents, or those of given ones on given types of tasks. General rules are of all agents.
// option: own  those of given agents alone
// param: text string, types list = null, limit integer = 21
// returns: kind string, id string, text string, agent string, about string
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.text = $text AND ($agents IS NULL OR h.agent IN $agents) AND ($types IS NULL OR h.type IN $types)
WITH h ORDER BY h.id LIMIT $limit
RETURN 'heuristic' AS kind, h.id AS id, h.text AS text, h.agent AS agent, h.type AS about
UNION ALL
MATCH (p:AntiPattern)
WHERE p.ns = $ns AND (p.text = $text OR p.error_class = $text) AND ($agents IS NULL OR p.agent IN $agents)
  AND ($types IS NULL OR size([type IN p.types WHERE NOT type IN $types]) = 0)
WITH p ORDER BY p.id LIMIT $limit
RETURN 'anti-pattern' AS kind, p.id AS id, p.text AS text, p.agent AS agent, p.error_class AS about
UNION ALL
MATCH (r:Rule)
WHERE r.ns = $ns AND r.text = $text
MATCH (r)<-[:LISTED]-(e:Episode)<-[:RAN]-(a:Agent)                                                              //? own
WHERE a.name IN $agents AND ($types IS NULL OR e.type IN $types)                                                //? own
WITH DISTINCT r
ORDER BY r.id
LIMIT $limit
RETURN 'rule' AS kind, r.id AS id, r.text AS text, null AS agent, coalesce(r.task, 'all tasks') AS about;

// name: explaining.alike
// doc: Strategies whose text contains a given text or is part of it, ignoring case; most trials first.
// param: text string, limit integer = 3
// returns: text string
MATCH (s:Strategy)
WHERE s.ns = $ns AND (toLower(s.text) CONTAINS toLower($text) OR toLower($text) CONTAINS toLower(s.text))
RETURN s.text AS text
ORDER BY s.trials DESC, s.id
LIMIT $limit;

// name: explaining.members
// doc: The strategies that count as one, their whole first.
// param: whole string
// returns: id string, text string
MATCH (s:Strategy {id: $whole})
WITH s, s.ns AS ns WHERE ns = $ns
RETURN s.id AS id, s.text AS text
UNION ALL
MATCH (s:Strategy {id: $whole})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (m:Strategy)-[:MERGED_INTO]->(s)
WITH m ORDER BY m.id
RETURN m.id AS id, m.text AS text;

// name: explaining.lessons
// doc: Heuristics that recommend strategies, and anti-patterns that warn against them, with trials and supporting trials. Lessons with the
// doc: same agent and type of task (or class of errors) count as one, under the smallest id.
// param: types list = null
// returns: kind string, id string, ids list, strategies list, agent string, types list, error_class string, trials integer
// returns: successes integer, mean float, lower float, upper float
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (h:Heuristic)-[:RECOMMENDS]->(s)
WHERE ($agents IS NULL OR h.agent IN $agents) AND ($types IS NULL OR h.type IN $types)
WITH h.agent AS agent, h.type AS type, min(h.id) AS id, collect(h.id) AS ids, collect({id: s.id, types: [h.type]}) AS strategies,
     sum(h.trials) AS trials, sum(h.successes) AS successes
RETURN 'heuristic' AS kind, id, ids, strategies, agent, [type] AS types, null AS error_class, trials, successes,
       posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean, wilson_lower(successes, trials, $z_value) AS lower,
       wilson_upper(successes, trials, $z_value) AS upper
UNION ALL
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (p:AntiPattern)-[:WARNS_AGAINST]->(s)
WHERE ($agents IS NULL OR p.agent IN $agents) AND ($types IS NULL OR size([type IN p.types WHERE NOT type IN $types]) = 0)
WITH p.agent AS agent, p.error_class AS error_class, min(p.id) AS id, collect(p.id) AS ids,
  collect({id: s.id, types: p.types}) AS strategies, sum(p.occurrences) AS occurrences, sum(p.successes) AS worked
WITH agent, error_class, id, ids, strategies, occurrences, occurrences + worked AS trials
RETURN 'anti-pattern' AS kind, id, ids, strategies, agent,
  reduce(known = [], one IN strategies | known + [type IN one.types WHERE NOT type IN known]) AS types, error_class, trials,
  occurrences AS successes, posterior_mean(occurrences, trials, $prior_successes, $prior_failures) AS mean,
  wilson_lower(occurrences, trials, $z_value) AS lower, wilson_upper(occurrences, trials, $z_value) AS upper;

// name: explaining.uses
// doc: The trials of strategies: their applied uses; how many support the belief, how many have a date, the first one and the last, and the
// doc: latest of them. Parts: {id, types (null: all)}. With a class of errors, its failures support the belief, and successes oppose it.
// option: own  those of given agents alone
// param: parts list, types list = null, error_class string = null, sample integer = 5, most integer = 2000
// returns: trials integer, successes integer, dated integer, first_at integer, last_at integer, latest_trials
UNWIND $parts AS part
MATCH (s:Strategy {id: part.id})
WITH part, s, s.ns AS ns WHERE ns = $ns
MATCH (e:Episode)-[u:USED]->(s)
WHERE u.applied AND ($types IS NULL OR e.type IN $types)
  AND (part.types IS NULL OR e.type IN part.types)
  AND ($error_class IS NULL OR worked(e.success, u.failed) OR fault(e.success, u.failed, e.error_class) = $error_class)
MATCH (a:Agent)-[:RAN]->(e)                                                                                     //? own
WHERE a.name IN $agents                                                                                         //? own
WITH e.id AS episode, coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
     CASE WHEN worked(e.success, u.failed) = ($error_class IS NULL) THEN 1 ELSE 0 END AS supports
ORDER BY at DESC, episode DESC
WITH collect({episode: episode, dated: dated, supports: supports}) AS trials, sum(supports) AS successes, count(dated) AS dated,
     min(dated) AS first_at, max(dated) AS last_at
RETURN size(trials) AS trials, successes, dated, first_at, last_at, latest_trials(trials, $most, $sample);

// name: explaining.shares_of_uses
// doc: All trials by task or agent, most trials first; groups is the number of all tasks or agents.
// option: counted  of all types of tasks and all outcomes: from the counts on the edges to tasks
// param: parts list, by string, types list = null, error_class string = null, limit integer = 10
// returns: name string, text string, trials integer, successes integer, lower float, upper float, groups integer
UNWIND $parts AS part
MATCH (s:Strategy {id: part.id})
WITH part, s, s.ns AS ns WHERE ns = $ns
MATCH (a:Agent)-[:RAN]->(e:Episode)-[u:USED]->(s)                                                               //? !counted
WHERE u.applied AND ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)             //? !counted
  AND (part.types IS NULL OR e.type IN part.types)                                                              //? !counted
  AND ($error_class IS NULL OR worked(e.success, u.failed)                                                      //? !counted
    OR fault(e.success, u.failed, e.error_class) = $error_class)                                                //? !counted
MATCH (e)-[:ATTEMPTED]->(t:Task)                                                                                //? !counted
MATCH (s)-[o:OUTCOME]->(t:Task)                                                                                 //? counted
WHERE $agents IS NULL OR o.agent IN $agents                                                                     //? counted
WITH CASE $by WHEN 'task' THEN t.key ELSE a.name END AS name,                                                   //? !counted
  CASE WHEN worked(e.success, u.failed) = ($error_class IS NULL) THEN 1 ELSE 0 END AS worked, 1 AS tried,       //? !counted
WITH CASE $by WHEN 'task' THEN t.key ELSE o.agent END AS name, o.successes AS worked, o.trials AS tried,        //? counted
  CASE WHEN $by = 'task' AND t.description <> t.key THEN t.description ELSE null END AS text
WITH name, max(text) AS text, sum(tried) AS trials, sum(worked) AS successes
ORDER BY trials DESC, name
WITH collect({name: name, text: text, trials: trials, successes: successes}) AS shares
UNWIND shares[..$limit] AS one
WITH size(shares) AS groups, one.name AS name, one.text AS text, one.trials AS trials, one.successes AS successes
RETURN name, text, trials, successes, wilson_lower(successes, trials, $z_value) AS lower,
  wilson_upper(successes, trials, $z_value) AS upper, groups;

// name: explaining.listings
// doc: The verdict on a rule of a task, how many episodes with a score for or against it list it, and of those that are trials the same as
// doc: explaining.uses. Without a verdict they count as for WORKS.
// param: types list = null, sample integer = 5, most integer = 2000
// returns: verdict string, worked integer, praised integer, failed integer, blamed integer
// returns: trials integer, successes integer, dated integer, first_at integer, last_at integer, latest_trials
MATCH (r:Rule {id: $id})
WITH r, r.ns AS ns WHERE ns = $ns
MATCH (a:Agent)-[:RAN]->(e:Episode)-[l:LISTED]->(r)
WHERE ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
WITH e.id AS episode, e.score AS score, coalesce(e.ended_at, e.started_at) AS dated,
  coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success,
  max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH episode, dated, at, success, mistake, CASE WHEN praised(score) THEN 1 ELSE 0 END AS praised,
  CASE WHEN blamed(score) THEN 1 ELSE 0 END AS blamed
ORDER BY at DESC, episode DESC
WITH sum(praised * success) AS worked, sum(praised) AS praised, sum(blamed * mistake) AS failed, sum(blamed) AS blamed,
     collect(CASE WHEN praised * success + blamed > 0 THEN {episode: episode, dated: dated, supports: praised * success} END) AS works,
     collect(CASE WHEN blamed * mistake + praised > 0 THEN {episode: episode, dated: dated, supports: blamed * mistake} END) AS fails
WITH worked, praised, failed, blamed, works, fails, verdict(worked, praised, failed, blamed) AS verdict
WITH verdict, worked, praised, failed, blamed, CASE verdict WHEN 'AVOID' THEN fails ELSE works END AS trials
WITH verdict, worked, praised, failed, blamed, trials, [t IN trials WHERE t.dated IS NOT NULL | t.dated] AS dates
RETURN verdict, worked, praised, failed, blamed, size(trials) AS trials, CASE verdict WHEN 'AVOID' THEN failed ELSE worked END AS successes,
       size(dates) AS dated, dates[size(dates) - 1] AS first_at, dates[0] AS last_at, latest_trials(trials, $most, $sample);

// name: explaining.shares_of_listings
// doc: The same trials by task or agent, most trials first.
// param: by string, verdict string, types list = null, limit integer = 10
// returns: name string, text string, trials integer, successes integer, lower float, upper float, groups integer
MATCH (r:Rule {id: $id})
WITH r, r.ns AS ns WHERE ns = $ns
MATCH (a:Agent)-[:RAN]->(e:Episode)-[l:LISTED]->(r)
WHERE ($agents IS NULL OR a.name IN $agents) AND ($types IS NULL OR e.type IN $types)
MATCH (e)-[:ATTEMPTED]->(t:Task)
WITH e.id AS episode, CASE $by WHEN 'task' THEN t.key ELSE a.name END AS name,
     CASE WHEN $by = 'task' AND t.description <> t.key THEN t.description ELSE null END AS text, e.score AS score,
     max(CASE WHEN l.as_success THEN 1 ELSE 0 END) AS success, max(CASE WHEN l.as_success THEN 0 ELSE 1 END) AS mistake
WITH name, text, CASE WHEN $verdict = 'AVOID' THEN (CASE WHEN blamed(score) THEN mistake ELSE 0 END)
  ELSE (CASE WHEN praised(score) THEN success ELSE 0 END) END AS supports,
  CASE WHEN $verdict = 'AVOID' THEN (CASE WHEN praised(score) THEN 1 ELSE 0 END)
  ELSE (CASE WHEN blamed(score) THEN 1 ELSE 0 END) END AS opposes
WHERE supports + opposes > 0
WITH name, max(text) AS text, count(*) AS trials, sum(supports) AS successes
ORDER BY trials DESC, name
WITH collect({name: name, text: text, trials: trials, successes: successes}) AS shares
UNWIND shares[..$limit] AS one
WITH size(shares) AS groups, one.name AS name, one.text AS text, one.trials AS trials, one.successes AS successes
RETURN name, text, trials, successes, wilson_lower(successes, trials, $z_value) AS lower,
  wilson_upper(successes, trials, $z_value) AS upper, groups;

// name: explaining.attempts
// doc: The trials of a policy, as in explaining.uses: episodes that took it, reported outcomes, and updates with a success. Only episodes
// doc: appear in the sample.
// param: types list = null, sample integer = 5, most integer = 2000
// returns: trials integer, successes integer, dated integer, first_at integer, last_at integer, latest_trials
CALL {
  MATCH (p:Policy {id: $id}) WITH p, p.ns AS ns WHERE ns = $ns MATCH (e:Episode)-[:TOOK]->(p) WHERE $types IS NULL OR e.type IN $types
  RETURN e.id AS episode, coalesce(e.ended_at, e.started_at) AS dated, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at,
    e.success AS success, e.id AS id
  UNION ALL
  MATCH (p:Policy {id: $id}) WITH p, p.ns AS ns WHERE ns = $ns MATCH (t:Transition)-[:UPDATED]->(p) WHERE t.success IS NOT NULL
  RETURN null AS episode, t.at AS dated, coalesce(t.at, t.created_at) AS at, t.success AS success, t.id AS id
  UNION ALL
  MATCH (p:Policy {id: $id}) WITH p, p.ns AS ns WHERE ns = $ns MATCH (x:Event)-[:ABOUT]->(p) WHERE x.kind = 'outcome'
    AND x.success IS NOT NULL
  RETURN null AS episode, x.at AS dated, coalesce(x.at, x.created_at) AS at, x.success AS success, x.id AS id
}
WITH episode, dated, at, CASE WHEN success THEN 1 ELSE 0 END AS supports, id
ORDER BY at DESC, id DESC
WITH collect({episode: episode, dated: dated, supports: supports}) AS trials, sum(supports) AS successes, count(dated) AS dated,
     min(dated) AS first_at, max(dated) AS last_at
RETURN size(trials) AS trials, successes, dated, first_at, last_at, latest_trials(trials, $most, $sample);

// name: explaining.shares_of_attempts
// doc: The episodes that took a policy by task, most episodes first.
// param: types list = null, limit integer = 10
// returns: name string, text string, trials integer, successes integer, lower float, upper float, groups integer
MATCH (p:Policy {id: $id})
WITH p, p.ns AS ns WHERE ns = $ns
MATCH (e:Episode)-[:TOOK]->(p)
WHERE $types IS NULL OR e.type IN $types
MATCH (e)-[:ATTEMPTED]->(t:Task)
WITH t.key AS name, max(CASE WHEN t.description <> t.key THEN t.description ELSE null END) AS text, count(*) AS trials,
  sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
ORDER BY trials DESC, name
WITH collect({name: name, text: text, trials: trials, successes: successes}) AS shares
UNWIND shares[..$limit] AS one
WITH size(shares) AS groups, one.name AS name, one.text AS text, one.trials AS trials, one.successes AS successes
RETURN name, text, trials, successes, wilson_lower(successes, trials, $z_value) AS lower,
  wilson_upper(successes, trials, $z_value) AS upper, groups;

// name: explaining.episodes
// doc: Episodes for display, latest first; the error is that of the episode, else the last one of its steps, but of the steps of a
// doc: strategy that failed by itself. Whether one of some strategies failed though the run succeeded, the last other one, which saved
// doc: it, and all that it used, the last one first.
// param: strategies list
// returns: evidence_columns, failed boolean, saved_by string, used list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (a:Agent)-[:RAN]->(e)
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WITH e, a, u, s, u.rank AS rank
ORDER BY rank DESC
WITH e, a, collect(CASE WHEN u.failed IS NOT NULL AND s.id IN $strategies THEN s.text END) AS failed,
     collect(CASE WHEN worked(u.applied, u.failed) AND NOT s.id IN $strategies THEN s.text END)[0] AS other,
     collect(CASE WHEN u.applied THEN s.text + CASE WHEN e.success AND u.failed IS NOT NULL THEN ' (failed)' ELSE '' END END) AS used
OPTIONAL MATCH (e)-[:HAS_STEP]->(x:Step)
WITH e, a, failed, other, used, x.error AS error, x.index AS place, CASE WHEN x.action_type IN failed THEN 1 ELSE 0 END AS own
ORDER BY own DESC, place DESC
WITH e, a, other, used, size(failed) > 0 AS failed, collect(error)[0] AS of_step
WITH e, a, other, used, failed AND e.success AS failed, told_error(failed, of_step, e.error) AS wrong
RETURN evidence_columns(e, a, wrong), failed, CASE WHEN failed THEN other END AS saved_by, used
ORDER BY coalesce(e.ended_at, e.started_at, e.recorded_at) DESC, id DESC;

// name: explaining.trend
// doc: The later half of dated trials (with the middle one) compared with the earlier half. Outcomes are 0 or 1, latest first, with their
// doc: times. The change is that of the posterior mean; it is certain if the bounds of the halves do not overlap.
// param: times list, outcomes list
// returns: direction string, change float, certain boolean, earlier_trials integer, earlier_successes integer, later_trials integer
// returns: later_successes integer, later_from integer
WITH size($outcomes) AS trials, toInteger(ceil(size($outcomes) / 2.0)) AS later_trials
WHERE trials > 1
WITH trials - later_trials AS earlier_trials, later_trials, $times[later_trials - 1] AS later_from,
     reduce(sum = 0, one IN $outcomes[later_trials..] | sum + one) AS earlier_successes,
     reduce(sum = 0, one IN $outcomes[..later_trials] | sum + one) AS later_successes
WITH earlier_trials, later_trials, later_from, earlier_successes, later_successes,
     posterior_mean(later_successes, later_trials, $prior_successes, $prior_failures)
       - posterior_mean(earlier_successes, earlier_trials, $prior_successes, $prior_failures) AS change,
     later_successes * earlier_trials - earlier_successes * later_trials AS difference
RETURN CASE WHEN change > 0 AND difference > 0 THEN 'rises' WHEN change < 0 AND difference < 0 THEN 'falls' ELSE 'steady' END AS direction,
  change, wilson_upper(later_successes, later_trials, $z_value) < wilson_lower(earlier_successes, earlier_trials, $z_value)
  OR wilson_upper(earlier_successes, earlier_trials, $z_value) < wilson_lower(later_successes, later_trials, $z_value) AS certain,
  earlier_trials, earlier_successes, later_trials, later_successes, later_from;

// name: explaining.course
// doc: Counts and bounds of the latest trials at a limited number of points in time; outcomes as in explaining.trend. A point counts a
// doc: quarter of all trials, from 5 to 20, or more where some would be left out.
// param: times list, outcomes list, points integer = 40
// returns: at integer, trials integer, successes integer, mean float, lower float, upper float
WITH size($outcomes) AS n
WITH n, CASE WHEN n < $points THEN n ELSE $points END AS points
WITH n, points, CASE WHEN n < 20 THEN 5 WHEN n < 80 THEN toInteger(n / 4) WHEN n < 20 * points THEN 20
  ELSE toInteger(n / points) + 1 END AS span
UNWIND range(1, points) AS place
WITH place, span, n - toInteger(ceil(toFloat(n) * place / points)) AS after
WITH place, $times[after] AS at, $outcomes[after..after + span] AS some
WITH place, at, size(some) AS trials, reduce(sum = 0, one IN some | sum + one) AS successes
RETURN at, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean,
  wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
ORDER BY place;

// name: explaining.turns
// install: turns
// doc: The smallest number of trials in a row, for or against, that changes the status. The bounds are solved for the number of trials, and
// doc: the numbers next to the solution are tested.
// param: trials integer, successes integer
// returns: direction string, more integer, becomes string, lower float, upper float
WITH wilson_lower($successes, $trials, $z_value) AS lower, wilson_upper($successes, $trials, $z_value) AS upper
WITH status(lower, upper, $established, $refuted) AS status
UNWIND [{direction: 'for', needed: CASE WHEN status <> 'established' AND $established < 1.0
           THEN rising($trials - $successes, $established, $z_value) ELSE null END},
        {direction: 'for', needed: CASE WHEN status = 'refuted' AND $refuted < 1.0
           THEN falling($trials - $successes, 1.0 - $refuted, $z_value) ELSE null END},
        {direction: 'against', needed: CASE WHEN status = 'established' AND $established > 0.0
           THEN falling($successes, $established, $z_value) ELSE null END},
        {direction: 'against', needed: CASE WHEN status = 'tentative' AND $refuted > 0.0
           THEN rising($successes, 1.0 - $refuted, $z_value) ELSE null END}] AS turn
WITH status, turn WHERE turn.needed IS NOT NULL
UNWIND range(-2, 3) AS beside
WITH status, turn.direction AS direction, toInteger(floor(turn.needed)) - $trials + beside AS more
WHERE more > 0
WITH status, direction, more, $trials + more AS trials, $successes + CASE direction WHEN 'for' THEN more ELSE 0 END AS successes
WITH status, direction, more, wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
WITH status, direction, more, lower, upper, status(lower, upper, $established, $refuted) AS becomes
WHERE becomes <> status
WITH direction, more, lower, upper, becomes
ORDER BY more
WITH direction, collect({more: more, becomes: becomes, lower: lower, upper: upper})[0] AS first
RETURN direction, first.more AS more, first.becomes AS becomes, first.lower AS lower, first.upper AS upper
ORDER BY direction DESC;

// name: explaining.verdict_turns
// doc: The smallest number of further episodes that change the verdict of a rule: listing it as a success with a high score, or as a
// doc: mistake with a low one.
// param: worked integer, praised integer, failed integer, blamed integer
// returns: direction string, more integer, good boolean, becomes string
WITH verdict($worked, $praised, $failed, $blamed) AS verdict
UNWIND [{direction: 'for', good: true, more: CASE WHEN verdict IS NULL THEN $blamed - $worked + 1 ELSE null END},
  {direction: 'against', good: false, more: CASE WHEN verdict IS NULL THEN $praised - $failed + 1
  WHEN verdict = 'WORKS' THEN $worked - $blamed ELSE null END},
  {direction: 'against', good: true, more: CASE WHEN verdict = 'AVOID' THEN $failed - $praised ELSE null END}] AS turn
WITH turn WHERE turn.more IS NOT NULL
WITH turn, turn.more * CASE WHEN turn.good THEN 1 ELSE 0 END AS up, turn.more * CASE WHEN turn.good THEN 0 ELSE 1 END AS down
WITH turn, $worked + up AS worked, $praised + up AS praised, $failed + down AS failed, $blamed + down AS blamed
RETURN turn.direction AS direction, turn.more AS more, turn.good AS good, verdict(worked, praised, failed, blamed) AS becomes
ORDER BY direction DESC;

// name: explaining.near
// install: near_strategies
// doc: Strategies near given ones: similar ones with the similarity, and co-occurring ones with the weight of their edge (as of its latest
// doc: date). A merged strategy counts as its whole.
// param: limit integer = 8
// returns: relation string, id string, weight float, episodes integer
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[x:SIMILAR_TO]->(o:Strategy) WHERE NOT o.id IN $ids
WITH whole(o) AS id, max(x.similarity) AS weight
ORDER BY weight DESC, id
LIMIT $limit
RETURN 'similar' AS relation, id, weight, null AS episodes
UNION ALL
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[x:CO_OCCURS_WITH]-(o:Strategy) WHERE NOT o.id IN $ids
WITH whole(o) AS id, sum(x.weight) AS weight, sum(x.count) AS episodes
ORDER BY weight DESC, id
LIMIT $limit
RETURN 'used together' AS relation, id, weight, episodes;

// name: explaining.near_by
// doc: Strategies that given agents used together with given strategies on given types of tasks, by the number of episodes.
// param: agents list, types list = null, limit integer = 8
// returns: relation string, id string, weight float, episodes integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH DISTINCT s
MATCH (a:Agent)-[:RAN]->(e:Episode)-[u:USED]->(s)
WHERE u.applied AND a.name IN $agents AND ($types IS NULL OR e.type IN $types)
WITH DISTINCT e
MATCH (e)-[u:USED]->(o:Strategy)
WHERE u.applied AND NOT o.id IN $ids
WITH whole(o) AS id, count(*) AS episodes
ORDER BY episodes DESC, id
LIMIT $limit
RETURN 'used together' AS relation, id, null AS weight, episodes;

// name: explaining.rates
// doc: The outcomes of strategies, including those merged into them; untried ones are left out.
// param: types list = null
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string
MATCH (w:Strategy)
WHERE w.id IN $ids AND toString(w.ns) = $ns
OPTIONAL MATCH (m:Strategy)-[:MERGED_INTO]->(w)
WITH w.id AS id, w.text AS text, collect(m.id) AS merged
UNWIND [id] + merged AS member
MATCH (s:Strategy {id: member})
MATCH (s)<-[:RECOMMENDS]-(h:Heuristic)
WHERE ($agents IS NULL OR h.agent IN $agents) AND ($types IS NULL OR h.type IN $types)
WITH id, text, sum(h.trials) AS trials, sum(h.successes) AS successes
WITH id, text, trials, successes, wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
RETURN id, text, trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status
ORDER BY id;
