// Shared parameters, formulas and columns of procedures. The loader replaces a call such as wilson_lower(k, n, $z_value) in another
// file by the formula's expression; `graphmem procedures list NAME` prints the result.

// shared: ns string, now integer, id string, ids list, rows list, first string, beyond string
// shared: agents list = null, z_value float = 1.96, prior_successes float = 1.0, prior_failures float = 1.0, established float = 0.6
// shared: refuted float = 0.4, limit integer = 20

// formula: posterior_mean(k, n, a, b)
// doc: Mean of the Beta(a + k, b + n - k) posterior of a rate after k successes in n trials.
(k + a) / toFloat(n + a + b);

// formula: wilson_lower(k, n, z)
// doc: Lower Wilson score bound of a rate (Wilson 1927, JASA 22:209-212); 0 without trials.
CASE WHEN n = 0 THEN 0.0 WHEN k = 0 THEN 0.0 ELSE (toFloat(k) / n + z * z / (2.0 * n) - z
  * sqrt(toFloat(k) / n * (1.0 - toFloat(k) / n) / n + z * z / (4.0 * n * n))) / (1.0 + z * z / n) END;

// formula: odds(k, f)
// doc: How often something happened for each time that it did not, and for some times more: it is small while there are few of both. It
// doc: depends on counts alone, and tells before anything is computed what may have a high lower Wilson bound.
(k) / ((f) + 2.0 + 2.0 * sqrt(1.0 + (f)));

// formula: wilson_upper(k, n, z)
// doc: Upper Wilson score bound of a rate; 1 without trials.
CASE WHEN n = 0 THEN 1.0 WHEN k = n THEN 1.0 ELSE (toFloat(k) / n + z * z / (2.0 * n) + z
  * sqrt(toFloat(k) / n * (1.0 - toFloat(k) / n) / n + z * z / (4.0 * n * n))) / (1.0 + z * z / n) END;

// formula: status(lower, upper, established, refuted)
// doc: The status of a belief; it depends only on the bounds, so that order and rebuilds cannot change it.
CASE WHEN lower > established THEN 'established' WHEN upper < refuted THEN 'refuted' ELSE 'tentative' END;

// formula: decayed(from, to, half_life)
// doc: The weight at time `to` of something that weighed 1 at time `from` (milliseconds).
exp((from - to) * 0.6931471805599453 / half_life);

// formula: later(a, b)
// doc: The later of two times; either may be null.
CASE WHEN a > b THEN a ELSE coalesce(b, a) END;

// formula: later_given(a, b)
// doc: The later of two times, of which the first may be null. It is shorter, for statements that are parsed for each call.
CASE WHEN a > b THEN a ELSE b END;

// formula: is_number(x)
// doc: Whether a number is one that sums stay finite with: neither NaN nor infinite.
abs(x) <= 1.0e100;

// formula: is_share(x)
// doc: Whether a number is from 0 to 1; NaN is not.
(x >= 0.0 AND x <= 1.0);

// formula: must(holds, problem)
// doc: True, or an error that tells the problem. Cypher has no word for that; both engines quote what they can't read as a date.
CASE WHEN holds THEN true ELSE date('graphmem: ' + problem) IS NULL END;

// formula: must_be_share(x, name)
// doc: True, or an error where a number is not from 0 to 1.
must(is_share(x), name + ' must be from 0 to 1 and is ' + coalesce(toString(x), 'null'));

// formula: must_learn(reward, alpha, gamma, best)
// doc: True, or an error where a number of a step is invalid: alpha outside (0, 1], gamma outside [0, 1], another not finite.
(must(is_number(reward) AND (best IS NULL OR is_number(best)), 'reward and next_max_q must be finite')
  AND must(alpha > 0.0 AND alpha <= 1.0, 'alpha must be over 0 and at most 1 and is ' + coalesce(toString(alpha), 'null'))
  AND must_be_share(gamma, 'gamma'));

