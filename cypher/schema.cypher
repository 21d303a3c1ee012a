// Constraints and indexes. Each statement runs by itself, can be repeated, and belongs to a schema
// version. Constraints are only for servers. The embedded engine keeps (label, id) unique and
// indexed by itself. There, each transaction copies a constraint, or an index on a label that grows
// with every episode, when it creates such a node: learning would slow down as the history grows.

// each: name Label = agent Agent, task Task, episode Episode, step Step, strategy Strategy, namespace Namespace, schema Schema,
// each: stream Stream, state State, policy Policy, transition Transition, event Event, cursor Cursor, claim Claim, prediction Prediction,
// each: cycle Cycle, heuristic Heuristic, anti_pattern AntiPattern, rule Rule, mistake Mistake, lock Lock, learning_scope LearningScope,
// each: user User, preference Preference, knowledge Knowledge, statement Statement, consolidation Consolidation, document Document,
// each: pending Pending, embedder Embedder, pooling Pooling, abandoned Abandoned, level Level, entry Entry, lens Lens,
// each: tally Tally, settlement Settlement, skill Skill, prior Prior
// name: schema.{name}_id
// mode: schema
// engine: neo4j
// doc: One {Label} per id, even if several processes create it at once.
CREATE CONSTRAINT graphmem_{name}_id IF NOT EXISTS FOR (n:{Label}) REQUIRE n.id IS UNIQUE;

// each: name Label = agent Agent, task Task, strategy Strategy, stream Stream
// name: schema.{name}_ns
// mode: schema
// doc: Each {Label} of a namespace.
CREATE INDEX graphmem_{name}_ns IF NOT EXISTS FOR (n:{Label}) ON (n.ns);

// each: name Label = episode Episode, policy Policy, claim Claim, cursor Cursor, prediction Prediction, cycle Cycle,
// each: anti_pattern AntiPattern, rule Rule, mistake Mistake, learning_scope LearningScope, user User, knowledge Knowledge,
// each: document Document, pending Pending, abandoned Abandoned, level Level, entry Entry, lens Lens,
// each: tally Tally, settlement Settlement, skill Skill
// name: schema.{name}_ns
// mode: schema
// engine: neo4j
// doc: Each {Label} of a namespace.
CREATE INDEX graphmem_{name}_ns IF NOT EXISTS FOR (n:{Label}) ON (n.ns);

// name: schema.heuristic_ns
// mode: schema
// engine: neo4j
// doc: The heuristics of a namespace, by type of task.
CREATE INDEX graphmem_heuristic_ns IF NOT EXISTS FOR (n:Heuristic) ON (n.ns, n.type);

// name: schema.anti_pattern_occurrences
// mode: schema
// engine: neo4j
// doc: The anti-patterns of a namespace that occurred often enough; most occur once.
CREATE INDEX graphmem_anti_pattern_occurrences IF NOT EXISTS FOR (n:AntiPattern) ON (n.ns, n.occurrences);

// name: schema.version
// doc: The schema version of the store (no row: none yet).
// returns: version integer
MATCH (s:Schema {id: 'graphmem'})
RETURN s.version AS version;

// name: schema.stamp
// mode: write
// doc: Writes the schema version, never a lower one.
// param: version integer
// returns: version integer
MERGE (s:Schema {id: 'graphmem'})
ON CREATE SET s.version = 0, s.created_at = $now
WITH s, CASE WHEN s.version > $version THEN s.version ELSE $version END AS version
SET s.version = version
RETURN version;

// name: schema.count_successes
// mode: write
// doc: Counts the successes of tasks that a graphmem before schema version 5 wrote.
// returns: tasks integer
MATCH (t:Task)
WHERE t.successes IS NULL
OPTIONAL MATCH (t)<-[:ATTEMPTED]-(e:Episode)
WITH t, sum(CASE WHEN e.success THEN 1 ELSE 0 END) AS successes
SET t.successes = successes
RETURN count(*) AS tasks;

// name: schema.put_tallies
// mode: write
// doc: Writes what tallies lack that a graphmem before schema version 7 wrote (before 5 it wrote none).
// returns: written integer
UNWIND $rows AS row
MATCH (a:Agent {id: row.home})
MERGE (y:Tally {id: row.id})
ON CREATE SET y.ns = a.ns, y.created_at = row.created_at, y.agent = row.agent, y.type = row.type, y.trials = row.trials,
  y.successes = row.successes
SET y.effective_trials = row.effective_trials, y.effective_successes = row.effective_successes
MERGE (y)-[:COUNTS]->(a)
RETURN count(*) AS written;

