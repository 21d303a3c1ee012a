// Knowledge: facts of a domain. A fact is one node; each statement of it is another node, with its source, user and time, so that several
// sources are evidence and not duplicates. A contradiction is one edge for each statement that claims it. Nodes are locked, by a SET, in
// this order: users, then knowledge by id.

// name: knowledge.lock
// mode: write
// doc: Locks pieces of knowledge until the transaction ends; returns the existing ids.
// returns: id string
MATCH (k:Knowledge)
WHERE k.id IN $ids AND toString(k.ns) = $ns
WITH k ORDER BY k.id
SET k.ns = $ns
RETURN k.id AS id
ORDER BY id;

// name: knowledge.state
// mode: write
// doc: Stores a source's statement of a piece of knowledge, which it creates if it is missing. No row: the statement is known already, or
// doc: the user does not exist.
// param: knowledge_id string, domain string, fact string, source string, confidence float, user string, user_id string, at integer
// param: valid_from integer, valid_to integer
// returns: id string
OPTIONAL MATCH (s:Statement {id: $id})
OPTIONAL MATCH (u:User {id: $user_id})
WITH s, CASE WHEN u.ns = $ns THEN [u] ELSE [] END AS users
WHERE s IS NULL AND ($user_id IS NULL OR size(users) = 1)
OPTIONAL MATCH (known:Knowledge {id: $knowledge_id})
FOREACH (ignored IN CASE WHEN known IS NULL THEN [1] ELSE [] END |
  CREATE (:Knowledge {id: $knowledge_id, ns: $ns, created_at: $now, domain: $domain, fact: $fact}))
WITH users
MATCH (k:Knowledge {id: $knowledge_id})
WITH users, k, k.ns AS ns WHERE ns = $ns
CREATE (n:Statement {id: $id, ns: $ns, created_at: $now, source: $source, confidence: $confidence, user: $user, at: $at,
  valid_from: $valid_from, valid_to: $valid_to})-[:STATES]->(k)
FOREACH (speaker IN users | CREATE (speaker)-[:STATED]->(n))
RETURN n.id AS id;

// name: knowledge.contradict
// mode: write
// doc: Stores that a statement contradicts other pieces of knowledge; returns the number of new contradictions.
// param: knowledge_id string, statement string
// returns: created integer
MATCH (k:Knowledge {id: $knowledge_id})
WITH k, k.ns AS ns WHERE ns = $ns
MATCH (other:Knowledge)
WHERE other.id IN $ids AND toString(other.ns) = $ns
OPTIONAL MATCH (k)-[c:CONTRADICTS {statement: $statement}]->(other)
WITH k, other, c WHERE c IS NULL
CREATE (k)-[:CONTRADICTS {statement: $statement}]->(other)
RETURN count(*) AS created;

// name: knowledge.list
// install: knowledge
// doc: The knowledge of one domain, of ids, or of all: each fact with its statements and contradictions in both directions.
// doc: source_confidence is the confidence of its best source; confidence is the same, lowered by contradictions. Until a time: by what
// doc: was recorded by then. It holds from and until when the latest statements say that give it.
// param: domain string = null, ids list = null, until integer = null, limit integer = 100
// returns: id string, domain string, fact string, confidence float, source_confidence float, statements list, contradicts list
// returns: contradicted_by list, valid_from integer, valid_to integer
MATCH (k:Knowledge)
WHERE k.ns = $ns AND ($domain IS NULL OR k.domain = $domain) AND ($ids IS NULL OR k.id IN $ids)
MATCH (s:Statement)-[:STATES]->(k)
WHERE $until IS NULL OR s.created_at <= $until
WITH k, s, coalesce(s.at, s.created_at) AS said_at
ORDER BY said_at, s.id
WITH k, max(s.confidence) AS own, collect({id: s.id, source: s.source, user: s.user, at: s.at, recorded_at: s.created_at,
  confidence: s.confidence, valid_from: s.valid_from, valid_to: s.valid_to}) AS statements
