// Rates: what trials say of how often something works.

// name: rates.weigh
// doc: What trials say: the posterior mean of the rate, its Wilson bounds, and the status that follows. Rows: {trials, successes}.
// returns: trials integer, successes integer, mean float, lower float, upper float, status string
UNWIND $rows AS row
WITH row.trials AS trials, row.successes AS successes
WITH trials, successes, wilson_lower(successes, trials, $z_value) AS lower, wilson_upper(successes, trials, $z_value) AS upper
RETURN trials, successes, posterior_mean(successes, trials, $prior_successes, $prior_failures) AS mean, lower, upper,
       status(lower, upper, $established, $refuted) AS status
ORDER BY trials, successes;

// name: rates.more
// doc: The fewest successes in a row after which there are min_events trials and the lower bound is over a threshold. The bound is solved
// doc: for the number of trials, and the numbers next to the solution are tried. Rows: {trials, successes}.
// param: min_events integer = 3, threshold float = 0.6
// returns: trials integer, successes integer, more integer
UNWIND $rows AS row
WITH row.trials AS trials, row.successes AS successes,
     toInteger(floor(rising(row.trials - row.successes, $threshold, $z_value))) - row.trials AS solved,
     CASE WHEN $min_events > row.trials THEN $min_events - row.trials ELSE 0 END AS least
UNWIND [least] + [beside IN [-2, -1, 0, 1, 2, 3] | solved + beside] AS more
WITH trials, successes, solved, least, more
WHERE more >= least AND (wilson_lower(successes + more, trials + more, $z_value) > $threshold OR more = solved + 3)
RETURN trials, successes, min(more) AS more
ORDER BY trials, successes;
