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

// name: schema.stream_id
// mode: schema
// engine: neo4j
// doc: One Stream an agent.
CREATE CONSTRAINT graphmem_stream_id IF NOT EXISTS FOR (n:Stream) REQUIRE n.id IS UNIQUE;

// name: schema.state_id
// mode: schema
// engine: neo4j
// doc: One State a fingerprint.
CREATE CONSTRAINT graphmem_state_id IF NOT EXISTS FOR (n:State) REQUIRE n.id IS UNIQUE;

// name: schema.policy_id
// mode: schema
// engine: neo4j
// doc: One Policy an agent, state and action, also between concurrent writers.
CREATE CONSTRAINT graphmem_policy_id IF NOT EXISTS FOR (n:Policy) REQUIRE n.id IS UNIQUE;

// name: schema.transition_id
// mode: schema
// engine: neo4j
// doc: One Transition a number of a stream.
CREATE CONSTRAINT graphmem_transition_id IF NOT EXISTS FOR (n:Transition) REQUIRE n.id IS UNIQUE;

// name: schema.event_id
// mode: schema
// engine: neo4j
// doc: One Event a number of a stream.
CREATE CONSTRAINT graphmem_event_id IF NOT EXISTS FOR (n:Event) REQUIRE n.id IS UNIQUE;

// name: schema.cursor_id
// mode: schema
// engine: neo4j
// doc: One Cursor a group and stream.
CREATE CONSTRAINT graphmem_cursor_id IF NOT EXISTS FOR (n:Cursor) REQUIRE n.id IS UNIQUE;

// name: schema.claim_id
// mode: schema
// engine: neo4j
// doc: One Claim an id.
CREATE CONSTRAINT graphmem_claim_id IF NOT EXISTS FOR (n:Claim) REQUIRE n.id IS UNIQUE;

// name: schema.prediction_id
// mode: schema
// engine: neo4j
// doc: One Prediction an id.
CREATE CONSTRAINT graphmem_prediction_id IF NOT EXISTS FOR (n:Prediction) REQUIRE n.id IS UNIQUE;

// name: schema.cycle_id
// mode: schema
// engine: neo4j
// doc: One Cycle a subject, kind and time zone.
CREATE CONSTRAINT graphmem_cycle_id IF NOT EXISTS FOR (n:Cycle) REQUIRE n.id IS UNIQUE;

// name: schema.heuristic_id
// mode: schema
// engine: neo4j
// doc: One Heuristic an agent, type of task and strategy.
CREATE CONSTRAINT graphmem_heuristic_id IF NOT EXISTS FOR (n:Heuristic) REQUIRE n.id IS UNIQUE;

// name: schema.anti_pattern_id
// mode: schema
// engine: neo4j
// doc: One AntiPattern an agent, strategy and class of errors.
CREATE CONSTRAINT graphmem_anti_pattern_id IF NOT EXISTS FOR (n:AntiPattern) REQUIRE n.id IS UNIQUE;

// name: schema.rule_id
// mode: schema
// engine: neo4j
// doc: One Rule a task and sentence.
CREATE CONSTRAINT graphmem_rule_id IF NOT EXISTS FOR (n:Rule) REQUIRE n.id IS UNIQUE;

// name: schema.mistake_id
// mode: schema
// engine: neo4j
// doc: One Mistake a type, task, worker and correct decision.
CREATE CONSTRAINT graphmem_mistake_id IF NOT EXISTS FOR (n:Mistake) REQUIRE n.id IS UNIQUE;

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

// name: schema.stream_ns
// mode: schema
// doc: The streams of a namespace.
CREATE INDEX graphmem_stream_ns IF NOT EXISTS FOR (n:Stream) ON (n.ns);

// name: schema.policy_ns
// mode: schema
// engine: neo4j
// doc: The policies of a namespace.
CREATE INDEX graphmem_policy_ns IF NOT EXISTS FOR (n:Policy) ON (n.ns);

// name: schema.claim_ns
// mode: schema
// engine: neo4j
// doc: What is pending in a namespace.
CREATE INDEX graphmem_claim_ns IF NOT EXISTS FOR (n:Claim) ON (n.ns);

// name: schema.cursor_ns
// mode: schema
// engine: neo4j
// doc: The places of groups in a namespace.
CREATE INDEX graphmem_cursor_ns IF NOT EXISTS FOR (n:Cursor) ON (n.ns);

// name: schema.prediction_ns
// mode: schema
// engine: neo4j
// doc: The predictions of a namespace.
CREATE INDEX graphmem_prediction_ns IF NOT EXISTS FOR (n:Prediction) ON (n.ns);

