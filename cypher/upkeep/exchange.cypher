// Imported files, which can be exported again, and the reads of an export.
// (Document)-[:HOLDS {position, form}]->(Episode)   in the order of the file
// Documents are facts; nothing is derived from them. `rest` is the content of a file besides its
// episodes, `form` the original text of an episode if it differs from what an export would write;
// both are JSON. The rest can mention any episode, so it is removed when one is erased.

// name: exchange.episodes
// doc: The episodes of a namespace (those recorded by a time), earliest first, with their source keys, and what tells equal ones without
// doc: a key apart.
// param: until integer = null
// returns: id string, source_key string, occurrence string, source string, at integer, recorded_at integer
MATCH (e:Episode)
WHERE e.ns = $ns AND ($until IS NULL OR e.recorded_at <= $until)
RETURN e.id AS id, e.source_key AS source_key, e.occurrence AS occurrence, e.source AS source,
  coalesce(e.ended_at, e.started_at, e.recorded_at) AS at, e.recorded_at AS recorded_at
ORDER BY at, id;

// name: exchange.recorded
// doc: How many episodes were recorded by a time, and when the first of all was.
// param: until integer
// returns: episodes integer, first integer
MATCH (e:Episode)
WHERE e.ns = $ns
RETURN sum(CASE WHEN e.recorded_at <= $until THEN 1 ELSE 0 END) AS episodes, min(e.recorded_at) AS first;

// name: exchange.documents
// install: documents
// doc: The imported files, by name, with the number of their episodes in the graph.
// returns: id string, name string, format string, rest string, created_at integer, episodes integer
MATCH (d:Document)
WHERE d.ns = $ns
OPTIONAL MATCH (d)-[h:HOLDS]->(:Episode)
RETURN d.id AS id, d.name AS name, d.format AS format, d.rest AS rest, d.created_at AS created_at, count(h) AS episodes
ORDER BY name;

// name: exchange.episodes_of_documents
// doc: The episodes of files, in the order of the files.
// returns: id string, position integer, episode string, form string
MATCH (d:Document)
WHERE d.id IN $ids AND toString(d.ns) = $ns
MATCH (d)-[h:HOLDS]->(e:Episode)
RETURN d.id AS id, h.position AS position, e.id AS episode, h.form AS form
ORDER BY id, position;

// name: exchange.open
// mode: write
// doc: Creates the node of a file, if it does not exist; else removes its rest and its links to episodes.
// param: name string, format string
// returns: released integer
MERGE (d:Document {id: $id})
ON CREATE SET d.ns = $ns, d.created_at = $now, d.name = $name
SET d.format = $format, d.rest = null
WITH d
OPTIONAL MATCH (d)-[h:HOLDS]->(:Episode)
DELETE h
RETURN count(h) AS released;

// name: exchange.describe
// mode: write
// doc: Stores what a file holds besides its episodes, and when: a time tells one such content of a file from every other.
// param: rest string
// returns: documents integer
MATCH (d:Document {id: $id})
WITH d, d.ns AS ns, coalesce(d.described_at, 0) AS before WHERE ns = $ns
SET d.rest = $rest, d.described_at = CASE WHEN before < $now THEN $now ELSE before + 1 END
RETURN count(*) AS documents;

// name: exchange.hold
// mode: write
// doc: Links a file to its episodes. Rows: {episode, position, form}.
// returns: linked integer
MATCH (d:Document {id: $id})
WITH d, d.ns AS ns WHERE ns = $ns
UNWIND $rows AS row
MATCH (e:Episode {id: row.episode})
WITH d, row, e, e.ns AS ns WHERE ns = $ns
CREATE (d)-[:HOLDS {position: row.position, form: row.form}]->(e)
RETURN count(*) AS linked;

// name: exchange.forget
// mode: write
// doc: Clears the rest of the files that contain some episodes, or contained them (by their keys), because it may mention them.
// returns: id string
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (d:Document)
WHERE d.ns = $ns AND ((d)-[:HOLDS]->(e) OR e.source_key STARTS WITH d.name + '/')
WITH DISTINCT d ORDER BY d.id
SET d.rest = null
RETURN d.id AS id
ORDER BY id;

// name: exchange.drop
// mode: write
// doc: Removes the given files that have no episode left.
// returns: removed integer
MATCH (d:Document)
WHERE d.id IN $ids AND toString(d.ns) = $ns AND NOT (d)-[:HOLDS]->()
DETACH DELETE d
RETURN count(*) AS removed;