// formula: td_error(reward, gamma, best, q)
// doc: The TD(0) error: reward plus the discounted value of the next state, minus the value so far (Sutton & Barto 2018, ch. 6).
reward + gamma * best - q;

// formula: best_next(given, actions, known, best)
// doc: The value of the next state: the given one, else the best of its policies, else 0. If its number of actions is known, untried ones
// doc: count with 0.
coalesce(given, CASE WHEN known < actions AND best < 0 THEN 0.0 ELSE best END, 0.0);

// formula: aged(q, days, rate, confidence, strength, neutral)
// doc: A value, decayed by the days since its last update. It decays more slowly if confidence is high (null: at the plain rate).
sign(q) * abs(q) * (CASE WHEN days < 0.01 THEN 0.01 ELSE days END) ^ (0.0 - rate)
  * (CASE WHEN days < 1.0 THEN 1.0 ELSE days END) ^ (rate - rate * 2.0 ^ (strength * 2.0 * (neutral - coalesce(confidence, neutral))));

// formula: worth(p, at, rate, strength)
// doc: The value of a policy at a time (milliseconds), decayed since its last update; at a null time the stored one.
CASE WHEN at IS NULL OR p.last_updated_at IS NULL THEN p.q ELSE aged(p.q, (at - p.last_updated_at) / 86400000.0, rate,
  CASE WHEN p.signals > 0 THEN p.confidence ELSE null END, strength, 0.5) END;

// formula: swung(cycles, clocks)
// doc: The sum of the bonuses of cycles, at the clocks {kind, timezone, clock}.
reduce(total = 0.0, c IN cycles | total + reduce(part = 0.0, k IN clocks | part +
  CASE WHEN k.kind = c.kind AND k.timezone = c.timezone THEN swing(c.amplitude, c.period, c.phase, k.clock) ELSE 0.0 END));

// formula: swing(amplitude, period, phase, clock)
// doc: The bonus of a cycle at a clock time (seconds); it peaks at the phase.
CASE WHEN period > 0 THEN amplitude * cos(6.283185307179586 * (clock - phase) / period) ELSE 0.0 END;

// formula: pressed(rate, days)
// doc: The bonus for waiting: the rate for each day.
rate * CASE WHEN days < 0.0 THEN 0.0 ELSE days END;

// formula: moved(confidence, signals, signal, cap)
// doc: A running mean of signals. The next signal has a weight of 1/(signals + 2), but at least 1/(cap + 1).
confidence + (signal - confidence) / (CASE WHEN signals < cap THEN signals + 2 ELSE cap + 1 END);

// formula: bond(weight, counted, trials)
// doc: A co-occurrence weight, reduced by 5 % for every trial of one end without the other.
weight * 0.95 ^ (trials - counted);

// formula: whole(strategy)
// doc: The id of the strategy that a strategy counts as: the one that it was merged into, or itself.
coalesce(strategy.merged_into, strategy.id);

// formula: worked(success, failed)
// doc: Whether a use of a strategy succeeded: its run did, and its own steps did not all end in an error (`failed`: their class).
(success AND failed IS NULL);

// formula: earned(score, failed)
// doc: The score of a use of a strategy: that of the run, 0 if the use failed.
CASE WHEN failed IS NULL THEN score ELSE 0.0 END;

// formula: fault(success, failed, error_class)
// doc: The class of the error in which a use of a strategy ended, if it failed: of its own steps, else of the run.
coalesce(failed, CASE WHEN success THEN null ELSE error_class END);

// formula: told_error(failed, own, whole)
// doc: The error that is told of a use of a strategy: where it failed by itself, that of its own steps, else that of the run.
CASE WHEN failed THEN coalesce(own, whole) ELSE coalesce(whole, own) END;

// columns: more_outcomes(x, n, k, c, w)
// doc: What outcomes add to the counts of a node or an edge: n trials with k successes, their credit c and their scores times credit w.
// doc: With the three below: all that counts outcomes.
x.trials = x.trials + n, x.successes = x.successes + k, x.credit_sum = x.credit_sum + c, x.score_sum = x.score_sum + w;

