// Takes the shares of erased episodes away from what was derived, so that erasing does not depend on how many other episodes there are.
//
// A share is what maintenance.derive_* (option: share) derives from the erased episodes alone. What a
// share does not tell is derived anew from the episodes that are left: an earliest or latest time that went, evidence that moves up into
// the sample (links to episodes before the sample can be missing), a sum that rounding could make wrong (`reducible`). Each row of an
// answer says whether a share was taken exactly.

// name: shares.take_strategies
// mode: write
// doc: Takes the shares of erased episodes from the counts of strategies.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (s:Strategy {id: row.id})
WITH row, s, s.ns AS ns WHERE ns = $ns
WITH row, s, predated(row.created_at, s.created_at) AND outlasted(row.last_used_at, s.last_used_at)
     AND reducible(s.credit_sum, row.credit_sum) AND reducible(s.score_sum, row.score_sum) AND spared(s.latest, row.latest, row.added)
     AND reducible(s.effective_trials, row.effective_trials) AND reducible(s.effective_successes, row.effective_successes) AS exact
FOREACH (left IN CASE WHEN exact THEN [s] ELSE [] END |
  SET less_outcomes(left, row), less_effective(left, row),
    left.latest = latest(remaining(left.latest, row.latest), coalesce(row.added, [])))
RETURN row.id AS id, exact;

// name: shares.take_outcomes
// mode: write
// doc: Takes the shares of erased episodes from the outcome edges of strategies; removes empty ones, and those to be derived anew.
// returns: strategy string, task string, agent string, exact boolean
UNWIND $rows AS row
MATCH (t:Task {id: row.task})
MATCH (s:Strategy {id: row.strategy})
WITH row, s, t, s.ns AS ns WHERE ns = $ns
MATCH (t)<-[o:OUTCOME {agent: row.agent}]-(s)
WITH row, o, o.trials <= row.trials AS gone, outlasted(row.last_at, o.last_at) AND reducible(o.credit_sum, row.credit_sum)
     AND reducible(o.score_sum, row.score_sum) AND spared(o.latest, row.latest, row.added) AS exact
FOREACH (edge IN CASE WHEN gone OR NOT exact THEN [o] ELSE [] END | DELETE edge)
FOREACH (edge IN CASE WHEN exact AND NOT gone THEN [o] ELSE [] END |
  SET less_outcomes(edge, row), edge.latest = latest(remaining(edge.latest, row.latest), coalesce(row.added, [])))
RETURN row.strategy AS strategy, row.task AS task, row.agent AS agent, gone OR exact AS exact;

// name: shares.take_co_occurrences
// mode: write
// doc: Takes the shares of erased episodes from the co-occurrence edges of strategies; removes empty ones, and those to be derived anew.
// param: half_life float
// returns: low string, high string, exact boolean
UNWIND $rows AS row
MATCH (x:Strategy {id: row.low})
MATCH (y:Strategy {id: row.high})
WITH row, x, y, x.ns AS ns WHERE ns = $ns
MATCH (x)-[c:CO_OCCURS_WITH]->(y)
WITH row, c, row.undated + CASE WHEN row.last_at IS NULL THEN 0.0
       ELSE (row.weight - row.undated) * decayed(row.last_at, c.last_at, $half_life) END AS share
WITH row, c, c.count - row.count AS count, c.successes - row.successes AS successes, c.undated - row.undated AS undated,
     c.weight - share AS weight, outlasted(row.last_at, c.last_at) AND reducible(c.weight, share) AS exact
WITH row.low AS low, row.high AS high, c, count, successes, undated, weight, count <= 0 AS gone, exact
FOREACH (edge IN CASE WHEN gone OR NOT exact THEN [c] ELSE [] END | DELETE edge)
FOREACH (edge IN CASE WHEN exact AND NOT gone THEN [c] ELSE [] END |
  SET edge.count = count, edge.successes = successes, edge.undated = undated, edge.weight = weight)
RETURN low, high, gone OR exact AS exact;

