"""The formula of the estimate: the chance that a strategy works on a task now.

``docs/explanation/prediction.md`` explains its parts; rows are strategies and assumed changes:

- :func:`expect` shrinks every rate toward the next wider one. No outcome counts at two levels, and
  many outcomes of one task count elsewhere like few (:data:`SPREAD`).
- :func:`mix` weighs how long the present run of outcomes has lasted: Bayesian online changepoint
  detection (Adams and MacKay 2007, arXiv:0710.3742).
- :func:`fit_strengths` fits the strengths of shrinking to a history.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, lgamma, log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphmem.graph.estimate import PRIOR
from graphmem.models.forecasts import CERTAIN, PoolingStrengths
from graphmem.numerics import least
from graphmem.text.task_types import GENERAL

Floats = NDArray[np.float64]

DEFAULTS = PoolingStrengths(
    task=2.0, strategy=2.0, cell=1.0, fitted=False, trials=0, gain=0.0, score=0.0
)
"""In force until a fit is accepted."""
LEAST = 100  # fewest trials for fitting
MAX_CELLS = 20_000  # most for fitting, which takes 1.5 s; more are sampled by the keys of tasks
SPREAD = 3.0
"""What all outcomes of one cell together are worth elsewhere, at most, in trials."""
NEAR = 2.0
"""What is expected elsewhere weighs so many trials beside outcomes on a type or on near tasks."""
BLUR = 8.0
"""The variance at which a distance in log odds counts for 0.7 of itself."""
HAZARD = 0.02
"""The chance of a change of a strategy on a task, an outcome."""
DRIFT = 0.001
"""The same for a strategy on all tasks."""
SPREADING = 0.005
"""The same for a strategy on a task and near ones."""
TEMPER = 0.5
"""The power of the likelihood of outcomes on all tasks: what comes close together is alike."""
RARE = 0.1
"""How much rarer changes are taken for where one draws or warns."""
ENDING = 0.2
"""The power of the chance that a run ends while nobody looks: see :func:`find_unseen`."""
GAP = 0.25
"""The least distance of the rates before and since."""
PLACES = 500
"""Where a change in a long sequence may be, at most so many places."""
_EDGE = 20.7
LEAST_SCORE = 2.5758
"""Standard errors that the gain must exceed: two-sided 99 % of a normal distribution."""
FEWEST = 10
"""Fewest tasks: of fewer, the standard error of a gain tells nothing."""
_NAMES = ("task", "strategy", "cell")
_LOW, _HIGH = np.log([0.05, 0.05, 0.5]), log(500.0)
"""Bounds of the fit. No rate on a task is said to be all or nothing: half a trial is left."""


def logit(p: Floats) -> Floats:
    """Return the log odds of probabilities in (0, 1)."""
    odds: Floats = np.log(p / (1.0 - p))
    return odds


def logistic(x: Floats) -> Floats:
    """Return the probabilities of log odds, at least 1e-9 away from 0 and 1."""
    p: Floats = 1.0 / (1.0 + np.exp(-np.clip(x, -_EDGE, _EDGE)))
    return p


def shrunk(k: Floats, n: Floats, rate: Floats | float, strength: float) -> Floats:
    """Return the rate of k successes in n trials, shrunk toward a wider one."""
    n = np.maximum(n, 0.0)
    p: Floats = (np.clip(k, 0.0, n) + strength * rate) / (n + strength)
    return p


class Uses(NamedTuple):
    """The outcomes of a strategy on a task: the data for fitting strengths."""

    task: str | None
    type: str | None  # GENERAL: it has none
    whole: str | None
    trials: int
    successes: int
    n: float  # what the trials count elsewhere
    k: float
    episodes: int  # those of the task, and how many of them succeeded
    solved: int


class Runs(NamedTuple):
    """How long the present run has lasted: a row for each sequence, a column for each start."""

    weights: Floats
    """The chance of each start; column 0: the present run has lasted since ever."""
    trials: Floats
    successes: Floats


NO_RUNS = Runs(*np.ones((3, 0, 1)))


class Level(NamedTuple):
    """What outcomes on some tasks tell of those on others; shape (rows, columns).

    Each of the latest counts for ``shares`` (rows, columns, columns or 1) of a trial beside a later
    one, all before them for ``trials`` and ``successes``, the wider level for ``strength`` trials.
    ``easier`` moves the rate, in log odds.
    """

    shares: Floats
    trials: Floats
    successes: Floats
    strength: float
    easier: Floats


def mix(
    trials: Floats,
    successes: Floats,
    outcomes: Floats,
    lengths: NDArray[np.int64],
    hazard: float,
    power: Floats | float = 1.0,
    levels: Sequence[Level] = (),
) -> Runs:
    """Return the chances of the starts of the present run, and its outcomes.

    Args:
        trials: all outcomes before the latest, shape (rows,).
        successes: the successes among these.
        outcomes: the latest outcomes, the oldest first, as 0 or 1; shape (rows, columns).
        lengths: how many of the columns each row has.
        hazard: the chance of a change before an outcome.
        power: what the likelihood is raised to, that of all or of each outcome.
        levels: what they tell of each other, from the widest; default: all tell the same.
    """
    rows, columns = outcomes.shape
    if not columns:
        return Runs(np.ones((rows, 1)), trials[:, None] * 1.0, successes[:, None] * 1.0)
    begin = np.maximum(np.arange(columns + 1) - 1, 0)[:, None]  # the first outcome of each run
    at = np.arange(columns)
    known = np.zeros((rows, columns + 1))
    known[:, 1:] = np.where(at < lengths[:, None], outcomes, 0.0).cumsum(axis=1)
    n = np.maximum(np.minimum(at, lengths[:, None])[:, None, :] - begin, 0).astype(np.float64)
    k = np.maximum(known[:, None, :-1] - known[:, begin[:, 0]][:, :, None], 0.0)
    n[:, 0] += trials[:, None]
    k[:, 0] += successes[:, None]
    rate = np.full_like(n, 0.5) if levels else (k + 0.5) / (n + 1.0)
    for level in levels:
        told = level.shares * np.tri(columns, k=-1).T
        both = np.stack((told, told * outcomes[:, :, None]))
        n_of, k_of = both[:, :, ::-1].cumsum(axis=2)[:, :, ::-1][:, :, begin[:, 0]]
        n_of[:, 0] += level.trials
        k_of[:, 0] += level.successes
        rate = shrunk(k_of, n_of, rate, level.strength)
        rate = logistic(logit(rate) + level.easier[:, None, :])
    likely = np.where(outcomes[:, None, :] > 0.0, rate, 1.0 - rate)
    likely **= power if isinstance(power, float) else power[:, None, :]
    begins = np.where(at < lengths[:, None], hazard, 0.0)
    begins[:, 0] *= trials > 0.0  # the first of all outcomes begins no second run
    lasts = np.where(at > begin, 1.0 - begins[:, None, :], 1.0)
    lasts[:, 0] = 1.0 - begins
    there = (at >= begin) & (at < lengths[:, None, None])
    grown = np.where(there, likely * lasts, 1.0).cumprod(axis=2)
    started = np.ones((rows, columns + 1))
    total = np.ones(rows)
    for place in range(columns):
        started[:, place + 1] = begins[:, place] * total
        total = (started[:, : place + 2] * grown[:, : place + 2, place]).sum(axis=1)
    weights = started * grown[:, :, -1]
    weights /= weights.sum(axis=1, keepdims=True)
    left = np.maximum(lengths[:, None] - begin[:, 0], 0.0)
    right = np.maximum(known[:, -1:] - known[:, begin[:, 0]], 0.0)
    left[:, 0] += trials
    right[:, 0] += successes
    return Runs(weights, left, right)


@dataclass(slots=True)
class Counts:
    """What is known around strategies on a task; arrays of shape (rows,), in worths of trials.

    A pair is (trials, successes), but for the last. No outcome is in two of the others.
    """

    everything: tuple[Floats, Floats]
    """Other strategies, on all types of task."""
    typed_all: tuple[Floats, Floats]
    """Other strategies, on the type of the task."""
    near_all: tuple[Floats, Floats]
    """Other strategies, on near tasks."""
    task: tuple[Floats, Floats]
    """Other strategies, on the task."""
    lent: tuple[Floats, Floats]
    """Similar strategies."""
    elsewhere: tuple[Floats, Floats]
    """The strategy, on other types."""
    typed: tuple[Floats, Floats]
    """The strategy, on other tasks of the type that are not near."""
    near: tuple[Floats, Floats]
    """The strategy, on near tasks."""
    of_type: tuple[Floats, Floats]
    """The trials of the strategy on the type, and what they are worth elsewhere."""


class Expected(NamedTuple):
    """What to expect before the outcomes on the task itself; arrays of shape (rows,)."""

    rate: Floats
    type_rate: Floats
    task_rate: Floats
    strategy_rate: Floats
    prior: Floats
    near: Floats
    """The expected rate."""
    elsewhere: Floats
    """What it is worth, in trials, if tasks that look alike are one."""
    known: Floats
    """What it is worth on this task, in trials."""


def expect(counts: Counts, prior: tuple[float, float], strengths: PoolingStrengths) -> Expected:
    """Return the rates of strategies on a task, from the widest to that of near tasks."""
    task, strategy = strengths.task, strengths.strategy
    n, k = counts.everything
    rate = (k + prior[0]) / (n + sum(prior))
    type_rate = shrunk(counts.typed_all[1], counts.typed_all[0], rate, NEAR)
    near_rate = shrunk(counts.near_all[1], counts.near_all[0], type_rate, NEAR)
    task_rate = shrunk(counts.task[1], counts.task[0], near_rate, task)
    lent_rate = shrunk(counts.lent[1], counts.lent[0], rate, strategy)
    other_rate = shrunk(counts.elsewhere[1], counts.elsewhere[0], lent_rate, strategy)
    typical = logit(type_rate)
    wide = logistic(logit(other_rate) - logit(rate) + typical)
    # Of a type, other types tell no more than what they are worth there.
    known_type = counts.typed_all[0] + counts.typed[0] > 1e-9  # less is what rounding left
    others = np.where(known_type, strategy, counts.elsewhere[0] + strategy)
    # The more alike tasks of a type are, the more many outcomes of one of them tell of another.
    share = counts.of_type[1] / np.maximum(counts.of_type[0], 1.0)
    more = strengths.cell / (1.0 + (strengths.cell - 1.0) * share)
    typed_n, typed_k = counts.typed[0] * more, counts.typed[1] * more
    strategy_rate = shrunk(typed_k, typed_n, wide, strategy)
    around = _variance(near_rate, counts.near_all[0], type_rate, NEAR)
    beyond = _variance(task_rate, counts.task[0], near_rate, task)
    own = _variance(strategy_rate, typed_n, wide, others)
    distance = logit(near_rate) + logit(strategy_rate) - 2.0 * typical
    before = logistic(typical + distance / np.sqrt(1.0 + (around + own) / BLUR))
    # What it did on near tasks counts beside what others did there, as the task may be another.
    near = shrunk(counts.near[1], counts.near[0], before, NEAR)
    further = logit(task_rate) - logit(near_rate)
    expected = logistic(logit(near) + further / np.sqrt(1.0 + beyond / BLUR))
    spread = expected * (1.0 - expected)
    lower = np.minimum(spread, strategy_rate * (1.0 - strategy_rate))
    known = counts.near[0] + 1.0 / (spread * (around + own))
    known = 1.0 / (1.0 / strengths.cell + 1.0 / known + spread * beyond)
    alike = counts.near[0] + 1.0 / (lower * own)
    return Expected(rate, type_rate, task_rate, strategy_rate, before, expected, alike, known)


def _variance(rate: Floats, n: Floats, wider: Floats, strength: Floats | float) -> Floats:
    """Return how uncertain a rate of n trials is, in log odds."""
    return 1.0 / (n * rate * (1.0 - rate) + strength * wider * (1.0 - wider))


class Unseen(NamedTuple):
    """The chance of changes that nobody saw, of the rows of :class:`Runs`."""

    before: Floats
    """Before each outcome on the task; shape (rows, columns)."""
    since: Floats
    """That the run which began with it is over; shape (rows, columns)."""
    wider: Floats
    """That the change elsewhere which a row assumes is over; shape (rows,)."""


class Belief(NamedTuple):
    """What is believed of candidates: mixtures of Betas, of shape (candidates, parts)."""

    weights: Floats
    """The chance of each part; those of a candidate sum up to 1."""
    drawn: Floats
    """The same where one draws: a change that nobody looked at for long may be over."""
    rates: Floats
    """The means of the parts."""
    here: Floats
    """How many outcomes on the task itself each part has."""
    elsewhere: Floats
    """What the rest is worth, in trials, if tasks that look alike are one."""
    known: Floats
    """What the rest is worth on this task, in trials."""
    probability: Floats
    """The chance that each works the next time; shape (candidates,)."""

    def size(self, rest: Floats) -> Floats:
        """Return how many trials have as much spread, with a worth of the rest; (candidates,)."""
        mean = (self.weights * self.rates).sum(axis=1)
        within = self.rates * (1.0 - self.rates) / (self.here + rest + 1.0)
        spread = (self.weights * (within + (self.rates - mean[:, None]) ** 2)).sum(axis=1)
        sizes: Floats = np.maximum(mean * (1.0 - mean) / spread - 1.0, 0.1)
        return sizes


def believe(
    of: NDArray[np.int64],
    ever: NDArray[np.int64],
    shares: Floats,
    unseen: Unseen,
    expected: Expected,
    runs: Runs,
    cell: float,
) -> Belief:
    """Join what is expected with the outcomes on the task itself.

    Args:
        of: the candidate of each row, in order.
        ever: the row of each candidate that assumes no wider change.
        shares: the chance of each row, among those of its candidate.
        unseen: the changes that nobody saw.
        expected: what is expected of the rows elsewhere.
        runs: their outcomes on the task.
        cell: how many trials what is expected counts for.
    """
    near = expected.near[:, None]
    rates = (runs.successes + cell * near) / (runs.trials + cell)
    next_one = (1.0 - HAZARD) * (runs.weights * rates).sum(axis=1) + HAZARD * expected.near
    weights = shares[:, None] * cautious(runs.weights)
    # What is predicted of a strategy does not depend on whom it is compared with.
    drawn = shares[:, None] * cautious(runs.weights, np.maximum(unseen.before / HAZARD, RARE))
    over = drawn[:, 1:] * unseen.since
    drawn[:, 1:] -= over
    drawn[:, 0] += over.sum(axis=1)
    drawn *= 1.0 - unseen.wider[:, None]
    np.add.at(drawn[:, 0], ever[of], shares * unseen.wider)
    place = np.arange(len(of)) - np.searchsorted(of, of)
    shape = int(of[-1]) + 1, int(place.max()) + 1, rates.shape[1]
    tables = []
    parts = (weights, drawn, rates, runs.trials, expected.elsewhere, expected.known)
    for number, values in enumerate(parts):
        table = np.full(shape, 0.0 if number < 2 else 0.5)
        table[of, place] = values if values.ndim == 2 else values[:, None]
        tables.append(table.reshape(shape[0], -1))
    probability: Floats = np.bincount(of, shares * next_one).astype(np.float64)
    weights, drawn, means, here, elsewhere, known = tables
    return Belief(weights, drawn, means, here, elsewhere, known, probability)


def find_unseen(every: NDArray[np.int64], run: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the chance that a strategy changed while others were tried.

    What has lasted long will last long: while all strategies together had as many outcomes as
    before, it changed with a chance of 1 - 2^-:data:`ENDING`.

    Args:
        every: the stamps (time in ms * 2 + success) of the latest outcomes of all, ascending.
        run: those of one of them, ascending, at least one.

    Returns:
        The chance of a change just before each outcome, and that a run is over now which began
        with it.
    """
    at = np.searchsorted(every, run)
    seen = np.searchsorted(every, run[-1], "right")
    before = np.zeros(len(at))
    lasted = at[:-1] - at[0] + 1.0
    before[1:] = 1.0 - (lasted / np.maximum(at[1:] - at[0], lasted)) ** ENDING
    since: Floats = 1.0 - ((seen - at) / (len(every) - at)) ** ENDING
    return before, since


