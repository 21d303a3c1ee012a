// Queries for Neo4j Browser that show a picture. Set the namespace first:
//   :param ns => "default"
//
// Those up to "What more shows" show something of any memory with strategies, similar texts and states, and their
// parameters are those of the memory that `graphmem demo` makes. The others say what they need.

// The best strategies and the tasks that they worked on
MATCH (s:Strategy) WHERE s.ns = $ns
WITH s ORDER BY s.successes DESC LIMIT 5
MATCH p = (s)-[o:OUTCOME]->(t:Task)
WITH p, o ORDER BY o.trials DESC, t.id LIMIT 15
RETURN p;

// One strategy with the evidence behind it: the latest episodes that worked, and those that did not
//   :param text => "sample the stored values before filtering on them"
MATCH (s:Strategy {text: $text}) WHERE s.ns = $ns
MATCH (e:Episode)-[u:USED]->(s) WHERE u.applied
WITH s, e, u ORDER BY coalesce(e.ended_at, e.started_at, e.recorded_at) DESC, e.id
WITH s, e.success AND u.failed IS NULL AS success, collect(e)[..6] AS latest
UNWIND latest AS e
MATCH p = (e)-[:USED]->(s)
MATCH q = (e)-[:ATTEMPTED]->(:Task)
RETURN p, q;

// Strategies that were used together
MATCH p = (x:Strategy)-[c:CO_OCCURS_WITH]->(:Strategy) WHERE x.ns = $ns
WITH p, c ORDER BY c.weight DESC LIMIT 40
RETURN p;

// Similar strategies (after the first search)
MATCH p = (x:Strategy)-[r:SIMILAR_TO]->(:Strategy) WHERE x.ns = $ns
WITH p, r ORDER BY r.similarity DESC LIMIT 60
RETURN p;

// Tasks similar to one, and the strategies that worked on them
//   :param text => "reach the goal on the slippery 8x8 frozen lake"
MATCH (t:Task {description: $text}) WHERE t.ns = $ns
MATCH p = (t)-[:SIMILAR_TO]->(:Task)<-[o:OUTCOME]-(:Strategy)
WITH p, o ORDER BY o.successes DESC LIMIT 60
RETURN p;

// One episode, step by step
//   :param id => "ee04f771a5c7671bda560bac3e88e766"
MATCH p = (:Agent)-[:RAN]->(e:Episode {id: $id})-[:ATTEMPTED]->(:Task) WHERE e.ns = $ns
OPTIONAL MATCH q = (e)-[:HAS_STEP]->(:Step)
OPTIONAL MATCH r = (e)-[:USED]->(:Strategy)
RETURN p, q, r;

// The states with most policies, and the policies in them
MATCH (s:State)<-[:IN_STATE]-(p:Policy) WHERE s.ns = $ns AND p.active
WITH s, count(p) AS actions ORDER BY actions DESC, s.id LIMIT 10
MATCH q = (s)<-[:IN_STATE]-(:Policy)
RETURN q;

// What an agent learned last, from state to state
//   :param agent => "tabular learner"
MATCH (t:Stream {agent: $agent}) WHERE t.ns = $ns
UNWIND range(t.last, CASE WHEN t.last > 500 THEN t.last - 499 ELSE 1 END, -1) AS seq
MATCH (x:Transition {id: t.id + ':' + seq})
WITH x LIMIT 25
MATCH q = (x)-[:UPDATED]->(:Policy)-[:IN_STATE]->(:State)
OPTIONAL MATCH r = (:State)-[:REACHED_BY]->(x)
RETURN q, r;

// One policy, and the facts behind it
//   :param policy => "7ed044eb11b88da943bcd539c95f71f1"
MATCH p = (x:Policy {id: $policy})-[:IN_STATE]->(:State) WHERE x.ns = $ns
OPTIONAL MATCH q = (x)<-[:TOOK]-(:Episode)-[:ATTEMPTED]->(:Task)
WITH p, x, collect(q)[..10] AS episodes
OPTIONAL MATCH r = (x)<-[:UPDATED]-(:Transition)
WITH p, x, episodes, collect(r)[..25] AS transitions
OPTIONAL MATCH e = (x)<-[:ABOUT]-(:Event)
RETURN p, episodes, transitions, collect(e)[..25] AS events;

