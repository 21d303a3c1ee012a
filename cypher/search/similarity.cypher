// Similarity: the queue of texts to embed, and the edges SIMILAR_TO from a node to each of its most similar ones. A node that is new, has
// a changed text, or lost a similar node has a Pending node with the same id until its vector and edges are made. A text without a vector
// counts as queued, and so do all texts of a namespace without an Embedder node, which was never searched.

// name: similarity.state
// doc: The embedder of a namespace's vectors (null: there are none yet), the queue of nodes to embed, rows {id, kind}, and the ids of
// doc: skills.
// returns: name string, dimensions integer, similar float, near float, floor float, pending list, skills list
OPTIONAL MATCH (k:Skill)
WHERE k.ns = $ns
WITH collect(k.id) AS skills
OPTIONAL MATCH (n:Embedder {id: $id})
OPTIONAL MATCH (p:Pending)
WHERE p.ns = $ns
WITH skills, n, p ORDER BY p.kind, p.id
RETURN n.name AS name, n.dimensions AS dimensions, n.similar AS similar, n.near AS near, n.floor AS floor,
       collect(CASE WHEN p IS NULL THEN null ELSE {id: p.id, kind: p.kind} END) AS pending, skills;

// name: similarity.adopt
// mode: write
// doc: Stores the embedder of a namespace's vectors, with the cosines from which nodes are linked (similar), tasks count as near (near),
// doc: and the nearest of few texts is relevant (floor).
// param: name string, dimensions integer, similar float, near float, floor float
// returns: name string
OPTIONAL MATCH (n:Embedder {id: $id})
FOREACH (ignored IN CASE WHEN n IS NULL THEN [1] ELSE [] END |
  CREATE (:Embedder {id: $id, ns: $ns, created_at: $now, name: $name, dimensions: $dimensions, similar: $similar, near: $near,
    floor: $floor}))
FOREACH (node IN CASE WHEN n IS NULL THEN [] ELSE [n] END |
  SET node.name = $name, node.dimensions = $dimensions, node.similar = $similar, node.near = $near, node.floor = $floor)
RETURN $name AS name;

// name: similarity.pend
// mode: write
// doc: Puts nodes into the queue.
// returns: pending integer
UNWIND $rows AS row
OPTIONAL MATCH (p:Pending {id: row.id})
WITH row, p WHERE p IS NULL
CREATE (:Pending {id: row.id, ns: $ns, kind: row.kind, created_at: $now})
RETURN count(*) AS pending;

// each: Label kind text = Strategy strategies text, Task tasks description, Knowledge facts fact
// name: similarity.texts_of_{kind}
// doc: The texts of all {kind}.
// returns: id string, text string
MATCH (n:{Label})
WHERE n.ns = $ns
RETURN n.id AS id, n.{text} AS text;

// each: Label kind = Strategy strategies, Task tasks
// name: similarity.links_of_{kind}
// doc: The edges SIMILAR_TO from {kind}.
// returns: id string, other string, similarity float, embedder string
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (n)-[r:SIMILAR_TO]->(o:{Label})
RETURN n.id AS id, o.id AS other, r.similarity AS similarity, r.embedder AS embedder;

// each: Label kind = Strategy strategies, Task tasks
// name: similarity.linked_to_{kind}
// doc: The {kind} with an edge SIMILAR_TO to the given ones.
// returns: id string, linked string
MATCH (n:{Label})
WHERE n.id IN $ids AND toString(n.ns) = $ns
MATCH (o:{Label})-[:SIMILAR_TO]->(n)
RETURN n.id AS id, o.id AS linked
ORDER BY id, linked;

// each: Label kind = Strategy strategies, Task tasks
// name: similarity.link_{kind}
// mode: write
// doc: Creates edges SIMILAR_TO from {kind}, instead of those that they have. Rows: {id, links: {other, similarity}}.
// param: embedder string
// returns: linked integer
UNWIND $rows AS row
MATCH (n:{Label} {id: row.id})
WITH row, n, n.ns AS ns WHERE ns = $ns
OPTIONAL MATCH (n)-[r:SIMILAR_TO]->(:{Label})
WITH row, n, collect(r) AS gone
FOREACH (link IN gone | DELETE link)
WITH row, n
UNWIND row.links AS link
MATCH (o:{Label} {id: link.other})
WITH link, n, o, o.ns AS other WHERE other = $ns
CREATE (n)-[:SIMILAR_TO {similarity: link.similarity, embedder: $embedder}]->(o)
RETURN count(*) AS linked;

// name: similarity.rates
// doc: The outcomes of strategies over all tasks and agents.
// returns: id string, text string, trials integer, successes integer, mean float, lower float, upper float, status string
// returns: merged_into string
MATCH (s:Strategy)
WHERE s.id IN $ids AND toString(s.ns) = $ns
WITH s, wilson_lower(s.successes, s.trials, $z_value) AS lower, wilson_upper(s.successes, s.trials, $z_value) AS upper
RETURN s.id AS id, s.text AS text, s.trials AS trials, s.successes AS successes,
       posterior_mean(s.successes, s.trials, $prior_successes, $prior_failures) AS mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status, s.merged_into AS merged_into;