// name: schema.put_outcomes
// mode: write
// doc: Writes what outcome edges lack that a graphmem before schema version 7 wrote.
// returns: written integer
UNWIND $rows AS row
MATCH (t:Task {id: row.task})
MATCH (s:Strategy {id: row.strategy})
MATCH (t)<-[o:OUTCOME {agent: row.agent}]-(s)
SET o.latest = row.latest
RETURN count(*) AS written;

// name: schema.weigh_heuristics
// mode: write
// doc: Derives the odds of heuristics that a graphmem before schema version 6 wrote.
// returns: written integer
MATCH (h:Heuristic)
WHERE h.odds IS NULL
WITH h, odds(h.successes, h.trials - h.successes) AS odds
SET h.odds = odds
RETURN count(*) AS written;

// name: schema.weigh_anti_patterns
// mode: write
// doc: Counts the successes that oppose anti-patterns that a graphmem before schema version 6 wrote.
// returns: written integer
MATCH (p:AntiPattern)
WHERE p.odds IS NULL
OPTIONAL MATCH (p)-[:OPPOSED_BY]->(h:Heuristic)
WITH p, sum(h.successes) AS successes
SET p.successes = successes, p.odds = odds(p.occurrences, successes)
RETURN count(*) AS written;

// name: schema.drop_superseded
// mode: write
// doc: Drops the edges between preferences that a graphmem before schema version 10 kept.
// returns: dropped integer
MATCH (:Preference)-[r:SUPERSEDES]->(:Preference)
DELETE r
RETURN count(*) AS dropped;

// name: schema.namespace
// doc: The settings that a namespace keeps (no row: nothing was written in it; null: written before that was kept).
// returns: kept_settings
MATCH (n:Namespace {id: $id})
RETURN kept_settings(n);

// name: schema.settle
// mode: write
// doc: Creates the namespace with its settings, adds those that are missing, and returns the present ones.
// param: success_threshold float, z float, co_occurrence_half_life_days float, alpha float, gamma float
// param: crystallize_above float, min_events integer, min_occurrences integer, anti_pattern_failures integer, consolidate_every integer
// returns: kept_settings
MERGE (n:Namespace {id: $id})
ON CREATE SET n.ns = $ns, n.created_at = $now
SET n += {success_threshold: coalesce(n.success_threshold, $success_threshold), z: coalesce(n.z, $z),
  co_occurrence_half_life_days: coalesce(n.co_occurrence_half_life_days, $co_occurrence_half_life_days),
  alpha: coalesce(n.alpha, $alpha), gamma: coalesce(n.gamma, $gamma), min_events: coalesce(n.min_events, $min_events),
  crystallize_above: coalesce(n.crystallize_above, $crystallize_above), min_occurrences: coalesce(n.min_occurrences, $min_occurrences),
  anti_pattern_failures: coalesce(n.anti_pattern_failures, $anti_pattern_failures),
  consolidate_every: coalesce(n.consolidate_every, $consolidate_every)}
RETURN kept_settings(n);

// name: schema.resettle
// mode: write
// doc: Replaces the given settings of a namespace; rebuild then derives everything with them.
// param: given map
// returns: namespaces integer
MATCH (n:Namespace {id: $id})
SET n += $given
RETURN count(*) AS namespaces;

// name: schema.indexes
// doc: The existing indexes (each constraint has one).
// returns: name string, state string
SHOW INDEXES YIELD name, state
RETURN name AS name, state AS state
ORDER BY name;

// name: schema.task_embedded
// mode: schema
// engine: neo4j
// doc: Tasks by the digest of their text.
CREATE INDEX graphmem_task_embedded IF NOT EXISTS FOR (n:Task) ON (n.embedded);

// each: name Label = strategy Strategy, task Task
// name: schema.{name}_embedding
// mode: schema
// engine: neo4j
// doc: The vector index of {Label}, of any dimensions, without quantization, so that scores are exact.
CREATE VECTOR INDEX graphmem_{name}_embedding IF NOT EXISTS FOR (n:{Label}) ON (n.embedding)
OPTIONS {indexConfig: {`vector.similarity_function`: 'cosine', `vector.quantization.enabled`: false}};

// each: name Label = strategy Strategy, task Task
// name: schema.{name}_words
// mode: schema
// engine: neo4j
// doc: The full-text index of {Label}, over stemmed words.
CREATE FULLTEXT INDEX graphmem_{name}_words IF NOT EXISTS FOR (n:{Label}) ON EACH [n.words]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'english'}};