def cautious(weights: Floats, rare: Floats | float = RARE) -> Floats:
    """Return the chances of the starts of a run if changes are rarer than assumed, so many times.

    To expect a change costs little where one predicts; where one draws or warns, it costs more.
    """
    rarer = weights.copy()
    rarer[:, 1:] *= rare
    rarer /= rarer.sum(axis=1, keepdims=True)
    return rarer


class Turn(NamedTuple):
    """The most probable change in a sequence of outcomes."""

    place: int
    """Which of the latest outcomes was the first of the present run, from 0."""
    certainty: float
    trials: int
    """How many outcomes the present run has."""
    successes: int


def find_turns(
    runs: Runs, counts: Sequence[tuple[float, float]], rare: float = RARE, *, possible: bool = False
) -> dict[int, Turn]:
    """Return the changes in rows of runs (by row), of which there are so many outcomes each.

    That there was one is certain to :data:`CERTAIN`; ``certainty`` is that of its direction, and
    where that is less, the turn is the last that is possible. Else the rate since then differs by
    :data:`GAP` from that of all before, or of the latest outcomes before: so what works again is
    told, too.

    Args:
        runs: what :func:`mix` returned.
        counts: all trials and successes of each row.
        rare: how much rarer changes are than it was assumed for the runs.
        possible: also those of which the chance was a tenth where these runs were weighed.
    """
    least = rare / (rare + 9.0) if possible else CERTAIN
    found: dict[int, Turn] = {}
    if runs.weights.shape[1] < 2:
        return found
    weights = cautious(runs.weights, rare)
    for row in map(int, np.flatnonzero(weights[:, 0] <= 1.0 - least)):
        trials, successes = counts[row]
        since, gone = runs.trials[row], trials - runs.trials[row]
        rises = (runs.successes[row] + 0.5) / (since + 1.0) > (
            successes - runs.successes[row] + 0.5
        ) / (gone + 1.0)
        ways = [np.where(rises[1:] == way, weights[row, 1:], 0.0) for way in (True, False)]
        ways.sort(key=np.sum)
        certainty = float(ways[1].sum())
        doubted = certainty < least
        if doubted and possible:
            continue
        starts = [int(way.argmax()) + 1 for way in ways]
        start = max(starts) if doubted else starts[1]  # what may have begun last
        n, k = int(runs.trials[row, start]), int(runs.successes[row, start])
        whole, latest = (successes, trials), (runs.successes[row, 1], runs.trials[row, 1])
        befores = [(a - k + 0.5) / (b - n + 1.0) for a, b in (whole, latest) if b > n]
        if doubted or any(abs((k + 0.5) / (n + 1.0) - before) >= GAP for before in befores):
            found[row] = Turn(start - 1, certainty, n, k)
    return found


