// Predictions: expectations about a policy, a strategy or anything else, their actual outcomes, and the errors. The subject is the id of a
// policy or strategy, to which an edge leads, or any other text. A prediction changes once: from open to resolved, or to expired.

// name: predictions.expect
// mode: write
// install: expect
// doc: Stores an open prediction about a subject (kind: policy, strategy or free) with its probability, the expected outcome (JSON), or
// doc: both. No row: the id is taken, or the subject does not exist. A probability outside [0, 1] is an error.
// param: subject string, kind string, agent string, probability float = null, expected string = null, at integer = null
// param: due_at integer = null
// returns: id string
OPTIONAL MATCH (p:Prediction {id: $id})
WITH p WHERE p IS NULL AND ($probability IS NULL OR must_be_share($probability, 'probability'))
OPTIONAL MATCH (x:Policy {id: $subject})
OPTIONAL MATCH (s:Strategy {id: $subject})
WITH CASE WHEN $kind = 'policy' AND x.ns = $ns THEN [x] ELSE [] END AS policies,
     CASE WHEN $kind = 'strategy' AND s.ns = $ns THEN [s] ELSE [] END AS strategies
WHERE $kind = 'free' OR size(policies) + size(strategies) = 1
FOREACH (item IN policies | SET item.ns = $ns)
FOREACH (item IN strategies | SET item.ns = $ns)
CREATE (p:Prediction {id: $id, ns: $ns, created_at: $now, subject: $subject, kind: $kind, agent: $agent, probability: $probability,
  expected: $expected, status: 'open', at: $at, due_at: $due_at, resolved_at: null, actual: null, error: null, happened: null, how: null})
FOREACH (item IN policies | CREATE (p)-[:ABOUT_ITEM]->(item))
FOREACH (item IN strategies | CREATE (p)-[:ABOUT_ITEM]->(item))
RETURN p.id AS id;

// name: predictions.get
// install: predictions_by_id
// doc: Predictions by id, oldest first; owner is the agent of the policy that is the subject.
// returns: prediction_columns
MATCH (p:Prediction)
WHERE p.id IN $ids AND toString(p.ns) = $ns
OPTIONAL MATCH (p)-[:ABOUT_ITEM]->(x)
RETURN prediction_columns(p, x)
ORDER BY created_at, id;

// name: predictions.list
// install: predictions
// doc: The latest predictions; of a status, or about any of the given subjects.
// param: status string = null, subjects list = null, limit integer = 100
// returns: prediction_columns
MATCH (p:Prediction)
WHERE p.ns = $ns AND ($status IS NULL OR p.status = $status) AND ($subjects IS NULL OR p.subject IN $subjects)
WITH p ORDER BY p.created_at DESC, p.id LIMIT $limit
OPTIONAL MATCH (p)-[:ABOUT_ITEM]->(x)
RETURN prediction_columns(p, x)
ORDER BY created_at DESC, id;

// name: predictions.resolve
// mode: write
// install: resolve_prediction
// doc: Resolves an open prediction by the actual outcome, with its error in [0, 1]. If it is about a policy, moves the confidence in that
// doc: toward the resulting signal, and stores the event. Pairs has for each name in the expected or actual outcome {p, a: both values, if
// doc: both are numbers; predicted, actual: else their JSON texts, null if one lacks the name}; without pairs the error is the distance
// doc: from the probability. A given error replaces both (`how` says where it is from; happened: null if undecided). The confidence is
// doc: null if the subject is no policy. No row: it is not open, or there is nothing to compare. Invalid numbers are an error.
// param: pairs list = null, happened boolean = null, actual string = null, threshold float = 0.7, low_signal float = 0.2
// param: error float = null, how string = null
// returns: id string, error float, happened boolean, signal float, confidence float
MATCH (p:Prediction {id: $id})
WITH p, p.ns AS ns WHERE ns = $ns AND must_be_share($low_signal, 'low_signal')
OPTIONAL MATCH (p)-[:ABOUT_ITEM]->(x:Policy)
OPTIONAL MATCH (t:Stream {id: x.stream})
// The stream is locked before the prediction, as wherever both are.
FOREACH (stream IN CASE WHEN t IS NULL THEN [] ELSE [t] END | SET stream.ns = $ns)
SET p.ns = $ns
WITH p.id AS id, x.id AS policy, t.id AS stream
MATCH (p:Prediction {id: id})
WITH p, policy, stream, p.status AS status,
     CASE WHEN $error IS NOT NULL THEN toFloat($error)
          WHEN $pairs IS NULL THEN abs(p.probability - CASE WHEN $happened IS NULL THEN null WHEN $happened THEN 1.0 ELSE 0.0 END)
          WHEN size($pairs) = 0 THEN 0.0
          ELSE reduce(total = 0.0, pair IN $pairs | total +
            CASE WHEN pair.p IS NULL OR pair.a IS NULL THEN CASE WHEN pair.predicted = pair.actual THEN 0.0 ELSE 1.0 END
                 // Relative to the larger one, or to 1; never over 1, also where the signs differ.
                 ELSE reduce(part = 1.0, ratio IN [abs(pair.p - pair.a) / reduce(scale = 1.0, size IN [abs(pair.p), abs(pair.a)] |
                        CASE WHEN size > scale THEN size ELSE scale END)] | CASE WHEN ratio < part THEN ratio ELSE part END) END
          ) / size($pairs) END AS error