// name: schema.properties
// mode: schema
// engine: kglite
// doc: Tells the engine what nodes may hold: after a replay of its log, CREATE (but not SET) refuses names that it has not seen.
CREATE (n0:Episode {id: 'properties'})
SET n0 += {ns: '', created_at: 0, recorded_at: 0, content_hash: '', task: '', keyed: true, task_type: '',
  success: true, score: 0.0, reward: 0.0, error: '', feedback: '', summary: '', started_at: 0, ended_at: 0, duration: 0.0, step_count: 0,
  use_count: 0, source_key: '', occurrence: '', source: '', user: '', extra: '', type: '', type_rule: '', error_class: ''}
CREATE (n1:Step {id: 'properties'})
SET n1 += {ns: '', created_at: 0, index: 0, action_type: '', action: '', observation: '', reward: 0.0, error: '',
  state: '', next_state: '', terminal: true}
CREATE (n2:Task {id: 'properties'})
SET n2 += {ns: '', created_at: 0, key: '', description: '', described_at: 0, described_by: '', type: '',
  type_rule: '', typed_at: 0, typed_by: '', episodes: 0, successes: 0, score_sum: 0.0}
CREATE (n3:Strategy {id: 'properties'})
SET n3 += {ns: '', created_at: 0, text: '', trials: 0, successes: 0, credit_sum: 0.0, score_sum: 0.0,
  effective_trials: 0.0, effective_successes: 0.0, latest: [0], last_used_at: 0, reads: 0, last_read_at: 0, merged_into: ''}
CREATE (n4:Stream {id: 'properties'}) SET n4 += {ns: '', created_at: 0, agent: '', level: '', last: 0, unrecorded: 0}
CREATE (n5:State {id: 'properties'}) SET n5 += {ns: '', created_at: 0, fingerprint: '', features: ''}
CREATE (n6:Policy {id: 'properties'})
SET n6 += {ns: '', created_at: 0, stream: '', agent: '', state: '', action_type: '', action_spec: '', q: 0.0,
  updates: 0, trials: 0, successes: 0, confidence: 0.0, signals: 0, active: true, crystallized: true, q_set: true, last_updated_at: 0,
  reads: 0, last_read_at: 0}
CREATE (n7:Transition {id: 'properties'})
SET n7 += {ns: '', created_at: 0, stream: '', seq: 0, reward: 0.0, alpha: 0.0, gamma: 0.0, terminal: true,
  next_max: 0.0, next_actions: 0, success: true, at: 0}
CREATE (n8:Event {id: 'properties'})
SET n8 += {ns: '', created_at: 0, stream: '', seq: 0, kind: '', subject: '', other: '', value: 0.0, success: true, at: 0, data: ''}
CREATE (n9:Cursor {id: 'properties'}) SET n9 += {ns: '', created_at: 0, group: '', stream: '', position: 0}
CREATE (n10:Claim {id: 'properties'})
SET n10 += {ns: '', created_at: 0, group: '', stream: '', consumer: '', pending: [0], claimed_at: 0, deliveries: 0}
CREATE (n11:Prediction {id: 'properties'})
SET n11 += {ns: '', created_at: 0, subject: '', kind: '', agent: '', probability: 0.0, expected: '',
  status: '', at: 0, due_at: 0, resolved_at: 0, actual: '', error: 0.0, happened: true, how: ''}
CREATE (n12:Cycle {id: 'properties'})
SET n12 += {ns: '', created_at: 0, subject: '', kind: '', period: 0.0, amplitude: 0.0, phase: 0.0, p_value: 0.0,
  chi2: 0.0, peak: 0, timezone: '', events: 0, buckets: [0], expected: [0.0], only: '', alpha: 0.0, correction: '', at_least: 0}
CREATE (n13:Heuristic {id: 'properties'})
SET n13 += {ns: '', created_at: 0, agent: '', type: '', text: '', trials: 0, successes: 0, odds: 0.0,
  credit_sum: 0.0, score_sum: 0.0, first_at: 0, last_at: 0}
CREATE (n14:AntiPattern {id: 'properties'})
SET n14 += {ns: '', created_at: 0, agent: '', error_class: '', text: '', types: [''], occurrences: 0,
  successes: 0, odds: 0.0, first_at: 0, last_at: 0}
CREATE (n15:Rule {id: 'properties'})
SET n15 += {ns: '', created_at: 0, text: '', task: '', source: '', verdict: '', worked: 0, praised: 0, failed: 0,
  blamed: 0, first_at: 0, last_at: 0, worked_at: 0, failed_at: 0, agents: [''], task_types: ['']}
CREATE (n16:Mistake {id: 'properties'})
SET n16 += {ns: '', created_at: 0, type: '', task: '', worker: '', correct_decision: '', bad_decision: '', seen: 0,
  evidence: '', lesson: '', first_episode: '', first_order: 0, last_episode: '', last_order: 0, last_rank: 0, first_at: 0, last_at: 0}