// name: schema.cycle_ns
// mode: schema
// engine: neo4j
// doc: The cycles of a namespace.
CREATE INDEX graphmem_cycle_ns IF NOT EXISTS FOR (n:Cycle) ON (n.ns);

// name: schema.heuristic_ns
// mode: schema
// engine: neo4j
// doc: The heuristics of a namespace, by type of task.
CREATE INDEX graphmem_heuristic_ns IF NOT EXISTS FOR (n:Heuristic) ON (n.ns, n.type);

// name: schema.anti_pattern_ns
// mode: schema
// engine: neo4j
// doc: The anti-patterns of a namespace.
CREATE INDEX graphmem_anti_pattern_ns IF NOT EXISTS FOR (n:AntiPattern) ON (n.ns);

// name: schema.rule_ns
// mode: schema
// engine: neo4j
// doc: The rules of a namespace.
CREATE INDEX graphmem_rule_ns IF NOT EXISTS FOR (n:Rule) ON (n.ns);

// name: schema.mistake_ns
// mode: schema
// engine: neo4j
// doc: The mistakes of a namespace.
CREATE INDEX graphmem_mistake_ns IF NOT EXISTS FOR (n:Mistake) ON (n.ns);

// name: schema.episode_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what episodes may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Episode {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.recorded_at = 0, n.content_hash = '', n.task = '', n.keyed = true, n.task_type = '', n.success = true,
  n.score = 0.0, n.reward = 0.0, n.error = '', n.feedback = '', n.summary = '', n.started_at = 0, n.ended_at = 0, n.duration = 0.0, n.step_count = 0,
  n.use_count = 0, n.source_key = '', n.source = '', n.extra = '', n.type = '', n.type_rule = '', n.error_class = ''
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
ON CREATE SET n.ns = '', n.created_at = 0, n.key = '', n.description = '', n.described_at = 0, n.described_by = '', n.type = '', n.type_rule = '', n.typed_at = 0,
  n.typed_by = '', n.episodes = 0, n.score_sum = 0.0
WITH n
DETACH DELETE n;

// name: schema.strategy_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what strategies may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Strategy {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.text = '', n.trials = 0, n.successes = 0, n.credit_sum = 0.0, n.score_sum = 0.0, n.last_used_at = 0,
  n.reads = 0, n.last_read_at = 0, n.merged_into = ''
WITH n
DETACH DELETE n;

// name: schema.stream_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what streams may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Stream {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.agent = '', n.last = 0, n.unrecorded = 0
WITH n
DETACH DELETE n;

// name: schema.state_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what states may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:State {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.fingerprint = '', n.features = ''
WITH n
DETACH DELETE n;

// name: schema.policy_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what policies may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Policy {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.stream = '', n.agent = '', n.state = '', n.action_type = '', n.action_spec = '', n.q = 0.0, n.updates = 0, n.trials = 0, n.successes = 0, n.confidence = 0.0, n.signals = 0, n.active = true, n.crystallized = true, n.q_set = true, n.last_updated_at = 0, n.reads = 0, n.last_read_at = 0
WITH n
DETACH DELETE n;

// name: schema.transition_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what transitions may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Transition {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.stream = '', n.seq = 0, n.reward = 0.0, n.alpha = 0.0, n.gamma = 0.0, n.terminal = true, n.next_max = 0.0, n.next_actions = 0, n.success = true, n.at = 0
WITH n
DETACH DELETE n;

// name: schema.event_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what events may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Event {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.stream = '', n.seq = 0, n.kind = '', n.subject = '', n.other = '', n.value = 0.0, n.success = true, n.at = 0, n.data = ''
WITH n
DETACH DELETE n;

// name: schema.cursor_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what cursors may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Cursor {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.group = '', n.stream = '', n.position = 0
WITH n
DETACH DELETE n;

// name: schema.claim_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what claims may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Claim {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.group = '', n.stream = '', n.consumer = '', n.pending = [0], n.claimed_at = 0, n.deliveries = 0
WITH n
DETACH DELETE n;

// name: schema.prediction_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what predictions may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Prediction {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.subject = '', n.kind = '', n.agent = '', n.probability = 0.0, n.expected = '', n.status = '', n.at = 0, n.due_at = 0, n.resolved_at = 0, n.actual = '', n.error = 0.0, n.happened = true, n.how = ''
WITH n
DETACH DELETE n;

