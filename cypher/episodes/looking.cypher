// Looking: the latest episodes, the tasks with what works on them, and anything that has an id.

// name: looking.episodes
// doc: Episodes, the latest first: of some tasks, with some strategies, of agents that may be read, or all.
// option: on  the search starts at some tasks
// option: used  the search starts at some strategies
// option: by  the search starts at some agents
// option: newest  it starts at tasks whose latest episode is late enough, and looks at the latest twenty of each
// option: all  more than twenty: at all episodes of these tasks
// param: tasks list = null, strategies list = null, types list = null, task_type string = null, success boolean = null
// param: since integer = null
// returns: id string, task string, task_type string, agent string, success boolean, score float, error string, steps integer, at integer
// returns: recorded_at integer, source_key string, strategies list
//? newest
MATCH (t:Task)
WHERE t.ns = $ns
WITH t.described_at AS described_at ORDER BY described_at DESC LIMIT $limit
WITH min(described_at) AS since_at
MATCH (t:Task)
WHERE t.ns = $ns AND t.described_at >= since_at
//?
MATCH (t)-[:RECENT]->(e:Episode)                                                                      //? newest !all
MATCH (t)<-[:ATTEMPTED]-(e:Episode)                                                                   //? newest all
//? on
MATCH (t:Task)
WHERE t.id IN $tasks AND toString(t.ns) = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)
//? used
MATCH (s:Strategy)
WHERE s.id IN $strategies AND toString(s.ns) = $ns
MATCH (s)<-[:USED]-(e:Episode)
WITH DISTINCT e
//? by
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)
//? !on !used !by !newest
MATCH (e:Episode)
WHERE e.ns = $ns
//?
WITH e, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
WHERE ($types IS NULL OR e.type IN $types) AND ($task_type IS NULL OR e.type = $task_type)
  AND ($agents IS NULL OR EXISTS { MATCH (e)<-[:RAN]-(b:Agent) WHERE b.name IN $agents })
  AND ($strategies IS NULL OR EXISTS { MATCH (e)-[v:USED]->(w:Strategy) WHERE v.applied AND w.id IN $strategies })
  AND ($success IS NULL OR e.success = $success) AND ($since IS NULL OR at >= $since)
WITH e, at ORDER BY at DESC, e.id DESC LIMIT $limit
MATCH (a:Agent)-[:RAN]->(e)
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WITH e, at, a.name AS agent, u.rank AS rank, u.applied AS applied, s.text AS text
ORDER BY rank
WITH e, at AS place, agent, collect(CASE WHEN applied THEN text END) AS strategies
RETURN e.id AS id, e.task AS task, e.type AS task_type, agent, e.success AS success, e.score AS score, e.error AS error,
  e.step_count AS steps, coalesce(e.ended_at, e.started_at) AS at, e.recorded_at AS recorded_at, e.source_key AS source_key, strategies
ORDER BY place DESC, id DESC;

// name: looking.tasks
// doc: Tasks with their episodes: the most episodes first ("trials"), the best ("best") or worst ("worst") bound of the success rate, or
// doc: the latest ("latest").
// param: task_type string = null, sort string
// returns: id string, key string, text string, task_type string, trials integer, successes integer, lower float, upper float
// returns: score_sum float, last_at integer
MATCH (t:Task)
WHERE t.ns = $ns AND t.episodes > 0 AND ($task_type IS NULL OR t.type = $task_type)
WITH t, CASE $sort WHEN 'trials' THEN toFloat(t.episodes) WHEN 'latest' THEN toFloat(t.described_at)
  WHEN 'best' THEN wilson_lower(t.successes, t.episodes, $z_value) ELSE 0.0 - wilson_upper(t.successes, t.episodes, $z_value) END AS place
ORDER BY place DESC, t.id
LIMIT $limit
RETURN t.id AS id, t.key AS key, t.description AS text, t.type AS task_type, t.episodes AS trials, t.successes AS successes,
  wilson_lower(t.successes, t.episodes, $z_value) AS lower, wilson_upper(t.successes, t.episodes, $z_value) AS upper,
  t.score_sum AS score_sum, t.described_at AS last_at
ORDER BY place DESC, id;

// name: looking.tasks_by
// doc: The tasks that given agents attempted, with their episodes of given types alone.
// param: types list = null
// returns: id string, key string, trials integer, successes integer, lower float, upper float, score_sum float, last_at integer
MATCH (a:Agent)
WHERE a.ns = $ns AND a.name IN $agents
MATCH (a)-[:RAN]->(e:Episode)-[:ATTEMPTED]->(t:Task)
WHERE $types IS NULL OR e.type IN $types
WITH t, count(*) AS trials, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes, sum(e.score) AS score_sum,
  max(coalesce(e.ended_at, e.started_at, e.recorded_at)) AS last_at
RETURN t.id AS id, t.key AS key, trials, successes, wilson_lower(successes, trials, $z_value) AS lower,
  wilson_upper(successes, trials, $z_value) AS upper, score_sum, last_at
