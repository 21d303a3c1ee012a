// Queries for Neo4j Browser that show a picture. Set the namespace first:
//   :param ns => "default"

// The best strategies and the tasks that they worked on
MATCH (s:Strategy) WHERE s.ns = $ns
WITH s ORDER BY s.successes DESC LIMIT 5
MATCH p = (s)-[o:OUTCOME]->(t:Task)
WITH p ORDER BY o.trials DESC LIMIT 60
RETURN p;

// One strategy with the evidence behind it
//   :param text => "cancel_reservation"
MATCH (s:Strategy {text: $text}) WHERE s.ns = $ns
MATCH p = (:Agent)-[:RAN]->(e:Episode)-[:USED]->(s)
MATCH q = (e)-[:ATTEMPTED]->(:Task)
RETURN p, q LIMIT 25;

// Strategies that were used together
MATCH p = (x:Strategy)-[c:CO_OCCURS_WITH]->(:Strategy) WHERE x.ns = $ns
WITH p, c ORDER BY c.weight DESC LIMIT 40
RETURN p;

// One episode, step by step
//   :param id => "the id of an episode"
MATCH p = (:Agent)-[:RAN]->(e:Episode {id: $id})-[:ATTEMPTED]->(:Task) WHERE e.ns = $ns
OPTIONAL MATCH q = (e)-[:HAS_STEP]->(:Step)
OPTIONAL MATCH r = (e)-[:USED]->(:Strategy)
RETURN p, q, r;