// name: schema.cycle_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what cycles may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Cycle {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.subject = '', n.kind = '', n.period = 0.0, n.amplitude = 0.0, n.phase = 0.0, n.p_value = 0.0, n.chi2 = 0.0, n.peak = 0, n.timezone = '', n.events = 0,
  n.buckets = [0], n.expected = [0.0], n.only = '', n.alpha = 0.0, n.correction = '', n.at_least = 0
WITH n
DETACH DELETE n;

// name: schema.heuristic_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what heuristics may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Heuristic {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.agent = '', n.type = '', n.text = '', n.trials = 0, n.successes = 0, n.credit_sum = 0.0, n.score_sum = 0.0,
  n.first_at = 0, n.last_at = 0
WITH n
DETACH DELETE n;

// name: schema.anti_pattern_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what anti-patterns may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:AntiPattern {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.agent = '', n.error_class = '', n.text = '', n.types = [''], n.occurrences = 0, n.first_at = 0, n.last_at = 0
WITH n
DETACH DELETE n;

// name: schema.rule_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what rules may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Rule {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.text = '', n.task = '', n.source = '', n.verdict = '', n.worked = 0, n.praised = 0, n.failed = 0, n.blamed = 0,
  n.first_at = 0, n.last_at = 0, n.worked_at = 0, n.failed_at = 0, n.agents = [''], n.task_types = ['']
WITH n
DETACH DELETE n;

// name: schema.mistake_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what mistakes may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Mistake {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.type = '', n.task = '', n.worker = '', n.correct_decision = '', n.seen = 0, n.evidence = '', n.lesson = '',
  n.first_episode = '', n.first_order = 0, n.last_episode = '', n.last_order = 0, n.last_rank = 0, n.first_at = 0, n.last_at = 0
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

// name: schema.lock_id
// mode: schema
// engine: neo4j
// doc: One Lock an id.
CREATE CONSTRAINT graphmem_lock_id IF NOT EXISTS FOR (n:Lock) REQUIRE n.id IS UNIQUE;

// name: schema.learning_scope_id
// mode: schema
// engine: neo4j
// doc: One LearningScope an agent.
CREATE CONSTRAINT graphmem_learning_scope_id IF NOT EXISTS FOR (n:LearningScope) REQUIRE n.id IS UNIQUE;

// name: schema.user_id
// mode: schema
// engine: neo4j
// doc: One User a name.
CREATE CONSTRAINT graphmem_user_id IF NOT EXISTS FOR (n:User) REQUIRE n.id IS UNIQUE;

// name: schema.preference_id
// mode: schema
// engine: neo4j
// doc: One Preference an id.
CREATE CONSTRAINT graphmem_preference_id IF NOT EXISTS FOR (n:Preference) REQUIRE n.id IS UNIQUE;

// name: schema.knowledge_id
// mode: schema
// engine: neo4j
// doc: One Knowledge a domain and fact.
CREATE CONSTRAINT graphmem_knowledge_id IF NOT EXISTS FOR (n:Knowledge) REQUIRE n.id IS UNIQUE;

// name: schema.statement_id
// mode: schema
// engine: neo4j
// doc: One Statement an id.
CREATE CONSTRAINT graphmem_statement_id IF NOT EXISTS FOR (n:Statement) REQUIRE n.id IS UNIQUE;

// name: schema.learning_scope_ns
// mode: schema
// engine: neo4j
// doc: The scopes of a namespace.
CREATE INDEX graphmem_learning_scope_ns IF NOT EXISTS FOR (n:LearningScope) ON (n.ns);

// name: schema.user_ns
// mode: schema
// engine: neo4j
// doc: The users of a namespace.
CREATE INDEX graphmem_user_ns IF NOT EXISTS FOR (n:User) ON (n.ns);

// name: schema.knowledge_ns
// mode: schema
// engine: neo4j
// doc: What is known in a namespace.
CREATE INDEX graphmem_knowledge_ns IF NOT EXISTS FOR (n:Knowledge) ON (n.ns);

// name: schema.lock_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what locks may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Lock {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.name = ''
WITH n
DETACH DELETE n;

// name: schema.learning_scope_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what scopes may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:LearningScope {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.agent = '', n.can_learn = [''], n.cannot_learn = [''], n.share_with = [''], n.inherit_from = [''],
  n.min_occurrences = 0
WITH n
DETACH DELETE n;

// name: schema.user_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what users may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:User {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.name = ''
WITH n
DETACH DELETE n;

// name: schema.preference_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what preferences may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Preference {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.user = '', n.category = '', n.text = '', n.source = '', n.confidence = 0.0, n.at = 0
WITH n
DETACH DELETE n;

// name: schema.knowledge_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what knowledge may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Knowledge {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.domain = '', n.fact = ''
WITH n
DETACH DELETE n;