// name: shares.take_heuristics
// mode: write
// doc: Takes the shares of erased episodes from heuristics; removes empty ones.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (h:Heuristic {id: row.id})
WITH row, h, h.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (h)-[d:DERIVED_FROM]->(e:Episode)
WITH row, h, count(d) AS kept, sum(CASE WHEN d.supports THEN 1 ELSE 0 END) AS won,
     sum(CASE WHEN d.supports AND beyond(d.at, e.id, row.won_at, row.supporting[0]) THEN 1 ELSE 0 END) AS won_since,
     sum(CASE WHEN NOT d.supports AND beyond(d.at, e.id, row.lost_at, row.opposing[0]) THEN 1 ELSE 0 END) AS lost_since
WITH row, h, kept - won AS lost, won, won_since, lost_since, h.trials - row.trials AS trials, h.successes - row.successes AS successes,
     predated(row.created_at, h.created_at) AND predated(row.first_at, h.first_at) AND outlasted(row.last_at, h.last_at)
     AND reducible(h.credit_sum, row.credit_sum) AND reducible(h.score_sum, row.score_sum) AS exact
WITH row, h, trials, successes, trials <= 0 AS gone,
     exact AND (won_since >= 5 OR won = successes) AND (lost_since >= 5 OR lost = trials - successes) AS exact
FOREACH (node IN CASE WHEN gone THEN [h] ELSE [] END | DETACH DELETE node)
FOREACH (left IN CASE WHEN exact AND NOT gone THEN [h] ELSE [] END |
  SET less_outcomes(left, row), left.odds = odds(successes, trials - successes))
RETURN row.id AS id, gone OR exact AS exact;

// name: shares.take_anti_patterns
// mode: write
// doc: Takes the shares of erased episodes from anti-patterns; removes empty ones. Of several types of task
// doc: a share does not tell which stay.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
WITH row, p, p.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (p)-[d:DERIVED_FROM]->(e:Episode)
WITH row, p, count(d) AS kept, sum(CASE WHEN beyond(d.at, e.id, row.failed_at, row.supporting[0]) THEN 1 ELSE 0 END) AS since
WITH row.id AS id, p, kept, since, p.occurrences - row.occurrences AS occurrences, predated(row.created_at, p.created_at)
     AND predated(row.first_at, p.first_at) AND outlasted(row.last_at, p.last_at) AND size(p.types) = 1 AS exact
WITH id, p, occurrences, occurrences <= 0 AS gone, exact AND (since >= 5 OR kept = occurrences) AS exact
FOREACH (node IN CASE WHEN gone THEN [p] ELSE [] END | DETACH DELETE node)
FOREACH (left IN CASE WHEN exact AND NOT gone THEN [p] ELSE [] END | SET left.occurrences = occurrences)
RETURN id, gone OR exact AS exact;

// name: shares.weigh_anti_patterns
// mode: write
// doc: Counts the successes that oppose anti-patterns again, where these or their failures became fewer. Rows: {id} of heuristics.
// returns: written integer
UNWIND $rows AS row
MATCH (g:Heuristic {id: row.id})
MATCH (g)<-[:OPPOSED_BY]-(p:AntiPattern)
WITH DISTINCT p, p.ns AS ns WHERE ns = $ns
MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, sum(h.successes) AS successes
SET p.successes = successes, p.odds = odds(p.occurrences, successes)
RETURN count(*) AS written;

// name: shares.weigh_strategies
// mode: write
// doc: Adds up what the outcomes of strategies count elsewhere.
// returns: written integer
MATCH (n:Strategy)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[o:OUTCOME]->(:Task)
WITH n, sum(effective(o.trials, o.trials)) AS trials, sum(effective(o.successes, o.trials)) AS successes
SET n.effective_trials = trials, n.effective_successes = successes
RETURN count(*) AS written;

// name: shares.weigh_tallies
// mode: write
// doc: Adds up what the outcomes of agents on types of tasks count elsewhere.
// returns: written integer
MATCH (n:Tally)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (o:Heuristic)
WHERE o.ns = $ns AND o.agent = n.agent AND o.type = n.type
WITH n, sum(effective(o.trials, o.trials)) AS trials, sum(effective(o.successes, o.trials)) AS successes
SET n.effective_trials = trials, n.effective_successes = successes
RETURN count(*) AS written;

