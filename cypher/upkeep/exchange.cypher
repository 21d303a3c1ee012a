// Files that were imported, so that they can be given back, and what an export reads.
//
// (Document)-[:HOLDS {position, form}]->(Episode)   in the order of the file
//
// Documents are facts: nothing is derived from them. `rest` is what a file held beside its
// episodes, `form` how an episode was written there where that differs from how it would be
// written now; both are JSON. The rest can tell of any episode, so it goes when one is erased.

// name: exchange.episodes
// doc: The episodes of a namespace, earliest first, with what they are known by.
// returns: id string, source_key string, source string, at integer
MATCH (e:Episode)
WHERE e.ns = $ns
RETURN e.id AS id, e.source_key AS source_key, e.source AS source, coalesce(e.ended_at, e.started_at, e.recorded_at) AS at
ORDER BY at, id;

// name: exchange.documents
// install: documents
// doc: The files that were imported, by name, with how many of their episodes are there.
// returns: id string, name string, format string, rest string, created_at integer, episodes integer
MATCH (d:Document)
WHERE d.ns = $ns
OPTIONAL MATCH (d)-[h:HOLDS]->(:Episode)
RETURN d.id AS id, d.name AS name, d.format AS format, d.rest AS rest, d.created_at AS created_at, count(h) AS episodes
ORDER BY name;

// name: exchange.held
// doc: The episodes of files, in the order of these.
// returns: id string, position integer, episode string, form string
MATCH (d:Document)
WHERE d.id IN $ids AND d.ns = $ns
MATCH (d)-[h:HOLDS]->(e:Episode)
RETURN d.id AS id, h.position AS position, e.id AS episode, h.form AS form
ORDER BY id, position;

// name: exchange.open
// mode: write
// doc: Creates the node of a file, if it is not there.
// param: name string, format string, rest string
// returns: created integer
OPTIONAL MATCH (d:Document {id: $id})
WITH d WHERE d IS NULL
CREATE (:Document {id: $id, ns: $ns, created_at: $now, name: $name, format: $format, rest: $rest})
RETURN count(*) AS created;

// name: exchange.describe
// mode: write
// doc: What a file holds beside its episodes.
// param: rest string
// returns: documents integer
MATCH (d:Document {id: $id})
WITH d, d.ns AS ns WHERE ns = $ns
SET d.rest = $rest
RETURN count(*) AS documents;

// name: exchange.release
// mode: write
// doc: Takes all episodes out of a file.
// returns: released integer
MATCH (d:Document {id: $id})
WITH d, d.ns AS ns WHERE ns = $ns
MATCH (d)-[h:HOLDS]->(:Episode)
DELETE h
RETURN count(*) AS released;

// name: exchange.hold
// mode: write
// doc: Puts episodes into a file. Rows: {episode, position, form}.
// returns: held integer
MATCH (d:Document {id: $id})
WITH d, d.ns AS ns WHERE ns = $ns
UNWIND $rows AS row
MATCH (e:Episode {id: row.episode})
WITH d, row, e, e.ns AS ns WHERE ns = $ns
CREATE (d)-[:HOLDS {position: row.position, form: row.form}]->(e)
RETURN count(*) AS held;

// name: exchange.forget
// mode: write
// doc: Empties the rest of the files that hold some episodes: it may tell of them.
// returns: id string
MATCH (e:Episode)
WHERE e.id IN $ids AND e.ns = $ns
MATCH (d:Document)-[:HOLDS]->(e)
WITH DISTINCT d ORDER BY d.id
SET d.rest = null
RETURN d.id AS id
ORDER BY id;

// name: exchange.drop
// mode: write
// doc: Removes those of the files of which no episode is left.
// returns: removed integer
MATCH (d:Document)
WHERE d.id IN $ids AND d.ns = $ns AND NOT (d)-[:HOLDS]->()
DETACH DELETE d
RETURN count(*) AS removed;