// columns: less_outcomes(x, r)
// doc: Takes the counts of a row away from those of a node or an edge.
x.trials = x.trials - r.trials, x.successes = x.successes - r.successes, x.credit_sum = x.credit_sum - r.credit_sum,
  x.score_sum = x.score_sum - r.score_sum;

// columns: outcomes(r)
// doc: The counts of a new node or edge, from a row that has them.
trials: r.trials, successes: r.successes, credit_sum: r.credit_sum, score_sum: r.score_sum;

// columns: summed_outcomes(success, credit, score)
// doc: The counts of outcomes, each with its credit and score.
count(*) AS trials, sum(CASE WHEN success THEN 1 ELSE 0 END) AS successes, sum(credit) AS credit_sum, sum(credit * score) AS score_sum;

// columns: heuristic_columns(s)
// doc: The output columns of a heuristic on a strategy.
// returns: id string, agent string, task_type string, strategy string, trials integer, successes integer, confidence float, lower float
// returns: upper float, status string, mean_score float, first_at integer, last_at integer, members list
id, agent, task_type, s.text AS strategy, trials, successes, confidence, lower, upper,
  status(lower, upper, $established, $refuted) AS status, mean_score(score_sum, credit_sum) AS mean_score, first_at, last_at, members;

// columns: stored_rule(r)
// doc: The numbers of a rule, as stored.
// returns: verdict string, worked integer, praised integer, failed integer, blamed integer, first_at integer, last_at integer
// returns: worked_at integer, failed_at integer, created_at integer
r.verdict AS verdict, r.worked AS worked, r.praised AS praised, r.failed AS failed, r.blamed AS blamed, r.first_at AS first_at,
  r.last_at AS last_at, r.worked_at AS worked_at, r.failed_at AS failed_at, r.created_at AS created_at;

// columns: rule_columns()
// doc: The output columns of a general rule besides its text.
// returns: verdict string, worked integer, praised integer, failed integer, blamed integer, first_at integer, last_at integer
// returns: worked_at integer, failed_at integer, created_at integer, agents list, task_types list
verdict, worked, praised, failed, blamed, first_at, last_at, worked_at, failed_at, created_at, agents, task_types;

// columns: rule_evidence(good, bad)
// doc: What a general rule says of the episodes (their task_type, agent and times) that are good (1) or bad (1).
min(dated) AS first_at, max(dated) AS last_at, max(CASE WHEN good = 1 THEN at END) AS worked_at,
  max(CASE WHEN bad = 1 THEN at END) AS failed_at, min(recorded_at) AS created_at, collect(DISTINCT agent) AS agents,
  collect(DISTINCT task_type) AS task_types, collect(CASE WHEN good = 1 THEN {episode: episode, at: at} END) AS praising,
  collect(CASE WHEN bad = 1 THEN {episode: episode, at: at} END) AS blaming;

// formula: effective(k, n)
// doc: What k of n outcomes of one task or strategy count elsewhere: many of one say less there than as many of several.
3.0 * k / (n + 3.0);

// columns: more_effective(x, cell, n, k)
// doc: What n outcomes with k successes, of which an edge or a node `cell` now has the count, add to what counts elsewhere.
x.effective_trials = x.effective_trials + effective(cell.trials, cell.trials) - effective(cell.trials - n, cell.trials - n),
  x.effective_successes = x.effective_successes + effective(cell.successes, cell.trials) - effective(cell.successes - k, cell.trials - n);

// columns: next_effective(x, cell, k)
// doc: The same for one outcome (k: 1 for a success). It is shorter, for a statement that is parsed for each call.
x.effective_trials = x.effective_trials + 9.0 / (cell.trials + 3.0) / (cell.trials + 2.0), x.effective_successes =
  x.effective_successes + 3.0 * (k * (cell.trials + 3.0) - cell.successes) / (cell.trials + 3.0) / (cell.trials + 2.0);