// name: shares.take_tasks
// mode: write
// doc: Takes the shares of erased episodes from the numbers of tasks.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
WITH row, t, t.ns AS ns WHERE ns = $ns
WITH row, t, t.episodes - row.episodes AS episodes, t.successes - row.successes AS successes,
     t.score_sum - row.score_sum AS score_sum, predated(row.created_at, t.created_at)
     AND t.described_by <> row.described_by AND (row.typed_by IS NULL OR t.typed_by <> row.typed_by)
     AND reducible(t.score_sum, row.score_sum) AS exact
FOREACH (left IN CASE WHEN exact THEN [t] ELSE [] END |
  SET left.episodes = episodes, left.successes = successes, left.score_sum = score_sum)
RETURN row.id AS id, exact;

// name: shares.lacking_recent
// doc: Tasks whose links may lack some of their latest episodes.
// returns: id string
UNWIND $rows AS row
MATCH (t:Task {id: row.id})
WITH row, t, t.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (t)-[d:RECENT]->(e:Episode)
WITH t.id AS id, t.episodes AS episodes, count(d) AS kept,
     sum(CASE WHEN beyond(d.at, e.id, row.described_at, row.described_by) THEN 1 ELSE 0 END) AS since
WHERE since < 20 AND kept < episodes
RETURN id;

// name: shares.take_tallies
// mode: write
// doc: Takes the shares of erased episodes from the tallies of agents; removes empty ones, and those to be derived anew.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (y:Tally {id: row.id})
WITH row, y, y.ns AS ns WHERE ns = $ns
WITH row, y, y.trials <= row.trials AS gone, predated(row.created_at, y.created_at)
     AND reducible(y.effective_trials, row.effective_trials) AND reducible(y.effective_successes, row.effective_successes) AS exact
FOREACH (node IN CASE WHEN gone OR NOT exact THEN [y] ELSE [] END | DETACH DELETE node)
FOREACH (left IN CASE WHEN exact AND NOT gone THEN [y] ELSE [] END |
  SET left.trials = left.trials - row.trials, left.successes = left.successes - row.successes, less_effective(left, row))
RETURN row.id AS id, gone OR exact AS exact;

// name: shares.take_agents
// doc: Whether the dates of agents stay when episodes are erased.
// returns: id string, exact boolean
UNWIND $rows AS row
MATCH (a:Agent {id: row.id})
WITH row, a, a.ns AS ns WHERE ns = $ns
RETURN row.id AS id, predated(row.created_at, a.created_at) AS exact;

// name: shares.set_heuristics
// mode: write
// doc: Writes derived numbers of heuristics that are there, and removes the links to their evidence.
// returns: written integer
UNWIND $rows AS row
MATCH (h:Heuristic {id: row.id})
WITH row, h, h.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (h)-[d:DERIVED_FROM]->(:Episode)
WITH row, h, collect(d) AS links
FOREACH (link IN links | DELETE link)
SET h.created_at = row.created_at, h.trials = row.trials, h.successes = row.successes, h.odds = row.odds, h.credit_sum = row.credit_sum,
    h.score_sum = row.score_sum, h.first_at = row.first_at, h.last_at = row.last_at
RETURN count(*) AS written;

// name: shares.set_anti_patterns
// mode: write
// doc: Writes derived numbers of anti-patterns that are there, and removes the links to their evidence and to heuristics.
// returns: written integer
UNWIND $rows AS row
MATCH (p:AntiPattern {id: row.id})
WITH row, p, p.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (p)-[d:DERIVED_FROM|OPPOSED_BY]->()
WITH row, p, collect(d) AS links
FOREACH (link IN links | DELETE link)
SET p.created_at = row.created_at, p.types = row.types, p.occurrences = row.occurrences, p.first_at = row.first_at, p.last_at = row.last_at
RETURN count(*) AS written;
