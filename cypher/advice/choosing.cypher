// Choosing a strategy: what worked best anywhere, where no candidates are given.

// name: choosing.best
// doc: The strategies with the highest posterior mean of the success rate over all tasks and agents; merged ones count as one, and come
// doc: last.
// returns: id string, text string, mean float
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.trials > 0 AND s.merged_into IS NULL
WITH s.id AS id, posterior_mean(s.successes, s.trials, $prior_successes, $prior_failures) AS mean
ORDER BY mean DESC, id
LIMIT $limit
MATCH (s:Strategy {id: id})
RETURN id, s.text AS text, mean
UNION ALL
CALL { MATCH ()-[l:MERGED_INTO]->() RETURN count(l) AS links }
UNWIND CASE WHEN links > 0 THEN [1] ELSE [] END AS once
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
WITH s.merged_into AS id, sum(s.successes) AS successes, sum(s.trials) AS trials
WHERE trials > 0
WITH id, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean
ORDER BY mean DESC, id
LIMIT $limit
MATCH (s:Strategy {id: id})
RETURN id, s.text AS text, mean;

// name: choosing.best_of
// doc: The same by the outcomes of given agents, on given types of tasks (null: on all).
// param: agents list, types list = null
// returns: id string, text string, mean float
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.agent IN $agents AND ($types IS NULL OR h.type IN $types)
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH whole(s) AS id, sum(h.successes) AS successes, sum(h.trials) AS trials
WHERE trials > 0
WITH id, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean
ORDER BY mean DESC, id
LIMIT $limit
MATCH (s:Strategy {id: id})
RETURN id, s.text AS text, mean;