// columns: less_effective(x, r)
// doc: Takes what counts elsewhere in a row away from that of a node.
x.effective_trials = x.effective_trials - r.effective_trials, x.effective_successes = x.effective_successes - r.effective_successes;

// columns: summed_effective(won, held, k, n)
// doc: What counts elsewhere of k in n outcomes of each cell with `won` successes in `held` outcomes: what goes when these go.
sum(effective(held, held) - effective(held - n, held - n)) AS effective_trials,
  sum(effective(won, held) - effective(won - k, held - n)) AS effective_successes;

// formula: stamp(e, success)
// doc: The time of an episode and its success as one number, by which outcomes are in order; null without a time.
coalesce(e.ended_at, e.started_at) * 2 + CASE WHEN success THEN 1 ELSE 0 END;

// formula: newest(stamps)
// doc: The last 32 of stamps in ascending order.
stamps[-32..];

// formula: joined(held, one)
// doc: The newest stamps of an ascending list with one more.
newest(CASE WHEN held[-1] > one THEN [old IN held WHERE old <= one] + one + [old IN held WHERE old > one] ELSE held + one END);

// formula: latest(held, more)
// doc: The newest stamps of two ascending lists, of which the first may be null.
reduce(kept = coalesce(held, []), one IN newest(more) | joined(kept, one));

// formula: spared(held, gone, added)
// doc: Whether a list of newest stamps tells all that is left of it without some: it is not full, has none of them, or gets others of
// doc: the same time in their place.
size(coalesce(held, [])) < 32 OR coalesce(gone[-1] < held[0], true) OR coalesce(size(added) > 0 AND gone[0] > held[0] + 1, false);

// formula: remaining(held, gone)
// doc: Stamps in ascending order without some.
reduce(kept = held, one IN gone | [old IN kept WHERE old < one] + [old IN kept WHERE old = one][1..] + [old IN kept WHERE old > one]);

// columns: step_properties(s)
// doc: The properties of a new step.
id: s.id, ns: $ns, created_at: $now, index: s.index, action_type: s.action_type, action: s.action, observation: s.observation, reward:
  s.reward, error: s.error, state: s.state, next_state: s.next_state, terminal: s.terminal;

// formula: newer(at, id, held, by)
// doc: Whether an episode is later than the one (id `by`) at the time `held`; of two at one time the one with the greater id.
at > held OR (at = held AND id > by);

// formula: beyond(at, id, gone, by)
// doc: Whether a link is later than all episodes that are erased, of which the latest (id `by`) is of the time `gone` (null: none is).
gone IS NULL OR newer(at, id, gone, by);

// formula: mean_score(score_sum, credit_sum)
// doc: The mean score of episodes, weighted by the credit of a strategy in them; null without credit.
CASE WHEN credit_sum > 0 THEN score_sum / credit_sum ELSE null END;

// formula: praised(score)
// doc: Whether a score is high enough to support a rule that something works.
score >= 0.85;

// formula: blamed(score)
// doc: Whether a score is low enough to support a rule to avoid something.
score < 0.5;

// formula: earlier(a, b)
// doc: The earlier of two times; either may be null.
CASE WHEN a < b THEN a ELSE coalesce(b, a) END;

// formula: earlier_given(a, b)
// doc: The earlier of two times, of which the first may be null.
CASE WHEN a < b THEN a ELSE b END;

// formula: outlasted(gone, held)
// doc: Whether the latest time of something stays when episodes are erased whose latest time is `gone` (null: none of them has a time).
gone IS NULL OR gone < held;

// formula: predated(gone, held)
// doc: Whether the earliest time of something stays when episodes are erased whose earliest time is `gone` (null: none of them has a time).
gone IS NULL OR gone > held;

// formula: reducible(held, share)
// doc: Whether a sum may be reduced by a share. When a sum of floats shrinks, its rounding errors stay. So a sum over 16 is derived anew
// doc: each time that it falls below a power of two, and so is a sum of which next to nothing is left. Between two of these times a million
// doc: changes move a sum by less than a billionth.
share = 0 OR (held - share > 0.000001 AND (held < 16.0
  OR (held - share >= 16.0 AND floor(log(held) / 0.6931471805599453) = floor(log(held - share) / 0.6931471805599453))));

