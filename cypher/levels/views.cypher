// Views: what the long-term levels of agents show. Nothing of it is an entry: the rows are made of the episodes, the knowledge and the
// strategies that are there.

// name: views.episodes
// doc: Episodes of agents, the most relevant first. Owners: {id (of the agent), agent, decay}.
// option: near     of some tasks {id, similarity}, those of the nearest task first
// option: tagged   of some outcomes and types ('success ' or 'failure ', and the type)
// option: pattern whose source key matches a pattern
// option: since    from a time on
// option: until    before a time
// option: at_least of some relevance at least
// param: owners list, nearby list, kinds list, prefix string, pattern string, since integer, until integer, at_least float
// returns: id string, agent string, key string, task string, task_type string, strategies list, success boolean, score float
// returns: summary string, error string, feedback string, base float, relevance float, at integer, similarity float
//? near
UNWIND $nearby AS near
MATCH (t:Task {id: near.id})
WITH near.similarity AS similarity, t, t.ns AS ns WHERE ns = $ns
MATCH (t)<-[:ATTEMPTED]-(e:Episode)<-[:RAN]-(a:Agent)
UNWIND $owners AS owner
WITH similarity, owner, e, a.id AS agent WHERE agent = owner.id
//? !near
UNWIND $owners AS owner
MATCH (a:Agent {id: owner.id})
WITH owner, a, a.ns AS ns WHERE ns = $ns
MATCH (a)-[:RAN]->(e:Episode)
WITH null AS similarity, owner, e
//?
WITH similarity, owner.agent AS agent, e, owner.decay AS decay, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
WITH similarity, agent, e, at, (1.0 - coalesce(decay, 0.0)) ^ (larger($now - at, 0) / 60000.0) AS relevance
WHERE true
  AND (CASE WHEN e.success THEN 'success ' ELSE 'failure ' END + e.type) IN $kinds   //? tagged
  AND e.source_key STARTS WITH $prefix AND e.source_key =~ $pattern                  //? pattern
  AND at >= $since                                                                   //? since
  AND at < $until                                                                    //? until
  AND relevance >= $at_least                                                         //? at_least
WITH similarity, agent, e, at, relevance
ORDER BY similarity DESC, relevance DESC, at DESC, e.id
LIMIT $limit
OPTIONAL MATCH (e)-[u:USED]->(s:Strategy)
WITH similarity, agent, e, at, relevance, u.rank AS rank, s.text AS strategy
ORDER BY rank
WITH similarity, agent, e, at, relevance, collect(strategy) AS strategies
RETURN e.id AS id, agent, e.source_key AS key, e.task AS task, e.type AS task_type, strategies, e.success AS success, e.score AS score,
  e.summary AS summary, e.error AS error, e.feedback AS feedback, 1.0 AS base, relevance, at, similarity
ORDER BY similarity DESC, relevance DESC, at DESC, id;

// name: views.knowledge
// doc: Facts, the surest first: each counts as much as its best source, lowered by contradictions.
// option: since    stated from a time on
// option: until    stated before a time, at last
// option: at_least of some confidence at least
// param: since integer, until integer, at_least float, limit integer = 1000000000
// returns: id string, domain string, fact string, base float, at integer
MATCH (k:Knowledge)
WHERE k.ns = $ns
MATCH (s:Statement)-[:STATES]->(k)
WITH k, max(s.confidence) AS own, max(coalesce(s.at, s.created_at)) AS at
OPTIONAL MATCH (k)-[:CONTRADICTS]-(other:Knowledge)<-[:STATES]-(t:Statement)
WITH k, own, at, other, max(t.confidence) AS theirs
WITH k, own, at, sum(coalesce(theirs, 0.0)) AS against
WITH k, at, contested(own, against) AS base
WHERE true
  AND at >= $since       //? since
  AND at < $until        //? until
  AND base >= $at_least  //? at_least
RETURN k.id AS id, k.domain AS domain, k.fact AS fact, base, at
ORDER BY base DESC, at DESC, id
LIMIT $limit;

// name: views.strategies
// doc: The strategies that agents applied, the best mean first; merged ones count as one.
// option: typed    on some types of tasks
// option: since    applied from a time on
// option: until    applied before a time, at last
// option: at_least of some mean at least
// param: agents, types list, since integer, until integer, at_least float, prior_successes, prior_failures, limit integer = 1000000000
// returns: id string, agent string, strategy string, types list, trials integer, successes integer, base float, at integer
MATCH (h:Heuristic)
WHERE h.ns = $ns AND h.agent IN $agents
  AND h.type IN $types   //? typed
MATCH (h)-[:RECOMMENDS]->(s:Strategy)
WITH h.agent AS agent, whole(s) AS id, collect(DISTINCT h.type) AS types, sum(h.trials) AS trials, sum(h.successes) AS successes,
     max(coalesce(h.last_at, h.created_at)) AS at
WITH agent, id, types, trials, successes, at, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS base
WHERE true
  AND at >= $since       //? since
  AND at < $until        //? until
  AND base >= $at_least  //? at_least
MATCH (s:Strategy {id: id})
RETURN s.id AS id, agent, s.text AS strategy, types, trials, successes, base, at
ORDER BY base DESC, at DESC, id, agent
LIMIT $limit;
