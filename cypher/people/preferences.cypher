// Preferences of users, by category. What was said is a fact. Which preference supersedes which follows from the times alone, when it is
// asked: each supersedes the one before it of the same user and category. The order is by time (`at`, else the time of recording), then by
// confidence, then by id. A user is locked, by a SET, before a change reads the user's preferences.

// name: preferences.lock_users
// mode: write
// doc: Locks users until the transaction ends; with a name it creates the missing one.
// param: name string = null
// returns: locked integer
UNWIND $ids AS id
WITH DISTINCT id ORDER BY id
OPTIONAL MATCH (u:User {id: id})
WITH id, u, u.ns AS ns, u IS NULL AND $name IS NOT NULL AS new
FOREACH (ignored IN CASE WHEN new THEN [1] ELSE [] END | CREATE (:User {id: id, ns: $ns, created_at: $now, name: $name}))
FOREACH (known IN CASE WHEN ns = $ns THEN [u] ELSE [] END | SET known.ns = $ns)
RETURN sum(CASE WHEN new OR ns = $ns THEN 1 ELSE 0 END) AS locked;

// name: preferences.of
// doc: The preferences of a user, by category, latest first; without history only those in force. said_at is `at`, else the time of
// doc: recording.
// param: user_id string, category string = null, history boolean = true
// returns: id string, user string, category string, text string, source string, confidence float, at integer, created_at integer
// returns: said_at integer, supersedes string, superseded_by string
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:PREFERS]->(p:Preference)
WHERE $category IS NULL OR p.category = $category
WITH p, p.category AS category, coalesce(p.at, p.created_at) AS said_at, p.confidence AS confidence, p.id AS id
ORDER BY category, said_at DESC, confidence DESC, id DESC
WITH category, collect({node: p, id: id}) AS chain
UNWIND range(0, size(chain) - 1) AS place
WITH category, place, chain[place].node AS p, CASE WHEN place + 1 < size(chain) THEN chain[place + 1].id END AS supersedes,
     CASE WHEN place > 0 THEN chain[place - 1].id END AS superseded_by
WHERE $history OR place = 0
RETURN p.id AS id, p.user AS user, p.category AS category, p.text AS text, p.source AS source, p.confidence AS confidence, p.at AS at,
       p.created_at AS created_at, coalesce(p.at, p.created_at) AS said_at, supersedes, superseded_by
ORDER BY category, place;

// name: preferences.prefer
// mode: write
// doc: Stores a preference of a user. No row: it is known already, or the user does not exist.
// param: user_id string, category string, text string, source string, confidence float, at integer
// returns: id string
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (p:Preference {id: $id})
WITH u, p WHERE p IS NULL
CREATE (u)-[:PREFERS]->(n:Preference {id: $id, ns: $ns, created_at: $now, user: u.name, category: $category, text: $text, source: $source,
  confidence: $confidence, at: $at})
RETURN n.id AS id;

// name: preferences.erase_user
// mode: write
// doc: Removes a user without statements, with all preferences.
// param: user_id string
// returns: preferences integer
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
WITH u WHERE NOT (u)-[:STATED]->()
OPTIONAL MATCH (u)-[:PREFERS]->(p:Preference)
WITH u, collect(p) AS preferences
FOREACH (p IN preferences | DETACH DELETE p)
DETACH DELETE u
RETURN size(preferences) AS preferences;