OPTIONAL MATCH (k)-[c:CONTRADICTS]-(a:Knowledge)<-[:STATES]-(t:Statement)
WHERE $until IS NULL OR t.created_at <= $until
WITH k, own, statements, [said IN statements | said.id] AS said, a, max(t.confidence) AS theirs, collect(c.statement) AS claims,
     collect(t.id) AS told
WITH k, own, statements, said, a, theirs, [claim IN claims WHERE claim IN said OR claim IN told] AS claims
ORDER BY a.id
WITH k, own, statements, said, collect(CASE WHEN size(claims) = 0 THEN null
  ELSE {claims: claims, it: {id: a.id, domain: a.domain, fact: a.fact, source_confidence: theirs}} END) AS rivals
WITH k, own, statements, said, rivals, reduce(sum = 0.0, rival IN rivals | sum + rival.it.source_confidence) AS against
RETURN k.id AS id, k.domain AS domain, k.fact AS fact, contested(own, against) AS confidence, own AS source_confidence, statements,
       [rival IN rivals WHERE any(claim IN rival.claims WHERE claim IN said) | rival.it] AS contradicts,
       [rival IN rivals WHERE any(claim IN rival.claims WHERE NOT claim IN said) | rival.it] AS contradicted_by,
       last([one IN statements WHERE one.valid_from IS NOT NULL | one.valid_from]) AS valid_from,
       last([one IN statements WHERE one.valid_to IS NOT NULL | one.valid_to]) AS valid_to
ORDER BY confidence DESC, domain, fact
LIMIT $limit;

// name: knowledge.of_domains
// doc: The facts of domains (of what was recorded until a time) by id, the latest ones if there are many: when each was told and recorded
// doc: last, and from when and until when it holds, as the latest statements say that give it.
// param: domains list, until integer = null, limit integer = 1000
// returns: id string, domain string, fact string, source_confidence float, told_at integer, recorded_at integer, valid_from integer
// returns: valid_to integer
MATCH (k:Knowledge)
WHERE k.ns = $ns AND k.domain IN $domains
WITH k
ORDER BY k.created_at DESC, k.id
LIMIT $limit
MATCH (s:Statement)-[:STATES]->(k)
WHERE $until IS NULL OR s.created_at <= $until
WITH k, s, coalesce(s.at, s.created_at) AS said_at
ORDER BY said_at DESC, s.id DESC
RETURN k.id AS id, k.domain AS domain, k.fact AS fact, max(s.confidence) AS source_confidence, max(said_at) AS told_at,
       max(s.created_at) AS recorded_at, collect(s.valid_from)[0] AS valid_from, collect(s.valid_to)[0] AS valid_to
ORDER BY id;

// name: knowledge.any
// doc: Whether anything is known: one row, or none.
// returns: id string
MATCH (k:Knowledge)
WHERE k.ns = $ns
RETURN k.id AS id
LIMIT 1;

// name: knowledge.retract
// mode: write
// doc: Removes a user's statements, and the contradictions that only these claim; returns the ids of what they stated.
// param: user_id string
// returns: id string
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:STATED]->(s:Statement)-[:STATES]->(k:Knowledge)
OPTIONAL MATCH (k)-[c:CONTRADICTS {statement: s.id}]->(:Knowledge)
WITH s, k.id AS id, collect(c) AS claims
FOREACH (claim IN claims | DELETE claim)
DETACH DELETE s
RETURN id
ORDER BY id;

// name: knowledge.settle
// mode: write
// doc: Removes given pieces of knowledge that have no statement left, and dates the others by their first statement.
// returns: removed integer
MATCH (k:Knowledge)
WHERE k.id IN $ids AND toString(k.ns) = $ns
OPTIONAL MATCH (s:Statement)-[:STATES]->(k)
WITH k, min(s.created_at) AS created_at
FOREACH (fact IN CASE WHEN created_at IS NULL THEN [] ELSE [k] END | SET fact.created_at = created_at)
FOREACH (fact IN CASE WHEN created_at IS NULL THEN [k] ELSE [] END | DETACH DELETE fact)
RETURN sum(CASE WHEN created_at IS NULL THEN 1 ELSE 0 END) AS removed;