def split_course(
    outcomes: Sequence[int], hazard: float = DRIFT, power: float = TEMPER
) -> list[tuple[int, float]]:
    """Return where the rate of outcomes (0 or 1, the oldest first) changed, and how sure that is.

    The places (from 1) are those of the most probable runs (optimal partitioning, Jackson et al.
    2005, IEEE Signal Process. Lett. 12:105-108), by the same evidence as in :func:`mix`. Of more
    than :data:`PLACES` outcomes only so many places are looked at.
    """
    total, odds = len(outcomes), hazard * RARE
    won = np.concatenate(([0], np.cumsum(outcomes, dtype=np.int64)))
    halves = np.array([lgamma(number + 0.5) for number in range(total + 1)]) - lgamma(0.5)
    wholes = np.array([lgamma(number + 1.0) for number in range(total + 1)])

    def evidence(start: NDArray[np.int64] | int, end: NDArray[np.int64] | int) -> Floats:
        n, k = end - start, won[end] - won[start]
        told: Floats = power * (halves[k] + halves[n - k] - wholes[n])
        return told

    ends = np.unique(np.linspace(0, total, min(total, PLACES) + 1).astype(np.int64))
    best, before = np.zeros(len(ends)), np.zeros(len(ends), dtype=np.int64)
    for at in range(1, len(ends)):
        scores = best[:at] + evidence(ends[:at], int(ends[at])) + log(odds)
        scores[0] -= log(odds)
        before[at] = scores.argmax()
        best[at] = scores[before[at]]
    cuts = [len(ends) - 1]
    while cuts[-1] > 0:
        cuts.append(int(before[cuts[-1]]))
    cuts = [int(ends[cut]) for cut in reversed(cuts)]
    turns = []
    for start, place, end in zip(cuts, cuts[1:], cuts[2:], strict=False):
        inside = ends[(ends > start) & (ends < end)]
        gains = evidence(start, inside) + evidence(inside, end) - evidence(start, end)
        against = -float(np.logaddexp.reduce(gains)) - log(odds)
        certainty = 1.0 / (1.0 + exp(min(against, 700.0)))
        rates = [(won[b] - won[a] + 0.5) / (b - a + 1.0) for a, b in ((start, place), (place, end))]
        if certainty >= CERTAIN and abs(rates[1] - rates[0]) >= GAP:
            turns.append((place, certainty))
    return turns