// formula: verdict(worked, praised, failed, blamed)
// doc: The verdict on a sentence about a task: WORKS if more episodes support than contradict it, AVOID in the opposite case, null on a
// doc: tie. Both cannot hold, because worked <= praised and failed <= blamed.
CASE WHEN worked > blamed THEN 'WORKS' WHEN failed > praised THEN 'AVOID' ELSE null END;

// formula: supporting(r)
// doc: How many episodes speak for the verdict on a rule.
CASE r.verdict WHEN 'WORKS' THEN r.worked ELSE r.failed END;

// formula: opposing(r)
// doc: How many episodes speak against the verdict on a rule.
CASE r.verdict WHEN 'WORKS' THEN r.blamed ELSE r.praised END;

// formula: said(text)
// doc: What a mistake shows of a text on a card: 300 characters at most, null for a blank text.
CASE WHEN text <> '' THEN left(text, 300) ELSE null END;

// formula: contested(own, against)
// doc: A confidence after contradiction by others, whose confidences sum to `against`: itself times its share of the sum of all. Two equal
// doc: ones keep half each.
own * (own / (own + against));

// formula: rising(against, t, z)
// doc: The number of trials above which the lower Wilson bound exceeds t, if `against` of them are failures and all others successes: the
// doc: formula of the bound, solved for the trials.
((z * sqrt(t * (1.0 - t)) + sqrt(z * z * t * (1.0 - t) + 4.0 * (1.0 - t) * (against))) / (2.0 * (1.0 - t))) ^ 2;

// formula: falling(successes, t, z)
// doc: The number of trials from which on the lower Wilson bound does not exceed t, if `successes` of them are successes.
((sqrt(z * z * t * (1.0 - t) + 4.0 * t * (successes)) - z * sqrt(t * (1.0 - t))) / (2.0 * t)) ^ 2;

// formula: shrunk(k, n, rate, strength)
// doc: The rate of k successes in n trials, shrunk toward another rate that counts as `strength` trials.
(k + strength * rate) / (n + strength);

// formula: larger(a, b)
// doc: The larger of two numbers.
CASE WHEN a > b THEN a ELSE b END;

// formula: smaller(a, b)
// doc: The smaller of two numbers.
CASE WHEN a < b THEN a ELSE b END;

// formula: freshness(at, now, half_life)
// doc: A weight that halves every half_life since `at` (milliseconds), from 1; 1 for a null or future time.
CASE WHEN at IS NULL THEN 1.0 WHEN at > now THEN 1.0 ELSE 2.0 ^ ((at - now) / half_life) END;

// formula: kept(l)
// doc: The share of its relevance that an entry of a level keeps in a minute; without a decay, in its lifetime.
CASE WHEN l.decay IS NULL THEN larger(0.5, l.prune) ELSE 1.0 - l.decay END;

// formula: period(e, l)
// doc: The time (milliseconds) in which an entry of a level keeps that share; hardly finite for one without an end.
CASE WHEN l.decay IS NULL THEN coalesce(e.expires_at - e.at, 1.0e30) * 1.0 ELSE 60000.0 END;

// formula: relevance(e, l, now)
// doc: The relevance of an entry of a level at a time (milliseconds): it fades more slowly if it was read.
e.base * kept(l) ^ (CASE WHEN now > e.at THEN now - e.at ELSE 0 END / period(e, l) / (1.0 + log(1.0 + e.reads)));

// formula: fades_at(e, l)
// doc: When the relevance of an entry falls under the limit of its level (milliseconds); null if it does not before its end.
CASE WHEN l.prune <= 0.0 THEN null WHEN e.base < l.prune THEN 1.0 * e.at
  WHEN kept(l) = 1.0 OR (l.decay IS NULL AND e.expires_at IS NULL) THEN null
  ELSE e.at + period(e, l) * (1.0 + log(1.0 + e.reads)) * log(l.prune / e.base) / log(kept(l)) END;

