// Scopes: what an agent may learn, with whom it shares, and from whom it inherits. A scope can name agents without episodes, so it has
// names and not edges. A change of scopes first locks the namespace's scopes: otherwise two calls could together create a circle that
// neither saw.

// name: scopes.lock
// mode: write
// doc: Locks the scopes of the namespace until the transaction ends.
// returns: locked integer
MERGE (l:Lock {id: $id})
ON CREATE SET l.ns = $ns, l.created_at = $now
SET l.name = 'scopes'
RETURN count(*) AS locked;

// name: scopes.list
// install: learning_scopes
// doc: The scopes of a namespace, or some of them (ids), by agent (no can_learn: all types of tasks).
// param: ids list = null
// returns: agent string, can_learn list, cannot_learn list, share_with list, inherit_from list, min_occurrences integer
MATCH (s:LearningScope)
WHERE s.ns = $ns AND ($ids IS NULL OR s.id IN $ids)
RETURN s.agent AS agent, s.can_learn AS can_learn, s.cannot_learn AS cannot_learn, s.share_with AS share_with,
  s.inherit_from AS inherit_from, s.min_occurrences AS min_occurrences
ORDER BY agent;

// name: scopes.put
// mode: write
// doc: Creates or replaces the scope of an agent.
// param: agent string, can_learn list, cannot_learn list, share_with list, inherit_from list, min_occurrences integer
// returns: scopes integer
OPTIONAL MATCH (s:LearningScope {id: $id})
WITH s WHERE s IS NULL OR s.ns = $ns
FOREACH (ignored IN CASE WHEN s IS NULL THEN [1] ELSE [] END |
  CREATE (:LearningScope {id: $id, ns: $ns, created_at: $now, agent: $agent, can_learn: $can_learn, cannot_learn: $cannot_learn,
    share_with: $share_with, inherit_from: $inherit_from, min_occurrences: $min_occurrences}))
FOREACH (scope IN CASE WHEN s IS NULL THEN [] ELSE [s] END |
  SET scope.can_learn = $can_learn, scope.cannot_learn = $cannot_learn, scope.share_with = $share_with,
      scope.inherit_from = $inherit_from, scope.min_occurrences = $min_occurrences)
RETURN count(*) AS scopes;

// name: scopes.drop
// mode: write
// doc: Removes the scopes of agents; with `named` also their names from the lists of other scopes.
// param: agents list, named boolean = false
// returns: removed integer
MATCH (s:LearningScope)
WHERE s.ns = $ns
WITH s, s.agent IN $agents AS gone, [name IN s.share_with WHERE NOT name IN $agents] AS share_with,
  [name IN s.inherit_from WHERE NOT name IN $agents] AS inherit_from
FOREACH (scope IN CASE WHEN gone THEN [s] ELSE [] END | DETACH DELETE scope)
FOREACH (scope IN CASE WHEN $named AND NOT gone THEN [s] ELSE [] END | SET scope.share_with = share_with, scope.inherit_from = inherit_from)
RETURN sum(CASE WHEN gone THEN 1 ELSE 0 END) AS removed;

// name: scopes.task_types
// doc: The types of tasks that there are.
// returns: type string
MATCH (t:Task)
WHERE t.ns = $ns
RETURN DISTINCT t.type AS type
UNION
MATCH (e:Episode)
WHERE e.ns = $ns
RETURN DISTINCT e.type AS type;
