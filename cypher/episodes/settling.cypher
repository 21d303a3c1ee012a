// Outcomes that were told after episodes had ended: (Settlement)-[:SETTLES]->(Episode). The latest one is that of the episode.

// name: settling.find
// doc: What one of several ids stands for: an episode, one by what brought it to life, or an attempt without an outcome (as JSON).
// returns: id string, record string, agent string
MATCH (e:Episode) WHERE e.id IN $ids AND toString(e.ns) = $ns RETURN e.id AS id, null AS record, null AS agent
UNION ALL
MATCH (x:Settlement)-[:SETTLES]->(e:Episode) WHERE x.id IN $ids AND toString(x.ns) = $ns
RETURN e.id AS id, null AS record, null AS agent
UNION ALL
MATCH (a:Abandoned) WHERE a.id IN $ids AND toString(a.ns) = $ns RETURN a.id AS id, a.record AS record, a.agent AS agent;

// name: settling.told
// doc: The outcomes of episodes that were told later, the earliest first; `former` is the one that was learned; its success is null
// doc: if there was none.
// returns: id string, episode string, at integer, created_at integer, outcome map, former map
// returns: source_key string, content_hash string, occurrence string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (x:Settlement)-[:SETTLES]->(e)
RETURN x.id AS id, e.id AS episode, x.at AS at, x.created_at AS created_at,
  {success: x.success, score: x.score, reward: x.reward, error: x.error} AS outcome,
  {success: x.former_success, score: x.former_score, reward: x.former_reward, error: x.former_error} AS former,
  e.source_key AS source_key, e.content_hash AS content_hash, e.occurrence AS occurrence
ORDER BY episode, at;

// name: settling.tell
// mode: write
// doc: Adds outcomes to episodes. Rows: {episode, id, at, success, score, reward, error, former (such an outcome)}.
// returns: told integer
UNWIND $rows AS row
MATCH (e:Episode {id: row.episode})
WITH row, e, e.ns AS ns WHERE ns = $ns
CREATE (:Settlement {id: row.id, ns: $ns, created_at: $now, at: row.at, success: row.success, score: row.score, reward: row.reward,
  error: row.error, former_success: row.former.success, former_score: row.former.score, former_reward: row.former.reward,
  former_error: row.former.error})-[:SETTLES]->(e)
RETURN count(*) AS told;

// name: settling.put
// mode: write
// doc: Gives episodes their outcome, their classes and those of uses that failed, and removes the links of lessons to them.
// returns: written integer
UNWIND $rows AS row
MATCH (e:Episode {id: row.id})
WITH row, e, e.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (e)<-[d:DERIVED_FROM]-(n)
WHERE n:AntiPattern OR n:Heuristic
WITH row, e, collect(d) AS links
FOREACH (link IN links | DELETE link)
WITH row, e
OPTIONAL MATCH (e)-[u:USED]->(:Strategy)
SET u.failed = CASE WHEN row.failed[u.rank] <> '' THEN row.failed[u.rank] END
WITH DISTINCT row, e
SET e.success = row.success, e.score = row.score, e.reward = row.reward, e.error = row.error, e.error_class = row.error_class,
  e.type = row.type, e.type_rule = row.type_rule
RETURN count(*) AS written;
