"""Partial pooling: the formula of a prediction, and fitting its strengths to a history.

The formula is that of the procedure ``forecasting.pool``; a test compares the two. Empirical Bayes
fits the strengths: each outcome of the history is predicted from all others (leave one out), and
the strengths with the least log loss win, under a weak prior around the defaults (the logarithm of
a strength has a standard deviation of 1, that of a slope 1/2). The defaults stay in force until the
gain in log loss is over :data:`CERTAIN` standard errors. The independent units are tasks, because
episodes of one task are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphmem.advice.strengths import DEFAULTS, LEAST
from graphmem.arrays import NDArray, np, product
from graphmem.models.forecasts import PoolingStrengths
from graphmem.numerics import least

Floats = NDArray[np.float64]
CERTAIN = 2.5758
"""Standard errors that the gain must exceed: two-sided 99 % of a normal distribution."""
_NAMES = ("task", "strategy", "cell", "task_slope", "strategy_slope")
_SPREAD = np.array([1.0, 1.0, 1.0, 0.5, 0.5])
_LOW, _HIGH = np.log([0.05, 0.05, 0.5, 0.05, 0.05]), math.log(500.0)
"""Bounds of the fit. No rate on a task is said to be all or nothing: half a trial is left."""
_EDGE = 20.7


NEAR = 2.0
"""The weight of the expected rate of a strategy beside its outcomes on near tasks, in trials."""
BLUR = 8.0
"""The variance at which a distance in log odds counts for 0.7 of itself."""


def logit(p: float) -> float:
    """Return the log odds of a probability in (0, 1)."""
    return math.log(p / (1.0 - p))


def logistic(x: float) -> float:
    """Return the probability of log odds, at least 1e-9 away from 0 and 1."""
    if abs(x) > _EDGE:
        return 0.999999999 if x > 0 else 0.000000001
    return 1.0 / (1.0 + math.exp(-x))


def blurred(slope: float, n: float, rate: float, strength: float, wider: float) -> float:
    """Return the variance of the log odds of a rate, times the square of a slope."""
    return slope**2 / (n * rate * (1.0 - rate) + strength * wider * (1.0 - wider))


def prior_mean(
    rate: float, task_rate: float, strategy_rate: float, strengths: PoolingStrengths, blur: float
) -> float:
    """Return the expected success rate of a strategy on a task before its first trial there.

    The less the two rates are known (``blur`` is the sum of their variances), the nearer it is to
    the wider rate: the mean of rates is not the rate of the mean log odds.
    """
    middle = logit(rate)
    distance = strengths.task_slope * (logit(task_rate) - middle)
    distance += strengths.strategy_slope * (logit(strategy_rate) - middle)
    return logistic(middle + distance / math.sqrt(1.0 + blur / BLUR))


def fit(
    rows: Sequence[tuple[int, ...]], trials: int, successes: int, prior: tuple[float, float]
) -> PoolingStrengths:
    """Return the strengths that predict each outcome best from all others."""
    if trials < LEAST:
        return DEFAULTS
    if not 0 < successes < trials:
        return DEFAULTS.model_copy(update={"trials": trials})
    table = np.array(rows, dtype=np.float64).reshape(-1, 7).T
    cells = np.ascontiguousarray(table[1:])
    unique, times = np.unique(cells, axis=1, return_counts=True)
    defaults = np.array([getattr(DEFAULTS, name) for name in _NAMES])
    center: Floats = np.log(defaults)

    def losses(columns: Floats, strengths: Floats) -> Floats:
        won, lost = _losses(columns, trials, successes, prior, strengths)
        whole: Floats = columns[5] * won + (columns[4] - columns[5]) * lost
        return whole

    def loss(x: Floats) -> float:
        x = np.clip(x, _LOW, _HIGH)
        total = float(product(times, losses(unique, np.exp(x))))
        return total + 0.5 * float((((x - center) / _SPREAD) ** 2).sum())

    best = np.exp(np.clip(least(loss, center, 0.7), _LOW, _HIGH))
    strengths = np.array([float(f"{value:.4g}") for value in best])
    gains = np.bincount(
        table[0].astype(np.int64), losses(cells, defaults) - losses(cells, strengths)
    )
    gain = float(f"{gains.sum():.6g}")
    spread = math.sqrt(float(((gains - gains.mean()) ** 2).sum()))
    score = float(f"{gain / spread:.6g}") if spread > 1e-9 else 0.0
    basis: dict[str, float] = {"trials": trials, "gain": gain, "score": score}
    if score > CERTAIN:
        basis |= {"fitted": True, **dict(zip(_NAMES, strengths.tolist(), strict=True))}
    return DEFAULTS.model_copy(update=basis)


def _losses(
    columns: Floats, trials: int, successes: int, prior: tuple[float, float], strengths: Floats
) -> tuple[Floats, Floats]:
    """Return the log loss of one success, and of one failure, of each cell without itself."""
    task_n, task_k, strategy_n, strategy_k, n, k = columns
    answers = []
    for success in (1.0, 0.0):
        rate = (successes - success + prior[0]) / (trials - 1.0 + sum(prior))
        task = _shrunk(task_k - success, task_n - 1.0, rate, strengths[0])
        strategy = _shrunk(strategy_k - k, strategy_n - n, rate, strengths[1])
        middle = logit(rate)
        distance = strengths[3] * (np.log(task / (1.0 - task)) - middle)
        distance += strengths[4] * (np.log(strategy / (1.0 - strategy)) - middle)
        wider = rate * (1.0 - rate)
        blur = strengths[3] ** 2 / ((task_n - 1.0) * task * (1.0 - task) + strengths[0] * wider)
        others = np.maximum(strategy_n - n, 0.0) * strategy * (1.0 - strategy)
        blur = blur + strengths[4] ** 2 / (others + strengths[1] * wider)
        position = middle + distance / np.sqrt(1.0 + blur / BLUR)
        mean = 1.0 / (1.0 + np.exp(-np.clip(position, -_EDGE, _EDGE)))
        own = _shrunk(k - success, n - 1.0, mean, strengths[2])
        answers.append(-np.log(own) if success else -np.log1p(-own))
    return answers[0], answers[1]


def _shrunk(k: Floats, n: Floats, rate: float | Floats, strength: float) -> Floats:
    # The loss of a cell without a success (or failure) is computed, too, but has no weight.
    n = np.maximum(n, 0.0)
    return (np.clip(k, 0.0, n) + strength * rate) / (n + strength)
