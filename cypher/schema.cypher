// Constraints and indexes. Each runs by itself, may run again, and is part of a schema version.
//
// Constraints are for servers. The embedded engine keeps (label, id) unique and indexed by itself,
// and there a constraint, or an index on a label that grows with every episode, is copied by each
// transaction that creates such a node: learning would slow down with the size of the history.

// name: schema.agent_id
// mode: schema
// engine: neo4j
// doc: One Agent an id.
CREATE CONSTRAINT graphmem_agent_id IF NOT EXISTS FOR (n:Agent) REQUIRE n.id IS UNIQUE;

// name: schema.task_id
// mode: schema
// engine: neo4j
// doc: One Task an id.
CREATE CONSTRAINT graphmem_task_id IF NOT EXISTS FOR (n:Task) REQUIRE n.id IS UNIQUE;

// name: schema.episode_id
// mode: schema
// engine: neo4j
// doc: One Episode an id: what makes learning idempotent between concurrent writers.
CREATE CONSTRAINT graphmem_episode_id IF NOT EXISTS FOR (n:Episode) REQUIRE n.id IS UNIQUE;

// name: schema.step_id
// mode: schema
// engine: neo4j
// doc: One Step an id.
CREATE CONSTRAINT graphmem_step_id IF NOT EXISTS FOR (n:Step) REQUIRE n.id IS UNIQUE;

// name: schema.strategy_id
// mode: schema
// engine: neo4j
// doc: One Strategy an id.
CREATE CONSTRAINT graphmem_strategy_id IF NOT EXISTS FOR (n:Strategy) REQUIRE n.id IS UNIQUE;

// name: schema.namespace_id
// mode: schema
// engine: neo4j
// doc: One Namespace an id.
CREATE CONSTRAINT graphmem_namespace_id IF NOT EXISTS FOR (n:Namespace) REQUIRE n.id IS UNIQUE;

// name: schema.schema_id
// mode: schema
// engine: neo4j
// doc: One Schema node a store.
CREATE CONSTRAINT graphmem_schema_id IF NOT EXISTS FOR (n:Schema) REQUIRE n.id IS UNIQUE;

// name: schema.agent_ns
// mode: schema
// doc: The agents of a namespace.
CREATE INDEX graphmem_agent_ns IF NOT EXISTS FOR (n:Agent) ON (n.ns);

// name: schema.task_ns
// mode: schema
// doc: The tasks of a namespace.
CREATE INDEX graphmem_task_ns IF NOT EXISTS FOR (n:Task) ON (n.ns);

// name: schema.episode_ns
// mode: schema
// engine: neo4j
// doc: The episodes of a namespace.
CREATE INDEX graphmem_episode_ns IF NOT EXISTS FOR (n:Episode) ON (n.ns);

// name: schema.strategy_ns
// mode: schema
// doc: The strategies of a namespace.
CREATE INDEX graphmem_strategy_ns IF NOT EXISTS FOR (n:Strategy) ON (n.ns);

// name: schema.episode_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what episodes may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Episode {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.recorded_at = 0, n.content_hash = '', n.task = '', n.keyed = true, n.task_type = '', n.success = true,
  n.score = 0.0, n.reward = 0.0, n.error = '', n.feedback = '', n.summary = '', n.started_at = 0, n.ended_at = 0, n.duration = 0.0, n.step_count = 0,
  n.use_count = 0, n.source_key = '', n.source = '', n.extra = ''
WITH n
DETACH DELETE n;

// name: schema.step_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what steps may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Step {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.index = 0, n.action_type = '', n.action = '', n.observation = '', n.reward = 0.0, n.error = '',
  n.state = '', n.next_state = '', n.terminal = true
WITH n
DETACH DELETE n;

// name: schema.task_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what tasks may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Task {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.key = '', n.description = '', n.described_at = 0, n.described_by = '', n.type = '', n.typed_at = 0,
  n.typed_by = ''
WITH n
DETACH DELETE n;

// name: schema.strategy_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what strategys may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Strategy {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.text = '', n.trials = 0, n.successes = 0, n.credit_sum = 0.0, n.score_sum = 0.0, n.last_used_at = 0
WITH n
DETACH DELETE n;

// name: schema.version
// mode: read
// doc: The schema version that the store holds (no row: none yet).
// returns: version integer
MATCH (s:Schema {id: 'graphmem'})
RETURN s.version AS version;

// name: schema.stamp
// mode: write
// doc: Writes the schema version, never a lower one.
// param: version integer
// param: now integer
// returns: version integer
MERGE (s:Schema {id: 'graphmem'})
ON CREATE SET s.version = 0, s.created_at = $now
WITH s, CASE WHEN s.version > $version THEN s.version ELSE $version END AS version
SET s.version = version
RETURN version;

// name: schema.namespace
// mode: read
// doc: The settings that a namespace was built with (no row: nothing was learned there).
// param: id string
// returns: co_occurrence_half_life_days float
MATCH (n:Namespace {id: $id})
RETURN n.co_occurrence_half_life_days AS co_occurrence_half_life_days;

// name: schema.settle
// mode: write
// doc: Creates the namespace with its settings, or returns those that it has.
// param: id string
// param: ns string
// param: co_occurrence_half_life_days float
// param: now integer
// returns: co_occurrence_half_life_days float
MERGE (n:Namespace {id: $id})
ON CREATE SET n.ns = $ns, n.created_at = $now, n.co_occurrence_half_life_days = $co_occurrence_half_life_days
RETURN n.co_occurrence_half_life_days AS co_occurrence_half_life_days;

// name: schema.resettle
// mode: write
// doc: Replaces the settings of a namespace; rebuild derives everything anew with them.
// param: id string
// param: co_occurrence_half_life_days float
// returns: co_occurrence_half_life_days float
MATCH (n:Namespace {id: $id})
SET n.co_occurrence_half_life_days = $co_occurrence_half_life_days
RETURN n.co_occurrence_half_life_days AS co_occurrence_half_life_days;

// name: schema.indexes
// mode: read
// doc: The indexes that are there (constraints have one each).
// returns: name string, state string
SHOW INDEXES YIELD name, state
RETURN name AS name, state AS state
ORDER BY name;
