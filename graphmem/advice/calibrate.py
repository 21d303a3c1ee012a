"""Calibration: replays the history and predicts each episode before counting it.

The counts are the same as those in the graph, and the formula is that of the procedure
``forecasting.pool``; a test compares the two. The strengths of pooling are fitted again each time
the replayed history has grown by a fifth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import get_args

from graphmem.advice.pooling import NEAR, Floats, blurred, fit, logistic, logit, prior_mean
from graphmem.advice.strengths import DEFAULTS, LEAST
from graphmem.arrays import NDArray, np
from graphmem.graph.arguments import check_choice
from graphmem.graph.graph import Graph
from graphmem.graph.rates import PRIOR, rates_of
from graphmem.ids import node_id
from graphmem.models.forecasts import (
    Baseline,
    BaselineName,
    Calibration,
    CalibrationBin,
    CalibrationOrder,
    PoolingStrengths,
)
from graphmem.search.edges import LINKS
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL

BINS = 10
"""Number of bins of equal width."""
GROWTH = 1.2
"""Growth factor of the history until the next fit of strengths."""
_PAGE = 2_000
_NOTHING = (0, 0)
Similar = dict[str, list[tuple[str, float]]]
"""Similar tasks or strategies, and what one of their outcomes counts for, by id."""
Progress = Callable[[int, int], None]
"""Called with the number of predicted episodes, and of all episodes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The data of an episode for predicting it; strategies are ids of their wholes."""

    key: str
    task: str
    strategies: tuple[str, ...]
    success: bool
    task_type: str | None = None
    name: str = ""
    """The key of the task."""
    uses: Sequence[Row] = ()
    """How each strategy was chosen, and failed in a success: {whole, failed, propensity, ...}."""

    def worked(self, whole: str) -> bool:
        """Return whether a strategy worked: another one may have saved the run."""
        return self.success and not any(
            use.get("failed") for use in self.uses if use["whole"] == whole
        )


@dataclass(slots=True)
class History:
    """The counts of episodes; lists are [trials, successes]."""

    similar: Similar
    """Similar tasks and strategies, and what one of their outcomes counts for."""
    total: list[int] = field(default_factory=lambda: [0, 0])
    tasks: dict[str, list[int]] = field(default_factory=dict)
    strategies: dict[str, list[int]] = field(default_factory=dict)
    cells: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """By task and strategy."""
    types: dict[str, list[int]] = field(default_factory=dict)
    typed: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    """By type of task and strategy."""
    _in_force: PoolingStrengths = DEFAULTS
    _due: float = LEAST

    def add(self, trial: Trial) -> None:
        """Count an episode."""
        kind = trial.task_type
        _count(trial.success, self.tasks.setdefault(trial.task, [0, 0]))
        for strategy in trial.strategies:
            counts = [self.total, self.strategies.setdefault(strategy, [0, 0])]
            counts.append(self.cells.setdefault((trial.task, strategy), [0, 0]))
            if kind is not None:
                counts.append(self.types.setdefault(kind, [0, 0]))
                counts.append(self.typed.setdefault((kind, strategy), [0, 0]))
            _count(trial.worked(strategy), *counts)

    @property
    def rate(self) -> float:
        """The overall rate, in (0, 1)."""
        return (self.total[1] + PRIOR[0]) / (self.total[0] + sum(PRIOR))

    def predict(self, trial: Trial, strengths: PoolingStrengths) -> float:
        """Return the probability that an episode succeeds, in (0, 1)."""
        strategies = trial.strategies or ("",)
        positions = [self.posterior(trial, strategy, strengths)[0] for strategy in strategies]
        known = (self.strategies.get(strategy, _NOTHING) for strategy in strategies)
        return _mean(positions, list(map(_weight, known)))

    def posterior(
        self, trial: Trial, strategy: str, strengths: PoolingStrengths
    ) -> tuple[float, float]:
        """Return what is expected of a strategy where an episode was: the mean, and its worth.

        The worth is over 0, in trials: what ways to choose take it for.
        """
        rate, kind, near_tasks = self.rate, trial.task_type or "", self.similar.get(trial.task, ())
        type_rate = _shrunk(self.types.get(kind, _NOTHING), rate, strengths.task)
        lent = _lent((self.tasks.get(task), weight) for task, weight in near_tasks)
        near_rate = _shrunk(lent, type_rate, strengths.task)
        tried = self.tasks.get(trial.task, _NOTHING)
        task_rate = _shrunk(tried, near_rate, strengths.task)
        here = self.cells.get((trial.task, strategy), _NOTHING)
        own = self.strategies.get(strategy, _NOTHING)
        typed = self.typed.get((kind, strategy), _NOTHING)
        others = _without(own, (max(typed[0], here[0]), max(typed[1], here[1])))
        typed = _without(typed, here)
        lenders = self.similar.get(strategy, ())
        lent = _lent((self.strategies.get(other), weight) for other, weight in lenders)
        lent_rate = _shrunk(lent, rate, strengths.strategy)
        other_rate = _shrunk(others, lent_rate, strengths.strategy)
        expected = logistic(logit(other_rate) - logit(rate) + logit(type_rate))
        strategy_rate = _shrunk(typed, expected, strengths.strategy)
        near = sum(weight for task, weight in near_tasks if task in self.tasks)
        slope, weight = strengths.task_slope, strengths.task + near
        task_blur = blurred(slope, tried[0], task_rate, weight, near_rate)
        slope, elsewhere = strengths.strategy_slope, typed[0] + others[0]
        blur = blurred(slope, elsewhere, strategy_rate, strengths.strategy, expected)
        mean = prior_mean(type_rate, task_rate, strategy_rate, strengths, task_blur + blur)
        lent = _lent((self.cells.get((task, strategy)), weight) for task, weight in near_tasks)
        spread = min(mean * (1.0 - mean), strategy_rate * (1.0 - strategy_rate))
        worth = here[0] + lent[0] + 1.0 / (spread * blur)
        return _shrunk(here, _shrunk(lent, mean, NEAR), strengths.cell), worth

    def baselines(self, trial: Trial) -> tuple[float, float, float, float]:
        """Return the rates: overall, of the task, of the strategies, of the strategies on the task.

        All but the first are shrunk toward the first, which counts as 2 trials.
        """
        rate = self.rate
        names = trial.strategies or ("",)
        known = [self.strategies.get(name, _NOTHING) for name in names]
        cells = [self.cells.get((trial.task, name), _NOTHING) for name in names]
        weights = [_weight(one) for one in known]
        return (
            rate,
            _shrunk(self.tasks.get(trial.task, _NOTHING), rate, 2.0),
            _mean([_shrunk(one, rate, 2.0) for one in known], weights),
            _mean([_shrunk(one, rate, 2.0) for one in cells], weights),
        )

    def strengths(self) -> PoolingStrengths:
        """Return the strengths fitted to these episodes."""
        numbers = {task: number for number, task in enumerate(self.tasks)}
        rows = [
            (numbers[task], *self.tasks[task], *self.strategies[strategy], *count)
            for (task, strategy), count in self.cells.items()
        ]
        return fit(rows, self.total[0], self.total[1], PRIOR)

    def strengths_then(self) -> PoolingStrengths:
        """Return the strengths in force after these episodes, which are fitted now and then."""
        if self.total[0] >= self._due:
            self._in_force, self._due = self.strengths(), self.total[0] * GROWTH
        return self._in_force


class Calibrator:
    """Measures the predictions of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def calibrate(
        self,
        by: CalibrationOrder,
        strengths: Callable[[], PoolingStrengths],
        on_progress: Progress | None,
    ) -> Calibration:
        """Predict every episode from those before it, and return the scores; then fit strengths."""
        check_choice("by", by, get_args(CalibrationOrder))
        trials = self.trials(by)
        history = History(self.similar())
        told, came = np.empty((len(trials), 5)), np.empty(len(trials))
        for place, trial in enumerate(trials):
            told[place, 0] = history.predict(trial, history.strengths_then())
            told[place, 1:], came[place] = history.baselines(trial), trial.success
            history.add(trial)
            if on_progress and (place % 500 == 499 or place + 1 == len(trials)):
                on_progress(place + 1, len(trials))
        return Calibration(
            by=by,
            episodes=len(came),
            successes=int(came.sum()),
            **scores(told[:, 0], came),
            bins=tuple(self._bins(told[:, 0], came)),
            z=self._graph.settings.z,
            baselines=tuple(
                Baseline(name=name, **scores(told[:, at], came))
                for at, name in enumerate(get_args(BaselineName), 1)
            ),
            strengths=strengths(),
        )

    # Reading

    def trials(self, by: CalibrationOrder) -> list[Trial]:
        """Return all episodes, in order."""
        known = {row["id"]: row for row in self._graph.read("calibration.ids")}
        placed = []
        for page in pages(list(known), _PAGE):
            for row in self._graph.read("calibration.episodes", ids=page):
                one = known[row["id"]]
                recorded = (one["recorded_at"], row["seq"] or 0, one["key"])
                wholes = tuple(dict.fromkeys(use["whole"] for use in row["uses"]))
                shown = {name: row[name] for name in ("task", "success", "name", "uses")}
                kind = None if row["type"] == GENERAL else row["type"]
                trial = Trial(key=one["key"], strategies=wholes, task_type=kind, **shown)
                placed.append((recorded if by == "order" else (one["at"], *recorded), trial))
        placed.sort(key=lambda pair: pair[0])
        return [trial for _, trial in placed]

    def similar(self) -> Similar:
        """Return the similar tasks and strategies from which each can borrow, by id."""
        lenders: dict[str, dict[str, float]] = {}
        embedder = node_id(self._graph.ns, "Embedder", self._graph.ns)
        for row in self._graph.read("calibration.similar", id=embedder, links=LINKS):
            one, other, weight = row["id"], row["similar"], row["weight"]
            if one != other and weight > 0.0:
                near = lenders.setdefault(one, {})
                near[other] = max(near.get(other, 0.0), float(weight))
        return {one: list(near.items()) for one, near in lenders.items()}

    def _bins(self, told: Floats, came: Floats) -> Iterator[CalibrationBin]:
        places = places_of(told)
        counts = np.bincount(places, minlength=BINS).astype(int)
        won = np.bincount(places, came, minlength=BINS).astype(int)
        sums = np.bincount(places, told, minlength=BINS)
        seen = list(zip(map(int, counts), map(int, won), strict=True))
        rates = rates_of(self._graph, seen)
        for place, (count, successes) in enumerate(seen):
            rate = rates[count, successes]
            yield CalibrationBin(
                low=place / BINS,
                high=(place + 1) / BINS,
                count=count,
                successes=successes,
                mean=float(sums[place] / count) if count else None,
                share=successes / count if count else None,
                lower=rate["lower"],
                upper=rate["upper"],
            )


