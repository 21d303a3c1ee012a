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
from dataclasses import astuple, dataclass

from graphmem.arrays import NDArray, np, product
from graphmem.numerics import beta_quantile, least

Floats = NDArray[np.float64]
CERTAIN = 2.5758
"""Standard errors that the gain must exceed: two-sided 99 % of a normal distribution."""
LEAST = 100
"""Fewest trials for fitting."""
_SPREAD = np.array([1.0, 1.0, 1.0, 0.5, 0.5])
_LOW, _HIGH = np.log([0.05, 0.05, 0.5, 0.05, 0.05]), math.log(500.0)
"""Bounds of the fit. No rate on a task is said to be all or nothing: half a trial is left."""
_EDGE = 20.7


@dataclass(frozen=True, slots=True)
class Strengths:
    """How strongly rates are pooled.

    A strength is the weight of the pooled rate, in trials; a slope multiplies the distance of a
    rate from the overall rate, in logits. All are over 0.
    """

    task: float = 2.0
    strategy: float = 2.0
    cell: float = 1.0
    task_slope: float = 1.0
    strategy_slope: float = 1.0


DEFAULTS = Strengths()
"""In force until a fit is accepted."""
NEAR = 2.0
"""The weight of the expected rate of a strategy beside its outcomes on near tasks, in trials."""
BLUR = 8.0
"""The variance at which a distance in log odds counts for 0.7 of itself."""


@dataclass(frozen=True, slots=True)
class Cells:
    """The counts of a history: one entry for each strategy on each task.

    All arrays have the shape [cells]; ``group`` numbers the tasks.
    """

    group: NDArray[np.int64]
    task_n: Floats
    task_k: Floats
    strategy_n: Floats
    strategy_k: Floats
    n: Floats
    k: Floats


@dataclass(frozen=True, slots=True)
class Fitted:
    """Fitted strengths, and their gain over the defaults.

    ``gain`` is the gain in log loss over the defaults, summed over the trials. ``score`` is the
    same in standard errors. ``accepted`` says whether that is enough.
    """

    strengths: Strengths
    gain: float
    score: float
    accepted: bool


def logit(p: float) -> float:
    """Return the log odds of a probability in (0, 1)."""
    return math.log(p / (1.0 - p))


def logistic(x: float) -> float:
    """Return the probability of log odds, at least 1e-9 away from 0 and 1."""
    if abs(x) > _EDGE:
        return 0.999999999 if x > 0 else 0.000000001
    return 1.0 / (1.0 + math.exp(-x))


def blurred(slope: float, n: float, rate: float, strength: float, wider: float) -> float:
    """Return the variance of the log odds of a rate, times the square of a slope.

    Args:
        slope: of the rate.
        n: its trials.
        rate: in (0, 1), shrunk to the wider one.
        strength: trials that the wider rate counts for.
        wider: in (0, 1).
    """
    return slope**2 / (n * rate * (1.0 - rate) + strength * wider * (1.0 - wider))


def prior_mean(
    rate: float, task_rate: float, strategy_rate: float, strengths: Strengths, blur: float
) -> float:
    """Return the expected success rate of a strategy on a task before its first trial there.

    The less the two rates are known (``blur`` is the sum of their variances), the nearer it is to
    the wider rate: the mean of rates is not the rate of the mean log odds.
    """
    middle = logit(rate)
    distance = strengths.task_slope * (logit(task_rate) - middle)
    distance += strengths.strategy_slope * (logit(strategy_rate) - middle)
    return logistic(middle + distance / math.sqrt(1.0 + blur / BLUR))


def shrunk(k: float, n: float, rate: float, strength: float) -> float:
    """Return the rate of ``k`` successes in ``n`` trials, shrunk toward ``rate``."""
    return (k + strength * rate) / (n + strength)


def interval(probability: float, concentration: float, level: float = 0.95) -> tuple[float, float]:
    """Return the central credible interval of an expected rate, around it.

    The interval is that of a Beta distribution whose parameters sum up to the concentration, with
    half a success and half a failure more (Jeffreys 1946, Proc. R. Soc. A 186:453-461). Without
    these, few outcomes that agree would leave nothing between the bounds.

    Args:
        probability: the expected rate, in (0, 1).
        concentration: the trials that it is worth, over 0.
        level: the probability inside, in (0, 1).
    """
    return intervals([probability], [concentration], level)[0]


def intervals(
    probabilities: Sequence[float], concentrations: Sequence[float], level: float = 0.95
) -> list[tuple[float, float]]:
    """Return the central credible intervals of several expected rates; see :func:`interval`."""
    bounds = []
    for mean, trials in zip(probabilities, concentrations, strict=True):
        a, b = mean * trials + 0.5, (1.0 - mean) * trials + 0.5
        low, high = (beta_quantile(tail, a, b) for tail in ((1 - level) / 2, (1 + level) / 2))
        # Of a very skewed distribution the expected rate may be outside.
        bounds.append((min(low, mean), max(high, mean)))
    return bounds


def fit(cells: Cells, trials: int, successes: int, prior: tuple[float, float]) -> Fitted:
    """Return the strengths that predict each outcome best from all others.

    Args:
        cells: the history.
        trials: trials of all strategies.
        successes: successes of all strategies.
        prior: successes and failures of the Beta prior of the overall rate.
    """
    if trials < LEAST or not 0 < successes < trials:
        return Fitted(DEFAULTS, 0.0, 0.0, accepted=False)
    center: Floats = np.log(np.array(astuple(DEFAULTS)))
    columns = _columns(cells)
    unique, times = np.unique(np.stack(columns), axis=1, return_counts=True)

    def loss(x: Floats) -> float:
        x = np.clip(x, _LOW, _HIGH)
        won, lost = _losses(unique, trials, successes, prior, np.exp(x))
        total = float(product(times, unique[5] * won + (unique[4] - unique[5]) * lost))
        return total + 0.5 * float((((x - center) / _SPREAD) ** 2).sum())

    best = np.clip(least(loss, center, 0.7), _LOW, _HIGH)
    strengths = Strengths(*(float(f"{value:.4g}") for value in np.exp(best)))
    gain, score = _gain(cells, columns, trials, successes, prior, strengths)
    return Fitted(strengths, gain, score, accepted=score > CERTAIN)


def _gain(
    cells: Cells,
    columns: list[Floats],
    trials: int,
    successes: int,
    prior: tuple[float, float],
    strengths: Strengths,
) -> tuple[float, float]:
    """Return the gain over the defaults, and the same in standard errors over tasks."""
    stacked = np.stack(columns)
    won, lost = _losses(stacked, trials, successes, prior, np.array(astuple(DEFAULTS)))
    won_now, lost_now = _losses(stacked, trials, successes, prior, np.array(astuple(strengths)))
    gains = cells.k * (won - won_now) + (cells.n - cells.k) * (lost - lost_now)
    by_task = np.bincount(cells.group, gains)
    spread = math.sqrt(float(((by_task - by_task.mean()) ** 2).sum()))
    gain = float(f"{by_task.sum():.6g}")
    return gain, float(f"{gain / spread:.6g}") if spread > 1e-9 else 0.0


def _columns(cells: Cells) -> list[Floats]:
    return [
        *(cells.task_n, cells.task_k, cells.strategy_n, cells.strategy_k),
        *(cells.n, cells.k),
    ]


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