// formula: living(expires_at, now)
// doc: Whether an entry has not expired at a time (milliseconds).
expires_at IS NULL OR expires_at > now;

// columns: latest_trials(trials, most, sample)
// doc: The dates and outcomes (1: supports) of the latest of trials {episode, dated, supports}, and a sample of episodes on either side.
// returns: times list, outcomes list, supporting list, opposing list
[t IN trials[..most] WHERE t.dated IS NOT NULL | t.dated] AS times, [t IN trials[..most] WHERE t.dated IS NOT NULL | t.supports] AS
  outcomes, [t IN trials WHERE t.supports = 1 AND t.episode IS NOT NULL | t.episode][..sample] AS supporting, [t IN trials
  WHERE t.supports = 0 AND t.episode IS NOT NULL | t.episode][..sample] AS opposing;

// columns: entry_columns(e, l)
// doc: The output columns of an entry in a level, at the time $now.
// returns: id string, level string, key string, content string, format string, tags list, metadata string, base float, relevance float
// returns: at integer, expires_at integer, reads integer, last_read_at integer, seq integer
e.id AS id, l.name AS level, e.key AS key, e.content AS content, e.format AS format, e.tags AS tags, e.metadata AS metadata, e.base AS
  base, relevance(e, l, $now) AS relevance, e.at AS at, e.expires_at AS expires_at, e.reads AS reads,
  e.last_read_at AS last_read_at, e.seq AS seq;

// columns: lens_columns(n)
// doc: The output columns of a lens; `max_age` in milliseconds, `tags` as JSON.
// returns: id string, name string, kind string, owner_kind string, owner string, purpose string, levels list, tags string
// returns: max_age integer, most integer, created_at integer
n.id AS id, n.name AS name, n.kind AS kind, n.owner_kind AS owner_kind, n.owner AS owner, n.purpose AS purpose, n.levels AS levels,
  n.tags AS tags, n.max_age AS max_age, n.most AS most, n.created_at AS created_at;

// columns: level_columns(l)
// doc: The output columns of a level; `ttl` in milliseconds.
// returns: id string, name string, kind string, owner_kind string, owner string, purpose string, holds string, ttl integer
// returns: capacity integer, members list, decay float, prune float, dedup float, reindex float, missed integer, failed integer
// returns: reindexed_at integer, compared integer, compared_with string, created_at integer
l.id AS id, l.name AS name, l.kind AS kind, l.owner_kind AS owner_kind, l.owner AS owner, l.purpose AS purpose, l.holds AS holds, l.ttl AS
  ttl, l.capacity AS capacity, l.members AS members, l.decay AS decay, l.prune AS prune, l.dedup AS dedup, l.reindex AS reindex,
  l.missed AS missed,
  coalesce(l.failed, 0) AS failed, l.reindexed_at AS reindexed_at, coalesce(l.compared, 0) AS compared,
  l.compared_with AS compared_with, l.created_at AS created_at;

// columns: policy_columns(p, s, lower, upper)
// doc: The output columns of a policy in a state.
// returns: id string, agent string, state string, features string, action_type string, action_spec string, q_value float, updates integer
// returns: trials integer, successes integer, mean float, lower float, upper float, status string, confidence float, signals integer
// returns: crystallized boolean, last_updated_at integer
p.id AS id, p.agent AS agent, p.state AS state, s.features AS features, p.action_type AS action_type, p.action_spec AS action_spec, p.q
  AS q_value, p.updates AS updates, p.trials AS trials, p.successes AS successes, posterior_mean(p.successes, p.trials,
  $prior_successes, $prior_failures) AS mean, lower, upper, status(lower, upper, $established, $refuted) AS status, p.confidence AS
  confidence, p.signals AS signals, p.crystallized AS crystallized, p.last_updated_at AS last_updated_at;