WHERE status = 'open' AND error IS NOT NULL AND must_be_share(error, 'error')
  AND must(size([pair IN coalesce($pairs, []) WHERE NOT (pair.p - pair.p + pair.a - pair.a = 0.0)]) = 0, 'pairs must be finite')
WITH p, policy, stream, error, CASE WHEN $happened IS NULL AND $error IS NULL THEN error < 0.5 ELSE $happened END AS happened,
     CASE WHEN error > $threshold THEN $low_signal ELSE 1.0 - error END AS signal
SET p.status = 'resolved', p.resolved_at = $now, p.actual = $actual, p.error = error, p.happened = happened,
    p.how = CASE WHEN $how IS NOT NULL THEN $how WHEN $pairs IS NULL THEN 'happened' ELSE 'outcome' END
WITH p.id AS id, policy, stream, error, happened, signal
OPTIONAL MATCH (x:Policy {id: policy})
OPTIONAL MATCH (t:Stream {id: stream})
WITH id, x, t, error, happened, signal, t.last + 1 AS seq, moved(x.confidence, x.signals, signal, 20) AS confidence,
     x.signals + 1 AS signals
FOREACH (one IN CASE WHEN t IS NULL THEN [] ELSE [t] END | SET one.last = seq)
FOREACH (one IN CASE WHEN t IS NULL THEN [] ELSE [x] END | SET one.confidence = confidence, one.signals = signals
  CREATE (:Event {id: one.stream + ':' + toString(seq), ns: $ns, created_at: $now, stream: one.stream, seq: seq, kind: 'signal',
    subject: one.id, other: null, value: signal, success: null, at: null, data: '{"prediction":"' + id + '"}'})-[:ABOUT]->(one))
RETURN id, error, happened, signal, confidence;

// name: predictions.expire
// mode: write
// install: expire_predictions
// doc: Expires open predictions that are due.
// returns: expired integer
MATCH (p:Prediction)
WHERE p.ns = $ns AND p.status = 'open' AND p.due_at <= $now
WITH p ORDER BY p.id
SET p.ns = $ns
WITH p, p.status AS status WHERE status = 'open'
SET p.status = 'expired'
RETURN count(*) AS expired;

// name: predictions.drop_about
// mode: write
// install: drop_predictions
// doc: Removes the predictions about removed policies and strategies; of the given ids, or of all (no ids).
// param: ids list = null
// returns: removed integer
MATCH (p:Prediction)
WHERE p.ns = $ns AND p.kind <> 'free' AND ($ids IS NULL OR p.subject IN $ids) AND NOT (p)-[:ABOUT_ITEM]->()
DETACH DELETE p
RETURN count(*) AS removed;

// name: predictions.reliability
// install: prediction_reliability
// doc: The reliability of the probabilities of resolved predictions: bins of equal width with their mean probability and the bounds of the
// doc: share that happened, Brier score (Brier 1950), logarithmic loss, expected calibration error (Naeini et al. 2015), and the Brier
// doc: score of always predicting the base rate.
// param: bins integer = 10, subjects list = null, agent string = null
// returns: count integer, happened integer, base_rate float, brier float, baseline float, log_loss float, calibration_error float
// returns: places list
MATCH (p:Prediction)
WHERE p.ns = $ns AND p.status = 'resolved' AND p.probability IS NOT NULL AND p.happened IS NOT NULL
  AND ($subjects IS NULL OR p.subject IN $subjects) AND ($agent IS NULL OR p.agent = $agent)
WITH p.probability AS probability, CASE WHEN p.happened THEN 1 ELSE 0 END AS came, toInteger(p.probability * $bins) AS near
// A product can be rounded across a border; 1 belongs to the last bin.
WITH probability, came, CASE WHEN came = 1 THEN probability ELSE 1.0 - probability END AS given,
     CASE WHEN near >= $bins THEN $bins - 1 WHEN probability < toFloat(near) / $bins THEN near - 1
          WHEN probability >= toFloat(near + 1) / $bins THEN near + 1 ELSE near END AS place
WITH place, count(*) AS count, avg(probability) AS mean, sum(came) AS happened, sum((probability - came) * (probability - came)) AS squares,
     sum(0.0 - log(CASE WHEN given < 1e-15 THEN 1e-15 WHEN given > 1.0 - 1e-15 THEN 1.0 - 1e-15 ELSE given END)) AS losses
ORDER BY place
WITH collect({place: place, count: count, mean: mean, successes: happened, share: toFloat(happened) / count,
              lower: wilson_lower(happened, count, $z_value), upper: wilson_upper(happened, count, $z_value)}) AS places,
     sum(count) AS total, sum(happened) AS came, sum(squares) AS squares, sum(losses) AS losses, sum(abs(mean * count - happened)) AS gaps
WITH places, total, came, squares, losses, gaps, CASE WHEN total = 0 THEN null ELSE toFloat(total) END AS n
RETURN total AS count, came AS happened, came / n AS base_rate, squares / n AS brier, came / n * (1.0 - came / n) AS baseline,
       losses / n AS log_loss, gaps / n AS calibration_error, places;
