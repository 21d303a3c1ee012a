// The event streams: one for each agent. Every change gets a number under the lock of its stream. The id of an event is the id of its
// stream, a colon and its number: a range of numbers is a range of ids. Transitions are events too: one node is both.

// name: events.open_streams
// mode: write
// install: open_streams
// doc: Creates missing streams. Rows: {stream, agent}.
// returns: streams integer
UNWIND $rows AS row
WITH row ORDER BY row.stream
OPTIONAL MATCH (t:Stream {id: row.stream})
WITH row, t WHERE t IS NULL
CREATE (:Stream {id: row.stream, ns: $ns, created_at: $now, agent: row.agent, last: 0, unrecorded: 0})
RETURN count(*) AS streams;

// name: events.lock_streams
// mode: write
// doc: Locks streams until the transaction ends.
// returns: stream string, agent string, level string, last integer, unrecorded integer
MATCH (t:Stream)
WHERE t.id IN $ids AND toString(t.ns) = $ns
WITH t ORDER BY t.id
SET t.ns = $ns
RETURN t.id AS stream, t.agent AS agent, t.level AS level, t.last AS last, t.unrecorded AS unrecorded
ORDER BY stream;

// name: events.advance
// mode: write
// doc: Sets the number of the last event of locked streams, and the number of updates without an event. Rows: {stream, last, unrecorded}.
// returns: streams integer
UNWIND $rows AS row
MATCH (t:Stream {id: row.stream})
WITH row, t, t.ns AS ns WHERE ns = $ns
SET t.last = row.last, t.unrecorded = row.unrecorded
RETURN count(t) AS streams;

// name: events.append
// mode: write
// doc: Creates events in locked streams. Rows: {id, stream, seq, kind, subject (a policy or null), other, value, success, at, data}.
// returns: events integer
UNWIND $rows AS row
OPTIONAL MATCH (p:Policy {id: row.subject})
WITH row, p, p.ns AS ns WHERE row.subject IS NULL OR ns = $ns
CREATE (x:Event {id: row.id, ns: $ns, created_at: $now, stream: row.stream, seq: row.seq, kind: row.kind, subject: row.subject,
  other: row.other, value: row.value, success: row.success, at: row.at, data: row.data})
FOREACH (policy IN CASE WHEN p IS NULL THEN [] ELSE [p] END | CREATE (x)-[:ABOUT]->(policy))
RETURN count(*) AS events;

// name: events.append_transitions
// mode: write
// doc: Creates transitions in locked streams. Rows: {id, stream, seq, subject, next_id (a state or null), episode (or null), reward, alpha,
// doc: gamma, terminal, next_max, next_actions, success, at}.
// returns: events integer
UNWIND $rows AS row
MATCH (p:Policy {id: row.subject})
OPTIONAL MATCH (n:State {id: row.next_id})
OPTIONAL MATCH (e:Episode {id: row.episode})
WITH row, p, n, e, p.ns AS ns, n.ns AS other WHERE ns = $ns AND (row.next_id IS NULL OR other = $ns)
CREATE (x:Transition {id: row.id, ns: $ns, created_at: $now, stream: row.stream, seq: row.seq, reward: row.reward,
  alpha: row.alpha, gamma: row.gamma, terminal: row.terminal, next_max: row.next_max, next_actions: row.next_actions,
  success: row.success, at: row.at})-[:UPDATED]->(p)
FOREACH (state IN CASE WHEN n IS NULL THEN [] ELSE [n] END | CREATE (state)-[:REACHED_BY]->(x))
FOREACH (episode IN CASE WHEN e.ns = $ns THEN [e] ELSE [] END | CREATE (x)-[:OF]->(episode))
RETURN count(*) AS events;

// name: events.streams
// install: event_streams
// doc: The streams of a namespace, with the number of their last event; those of levels (by id) have the level's name as agent. With a
// doc: group only those with events that it has not read, after its position.
// param: agent string = null, group string = null
// returns: stream string, agent string, last integer, unrecorded integer, level string, position integer
MATCH (t:Stream)
WHERE t.ns = $ns AND ($agent IS NULL OR t.agent = $agent)
OPTIONAL MATCH (c:Cursor {group: $group})-[:READS]->(t)
WITH t, coalesce(c.position, 0) AS position
WHERE $group IS NULL OR position < t.last
RETURN t.id AS stream, t.agent AS agent, t.last AS last, t.unrecorded AS unrecorded, t.level AS level, position
ORDER BY agent;

// name: events.read
// install: read_events
// doc: Events by id, in order of streams and numbers, without erased ones.
// returns: id string, stream string, seq integer, created_at integer, kind string, subject string, other string, value float
// returns: success boolean, at integer, data string, facts map
MATCH (x:Event)
WHERE x.id IN $ids AND toString(x.ns) = $ns
RETURN x.id AS id, x.stream AS stream, x.seq AS seq, x.created_at AS created_at, x.kind AS kind, x.subject AS subject, x.other AS other,
       x.value AS value, x.success AS success, x.at AS at, x.data AS data, null AS facts
UNION ALL
MATCH (x:Transition)
WHERE x.id IN $ids AND toString(x.ns) = $ns
MATCH (x)-[:UPDATED]->(p:Policy)
OPTIONAL MATCH (n:State)-[:REACHED_BY]->(x)
RETURN x.id AS id, x.stream AS stream, x.seq AS seq, x.created_at AS created_at, 'transition' AS kind, p.id AS subject, null AS other,
       null AS value, x.success AS success, x.at AS at, null AS data,
       {next_state: n.fingerprint, reward: x.reward, alpha: x.alpha, gamma: x.gamma, terminal: x.terminal, next_max: x.next_max,
        next_actions: x.next_actions} AS facts;

