// The formulas that procedures share. A call such as wilson_lower(k, n, $z) in another file is
// replaced by the expression below it; `graphmem procedures show NAME` prints the result.

// formula: posterior_mean(k, n, a, b)
// doc: Mean of the Beta(a + k, b + n - k) posterior of a rate after k successes in n trials.
(k + a) / toFloat(n + a + b);

// formula: wilson_lower(k, n, z)
// doc: Lower Wilson score bound of a rate (Wilson 1927, JASA 22:209-212); 0 without trials.
CASE WHEN n = 0 THEN 0.0 WHEN k = 0 THEN 0.0 ELSE (toFloat(k) / n + z * z / (2.0 * n) - z * sqrt(toFloat(k) / n * (1.0 - toFloat(k) / n) / n + z * z / (4.0 * n * n))) / (1.0 + z * z / n) END;

// formula: wilson_upper(k, n, z)
// doc: Upper Wilson score bound of a rate; 1 without trials.
CASE WHEN n = 0 THEN 1.0 WHEN k = n THEN 1.0 ELSE (toFloat(k) / n + z * z / (2.0 * n) + z * sqrt(toFloat(k) / n * (1.0 - toFloat(k) / n) / n + z * z / (4.0 * n * n))) / (1.0 + z * z / n) END;

// formula: status(lower, upper, established, refuted)
// doc: A pure function of the bounds, so that order and rebuilds cannot change it.
CASE WHEN lower > established THEN 'established' WHEN upper < refuted THEN 'refuted' ELSE 'tentative' END;

// formula: decayed(from, to, half_life)
// doc: What a weight of 1 held at time `from` weighs at time `to` (milliseconds).
exp((from - to) * 0.6931471805599453 / half_life);

// formula: later(a, b)
// doc: The later of two times, either of which may be missing.
CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a WHEN a > b THEN a ELSE b END;
