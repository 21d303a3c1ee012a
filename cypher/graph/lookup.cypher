// Look-ups: which node is meant. A key and a text give an id, so what is asked for is mostly a few ids.

// name: lookup.subjects
// install: subject
// doc: The policies and strategies with given ids: the agent of a policy; the text of a strategy, and what it was merged into.
// returns: id string, kind string, owner string, text string, merged_into string
MATCH (p:Policy) WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, 'policy' AS kind, p.agent AS owner, null AS text, null AS merged_into
UNION ALL
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, 'strategy' AS kind, null AS owner, s.text AS text, s.merged_into AS merged_into;

// name: lookup.tasks
// doc: Those of given ids that are tasks.
// returns: id string, key string, text string, task_type string, type_rule string, episodes integer, score_sum float
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS id, t.key AS key, t.description AS text, t.type AS task_type, t.type_rule AS type_rule, t.episodes AS episodes,
  t.score_sum AS score_sum
ORDER BY id;

// name: lookup.described_tasks
// doc: The tasks with a description. With `t.ns = $ns` the embedded engine collects all tasks of the namespace before it compares.
// param: text string
// returns: id string, key string, text string, task_type string, type_rule string, episodes integer, score_sum float
MATCH (t:Task)
WHERE t.description = $text AND t.ns IN [$ns]
RETURN t.id AS id, t.key AS key, t.description AS text, t.type AS task_type, t.type_rule AS type_rule, t.episodes AS episodes,
  t.score_sum AS score_sum
ORDER BY id;