def _count(won: bool, *counts: list[int]) -> None:
    for count in counts:
        count[0] += 1
        count[1] += won


def _shrunk(counts: Sequence[float], rate: float, strength: float) -> float:
    """Return the rate of trials and successes, shrunk toward a wider one."""
    return (counts[1] + strength * rate) / (counts[0] + strength)


def _without(counts: Sequence[int], part: Sequence[int]) -> tuple[int, int]:
    """Return trials and successes without a part of them; there may be more in the part."""
    trials = max(counts[0] - part[0], 0)
    return trials, min(max(counts[1] - part[1], 0), trials)


def _lent(lent: Iterable[tuple[Sequence[int] | None, float]]) -> tuple[float, float]:
    """Return the weighted sums of trials and successes of similar tasks or strategies."""
    n = k = 0.0
    for count, weight in lent:
        if count:
            n += weight * count[0]
            k += weight * count[1]
    return n, k


def places_of(told: Floats) -> NDArray[np.int64]:
    """Return the bins of probabilities; the last one includes 1."""
    edges = np.arange(1, BINS) / BINS
    return np.searchsorted(edges, told, side="right")


def scores(told: Floats, came: Floats) -> dict[str, float | None]:
    """Return Brier score (Brier 1950), log loss, AUC and expected calibration error, by name."""
    if not len(came):
        return dict.fromkeys(("brier", "log_loss", "auc", "ece"))
    gaps = np.bincount(places_of(told), told - came, minlength=BINS)
    return {
        "brier": float(((told - came) ** 2).mean()),
        "log_loss": float(-(came * np.log(told) + (1.0 - came) * np.log1p(-told)).mean()),
        "auc": _auc(told, came),
        "ece": float(np.abs(gaps).sum() / len(came)),
    }


def _auc(told: Floats, came: Floats) -> float | None:
    """Return the share of pairs of a success and a failure in the right order; ties are half."""
    won = int(came.sum())
    if not 0 < won < len(came):
        return None
    _, place, times = np.unique(told, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2.0)[place]
    rank_sum = float(ranks[came == 1.0].sum())
    return (rank_sum - won * (won + 1) / 2.0) / (won * (len(came) - won))


def _weight(counts: Sequence[int]) -> float:
    """Return the weight of a strategy among the strategies of an episode."""
    return 1.0 / (counts[0] + 1) ** 2


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean of probabilities, in logits."""
    if len(values) == 1:
        return values[0]
    total = sum(weight * logit(value) for value, weight in zip(values, weights, strict=True))
    return logistic(total / sum(weights))
