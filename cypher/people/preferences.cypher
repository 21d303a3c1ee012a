// Preferences of users, by category. What was said is a fact. Which preference supersedes which is
// derived from the times alone: each supersedes the one before it of the same user and category.
// The order is by time (`at`, else the time of recording), then by confidence, then by id. A user
// is locked, by a SET, before a change reads the user's preferences.

// name: preferences.open_user
// mode: write
// doc: Creates a missing user.
// param: name string
// returns: users integer
OPTIONAL MATCH (u:User {id: $id})
WITH u WHERE u IS NULL
CREATE (:User {id: $id, ns: $ns, created_at: $now, name: $name})
RETURN count(*) AS users;

// name: preferences.lock_users
// mode: write
// doc: Locks users until the transaction ends.
// returns: locked integer
MATCH (u:User)
WHERE u.id IN $ids AND toString(u.ns) = $ns
WITH u ORDER BY u.id
SET u.ns = $ns
RETURN count(*) AS locked;

// name: preferences.users
// doc: The ids of the users of a namespace, in order.
// returns: id string
MATCH (u:User)
WHERE u.ns = $ns
RETURN u.id AS id
ORDER BY id;

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
OPTIONAL MATCH (p)-[:SUPERSEDES]->(older:Preference)
OPTIONAL MATCH (newer:Preference)-[:SUPERSEDES]->(p)
WITH p, older.id AS supersedes, newer.id AS superseded_by
WHERE $history OR superseded_by IS NULL
RETURN p.id AS id, p.user AS user, p.category AS category, p.text AS text, p.source AS source, p.confidence AS confidence, p.at AS at,
       p.created_at AS created_at, coalesce(p.at, p.created_at) AS said_at, supersedes, superseded_by
ORDER BY category, said_at DESC, confidence DESC, id DESC;

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

// name: preferences.derive_supersessions
// doc: Which preferences of users supersede which, derived from their times; of all categories, or of a given one.
// param: category string = null
// returns: newer string, older string
MATCH (u:User)
WHERE u.id IN $ids AND toString(u.ns) = $ns
MATCH (u)-[:PREFERS]->(p:Preference)
WHERE $category IS NULL OR p.category = $category
WITH u.id AS user, p.category AS category, p.id AS id, coalesce(p.at, p.created_at) AS said_at, p.confidence AS confidence
ORDER BY user, category, said_at, confidence, id
WITH user, category, collect(id) AS chain
UNWIND range(1, size(chain) - 1) AS place
RETURN chain[place] AS newer, chain[place - 1] AS older
ORDER BY newer, older;

// name: preferences.stored_supersessions
// doc: Which preferences of users supersede which, as stored; of all categories, or of a given one.
// param: category string = null
// returns: newer string, older string
MATCH (u:User)
WHERE u.id IN $ids AND toString(u.ns) = $ns
MATCH (u)-[:PREFERS]->(p:Preference)
WHERE $category IS NULL OR p.category = $category
MATCH (p)-[:SUPERSEDES]->(older:Preference)
RETURN p.id AS newer, older.id AS older
ORDER BY newer, older;

// name: preferences.link
// mode: write
// doc: Creates edges from preferences to those that they supersede. Rows: {newer, older}.
// returns: linked integer
UNWIND $rows AS row
MATCH (newer:Preference {id: row.newer})
MATCH (older:Preference {id: row.older})
WITH newer, older, newer.ns AS ns, older.ns AS other WHERE ns = $ns AND other = $ns
OPTIONAL MATCH (newer)-[r:SUPERSEDES]->(older)
WITH newer, older, r WHERE r IS NULL
CREATE (newer)-[:SUPERSEDES]->(older)
RETURN count(*) AS linked;

// name: preferences.unlink
// mode: write
// doc: Removes edges from preferences to those that they superseded. Rows: {newer, older}.
// returns: unlinked integer
UNWIND $rows AS row
MATCH (newer:Preference {id: row.newer})
WITH row, newer, newer.ns AS ns WHERE ns = $ns
MATCH (newer)-[r:SUPERSEDES]->(older:Preference)
WITH row, r, older.id AS id WHERE id = row.older
DELETE r
RETURN count(*) AS unlinked;

// name: preferences.erase
// mode: write
// doc: Removes all preferences of a user.
// param: user_id string
// returns: removed integer
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
MATCH (u)-[:PREFERS]->(p:Preference)
DETACH DELETE p
RETURN count(*) AS removed;

// name: preferences.drop_user
// mode: write
// doc: Removes a user without preferences and statements.
// param: user_id string
// returns: removed integer
MATCH (u:User {id: $user_id})
WITH u, u.ns AS ns WHERE ns = $ns
WITH u WHERE NOT (u)-[:PREFERS]->() AND NOT (u)-[:STATED]->()
DETACH DELETE u
RETURN count(*) AS removed;