// Anti-patterns, their strategies, and alternatives (as of the last consolidation)
MATCH p = (a:AntiPattern)-[:WARNS_AGAINST]->(:Strategy) WHERE a.ns = $ns
WITH p, a ORDER BY a.occurrences DESC, a.id LIMIT 10
OPTIONAL MATCH q = (a)-[:PREFER]->(:Strategy)
RETURN p, q;

// What an agent learned to do on a type of task, with the latest evidence
//   :param agent => "sql agent"
//   :param type => "sql.filter"
MATCH p = (h:Heuristic {agent: $agent, type: $type})-[:RECOMMENDS]->(:Strategy) WHERE h.ns = $ns
WITH p, h ORDER BY h.successes DESC LIMIT 10
OPTIONAL MATCH q = (h)-[:DERIVED_FROM]->(:Episode)
RETURN p, q;

// What more shows

// Predictions, and what they are about
//   needs predictions: `memory.predictions.expect` in Python
MATCH p = (x:Prediction)-[:ABOUT_ITEM]->() WHERE x.ns = $ns
WITH p, x ORDER BY x.created_at DESC LIMIT 40
RETURN p;

// The rules of a task, and who listed them
//   needs episodes that list successes or mistakes: `graphmem learn --worked`
//   :param task => "the key of a task"
MATCH p = (t:Task {key: $task})-[:HAS_RULE]->(r:Rule) WHERE t.ns = $ns AND r.verdict IS NOT NULL
WITH p, r ORDER BY r.last_at DESC LIMIT 20
OPTIONAL MATCH q = (r)<-[:LISTED]-(:Episode)
RETURN p, collect(q)[..5] AS episodes;

// The general rules, and the episodes that they were derived from
//   needs `graphmem lessons consolidate`
MATCH p = (c:Consolidation)-[:HAS_RULE]->(r:Rule) WHERE c.ns = $ns
OPTIONAL MATCH q = (r)-[:DERIVED_FROM]->(:Episode)
RETURN p, q;

// The most frequent mistakes, and the episodes that made them
//   needs mistake cards: `graphmem learn --mistake-card`
MATCH (m:Mistake) WHERE m.ns = $ns
WITH m ORDER BY m.seen DESC LIMIT 10
MATCH p = (m)<-[:MADE]-(:Episode)
RETURN m, collect(p)[..10] AS episodes;

// The preferences of users, with superseded ones: the latest of a category is in force
//   needs people: `graphmem people prefer`
MATCH p = (u:User)-[:PREFERS]->(:Preference) WHERE u.ns = $ns
RETURN p LIMIT 60;

// Knowledge, its sources, and contradictions
//   needs people: `graphmem people know`
MATCH p = (:Statement)-[:STATES]->(k:Knowledge) WHERE k.ns = $ns
OPTIONAL MATCH q = (k)-[:CONTRADICTS]->(:Knowledge)
OPTIONAL MATCH r = (k)<-[:STATES]-(:Statement)<-[:STATED]-(:User)
RETURN p, q, r LIMIT 60;

// The levels, what pulls from what, and lenses on them
//   needs levels: `graphmem levels default`
MATCH (l:Level) WHERE l.ns = $ns
OPTIONAL MATCH p = (l)-[:PULLS]->(:Level)
OPTIONAL MATCH q = (:Lens)-[:LOOKS_AT]->(l)
RETURN l, p, q LIMIT 200;

// What is in a level, the latest first, and what it was made from
//   needs levels: `graphmem levels add`
//   :param level => "agent:ada:working"
MATCH p = (l:Level {name: $level})<-[:IN]-(e:Entry) WHERE l.ns = $ns
WITH p, e ORDER BY e.at DESC LIMIT 40
OPTIONAL MATCH q = (e)-[:MADE_FROM]->(:Entry)-[:IN]->(:Level)
RETURN p, q;