// name: schema.statement_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what statements may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Statement {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.source = '', n.confidence = 0.0, n.user = '', n.at = 0
WITH n
DETACH DELETE n;

// name: schema.consolidation_id
// mode: schema
// engine: neo4j
// doc: One Consolidation a namespace.
CREATE CONSTRAINT graphmem_consolidation_id IF NOT EXISTS FOR (n:Consolidation) REQUIRE n.id IS UNIQUE;

// name: schema.consolidation_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what consolidations may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Consolidation {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.at = 0, n.episodes = 0, n.stamp = 0, n.z = 0.0, n.renewals = 0
WITH n
DETACH DELETE n;

// name: schema.document_id
// mode: schema
// engine: neo4j
// doc: One Document a name.
CREATE CONSTRAINT graphmem_document_id IF NOT EXISTS FOR (n:Document) REQUIRE n.id IS UNIQUE;

// name: schema.document_ns
// mode: schema
// engine: neo4j
// doc: The imported files of a namespace.
CREATE INDEX graphmem_document_ns IF NOT EXISTS FOR (n:Document) ON (n.ns);

// name: schema.document_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what imported files may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Document {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.name = '', n.format = '', n.rest = ''
WITH n
DETACH DELETE n;

// name: schema.pending_id
// mode: schema
// engine: neo4j
// doc: One Pending a node.
CREATE CONSTRAINT graphmem_pending_id IF NOT EXISTS FOR (n:Pending) REQUIRE n.id IS UNIQUE;

// name: schema.embedder_id
// mode: schema
// engine: neo4j
// doc: One Embedder a namespace.
CREATE CONSTRAINT graphmem_embedder_id IF NOT EXISTS FOR (n:Embedder) REQUIRE n.id IS UNIQUE;

// name: schema.pending_ns
// mode: schema
// engine: neo4j
// doc: What is pending in a namespace.
CREATE INDEX graphmem_pending_ns IF NOT EXISTS FOR (n:Pending) ON (n.ns);

// name: schema.strategy_embedding
// mode: schema
// engine: neo4j
// doc: Strategies by their vectors, of any dimensions, unquantized so that scores are exact.
CREATE VECTOR INDEX graphmem_strategy_embedding IF NOT EXISTS FOR (n:Strategy) ON (n.embedding)
OPTIONS {indexConfig: {`vector.similarity_function`: 'cosine', `vector.quantization.enabled`: false}};

// name: schema.task_embedding
// mode: schema
// engine: neo4j
// doc: Tasks by their vectors, of any dimensions, unquantized so that scores are exact.
CREATE VECTOR INDEX graphmem_task_embedding IF NOT EXISTS FOR (n:Task) ON (n.embedding)
OPTIONS {indexConfig: {`vector.similarity_function`: 'cosine', `vector.quantization.enabled`: false}};

// name: schema.strategy_words
// mode: schema
// engine: neo4j
// doc: Strategies by their words, in their stems.
CREATE FULLTEXT INDEX graphmem_strategy_words IF NOT EXISTS FOR (n:Strategy) ON EACH [n.words]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'english'}};

// name: schema.task_words
// mode: schema
// engine: neo4j
// doc: Tasks by their words, in their stems.
CREATE FULLTEXT INDEX graphmem_task_words IF NOT EXISTS FOR (n:Task) ON EACH [n.words]
OPTIONS {indexConfig: {`fulltext.analyzer`: 'english'}};

// name: schema.pending_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what marks of waiting texts may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Pending {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.kind = ''
WITH n
DETACH DELETE n;

// name: schema.embedder_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what embedders may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Embedder {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.name = '', n.dimensions = 0, n.similar = 0.0, n.near = 0.0
WITH n
DETACH DELETE n;

// name: schema.pooling_id
// mode: schema
// engine: neo4j
// doc: One Pooling a namespace.
CREATE CONSTRAINT graphmem_pooling_id IF NOT EXISTS FOR (n:Pooling) REQUIRE n.id IS UNIQUE;

// name: schema.pooling_properties
// mode: schema
// engine: kglite
// doc: Tells the engine what strengths of pooling may hold: after a replay of its log it refuses names it has not seen.
MERGE (n:Pooling {id: 'properties'})
ON CREATE SET n.ns = '', n.created_at = 0, n.task_strength = 0.0, n.strategy_strength = 0.0, n.cell_strength = 0.0, n.task_slope = 0.0,
  n.strategy_slope = 0.0, n.trials = 0, n.gain = 0.0, n.score = 0.0, n.fitted = false
WITH n
DETACH DELETE n;