// name: events.decisions
// doc: The policies that episodes took, in order of first use.
// returns: episode string, success boolean, at integer, recorded_at integer, policies list
MATCH (e:Episode)
WHERE e.id IN $ids AND toString(e.ns) = $ns
MATCH (e)-[k:TOOK]->(p:Policy)
WITH e, k, p ORDER BY e.id, k.first
RETURN e.id AS episode, e.success AS success, coalesce(e.ended_at, e.started_at) AS at, e.recorded_at AS recorded_at,
  collect(p.id) AS policies
ORDER BY episode;

// name: events.open_cursor
// mode: write
// install: open_cursor
// doc: Creates the cursor of a group in a stream, if it has none.
// param: group string, stream string
// returns: cursors integer
OPTIONAL MATCH (c:Cursor {id: $id})
WITH c WHERE c IS NULL
MATCH (t:Stream {id: $stream})
WITH t, t.ns AS ns WHERE ns = $ns
CREATE (:Cursor {id: $id, ns: $ns, created_at: $now, group: $group, stream: $stream, position: 0})-[:READS]->(t)
RETURN count(*) AS cursors;

// name: events.move_cursor
// mode: write
// doc: Sets the cursor of a group in a stream.
// param: position integer
// returns: position integer
MATCH (c:Cursor {id: $id})
WITH c, c.ns AS ns WHERE ns = $ns
SET c.position = $position
RETURN c.position AS position;

// name: events.claim
// mode: write
// install: claim_events
// doc: Gives the next events of a stream, up to a limit, to a consumer of a group; they are pending until acknowledged.
// param: consumer string, limit integer
// returns: claim string, stream string, agent string, pending list, deliveries integer
MATCH (l:Cursor {id: $id})
WITH l, l.ns AS ns WHERE ns = $ns
SET l.ns = $ns
WITH l.id AS id
MATCH (c:Cursor {id: id})-[:READS]->(t:Stream)
WITH c, c.position AS position, t.last AS last, t.agent AS agent
WITH c, agent, position, CASE WHEN last < position + $limit THEN last ELSE position + $limit END AS upto
WHERE upto > position
SET c.position = upto
CREATE (k:Claim {id: c.id + ':' + toString(position + 1), ns: $ns, created_at: $now, group: c.group, stream: c.stream, consumer: $consumer,
  pending: range(position + 1, upto), claimed_at: $now, deliveries: 1})-[:UNDER]->(c)
RETURN k.id AS claim, k.stream AS stream, agent, k.pending AS pending, k.deliveries AS deliveries;

// name: events.claims
// install: pending_events
// doc: The pending events of a group, which were given out and not acknowledged; of one consumer, or claimed before a time.
// param: group string, consumer string = null, before integer = null
// returns: claim string, agent string, consumer string, pending list, claimed_at integer, deliveries integer
MATCH (k:Claim)
WHERE k.ns = $ns AND k.group = $group AND ($consumer IS NULL OR k.consumer = $consumer) AND ($before IS NULL OR k.claimed_at <= $before)
MATCH (k)-[:UNDER]->(:Cursor)-[:READS]->(t:Stream)
RETURN k.id AS claim, t.agent AS agent, k.consumer AS consumer, k.pending AS pending, k.claimed_at AS claimed_at,
  k.deliveries AS deliveries
ORDER BY agent, pending[0], claim;

// name: events.reclaim
// mode: write
// install: reclaim_events
// doc: Gives a claim from before a time to another consumer.
// param: claim string, consumer string, before integer
// returns: claim string, stream string, agent string, pending list, deliveries integer
MATCH (l:Claim {id: $claim})
WITH l, l.ns AS ns WHERE ns = $ns
SET l.ns = $ns
WITH l.id AS id
MATCH (k:Claim {id: id})-[:UNDER]->(:Cursor)-[:READS]->(t:Stream)
WITH k, t.agent AS agent, k.claimed_at AS claimed_at, k.deliveries + 1 AS deliveries
WHERE claimed_at <= $before
SET k.consumer = $consumer, k.claimed_at = $now, k.deliveries = deliveries
RETURN k.id AS claim, k.stream AS stream, agent, k.pending AS pending, k.deliveries AS deliveries;

// name: events.acknowledge
// mode: write
// install: acknowledge_events
// doc: Removes numbers from a consumer's claim and returns them; removes an empty claim, else dates it now.
// param: claim string, consumer string, done list
// returns: acknowledged list
MATCH (l:Claim {id: $claim})
WITH l, l.ns AS ns WHERE ns = $ns
SET l.ns = $ns
WITH l.id AS id
MATCH (k:Claim {id: id})
WITH k, k.consumer AS consumer
WHERE consumer = $consumer
WITH k, [seq IN k.pending WHERE seq IN $done] AS acknowledged, [seq IN k.pending WHERE NOT seq IN $done] AS pending
SET k.pending = pending, k.claimed_at = $now
FOREACH (gone IN CASE WHEN size(pending) = 0 THEN [k] ELSE [] END | DETACH DELETE gone)
RETURN acknowledged;
