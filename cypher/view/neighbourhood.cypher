// Neighbourhoods: nodes, and the edges around one, for a picture that a person looks at. Bookkeeping is left out, and so are the uses
// of a strategy, of which there may be very many: its outcomes sum them up.

// name: neighbourhood.nodes
// doc: The nodes with given ids: their kind, text, trials and successes, as far as they have them.
// returns: id string, kind string, text string, trials integer, successes integer
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, 'strategy' AS kind, s.text AS text, s.trials AS trials, s.successes AS successes
UNION ALL
MATCH (t:Task)
WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS id, 'task' AS kind, t.description AS text, t.episodes AS trials, t.successes AS successes
UNION ALL
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
RETURN e.id AS id, 'episode' AS kind, e.task AS text, 1 AS trials, CASE WHEN e.success THEN 1 ELSE 0 END AS successes
UNION ALL
MATCH (a:Agent)
WHERE a.id IN $ids AND toString(a.ns) = $ns
RETURN a.id AS id, 'agent' AS kind, a.name AS text, null AS trials, null AS successes
UNION ALL
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, 'policy' AS kind, p.action_type + coalesce(' ' + p.action_spec, '') AS text, p.trials AS trials, p.successes AS successes
UNION ALL
MATCH (s:State)
WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, 'state' AS kind, coalesce(s.features, s.fingerprint) AS text, null AS trials, null AS successes
UNION ALL
MATCH (h:Heuristic)
WHERE h.id IN $ids AND toString(h.ns) = $ns
RETURN h.id AS id, 'heuristic' AS kind, h.text AS text, h.trials AS trials, h.successes AS successes
UNION ALL
MATCH (p:AntiPattern)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, 'anti-pattern' AS kind, p.text AS text, null AS trials, null AS successes
UNION ALL
MATCH (r:Rule)
WHERE r.id IN $ids AND toString(r.ns) = $ns
RETURN r.id AS id, 'rule' AS kind, r.text AS text, null AS trials, null AS successes;

// name: neighbourhood.edges
// doc: The edges around nodes with given ids, those with most trials first: at most a number of them for each kind of node. The trials of
// doc: an edge between a strategy and a task are those of one agent.
// param: limit integer = 200
// returns: source string, target string, type string, agent string, trials integer, successes integer, weight float
MATCH (n:Strategy)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:OUTCOME|CO_OCCURS_WITH|SIMILAR_TO|RECOMMENDS|WARNS_AGAINST|PREFER]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Task)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:OUTCOME|SIMILAR_TO|HAS_RULE|RECENT]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Episode)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:RAN|ATTEMPTED|USED|LISTED|TOOK]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Agent)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:RAN]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Policy)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:IN_STATE|CO_OCCURS_WITH]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:State)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:IN_STATE]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Heuristic)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:RECOMMENDS|OPPOSED_BY|DERIVED_FROM]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:AntiPattern)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:WARNS_AGAINST|PREFER|OPPOSED_BY|DERIVED_FROM]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight
UNION ALL
MATCH (n:Rule)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:HAS_RULE|LISTED]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight;
