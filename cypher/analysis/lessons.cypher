// Analysis queries on lessons: what costs most, what has no remedy, and where agents disagree. Run one with `graphmem query NAME`, or
// paste the output of `graphmem procedures
// list analysis.NAME` into Neo4j Browser. Merged strategies count as one.

// name: analysis.costly_errors
// install: costly_errors
// doc: Classes of errors by the number of failed episodes, over all strategies and agents. The share is that among all failures; the lost
// doc: score is the sum of 1 - score of these episodes. Failures without an error have no class.
// returns: error_class string, failures integer, share float, lost_score float, strategies integer, agents integer
MATCH (e:Episode)
WHERE e.ns = $ns AND NOT e.success
MATCH (a:Agent)-[:RAN]->(e)
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WITH e.error_class AS error_class, a.name AS agent, e.score AS score, u IS NULL OR u.rank = 0 AS first,
     CASE WHEN u.applied THEN whole(s) ELSE null END AS strategy
WITH error_class, sum(CASE WHEN first THEN 1 ELSE 0 END) AS failures, sum(CASE WHEN first THEN 1.0 - score ELSE 0.0 END) AS lost_score,
     count(DISTINCT strategy) AS strategies, count(DISTINCT agent) AS agents
WITH sum(failures) AS total,
     collect({error_class: error_class, failures: failures, lost_score: lost_score, strategies: strategies, agents: agents}) AS classes
UNWIND classes AS class
RETURN class.error_class AS error_class, class.failures AS failures, toFloat(class.failures) / total AS share,
  class.lost_score AS lost_score, class.strategies AS strategies, class.agents AS agents
ORDER BY failures DESC, lost_score DESC, error_class
LIMIT $limit;

// name: analysis.no_alternative
// install: no_alternative
// doc: Anti-patterns on types of tasks where no other strategy has a better lower bound than the failing one. Trials, successes and bound
// doc: cover all agents on the type, occurrences the anti-pattern on all types.
// param: at_least integer = 2
// returns: agent string, strategy string, error_class string, task_type string, occurrences integer, trials integer, successes integer
// returns: lower float, others integer
MATCH (h:Heuristic)
WHERE h.ns = $ns
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH h.type AS task_type, whole(s) AS whole, collect(DISTINCT s.id) AS members, sum(h.trials) AS trials,
  sum(h.successes) AS successes
WITH task_type, whole, members, trials, successes, wilson_lower(successes, trials, $z_value) AS lower
ORDER BY lower DESC, whole
WITH task_type, max(lower) AS best, count(*) AS tried,
     collect({whole: whole, members: members, trials: trials, successes: successes, lower: lower}) AS records
UNWIND records AS record
WITH task_type, best, tried, record
WHERE record.lower >= best
UNWIND record.members AS member
MATCH (s:Strategy {id: member})
MATCH (s)<-[:WARNS_AGAINST]-(p:AntiPattern)
WITH task_type, tried, record, p
WHERE task_type IN p.types
WITH task_type, record.whole AS whole, record.trials AS trials, record.successes AS successes, record.lower AS lower, tried - 1 AS others,
     p.agent AS agent, p.error_class AS error_class, sum(p.occurrences) AS occurrences
WHERE occurrences >= $at_least
MATCH (w:Strategy {id: whole})
RETURN agent, w.text AS strategy, error_class, task_type, occurrences, trials, successes, lower, others
ORDER BY occurrences DESC, agent, strategy, error_class, task_type
LIMIT $limit;

// name: analysis.disputed_strategies
// install: disputed_strategies
// doc: Strategies on which agents disagree: on a type of task, one agent's lower bound is over another agent's upper bound. Ordered by the
// doc: gap between the bounds.
// returns: strategy string, task_type string, works_for string, successes integer, trials integer, lower float, fails_for string
// returns: other_successes integer, other_trials integer, other_upper float
MATCH (h:Heuristic)
WHERE h.ns = $ns
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH whole(s) AS whole, h.type AS task_type, h.agent AS agent, sum(h.trials) AS trials, sum(h.successes) AS successes
WITH whole, task_type, collect({agent: agent, trials: trials, successes: successes, lower: wilson_lower(successes, trials, $z_value),
     upper: wilson_upper(successes, trials, $z_value)}) AS records
UNWIND records AS one
UNWIND records AS other
WITH whole, task_type, one, other
WHERE one.lower > other.upper
MATCH (w:Strategy {id: whole})
RETURN w.text AS strategy, task_type, one.agent AS works_for, one.successes AS successes, one.trials AS trials, one.lower AS lower,
       other.agent AS fails_for, other.successes AS other_successes, other.trials AS other_trials, other.upper AS other_upper
ORDER BY lower - other_upper DESC, strategy, task_type, works_for, fails_for
LIMIT $limit;
