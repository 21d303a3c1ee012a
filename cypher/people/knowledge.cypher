// Knowledge: facts of a domain. One node holds a fact; each statement of it is a node of its own,
// with its source, its user and its time, so that several sources are evidence and not duplicates.
//
// A contradiction is an edge for each statement that claims it. Nodes are locked, by a SET, in the
// order: users, then knowledge by id.

// name: knowledge.open
// mode: write
// doc: Creates a piece of knowledge that is not there yet; its statements are to follow in the same transaction.
// param: domain string, fact string
// returns: created integer
OPTIONAL MATCH (k:Knowledge {id: $id})
WITH k WHERE k IS NULL
CREATE (:Knowledge {id: $id, ns: $ns, created_at: $now, domain: $domain, fact: $fact})
RETURN count(*) AS created;

// name: knowledge.lock
// mode: write
// doc: Waits for writers of this knowledge and keeps them out until the transaction ends; returns the ids that are there.
// returns: id string
MATCH (k:Knowledge)
WHERE k.id IN $ids AND k.ns = $ns
WITH k ORDER BY k.id
SET k.ns = $ns
RETURN k.id AS id
ORDER BY id;

// name: knowledge.state
// mode: write
// doc: Stores that a source states a piece of knowledge. No row: it is known already, or there is no such knowledge or user.
// param: knowledge_id string, source string, confidence float, user string, user_id string, at integer
// returns: id string
MATCH (k:Knowledge {id: $knowledge_id})
WITH k, k.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (s:Statement {id: $id})
WITH k, s WHERE s IS NULL
OPTIONAL MATCH (u:User {id: $user_id})
WITH k, CASE WHEN u IS NULL THEN [] WHEN u.ns = $ns THEN [u] ELSE [] END AS users
WHERE $user_id IS NULL OR size(users) = 1
CREATE (n:Statement {id: $id, ns: $ns, created_at: $now, source: $source, confidence: $confidence, user: $user, at: $at})
CREATE (n)-[:STATES]->(k)
FOREACH (speaker IN users | CREATE (speaker)-[:STATED]->(n))
RETURN n.id AS id;

// name: knowledge.contradict
// mode: write
// doc: Stores that a statement of a piece of knowledge contradicts others; returns how many of these are new.
// param: knowledge_id string, statement string
// returns: created integer
MATCH (k:Knowledge {id: $knowledge_id})
WITH k, k.ns AS ns WHERE ns = $ns
MATCH (other:Knowledge)
WHERE other.id IN $ids AND other.ns = $ns
OPTIONAL MATCH (k)-[c:CONTRADICTS {statement: $statement}]->(other)
WITH k, other, c WHERE c IS NULL
CREATE (k)-[:CONTRADICTS {statement: $statement}]->(other)
RETURN count(*) AS created;

// name: knowledge.get
// doc: Pieces of knowledge by their ids, with what knowledge.list says of them.
// returns: id string, domain string, fact string, confidence float, source_confidence float, statements list, contradicts list
// returns: contradicted_by list
MATCH (k:Knowledge)
WHERE k.id IN $ids AND k.ns = $ns
MATCH (s:Statement)-[:STATES]->(k)
WITH k, s.id AS statement, s.source AS source, s.user AS user, s.at AS at, s.created_at AS recorded_at, s.confidence AS confidence
ORDER BY coalesce(at, recorded_at), statement
WITH k, max(confidence) AS own,
     collect({id: statement, source: source, user: user, at: at, recorded_at: recorded_at, confidence: confidence}) AS statements
OPTIONAL MATCH (k)-[:CONTRADICTS]->(a:Knowledge)<-[:STATES]-(t:Statement)
WITH k, own, statements, a, max(t.confidence) AS theirs
ORDER BY a.id
WITH k, own, statements, collect(CASE WHEN a IS NULL THEN null
  ELSE {id: a.id, domain: a.domain, fact: a.fact, source_confidence: theirs} END) AS contradicts
OPTIONAL MATCH (t:Statement)-[:STATES]->(b:Knowledge)-[:CONTRADICTS]->(k)
WITH k, own, statements, contradicts, b, max(t.confidence) AS theirs
ORDER BY b.id
WITH k, own, statements, contradicts, collect(CASE WHEN b IS NULL THEN null
  ELSE {id: b.id, domain: b.domain, fact: b.fact, source_confidence: theirs} END) AS contradicted_by