CREATE (n17:Lock {id: 'properties'}) SET n17 += {ns: '', created_at: 0, name: ''}
CREATE (n18:LearningScope {id: 'properties'})
SET n18 += {ns: '', created_at: 0, agent: '', can_learn: [''], cannot_learn: [''], share_with: [''], inherit_from: [''], min_occurrences: 0}
CREATE (n19:User {id: 'properties'}) SET n19 += {ns: '', created_at: 0, name: ''}
CREATE (n20:Preference {id: 'properties'})
SET n20 += {ns: '', created_at: 0, user: '', category: '', text: '', source: '', confidence: 0.0, at: 0}
CREATE (n21:Knowledge {id: 'properties'}) SET n21 += {ns: '', created_at: 0, domain: '', fact: ''}
CREATE (n22:Statement {id: 'properties'})
SET n22 += {ns: '', created_at: 0, valid_from: 0, valid_to: 0, source: '', confidence: 0.0, user: '', at: 0}
CREATE (n23:Consolidation {id: 'properties'})
SET n23 += {ns: '', created_at: 0, at: 0, episodes: 0, stamp: 0, z: 0.0, renewals: 0, method: 0}
CREATE (n24:Document {id: 'properties'}) SET n24 += {ns: '', created_at: 0, name: '', format: '', rest: '', described_at: 0}
CREATE (n25:Pending {id: 'properties'}) SET n25 += {ns: '', created_at: 0, kind: ''}
CREATE (n26:Embedder {id: 'properties'}) SET n26 += {ns: '', created_at: 0, name: '', dimensions: 0, similar: 0.0, near: 0.0, floor: 0.0}
CREATE (n27:Pooling {id: 'properties'})
SET n27 += {ns: '', created_at: 0, task_strength: 0.0, strategy_strength: 0.0, cell_strength: 0.0,
  trials: 0, gain: 0.0, score: 0.0, fitted: false}
CREATE (n28:Abandoned {id: 'properties'})
SET n28 += {ns: '', created_at: 0, key: '', agent: '', task: '', task_type: '', strategies: [''], error: '', started_at: 0, ended_at: 0,
  step_count: 0, record: ''}
CREATE (n29:Namespace {id: 'properties'})
SET n29 += {ns: '', created_at: 0, success_threshold: 0.0, z: 0.0, co_occurrence_half_life_days: 0.0, alpha: 0.0, gamma: 0.0,
  crystallize_above: 0.0, min_events: 0, min_occurrences: 0, anti_pattern_failures: 0, consolidate_every: 0}
CREATE (n30:Level {id: 'properties'})
SET n30 += {ns: '', created_at: 0, name: '', kind: '', owner_kind: '', owner: '', purpose: '', holds: '', ttl: 0, capacity: 0,
  members: [''], decay: 0.0, prune: 0.0, dedup: 0.0, reindex: 0.0, missed: 0, failed: 0, reindexed_at: 0, compared: 0, compared_with: ''}
CREATE (n31:Entry {id: 'properties'})
SET n31 += {ns: '', created_at: 0, level: '', key: '', content: '', format: '', text: '', said: '', tags: [''], tagset: '', metadata: '',
  base: 0.0, at: 0, expires_at: 0, reads: 0, last_read_at: 0, seq: 0}
CREATE (n32:Tally {id: 'properties'})
SET n32 += {ns: '', created_at: 0, agent: '', type: '', trials: 0, successes: 0, effective_trials: 0.0, effective_successes: 0.0}
CREATE (n33:Lens {id: 'properties'})
SET n33 += {ns: '', created_at: 0, name: '', kind: '', owner_kind: '', owner: '', purpose: '', levels: [''], tags: '', max_age: 0, most: 0}
CREATE (n34:Settlement {id: 'properties'})
SET n34 += {ns: '', created_at: 0, at: 0, success: true, score: 0.0, reward: 0.0, error: '', former_success: true, former_score: 0.0,
  former_reward: 0.0, former_error: ''}
CREATE (n35:Skill {id: 'properties'})
SET n35 += {ns: '', created_at: 0, source: '', name: '', description: '', place: 0, embedder: '', vectors: ''}
CREATE (n36:Prior {id: 'properties'})
SET n36 += {ns: '', created_at: 0, text: '', verdict: '', trials: 0, successes: 0, place: 0}
DETACH DELETE n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16, n17, n18, n19, n20, n21, n22, n23, n24, n25, n26,
  n27, n28, n29, n30, n31, n32, n33, n34, n35, n36;