ORDER BY id;

// name: looking.best_on
// doc: How many strategies were tried on each of some tasks, and the five that have the best lower bounds.
// option: by  as the episodes of some agents, on some types of tasks, say
// param: types list = null
// returns: task string, strategies integer, id string, text string, trials integer, successes integer, mean float, lower float
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
//? !by
MATCH (s:Strategy)-[o:OUTCOME]->(t)
WITH t.id AS task, coalesce(s.merged_into, s.id) AS way, sum(o.trials) AS trials, sum(o.successes) AS successes
//? by
MATCH (t)<-[:ATTEMPTED]-(e:Episode)-[u:USED]->(s:Strategy)
WHERE u.applied AND ($types IS NULL OR e.type IN $types)
WITH DISTINCT t, e, u, s
MATCH (e)<-[:RAN]-(a:Agent)
WHERE a.name IN $agents
WITH t.id AS task, s.id AS way, count(*) AS trials,
  sum(CASE WHEN worked(e.success, u.failed) THEN 1 ELSE 0 END) AS successes
//?
WITH task, way, trials, successes, wilson_lower(successes, trials, $z_value) AS lower
ORDER BY lower DESC, trials DESC, way
WITH task, collect({way: way, trials: trials, successes: successes, lower: lower}) AS ways
WITH task, size(ways) AS strategies, ways[..5] AS best
UNWIND best AS one
WITH task, strategies, one.way AS way, one.trials AS trials, one.successes AS successes, one.lower AS lower
MATCH (s:Strategy {id: way})
RETURN task, strategies, way AS id, s.text AS text, trials, successes, 1.0 * successes / trials AS mean, lower
ORDER BY task, lower DESC, trials DESC, id;

// name: looking.find
// doc: Nodes of any kind whose ids are in a range (of events: begin it), and their fields. Times are milliseconds.
// returns: kind string, id string, fields map
MATCH (n:Episode)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'episode' AS kind, n.id AS id, {
    task: n.task, task_type: n.type, success: n.success, score: n.score, reward: n.reward, error: n.error, feedback: n.feedback,
    summary: n.summary, started_at: n.started_at, ended_at: n.ended_at, recorded_at: n.recorded_at, duration: n.duration,
    steps: n.step_count, source_key: n.source_key, source: n.source, user: n.user, extra: n.extra} AS fields
UNION ALL
MATCH (n:Abandoned)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'abandoned attempt' AS kind, n.id AS id, {
    task: n.task, task_type: n.task_type, agent: n.agent, strategies: n.strategies, error: n.error, started_at: n.started_at,
    ended_at: n.ended_at, steps: n.step_count} AS fields
UNION ALL
MATCH (n:Task)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'task' AS kind, n.id AS id, {
    key: n.key, text: n.description, task_type: n.type, episodes: n.episodes, successes: n.successes} AS fields
UNION ALL
MATCH (n:Strategy)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'strategy' AS kind, n.id AS id, {
    text: n.text, trials: n.trials, successes: n.successes, last_used_at: n.last_used_at, merged_into: n.merged_into} AS fields
UNION ALL
MATCH (n:Heuristic)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'heuristic' AS kind, n.id AS id, {
    text: n.text, agent: n.agent, task_type: n.type, trials: n.trials, successes: n.successes, first_at: n.first_at,
    last_at: n.last_at} AS fields
UNION ALL
MATCH (n:AntiPattern)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'anti-pattern' AS kind, n.id AS id, {
    text: n.text, agent: n.agent, error_class: n.error_class, task_types: n.types, occurrences: n.occurrences,
    first_at: n.first_at, last_at: n.last_at} AS fields
UNION ALL
MATCH (n:Rule)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'rule' AS kind, n.id AS id, {
    text: n.text, task: n.task, verdict: n.verdict, source: n.source, task_types: n.task_types, first_at: n.first_at,
    last_at: n.last_at} AS fields
UNION ALL
MATCH (n:Mistake)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'mistake' AS kind, n.id AS id, {
    type: n.type, task: n.task, worker: n.worker, correct_decision: n.correct_decision, bad_decision: n.bad_decision,
    lesson: n.lesson, evidence: n.evidence, seen: n.seen, first_at: n.first_at, last_at: n.last_at} AS fields
UNION ALL
MATCH (n:Policy)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'policy' AS kind, n.id AS id, {
    agent: n.agent, action: n.action_type, spec: n.action_spec, q: n.q, updates: n.updates, trials: n.trials,
    successes: n.successes, confidence: n.confidence, crystallized: n.crystallized, last_updated_at: n.last_updated_at} AS fields
UNION ALL
MATCH (n:State)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'state' AS kind, n.id AS id, {
    fingerprint: n.fingerprint, features: n.features} AS fields
