// Evaluation: how the strategies of past episodes were chosen, to estimate what another way to choose would have got.

// name: evaluation.logged
// install: logged_choices
// doc: How many episodes have how many applied strategies with a known propensity (0: none), and for how many of these episodes the
// doc: candidates of each are known, too.
// returns: choices integer, episodes integer, with_candidates integer
MATCH (e:Episode)
WHERE e.ns = $ns
OPTIONAL MATCH (e)-[u:USED]->(:Strategy)
WITH e.id AS id, sum(CASE WHEN u.applied AND u.propensity IS NOT NULL THEN 1 ELSE 0 END) AS choices,
     sum(CASE WHEN u.applied AND u.propensity IS NOT NULL AND u.candidates IS NULL THEN 1 ELSE 0 END) AS unknown
RETURN choices, count(id) AS episodes, sum(CASE WHEN choices > 0 AND unknown = 0 THEN 1 ELSE 0 END) AS with_candidates
ORDER BY choices;

// name: evaluation.choices
// doc: The applied strategies of episodes whose propensity is known, by rank; merged ones with the id of their whole.
// returns: id string, task string, whole string, propensity float, candidates string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[u:USED]->(s:Strategy)
WHERE u.applied AND u.propensity IS NOT NULL
WITH e.id AS id, e.task AS task, whole(s) AS whole, u.propensity AS propensity, u.candidates AS candidates, u.rank AS rank
ORDER BY id, rank
RETURN id, task, whole, propensity, candidates;

// name: evaluation.merged
// doc: The strategies that count as one with another.
// returns: id string, whole string
MATCH (s:Strategy)
WHERE s.ns = $ns AND s.merged_into IS NOT NULL
RETURN s.id AS id, s.merged_into AS whole
ORDER BY id;