def fit_strengths(cells: Sequence[Uses], trials: int) -> PoolingStrengths:
    """Return the strengths of pooling that predict each outcome best from all others.

    This is empirical Bayes: each outcome is predicted from all others (leave one out), and the
    strengths with the least log loss win, under a weak prior around the defaults (the logarithm of
    a strength has a standard deviation of 1). The defaults stay in force until the gain is over
    :data:`LEAST_SCORE` standard errors; its independent units are tasks.
    """
    if trials < LEAST:
        return DEFAULTS
    if not 0 < sum(one.successes for one in cells) < sum(one.trials for one in cells):
        return DEFAULTS.model_copy(update={"trials": trials})
    (n, k), *others = _leave_out(cells)
    counts = Counts(*((n_of, k_of) for n_of, k_of in others))
    defaults = np.array([getattr(DEFAULTS, name) for name in _NAMES])
    center: Floats = np.log(defaults)

    def losses(strengths: Floats) -> Floats:
        asked = DEFAULTS.model_copy(update=dict(zip(_NAMES, strengths.tolist(), strict=True)))
        mean = expect(counts, PRIOR, asked).near
        # The loss of a cell without a success (or failure) is computed, too, without a weight.
        won, lost = (shrunk(k - one, n - 1.0, mean, asked.cell) for one in (1.0, 0.0))
        whole: Floats = k * -np.log(won) + (n - k) * -np.log1p(-lost)
        return whole

    def loss(x: Floats) -> float:
        x = np.clip(x, _LOW, _HIGH)
        return float(losses(np.exp(x)).sum()) + 0.5 * float(((x - center) ** 2).sum())

    best = np.exp(np.clip(least(loss, center, 0.7), _LOW, _HIGH))
    strengths = np.array([float(f"{value:.4g}") for value in best])
    gained = losses(defaults) - losses(strengths)
    gains = np.bincount(_number(one.task for one in cells), gained)
    gain = float(f"{gains.sum():.6g}")
    spread = sqrt(float(((gains - gains.mean()) ** 2).sum()))
    score = float(f"{gain / spread:.6g}") if spread > 1e-9 else 0.0
    basis: dict[str, float] = {"trials": trials, "gain": gain, "score": score}
    if score > LEAST_SCORE and len(gains) >= FEWEST:
        basis |= {"fitted": True, **dict(zip(_NAMES, strengths.tolist(), strict=True))}
    return DEFAULTS.model_copy(update=basis)