WITH k, own, statements, contradicts, contradicted_by, [rival IN contradicts | rival.id] AS named
WITH k, own, statements, contradicts, contradicted_by, contradicts + [rival IN contradicted_by WHERE NOT rival.id IN named] AS rivals
WITH k, own, statements, contradicts, contradicted_by, reduce(sum = 0.0, rival IN rivals | sum + rival.source_confidence) AS against
RETURN k.id AS id, k.domain AS domain, k.fact AS fact, contested(own, against) AS confidence, own AS source_confidence, statements,
       contradicts, contradicted_by
ORDER BY confidence DESC, domain, fact;

// name: knowledge.list
// install: knowledge
// doc: What is known, of a domain or of all: each fact with its statements, what it contradicts and what contradicts it. source_confidence
// doc: is that of its best source, confidence the same lowered by what stands against it.
// param: domain string = null, limit integer = 100
// returns: id string, domain string, fact string, confidence float, source_confidence float, statements list, contradicts list
// returns: contradicted_by list
MATCH (k:Knowledge)
WHERE k.ns = $ns AND ($domain IS NULL OR k.domain = $domain)
MATCH (s:Statement)-[:STATES]->(k)
WITH k, s.id AS statement, s.source AS source, s.user AS user, s.at AS at, s.created_at AS recorded_at, s.confidence AS confidence
ORDER BY coalesce(at, recorded_at), statement
WITH k, max(confidence) AS own,
     collect({id: statement, source: source, user: user, at: at, recorded_at: recorded_at, confidence: confidence}) AS statements
OPTIONAL MATCH (k)-[:CONTRADICTS]->(a:Knowledge)<-[:STATES]-(t:Statement)
WITH k, own, statements, a, max(t.confidence) AS theirs
ORDER BY a.id
WITH k, own, statements, collect(CASE WHEN a IS NULL THEN null
  ELSE {id: a.id, domain: a.domain, fact: a.fact, source_confidence: theirs} END) AS contradicts
OPTIONAL MATCH (t:Statement)-[:STATES]->(b:Knowledge)-[:CONTRADICTS]->(k)
WITH k, own, statements, contradicts, b, max(t.confidence) AS theirs
ORDER BY b.id
WITH k, own, statements, contradicts, collect(CASE WHEN b IS NULL THEN null
  ELSE {id: b.id, domain: b.domain, fact: b.fact, source_confidence: theirs} END) AS contradicted_by
WITH k, own, statements, contradicts, contradicted_by, [rival IN contradicts | rival.id] AS named
WITH k, own, statements, contradicts, contradicted_by, contradicts + [rival IN contradicted_by WHERE NOT rival.id IN named] AS rivals
WITH k, own, statements, contradicts, contradicted_by, reduce(sum = 0.0, rival IN rivals | sum + rival.source_confidence) AS against
RETURN k.id AS id, k.domain AS domain, k.fact AS fact, contested(own, against) AS confidence, own AS source_confidence, statements,
       contradicts, contradicted_by
ORDER BY confidence DESC, domain, fact
LIMIT $limit;

// name: knowledge.stated_by
// doc: The ids of what a user stated, in order.
// param: user_id string
// returns: id string
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:STATED]->(s:Statement)-[:STATES]->(k:Knowledge)
RETURN DISTINCT k.id AS id
ORDER BY id;

// name: knowledge.retract_contradictions
// mode: write
// doc: Removes the contradictions that only statements of a user claim.
// param: user_id string
// returns: removed integer
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:STATED]->(s:Statement)-[:STATES]->(k:Knowledge)
MATCH (k)-[c:CONTRADICTS]->(:Knowledge)
WITH s.id AS id, c, c.statement AS statement WHERE statement = id
DELETE c
RETURN count(*) AS removed;

// name: knowledge.retract
// mode: write
// doc: Removes the statements of a user.
// param: user_id string
// returns: removed integer
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:STATED]->(s:Statement)
DETACH DELETE s
RETURN count(*) AS removed;

// name: knowledge.drop
// mode: write
// doc: Removes those of some pieces of knowledge that nobody states any more.
// returns: removed integer
MATCH (k:Knowledge)
WHERE k.id IN $ids AND k.ns = $ns
WITH k WHERE NOT (k)<-[:STATES]-()
DETACH DELETE k
RETURN count(*) AS removed;

// name: knowledge.date
// mode: write
// doc: The date of some pieces of knowledge is that of their first statement.
// returns: dated integer
MATCH (k:Knowledge)
WHERE k.id IN $ids AND k.ns = $ns
MATCH (s:Statement)-[:STATES]->(k)
WITH k, min(s.created_at) AS created_at
SET k.created_at = created_at
RETURN count(*) AS dated;