UNION ALL
MATCH (n:Prediction)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'prediction' AS kind, n.id AS id, {
    subject: n.subject, kind: n.kind, agent: n.agent, probability: n.probability, expected: n.expected, status: n.status, at: n.at,
    due_at: n.due_at, resolved_at: n.resolved_at, actual: n.actual, error: n.error, happened: n.happened} AS fields
UNION ALL
MATCH (n:Cycle)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'cycle' AS kind, n.id AS id, {
    subject: n.subject, kind: n.kind, timezone: n.timezone, events: n.events, peak: n.peak, p_value: n.p_value} AS fields
UNION ALL
MATCH (n:Level)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'level' AS kind, n.id AS id, {
    name: n.name, purpose: n.purpose, holds: n.holds, ttl: n.ttl / 1000.0, capacity: n.capacity} AS fields
UNION ALL
MATCH (n:Entry)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'entry' AS kind, n.id AS id, {
    key: n.key, content: n.content, tags: n.tags, metadata: n.metadata, at: n.at, expires_at: n.expires_at,
    reads: n.reads} AS fields
UNION ALL
MATCH (n:Lens)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'lens' AS kind, n.id AS id, {
    name: n.name, purpose: n.purpose, levels: n.levels} AS fields
UNION ALL
MATCH (n:Knowledge)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'knowledge' AS kind, n.id AS id, {
    domain: n.domain, fact: n.fact} AS fields
UNION ALL
MATCH (n:Preference)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'preference' AS kind, n.id AS id, {
    user: n.user, category: n.category, text: n.text, source: n.source, confidence: n.confidence, at: n.at} AS fields
UNION ALL
MATCH (n:LearningScope)
WHERE n.ns = $ns AND n.id >= $first AND n.id < $beyond
RETURN 'scope' AS kind, n.id AS id, {
    agent: n.agent, can_learn: n.can_learn, cannot_learn: n.cannot_learn, share_with: n.share_with, inherit_from: n.inherit_from,
    min_occurrences: n.min_occurrences} AS fields
UNION ALL
MATCH (n:Event {id: $first})
WHERE toString(n.ns) = $ns
RETURN 'event' AS kind, n.id AS id, {
    kind: n.kind, subject: n.subject, seq: n.seq, recorded_at: n.created_at} AS fields;

// name: looking.links
// doc: The nodes that an item is linked with, a few of each relation; for an episode all strategies, for a task those with most trials.
// returns: relation string, kind string, id string, text string
MATCH (n:Episode)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)<-[:RAN]-(a:Agent)
RETURN 'by' AS relation, 'agent' AS kind, null AS id, a.name AS text
UNION ALL
MATCH (n:Episode)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[:ATTEMPTED]->(t:Task)
RETURN 'attempted' AS relation, 'task' AS kind, t.id AS id, t.description AS text
UNION ALL
MATCH (n:Episode)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[u:USED]->(s:Strategy)
WITH s, u.applied AS applied, u.rank AS rank
ORDER BY rank
RETURN CASE WHEN applied THEN 'used' ELSE 'was shown' END AS relation, 'strategy' AS kind, s.id AS id, s.text AS text
UNION ALL
MATCH (n:Task)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)<-[o:OUTCOME]-(s:Strategy)
WITH s, sum(o.trials) AS trials, sum(o.successes) AS successes
ORDER BY trials DESC, s.id LIMIT 10
RETURN toString(successes) + ' of ' + toString(trials) + ' with' AS relation, 'strategy' AS kind, s.id AS id, s.text AS text
UNION ALL
MATCH (n:Strategy)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[o:OUTCOME]->(t:Task)
WITH t, sum(o.trials) AS trials, sum(o.successes) AS successes
ORDER BY trials DESC, t.id LIMIT 10
RETURN toString(successes) + ' of ' + toString(trials) + ' on' AS relation, 'task' AS kind, t.id AS id, t.description AS text
UNION ALL
MATCH (n:Heuristic)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[:RECOMMENDS]->(s:Strategy)
RETURN 'recommends' AS relation, 'strategy' AS kind, s.id AS id, s.text AS text
UNION ALL
MATCH (n:AntiPattern)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[:WARNS_AGAINST]->(s:Strategy)
RETURN 'warns against' AS relation, 'strategy' AS kind, s.id AS id, s.text AS text
UNION ALL
MATCH (n:Policy)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[:IN_STATE]->(s:State)
RETURN 'in' AS relation, 'state' AS kind, s.id AS id, s.features AS text
UNION ALL
MATCH (n:Entry)
WHERE n.id IN $ids AND toString(n.ns) = $ns
WITH n.level AS level
MATCH (l:Level {id: level})
RETURN 'in' AS relation, 'level' AS kind, l.id AS id, l.name AS text
UNION ALL
MATCH (n:Knowledge)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:CONTRADICTS]-(k:Knowledge)
RETURN 'contradicts' AS relation, 'knowledge' AS kind, k.id AS id, k.fact AS text;