def _leave_out(cells: Sequence[Uses]) -> Iterator[Floats]:
    """Yield the outcomes of cells, and :class:`Counts` of each without them."""
    task, kind, strategy = (_number(one[place] for one in cells) for place in range(3))
    table = np.array([one[3:] for one in cells], dtype=np.float64).T
    own = table[2:4]

    def by(number: NDArray[np.int64], values: Floats) -> Floats:
        return np.array([np.bincount(number, row) for row in values])

    pairs, pair = np.unique(np.stack((kind, strategy)), axis=1, return_inverse=True)
    pair = pair.reshape(-1)
    used = by(pair, table[:2])
    uses = used * SPREAD / (used[0] + SPREAD)
    typed = np.array([one.type != GENERAL for one in cells]) * 1.0
    on_type = by(pair, own)[:, pair]
    mine = typed * (on_type - own)
    others = typed * (by(pairs[0], uses)[:, kind] - uses[:, pair])
    nothing = np.zeros_like(own)
    yield table[:2]
    yield uses.sum(axis=1, keepdims=True) - by(pairs[1], uses)[:, strategy] - others
    yield others
    yield nothing
    there, tried = by(task, own)[:, task] - own, by(task, table[:1])[0, task]
    yield _without_runs(there, table, tried)
    yield nothing
    yield by(strategy, own)[:, strategy] - own - mine
    yield mine
    yield nothing
    yield np.stack((used[0, pair], on_type[0]))


def _without_runs(there: Floats, table: Floats, uses: Floats) -> Floats:
    """Return what others did on the tasks of cells, in runs that did not use their strategies.

    The strategies of one run share its outcome: with them a cell would be predicted from itself.
    """
    trials, successes, _, _, episodes, solved = table
    left = np.maximum(episodes - trials, 0.0)
    share = np.minimum(left / np.maximum(uses - trials, 1.0), 1.0)
    rate = np.clip(solved - successes, 0.0, left) / np.maximum(left, 1.0)
    n = there[0] * share
    return np.where(uses > episodes, np.stack((n, n * rate)), there)


def _number(names: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return the numbers of names, by when each came first."""
    known: dict[Hashable, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)