// columns: policy_facts(p)
// doc: The changeable properties of a policy.
// returns: id string, stream string, created_at integer, state string, q float, updates integer, trials integer, successes integer
// returns: confidence float, signals integer, active boolean, crystallized boolean, q_set boolean, last_updated_at integer
p.id AS id, p.stream AS stream, p.created_at AS created_at, p.state AS state, p.q AS q, p.updates AS updates, p.trials AS trials,
  p.successes AS successes, p.confidence AS confidence, p.signals AS signals, p.active AS active, p.crystallized AS crystallized,
  p.q_set AS q_set, p.last_updated_at AS last_updated_at;

// columns: kept_settings(n)
// doc: The settings that a namespace keeps.
// returns: success_threshold float, z float, co_occurrence_half_life_days float, alpha float, gamma float
// returns: crystallize_above float, min_events integer, min_occurrences integer, anti_pattern_failures integer, consolidate_every integer
n.success_threshold AS success_threshold, n.z AS z, n.co_occurrence_half_life_days AS co_occurrence_half_life_days,
  n.alpha AS alpha, n.gamma AS gamma, n.crystallize_above AS crystallize_above, n.min_events AS min_events,
  n.min_occurrences AS min_occurrences, n.anti_pattern_failures AS anti_pattern_failures, n.consolidate_every AS consolidate_every;

// columns: cycle_columns(c)
// doc: The output columns of a cycle.
// returns: id string, subject string, kind string, period float, amplitude float, phase float, p_value float, chi2 float, buckets list
// returns: expected list, peak integer, timezone string, events integer, only string, alpha float, correction string, at_least integer
c.id AS id, c.subject AS subject, c.kind AS kind, c.period AS period, c.amplitude AS amplitude, c.phase AS phase, c.p_value AS p_value,
  c.chi2 AS chi2, c.buckets AS buckets, c.expected AS expected, c.peak AS peak, c.timezone AS timezone, c.events AS events, c.only AS
  only, c.alpha AS alpha, c.correction AS correction, c.at_least AS at_least;

// columns: prediction_columns(p, x)
// doc: The output columns of a prediction and its subject.
// returns: id string, subject string, kind string, text string, owner string, agent string, probability float, expected string
// returns: status string, created_at integer, at integer, due_at integer, resolved_at integer, actual string, error float
// returns: happened boolean, how string
p.id AS id, p.subject AS subject, p.kind AS kind, coalesce(x.text, x.action_type, p.subject) AS text, x.agent AS owner, p.agent AS
  agent, p.probability AS probability, p.expected AS expected, p.status AS status, p.created_at AS created_at, p.at AS at, p.due_at AS
  due_at, p.resolved_at AS resolved_at, p.actual AS actual, p.error AS error, p.happened AS happened, p.how AS how;

// columns: evidence_columns(e, a, wrong)
// doc: The shown fields of an episode that an agent ran, with the error that is told of it.
// returns: id string, task string, agent string, success boolean, score float, error string, at integer, source_key string
e.id AS id, e.task AS task, a.name AS agent, e.success AS success, e.score AS score, wrong AS error,
  coalesce(e.ended_at, e.started_at) AS at, e.source_key AS source_key;

// formula: cosine_of(a, b)
// doc: The cosine of two vectors that a server stores; null if they differ in size.
CASE WHEN size(a) = size(b) THEN 2.0 * vector.similarity.cosine(a, b) - 1.0 END;

// formula: edge_of(least, floor)
// doc: The cosine at which another task or strategy counts for nothing: the floor of relevance, or the cosine of the farthest of many near
// doc: ones.
CASE WHEN least > floor THEN CASE WHEN least < 0.8 THEN least WHEN floor < 0.8 THEN 0.8 ELSE floor END ELSE floor END;

// formula: nearness(similarity, edge)
// doc: The weight of one outcome of another task or strategy, by the cosine of the texts: 0 at the edge, 1 for equal texts.
CASE WHEN similarity >= 1.0 THEN 1.0 WHEN similarity <= edge THEN 0.0 ELSE (similarity - edge) / (1.0 - edge) END;
