// Lenses: read-only views of levels, under a name. A lens looks at the levels that its `levels` name, by edges
// LOOKS_AT. Whoever puts one locks the streams of its levels first, as whoever closes one of these does.

// name: lenses.put
// mode: write
// doc: Creates lenses, or replaces the settings of existing ones. Rows: {id, name, kind, owner_kind, owner, purpose, levels (names), tags
// doc: (JSON), max_age (milliseconds), most}.
// returns: lenses integer
UNWIND $rows AS row
WITH row ORDER BY row.id
OPTIONAL MATCH (n:Lens {id: row.id})
WITH row, n WHERE n IS NULL OR n.ns = $ns
FOREACH (ignored IN CASE WHEN n IS NULL THEN [1] ELSE [] END |
  CREATE (:Lens {id: row.id, ns: $ns, created_at: $now, name: row.name, kind: row.kind, owner_kind: row.owner_kind, owner: row.owner,
    purpose: row.purpose, levels: row.levels, tags: row.tags, max_age: row.max_age, most: row.most}))
FOREACH (lens IN CASE WHEN n IS NULL THEN [] ELSE [n] END |
  SET lens.purpose = row.purpose, lens.levels = row.levels, lens.tags = row.tags, lens.max_age = row.max_age, lens.most = row.most)
RETURN count(*) AS lenses;

// name: lenses.look_away
// mode: write
// doc: Removes the edges of lenses (ids) to levels that they no longer name.
// returns: edges integer
MATCH (n:Lens)
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:LOOKS_AT]->(l:Level)
WHERE NOT l.name IN n.levels
DELETE r
RETURN count(*) AS edges;

// name: lenses.look_at
// mode: write
// doc: Lets lenses look at levels. Rows: {id, level (id)}.
// returns: edges integer
UNWIND $rows AS row
MATCH (n:Lens {id: row.id})
MATCH (l:Level {id: row.level})
WITH n, l, n.ns AS ns, l.ns AS other WHERE ns = $ns AND other = $ns
MERGE (n)-[r:LOOKS_AT]->(l)
RETURN count(r) AS edges;

// name: lenses.get
// doc: Lenses by id.
// returns: lens_columns
MATCH (n:Lens)
WHERE n.id IN $ids AND toString(n.ns) = $ns
RETURN lens_columns(n)
ORDER BY name;

// name: lenses.list
// install: lenses
// doc: The lenses of a namespace, of all owners or of one.
// param: owner_kind string = null, owner string = null
// returns: lens_columns
MATCH (n:Lens)
WHERE n.ns = $ns AND ($owner_kind IS NULL OR n.owner_kind = $owner_kind) AND ($owner IS NULL OR n.owner = $owner)
RETURN lens_columns(n)
ORDER BY name;

// name: lenses.on
// doc: The lenses that look at a level.
// returns: id string
MATCH (l:Level {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
MATCH (n:Lens)-[:LOOKS_AT]->(l)
RETURN n.id AS id
ORDER BY id;

// name: lenses.forget
// mode: write
// doc: Takes a level out of lenses (ids), and tells how many other levels each has.
// param: level string
// returns: id string, levels integer
MATCH (n:Lens)
WHERE n.id IN $ids AND toString(n.ns) = $ns
WITH n ORDER BY n.id
SET n.ns = $ns
WITH n, [name IN n.levels WHERE name <> $level] AS levels
SET n.levels = levels
RETURN n.id AS id, size(levels) AS levels
ORDER BY id;

// name: lenses.drop
// mode: write
// doc: Removes lenses; their levels stay.
// returns: removed integer
MATCH (n:Lens)
WHERE n.id IN $ids AND toString(n.ns) = $ns
DETACH DELETE n
RETURN count(*) AS removed;

// name: lenses.seen
// doc: The levels that lenses name, and those that they look at.
// returns: name string, levels list, seen list
MATCH (n:Lens)
WHERE n.ns = $ns
OPTIONAL MATCH (n)-[:LOOKS_AT]->(l:Level)
WITH n, CASE WHEN l.ns = $ns THEN l.name ELSE null END AS level
RETURN n.name AS name, n.levels AS levels, collect(level) AS seen
ORDER BY name;
