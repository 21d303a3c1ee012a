// Cycles: the times at which a policy or strategy was used, and the cycles detected in them.

// name: cycles.dates
// install: cycle_dates
// doc: The date and outcome of every fact about a policy (its transitions, outcomes and episodes) or a strategy (its episodes). A
// doc: transition from an episode that took the policy counts only through the episode.
// returns: at integer, success boolean
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)<-[:UPDATED]-(x:Transition)
OPTIONAL MATCH (x)-[:OF]->(e:Episode)
OPTIONAL MATCH (e)-[k:TOOK]->(p)
WITH x, k WHERE k IS NULL
RETURN x.at AS at, x.success AS success
UNION ALL
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)<-[:ABOUT]-(x:Event)
WHERE x.kind = 'outcome'
RETURN x.at AS at, x.success AS success
UNION ALL
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)<-[:TOOK]-(e:Episode)
RETURN coalesce(e.ended_at, e.started_at) AS at, e.success AS success
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[u:USED]-(e:Episode)
WHERE u.applied
RETURN coalesce(e.ended_at, e.started_at) AS at, worked(e.success, u.failed) AS success;

// name: cycles.clear
// mode: write
// doc: Locks a policy or strategy until the transaction ends, and removes cycles by id.
// returns: locked integer
OPTIONAL MATCH (p:Policy {id: $id})
OPTIONAL MATCH (s:Strategy {id: $id})
WITH CASE WHEN p.ns = $ns THEN [p] ELSE [] END AS policies, CASE WHEN s.ns = $ns THEN [s] ELSE [] END AS strategies
FOREACH (n IN policies | SET n.ns = $ns)
FOREACH (n IN strategies | SET n.ns = $ns)
WITH size(policies) + size(strategies) AS locked
OPTIONAL MATCH (c:Cycle)
WHERE c.id IN $ids AND toString(c.ns) = $ns
FOREACH (cycle IN CASE WHEN c IS NULL THEN [] ELSE [c] END | DETACH DELETE cycle)
RETURN max(locked) AS locked;

// name: cycles.store
// mode: write
// doc: Stores the cycles of a policy or strategy that has none. Rows: {id, created_at, kind, period, amplitude, phase, p_value, chi2,
// doc: buckets, expected, peak, timezone, events, only, alpha, correction, at_least}.
// param: subject string
// returns: stored integer
OPTIONAL MATCH (p:Policy {id: $subject})
OPTIONAL MATCH (s:Strategy {id: $subject})
WITH p, s WHERE p.ns = $ns OR s.ns = $ns
UNWIND $rows AS row
CREATE (c:Cycle {id: row.id, ns: $ns, created_at: row.created_at, subject: $subject, kind: row.kind, period: row.period,
  amplitude: row.amplitude, phase: row.phase, p_value: row.p_value, chi2: row.chi2, buckets: row.buckets, expected: row.expected,
  peak: row.peak, timezone: row.timezone, events: row.events, only: row.only, alpha: row.alpha, correction: row.correction,
  at_least: row.at_least})
FOREACH (n IN CASE WHEN p IS NULL THEN [] ELSE [p] END | CREATE (n)-[:HAS_CYCLE]->(c))
FOREACH (n IN CASE WHEN s IS NULL THEN [] ELSE [s] END | CREATE (n)-[:HAS_CYCLE]->(c))
RETURN count(c) AS stored;

// name: cycles.list
// install: cycles
// doc: The stored cycles, of all policies and strategies or of given ones.
// param: subjects list = null
// returns: cycle_columns
MATCH (c:Cycle)
WHERE c.ns = $ns AND ($subjects IS NULL OR c.subject IN $subjects)
RETURN cycle_columns(c)
ORDER BY subject, timezone, period;
