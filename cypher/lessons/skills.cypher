// Skills: kinds of tasks that files tell about, and what they say of strategies there: (Skill)-[:TELLS]->(Prior), facts of a source.
// `vectors` of a skill are those of its name and description, and of the first priors of a skill without a description (base64 of 32-bit
// floats), made by `embedder`.

// name: skills.stored
// doc: What files say of strategies, in the order of each file: of one source, or of all; what was imported by $until.
// param: source string = null
// param: until integer = null
// returns: source string, name string, description string, text string, verdict string, trials integer, successes integer
MATCH (k:Skill)
WHERE k.ns = $ns AND ($source IS NULL OR k.source = $source) AND ($until IS NULL OR k.created_at <= $until)
MATCH (k)-[:TELLS]->(p:Prior)
WITH k, p ORDER BY k.source, k.place, p.place
RETURN k.source AS source, k.name AS name, k.description AS description, p.text AS text, p.verdict AS verdict, p.trials AS trials,
  p.successes AS successes;

// name: skills.put
// mode: write
// doc: Creates skills: rows {id, source, name, description, place}.
// returns: written integer
UNWIND $rows AS row
CREATE (:Skill {id: row.id, ns: $ns, created_at: $now, source: row.source, name: row.name, description: row.description, place: row.place,
  embedder: null, vectors: null})
RETURN count(*) AS written;

// name: skills.tell
// mode: write
// doc: Creates what skills (ids) tell of strategies: rows {skill, id, text, verdict, trials, successes, place}.
// returns: written integer
UNWIND $rows AS row
MATCH (k:Skill {id: row.skill})
WITH row, k, k.ns AS ns WHERE ns = $ns
CREATE (k)-[:TELLS]->(:Prior {id: row.id, ns: $ns, created_at: $now, text: row.text, verdict: row.verdict, trials: row.trials,
  successes: row.successes, place: row.place})
RETURN count(*) AS written;

// name: skills.drop
// mode: write
// doc: Removes what a source says: its skills, and what they tell.
// param: source string
// returns: skills integer, priors integer
MATCH (k:Skill)
WHERE k.ns = $ns AND k.source = $source
OPTIONAL MATCH (k)-[:TELLS]->(p:Prior)
WITH k, collect(p) AS told
FOREACH (gone IN told | DETACH DELETE gone)
DETACH DELETE k
RETURN count(*) AS skills, sum(size(told)) AS priors;

// name: skills.texts
// doc: The skills, their vectors, and the texts that these are of: besides name and description the first priors (at most $limit).
// param: limit integer = 256
// returns: id string, source string, name string, description string, embedder string, vectors string, texts list
MATCH (k:Skill)
WHERE k.id IN $ids AND toString(k.ns) = $ns
OPTIONAL MATCH (k)-[:TELLS]->(p:Prior)
WHERE k.description IS NULL AND p.place < $limit
WITH k, p ORDER BY k.id, p.place
RETURN k.id AS id, k.source AS source, k.name AS name, k.description AS description, k.embedder AS embedder, k.vectors AS vectors,
  collect(p.text) AS texts
ORDER BY id;

// name: skills.embed
// mode: write
// doc: Stores the vectors of skills: rows {id, vectors}.
// param: embedder string
// returns: written integer
UNWIND $rows AS row
MATCH (k:Skill {id: row.id})
WITH row, k, k.ns AS ns WHERE ns = $ns
SET k.embedder = $embedder, k.vectors = row.vectors
RETURN count(*) AS written;

// name: skills.told
// doc: Priors by their ids.
// returns: id string, text string, verdict string, trials integer, successes integer, place integer
MATCH (p:Prior)
WHERE p.id IN $ids AND toString(p.ns) = $ns
RETURN p.id AS id, p.text AS text, p.verdict AS verdict, p.trials AS trials, p.successes AS successes, p.place AS place;

// name: skills.best
// doc: The strategies that near skills tell of, rows {id, places} (null: all of its priors): to do, and to avoid, the nearest skills first,
// doc: in each those with most for them.
// param: limit integer = 8
// returns: verdict string, texts list
UNWIND range(0, size($rows) - 1) AS rank
WITH rank, $rows[rank] AS row
MATCH (k:Skill {id: row.id})
WITH rank, row, k, k.ns AS ns WHERE ns = $ns
MATCH (k)-[:TELLS]->(p:Prior)
WHERE row.places IS NULL OR p.place IN row.places
WITH p.verdict AS verdict, p.text AS text, rank, abs(2 * p.successes - p.trials) AS votes, p.place AS place
ORDER BY rank, votes DESC, place
WITH verdict, collect(text)[..$limit] AS texts
RETURN verdict, texts
ORDER BY verdict;
