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
RETURN coalesce(e.ended_at, e.started_at) AS at, e.success AS success;

// name: cycles.lock
// mode: write
// doc: Locks the cycles of a policy or strategy until the transaction ends.
// returns: locked integer
OPTIONAL MATCH (p:Policy {id: $id})
OPTIONAL MATCH (s:Strategy {id: $id})
WITH CASE WHEN p.ns = $ns THEN [p] ELSE [] END AS policies, CASE WHEN s.ns = $ns THEN [s] ELSE [] END AS strategies
FOREACH (n IN policies | SET n.ns = $ns)
FOREACH (n IN strategies | SET n.ns = $ns)
RETURN size(policies) + size(strategies) AS locked;

// name: cycles.clear
// mode: write
// doc: Removes cycles by id.
// returns: removed integer
MATCH (c:Cycle)
WHERE c.id IN $ids AND toString(c.ns) = $ns
DETACH DELETE c
RETURN count(*) AS removed;

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

// name: cycles.of
// install: cycles_of
// doc: The stored cycles of policies and strategies.
// returns: cycle_columns
MATCH (p:Policy)
WHERE p.id IN $ids AND toString(p.ns) = $ns
MATCH (p)-[:HAS_CYCLE]->(c:Cycle)
RETURN cycle_columns(c)
UNION ALL
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)-[:HAS_CYCLE]->(c:Cycle)
RETURN cycle_columns(c);

// name: cycles.all
// install: cycles
// doc: All stored cycles of a namespace.
// returns: cycle_columns
MATCH (c:Cycle)
WHERE c.ns = $ns
RETURN cycle_columns(c)
ORDER BY subject, timezone, kind;

// name: cycles.timezones_in
// doc: The time zones of the cycles of a state's policies.
// param: state_id string
// returns: timezone string
MATCH (s:State {id: $state_id})
WITH s, s.ns AS ns WHERE ns = $ns
MATCH (s)<-[:IN_STATE]-(p:Policy)
MATCH (p)-[:HAS_CYCLE]->(c:Cycle)
RETURN DISTINCT c.timezone AS timezone
ORDER BY timezone;

// name: cycles.asked
// doc: The arguments with which the stored cycles were computed; of all subjects, or of the given ones.
// param: subjects list = null
// returns: subject string, timezone string, alpha float, correction string, at_least integer, only string
MATCH (c:Cycle)
WHERE c.ns = $ns AND ($subjects IS NULL OR c.subject IN $subjects)
RETURN DISTINCT c.subject AS subject, c.timezone AS timezone, c.alpha AS alpha, c.correction AS correction, c.at_least AS at_least,
  c.only AS only
ORDER BY subject, timezone;
