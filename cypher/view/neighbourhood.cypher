// Neighbourhoods: nodes, and the edges around one, for a picture that a person looks at. Bookkeeping is left out, and so are the uses
// of a strategy, of which there may be very many: its outcomes sum them up.

// name: neighbourhood.nodes
// doc: The nodes with given ids: their kind, text, trials and successes, as far as they have them.
// returns: id string, kind string, text string, trials integer, successes integer
MATCH (s:Strategy) WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, 'strategy' AS kind, s.text AS text, s.trials AS trials, s.successes AS successes
UNION ALL
MATCH (t:Task) WHERE t.id IN $ids AND toString(t.ns) = $ns
RETURN t.id AS id, 'task' AS kind, t.description AS text, t.episodes AS trials, t.successes AS successes
UNION ALL
MATCH (e:Episode) WHERE e.id IN $ids AND toString(e.ns) = $ns
RETURN e.id AS id, 'episode' AS kind, e.task AS text, 1 AS trials, CASE WHEN e.success THEN 1 ELSE 0 END AS successes
UNION ALL
MATCH (a:Agent) WHERE a.id IN $ids AND toString(a.ns) = $ns
RETURN a.id AS id, 'agent' AS kind, a.name AS text, null AS trials, null AS successes
UNION ALL
MATCH (p:Policy) WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, 'policy' AS kind, p.action_type + coalesce(' ' + p.action_spec, '') AS text, p.trials AS trials, p.successes AS successes
UNION ALL
MATCH (s:State) WHERE s.id IN $ids AND toString(s.ns) = $ns
RETURN s.id AS id, 'state' AS kind, coalesce(s.features, s.fingerprint) AS text, null AS trials, null AS successes
UNION ALL
MATCH (h:Heuristic) WHERE h.id IN $ids AND toString(h.ns) = $ns
RETURN h.id AS id, 'heuristic' AS kind, h.text AS text, h.trials AS trials, h.successes AS successes
UNION ALL
MATCH (p:AntiPattern) WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, 'anti-pattern' AS kind, p.text AS text, null AS trials, null AS successes
UNION ALL
MATCH (r:Rule) WHERE r.id IN $ids AND toString(r.ns) = $ns
RETURN r.id AS id, 'rule' AS kind, r.text AS text, null AS trials, null AS successes;

// name: neighbourhood.{kind}_edges
// each: Label kind types = Strategy strategy OUTCOME|CO_OCCURS_WITH|SIMILAR_TO|RECOMMENDS|WARNS_AGAINST|PREFER
// each: , Task task OUTCOME|SIMILAR_TO|HAS_RULE|RECENT, Episode episode RAN|ATTEMPTED|USED|LISTED|TOOK, Agent agent RAN
// each: , Policy policy IN_STATE|CO_OCCURS_WITH, State state IN_STATE, Heuristic heuristic RECOMMENDS|OPPOSED_BY|DERIVED_FROM
// each: , AntiPattern anti_pattern WARNS_AGAINST|PREFER|OPPOSED_BY|DERIVED_FROM, Rule rule HAS_RULE|LISTED
// doc: The edges around nodes of one kind with given ids, those with most trials first. The trials of an edge between a strategy and a
// doc: task are those of one agent.
// param: limit integer = 200
// returns: source string, target string, type string, agent string, trials integer, successes integer, weight float
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:{types}]-(o)
WITH startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials,
  r.successes AS successes, coalesce(r.similarity, r.weight) AS weight, coalesce(r.at, 0) AS at
ORDER BY coalesce(trials, 0) DESC, at DESC, source, target LIMIT $limit
RETURN source, target, type, agent, trials, successes, weight;
