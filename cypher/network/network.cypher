// The graph as a network, for other programs: its nodes by kind, and the edges that belong to them. Each edge belongs to one node, so
// that whoever reads all nodes in parts reads each edge once.

// name: network.ids_{kind}
// each: Label kind = Strategy strategy, Task task, Heuristic heuristic, AntiPattern anti_pattern, Rule rule, Policy policy, State state
// each: , Agent agent, Episode episode
// doc: The ids of the nodes of one kind, in order: at most a number.
// returns: id string
MATCH (n:{Label})
WHERE n.ns = $ns
RETURN n.id AS id
ORDER BY id
LIMIT $limit;

// name: network.{kind}_edges
// each: Label kind types = Strategy strategy OUTCOME|CO_OCCURS_WITH|SIMILAR_TO|MERGED_INTO, Task task SIMILAR_TO|HAS_RULE
// each: , Heuristic heuristic RECOMMENDS, AntiPattern anti_pattern WARNS_AGAINST|PREFER, Policy policy IN_STATE|CO_OCCURS_WITH
// doc: The edges that start at nodes of one kind with some ids, but for those to episodes. Of an edge between a strategy and a task
// doc: these are the trials of one agent; without tasks there are none.
// param: with_tasks boolean = true
// returns: source string, target string, type string, agent string, trials integer, successes integer, weight float
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:{types}]->(o)
WHERE $with_tasks OR type(r) <> 'OUTCOME'
RETURN n.id AS source, o.id AS target, type(r) AS type, r.agent AS agent, coalesce(r.trials, r.count) AS trials, r.successes AS successes,
  coalesce(r.similarity, r.weight) AS weight
ORDER BY source, type, target, agent
LIMIT $limit;

// name: network.episode_edges
// doc: The edges of episodes with some ids: from its agent and from what it is evidence for, to its task, and to what it used.
// returns: source string, target string, type string, agent string, trials integer, successes integer, weight float
MATCH (n:Episode)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:RAN|ATTEMPTED|USED|LISTED|TOOK|DERIVED_FROM]-(o)
WHERE coalesce(r.applied, true)
RETURN startNode(r).id AS source, endNode(r).id AS target, type(r) AS type, null AS agent, null AS trials, null AS successes, null AS weight
ORDER BY source, type, target
LIMIT $limit;
