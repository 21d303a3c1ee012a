// Choosing a strategy: the posteriors of candidates, and the probabilities with which ways to choose take them.

// name: choosing.weigh
// doc: What ways to choose need of candidates, rows {place, mean, concentration, here}; here are the trials of the candidate on the task,
// doc: of `met` trials in all. The more there are, the less knowledge from elsewhere counts: in the end at most `strength` trials. alpha
// doc: and beta are the parameters of the Beta posterior with its pseudo-counts times sharpness, from which Thompson sampling draws.
// doc: ucb_bound is the mean plus width standard deviations of the posterior. greedy, ucb and epsilon are the probabilities of the
// doc: candidate under these ways; equal ones share.
// param: sharpness float = 4.0, width float = 1.0, epsilon float = 0.1, met integer = 0, strength float = 2.0
// returns: place integer, alpha float, beta float, ucb_bound float, greedy float, ucb float, epsilon float
UNWIND $rows AS row
WITH row.place AS place, row.mean AS mean,
     row.here + lasting(row.concentration - row.here, $met, size($rows), $strength) AS concentration
WITH place, mean, concentration, mean + $width * sqrt(mean * (1.0 - mean) / (concentration + 1.0)) AS bound
WITH max(mean) AS highest, max(bound) AS farthest,
     collect({place: place, mean: mean, concentration: concentration, bound: bound}) AS candidates
WITH candidates, toFloat(size(candidates)) AS n,
     [c IN candidates | CASE WHEN highest - c.mean < 0.000000000001 THEN 1.0 ELSE 0.0 END] AS best,
     [c IN candidates | CASE WHEN farthest - c.bound < 0.000000000001 THEN 1.0 ELSE 0.0 END] AS far
WITH candidates, n, best, far, reduce(sum = 0.0, one IN best | sum + one) AS bests, reduce(sum = 0.0, one IN far | sum + one) AS fars
UNWIND range(0, size(candidates) - 1) AS at
WITH candidates[at] AS candidate, n, best[at] / bests AS greedy, far[at] / fars AS ucb
RETURN candidate.place AS place, candidate.mean * candidate.concentration * $sharpness AS alpha,
       (1.0 - candidate.mean) * candidate.concentration * $sharpness AS beta, candidate.bound AS ucb_bound, greedy, ucb,
       $epsilon / n + (1.0 - $epsilon) * greedy AS epsilon
ORDER BY place;

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
WITH links
WHERE links > 0
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

// name: choosing.warned
// doc: The strategies, of given ones and those merged into them, that have anti-patterns, with the strategy that each counts as.
// returns: id string, whole string, text string
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
MATCH (s)<-[:MERGED_INTO*0..1]-(m:Strategy)
MATCH (m)<-[:WARNS_AGAINST]-(p:AntiPattern)
WHERE $agents IS NULL OR p.agent IN $agents
RETURN DISTINCT m.id AS id, s.id AS whole, m.text AS text
ORDER BY id;
