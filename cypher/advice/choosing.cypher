// Choosing a strategy: what worked best anywhere, where no candidates are given.

// name: choosing.best
// doc: The strategies with the highest posterior mean of the success rate, by the outcomes of given agents on given types of tasks (null:
// doc: of all, and on all); merged ones count as one.
// param: types list = null
// returns: id string, text string, mean float
MATCH (h:Heuristic)
WHERE h.ns = $ns AND ($agents IS NULL OR h.agent IN $agents) AND ($types IS NULL OR h.type IN $types)
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH whole(s) AS id, sum(h.successes) AS successes, sum(h.trials) AS trials
WHERE trials > 0
WITH id, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean
ORDER BY mean DESC, id
LIMIT $limit
MATCH (s:Strategy {id: id})
RETURN id, s.text AS text, mean;
