// Lenses: read-only views of levels, under a name. A lens looks at the levels that its `levels` name, by edges
// LOOKS_AT. Whoever puts one locks the streams of its levels first, as whoever closes one of these does.

// name: lenses.put
// mode: write
// doc: Creates lenses, or replaces their settings, and lets them look at levels. Rows: {id, name, kind, owner_kind, owner, purpose, levels
// doc: (names), looks_at (their ids), tags (JSON), max_age (milliseconds), most}.
// returns: edges integer
UNWIND $rows AS row
WITH row ORDER BY row.id
OPTIONAL MATCH (n:Lens {id: row.id})
WITH row, n WHERE n IS NULL OR n.ns = $ns
OPTIONAL MATCH (n)-[r:LOOKS_AT]->(:Level)
WITH row, n, collect(r) AS looks
FOREACH (look IN looks | DELETE look)
FOREACH (ignored IN CASE WHEN n IS NULL THEN [1] ELSE [] END |
  CREATE (:Lens {id: row.id, ns: $ns, created_at: $now, name: row.name, kind: row.kind, owner_kind: row.owner_kind, owner: row.owner,
    purpose: row.purpose, levels: row.levels, tags: row.tags, max_age: row.max_age, most: row.most}))
FOREACH (lens IN CASE WHEN n IS NULL THEN [] ELSE [n] END |
  SET lens.purpose = row.purpose, lens.levels = row.levels, lens.tags = row.tags, lens.max_age = row.max_age, lens.most = row.most)
WITH row
MATCH (n:Lens {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
UNWIND row.looks_at AS level
MATCH (l:Level {id: level})
WITH n, l, l.ns AS ns WHERE ns = $ns
MERGE (n)-[r:LOOKS_AT]->(l)
RETURN count(r) AS edges;

// name: lenses.list
// install: lenses
// doc: The lenses of a namespace: all, those of one owner, or one.
// param: owner_kind string = null, owner string = null, name string = null
// returns: lens_columns
MATCH (n:Lens)
WHERE n.ns = $ns AND ($owner_kind IS NULL OR n.owner_kind = $owner_kind) AND ($owner IS NULL OR n.owner = $owner)
  AND ($name IS NULL OR n.name = $name)
RETURN lens_columns(n)
ORDER BY name;

// name: lenses.forget
// mode: write
// doc: Takes a level out of all lenses, and returns how many other levels each of them has.
// returns: id string, levels integer
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (n:Lens)-[:LOOKS_AT]->(l)
WITH n, l.name AS gone ORDER BY n.id
SET n.ns = $ns
WITH n, [name IN n.levels WHERE name <> gone] AS levels
SET n.levels = levels
RETURN n.id AS id, size(levels) AS levels
ORDER BY id;
