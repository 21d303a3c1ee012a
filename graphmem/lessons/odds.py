"""The least odds of counts that give a high mean: what can be left out before anything is computed.

Lessons keep their odds (the formula ``odds``), a number of their counts alone. A look through a
label that compares it is several times as fast as one that computes a mean for each.
"""

from __future__ import annotations

import math
from functools import lru_cache

ROUNDED = 1 - 1e-9
"""How far rounding may move a bound."""
NEARLY, TYPES = 0.9, 1_000
"""What is nearly enough to be among the best lessons, and of how many types of tasks to keep it."""
_MOST = 1_000


@lru_cache(maxsize=1_024)
def least_odds(
    mean: float,
    prior: tuple[float, float],
    *,
    trials: int = 0,
    successes: int = 0,
    over: bool = False,
) -> float:
    """Return the least odds that counts can have whose posterior mean is so high.

    Args:
        mean: what the mean is at least, in (0, 1).
        prior: successes and failures of the Beta prior.
        trials: the fewest trials.
        successes: the fewest successes.
        over: whether the mean is over, rather than at least, that.
    """
    a, b = prior
    slope = mean / (1.0 - mean)
    start = (mean * (a + b) - a) / (1.0 - mean)

    def wins(failures: int) -> int:
        """Return the fewest successes beside so many failures."""
        least = max(successes, trials - failures, math.floor(slope * failures + start) - 1, 0)
        while True:
            reached = (least + a) / (least + failures + a + b)
            if reached > mean or (reached == mean and not over):
                return least
            least += 1

    best = math.inf
    for failures in range(_MOST):
        part = 1.0 / (math.sqrt(1.0 + failures) + 1.0)
        if start * part <= slope and _odds(slope, start, part) >= best:
            break  # more failures need higher odds
        best = min(best, wins(failures) * part * part)
    else:  # the prior is strong: the least of the formula, taken as continuous
        turn = slope / start if start > 0 else part
        best = min(best, _odds(slope, start, min(turn, part)))
    return max(0.0, ROUNDED * best)


def _odds(slope: float, start: float, part: float) -> float:
    """Return the odds of ``slope * failures + start`` successes; the part is 1/(sqrt(1 + f) + 1).

    The odds are then ``successes * part * part``.
    """
    return slope * (1.0 - 2.0 * part) + start * part * part
