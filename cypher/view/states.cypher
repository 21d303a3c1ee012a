// Where actions lead, for a picture of a state.

// name: states.next
// doc: The states to which policies of one state led, most often first: as their transitions say, else as the steps of the latest
// doc: episodes that took them, which know the features alone. Both are null where a step was the last. In steps the present state is
// doc: one of $states.
// param: latest integer = 50, states list
// returns: policy string, state string, features string, times integer, reward float
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)<-[:UPDATED]-(x:Transition)
OPTIONAL MATCH (n:State)-[:REACHED_BY]->(x)
WITH p.id AS policy, n.fingerprint AS state, n.features AS features, count(*) AS times, avg(x.reward) AS reward
ORDER BY times DESC, policy, state LIMIT $limit
RETURN policy, state, features, times, reward
UNION ALL
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns AND p.updates = 0
MATCH (p)<-[:TOOK]-(e:Episode)
WITH p, e ORDER BY e.recorded_at DESC, e.id
WITH p, collect(e)[..$latest] AS latest
UNWIND latest AS e
MATCH (e)-[:HAS_STEP]->(x:Step)
WHERE x.state IN $states AND ((x.action_type = p.action_type AND coalesce(x.action, 'null') = coalesce(p.action_spec, 'null'))
  OR (x.action_type = 'action' AND p.action_spec IS NULL AND x.action = '"' + p.action_type + '"'))
WITH p.id AS policy, x.next_state AS features, count(*) AS times, avg(x.reward) AS reward
ORDER BY times DESC, policy, features LIMIT $limit
RETURN policy, null AS state, features, times, reward;
