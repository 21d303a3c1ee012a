"""Calibration: replays the history and predicts each episode before counting it.

:mod:`graphmem.advice.beliefs` judges the counts, as it does those in the graph. The strengths of
pooling are fitted again each time the replayed history has grown by a fifth.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

from graphmem.advice.beliefs import (
    NOTHING,
    Lately,
    Own,
    Pair,
    Shared,
    at_most,
    effective,
    judge,
    lend,
)
from graphmem.advice.formula import Belief, Floats
from graphmem.advice.pooling import fit
from graphmem.advice.strengths import DEFAULTS, LEAST
from graphmem.arrays import NDArray, np
from graphmem.graph.arguments import Progress
from graphmem.graph.graph import Graph
from graphmem.graph.rates import LATEST, PRIOR, rates_of
from graphmem.ids import node_id
from graphmem.models.forecasts import (
    Baseline,
    BaselineName,
    Calibration,
    CalibrationBin,
    PoolingStrengths,
)
from graphmem.search.edges import LINKS
from graphmem.search.similarity import Similarity
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text import answers
from graphmem.text.task_types import GENERAL

BINS = 10  # number of bins of equal width
UNITS = 20  # so many tasks are enough to be independent units
GROWTH = 1.2  # growth factor of the history until the next fit of strengths
_PAGE = 2_000
Similar = dict[str, list[tuple[str, float]]]
"""Similar tasks or strategies, and what one of their outcomes counts for, by id."""


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
    used_at: int | None = None
    """When it ended, else began (ms); None: it has no date."""
    uses: Sequence[Row] = ()
    """How each strategy was chosen, and failed in a success: {whole, failed, propensity, ...}."""

    def worked(self, whole: str) -> bool:
        """Return whether a strategy worked: another one may have saved the run."""
        return self.success and not any(
            use.get("failed") for use in self.uses if use["whole"] == whole
        )


class Cell:
    """The outcomes of something: their counts, and the latest ones with a date."""

    __slots__ = ("latest", "successes", "trials")

    def __init__(self) -> None:
        self.trials = self.successes = 0
        self.latest: list[tuple[int, str]] = []  # stamps (time * 2 + success) and tasks, ascending

    def add(self, won: bool, used_at: int | None, task: str) -> None:
        """Count an outcome."""
        self.trials += 1
        self.successes += won
        if used_at is not None:
            insort(self.latest, (used_at * 2 + won, task))
            del self.latest[:-LATEST]

    @property
    def worth(self) -> Pair:
        """What it counts elsewhere."""
        return effective(self.trials, self.trials), effective(self.successes, self.trials)


_NONE = Cell()


@dataclass(slots=True)
class History:
    """The counts of episodes: of each task, of strategies, and of both, also by type."""

    similar: Similar
    total: Cell = field(default_factory=Cell)
    tasks: dict[str, Cell] = field(default_factory=dict)
    strategies: dict[str, Cell] = field(default_factory=dict)
    cells: dict[str, dict[str, Cell]] = field(default_factory=dict)
    """By task, then by strategy."""
    typed: dict[tuple[str, str | None], Cell] = field(default_factory=dict)
    types: dict[str, str | None] = field(default_factory=dict)
    _worths: dict[Hashable, Pair] = field(default_factory=lambda: defaultdict(lambda: NOTHING))
    """What all outcomes are worth, by type; of each strategy, by id; at tasks, by (task,)."""
    _typed: Counter[str | None] = field(default_factory=Counter)
    """How many uses of strategies there are of each type."""
    _kinds: dict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))
    _in_force: PoolingStrengths = DEFAULTS
    _due: float = LEAST

    def add(self, trial: Trial) -> None:
        """Count an episode."""
        task, kind, at = trial.task, trial.task_type, trial.used_at
        self.tasks.setdefault(task, Cell()).add(trial.success, None, task)
        self.types[task] = kind
        for strategy in trial.strategies:
            won = trial.worked(strategy)
            cell = self.cells.setdefault(task, {}).setdefault(strategy, Cell())
            typed = self.typed.setdefault((strategy, kind), Cell())
            cell_before, typed_before = cell.worth, typed.worth
            for one in (self.total, self.strategies.setdefault(strategy, Cell()), cell, typed):
                one.add(won, None if one in (self.total, typed) else at, task)
            for key in (strategy, (task,)):
                self._move(key, cell_before, cell.worth)
            for name in {None, kind}:  # None: all types, and none
                self._move(("type", name), typed_before, typed.worth)
            self._kinds[strategy].add(kind)
            self._typed[kind] += 1

    def _move(self, key: Hashable, before: Pair, after: Pair) -> None:
        """Replace a part of what outcomes are worth."""
        n, k = self._worths[key]
        self._worths[key] = n + after[0] - before[0], k + after[1] - before[1]

    @property
    def rate(self) -> float:
        """The overall rate, in (0, 1)."""
        return (self.total.successes + PRIOR[0]) / (self.total.trials + sum(PRIOR))

    def predict(self, trial: Trial, strengths: PoolingStrengths) -> float:
        """Return the probability that an episode succeeds, in (0, 1)."""
        strategies = trial.strategies or ("",)
        told = self.judge(trial, strategies, strengths).probability.tolist()
        return _mean(told, [_weight(self.strategies.get(one, _NONE)) for one in strategies])

    def judge(self, trial: Trial, strategies: Sequence[str], strengths: PoolingStrengths) -> Belief:
        """Return what is believed of strategies where an episode was."""
        task, kind = trial.task, trial.task_type
        most = {
            other: at_most(weight)
            for other, weight in self.similar.get(task, ())
            if other in self.tasks
        }
        near = [0.0] * 5
        for other, limit in most.items():
            known = self.tasks[other]
            share, part = limit / (known.trials + limit), limit / (1.0 + limit)
            n, k = known.trials, known.successes
            columns = (n, n * share, k * share, n * part, k * part)
            near = [a + b for a, b in zip(near, columns, strict=True)]
        here, known = self.cells.get(task, {}).values(), self.tasks.get(task, _NONE)
        shared = Shared(
            all_trials=self.total.trials,
            everything=self._worths["type", None],
            type_trials=self._typed.get(kind, 0) if kind is not None else 0,
            typed=self._worths["type", kind] if kind is not None else NOTHING,
            episodes=(known.trials, known.successes),
            here_raw=(sum(one.trials for one in here), sum(one.successes for one in here)),
            here=self._worths[(task,)],
            near_trials=int(near[0]),
            near=(near[1], near[2]),
            near_gone=(near[3], near[4]),
        )
        owns = [self._own(task, kind, one, most) for one in strategies]

        def lately(places: Sequence[int]) -> dict[int, list[Lately]]:
            return {place: list(self._lately(strategies[place], trial, most)) for place in places}

        return judge(shared, owns, strengths, lately).belief

    def _own(self, task: str, kind: str | None, strategy: str, most: Mapping[str, float]) -> Own:
        known = self.strategies.get(strategy, _NONE)
        typed = self.typed.get((strategy, kind), _NONE) if kind is not None else _NONE
        here = self.cells.get(task, {}).get(strategy, _NONE)
        kinds = [self.typed[strategy, one].worth for one in self._kinds.get(strategy, ())]
        near, gone, lent = [0.0] * 4, [0.0, 0.0], [0.0, 0.0]
        for other, limit in most.items():
            cell = self.cells.get(other, {}).get(strategy)
            if cell is not None:
                share, left = limit / (cell.trials + limit), limit / (1.0 + limit)
                columns = (cell.trials, cell.successes)
                near = [
                    a + b
                    for a, b in zip(near, (*columns, *(n * share for n in columns)), strict=True)
                ]
                gone = [a + b * left for a, b in zip(gone, cell.worth, strict=True)]
        for other, weight in self.similar.get(strategy, ()):
            known_other = self.strategies.get(other, _NONE)
            pair = lend(weight, known_other.trials, known_other.successes)
            lent = [a + b for a, b in zip(lent, pair, strict=True)]
        return Own(
            trials=known.trials,
            successes=known.successes,
            effective=self._worths[strategy] if known.trials else NOTHING,
            type_trials=typed.trials,
            type_successes=typed.successes,
            everything=(sum(n for n, _ in kinds), sum(k for _, k in kinds)),
            typed=typed.worth,
            here_trials=here.trials,
            here_successes=here.successes,
            here=here.worth,
            near_trials=int(near[0]),
            near=(near[2], near[3]),
            gone=(gone[0], gone[1]),
            lent=(lent[0], lent[1]),
            latest=[stamp for stamp, _ in known.latest],
            here_latest=[stamp for stamp, _ in here.latest],
        )

    def _lately(self, strategy: str, trial: Trial, most: Mapping[str, float]) -> Iterator[Lately]:
        for stamp, task in self.strategies[strategy].latest:
            all_, own = self.tasks[task], self.cells[task][strategy]
            others = (all_.trials - own.trials, all_.successes - own.successes)
            typed = trial.task_type is not None and self.types[task] == trial.task_type
            limit = None if task == trial.task else most.get(task, 0.0)
            yield Lately(stamp, task, typed, (own.trials, own.successes), others, limit)

    def baselines(self, trial: Trial) -> tuple[float, float, float, float]:
        """Return the rates: overall, of the task, of the strategies, of the strategies on the task.

        All but the first are shrunk toward the first, which counts as 2 trials.
        """
        rate = self.rate
        names = trial.strategies or ("",)
        known = [self.strategies.get(name, _NONE) for name in names]
        cells = [self.cells.get(trial.task, {}).get(name, _NONE) for name in names]
        weights = [_weight(one) for one in known]
        return (
            rate,
            _shrunk(self.tasks.get(trial.task, _NONE), rate, 2.0),
            _mean([_shrunk(one, rate, 2.0) for one in known], weights),
            _mean([_shrunk(one, rate, 2.0) for one in cells], weights),
        )

    def strengths(self) -> PoolingStrengths:
        """Return the strengths fitted to these episodes."""
        numbers = {task: number for number, task in enumerate(self.tasks)}
        rows = [
            (
                numbers[task],
                *self._worths[(task,)],
                *self._worths[strategy],
                *(self.strategies[strategy].trials, self.strategies[strategy].successes),
                *(cell.trials, cell.successes),
            )
            for task, cells in self.cells.items()
            for strategy, cell in cells.items()
        ]
        return fit(rows, self.total.trials, self._worths["type", None])

    def strengths_then(self) -> PoolingStrengths:
        """Return the strengths in force after these episodes, which are fitted now and then."""
        if self.total.trials >= self._due:
            self._in_force, self._due = self.strengths(), self.total.trials * GROWTH
        return self._in_force


class Calibrator:
    """Measures the predictions of one namespace."""

    def __init__(self, graph: Graph, near: Similarity | None = None) -> None:
        self._graph = graph
        self._near = near  # finds near tasks; None: they are those to which the graph has links

    def calibrate(
        self, strengths: Callable[[], PoolingStrengths], on_progress: Progress | None
    ) -> Calibration:
        """Predict every episode from those before it, and return the scores; then fit strengths."""
        trials = self.trials()
        history = History(self.similar())
        told, came = np.empty((len(trials), 5)), np.empty(len(trials))
        for place, trial in enumerate(self.replayed(trials, history)):
            told[place, 0] = history.predict(trial, history.strengths_then())
            told[place, 1:], came[place] = history.baselines(trial), trial.success
            history.add(trial)
            if on_progress and (place % 500 == 499 or place + 1 == len(trials)):
                on_progress(place + 1, len(trials))
        baselines = tuple(
            Baseline(
                name=name,
                **scores(told[:, at], came),
                **_gain(told[:, 0], told[:, at], came, [trial.task for trial in trials]),
            )
            for at, name in enumerate(get_args(BaselineName), 1)
        )
        brier = scores(told[:, 0], came)["brier"]
        return Calibration(
            verdict=answers.verdict(len(came), brier, baselines),
            episodes=len(came),
            successes=int(came.sum()),
            **scores(told[:, 0], came),
            bins=tuple(self._bins(told[:, 0], came)),
            z=self._graph.settings.z,
            baselines=baselines,
            strengths=strengths(),
        )

    # Reading

    def replayed(self, trials: Sequence[Trial], history: History) -> Iterator[Trial]:
        """Yield episodes, each after the history knows what was near its task then."""
        tasks = [trial.task for trial in trials]
        found = self._near.near_before(tasks) if self._near is not None else None
        if found is None:
            yield from trials
            return
        for trial, near in zip(trials, found, strict=True):
            history.similar[trial.task] = near
            yield trial
            del history.similar[trial.task]

    def trials(self) -> list[Trial]:
        """Return all episodes, in the order of recording."""
        known = {row["id"]: row for row in self._graph.read("calibration.ids")}
        placed = []
        for page in pages(list(known), _PAGE):
            for row in self._graph.read("calibration.episodes", ids=page):
                one = known[row["id"]]
                recorded = (one["recorded_at"], row["seq"] or 0, one["key"])
                wholes = tuple(dict.fromkeys(use["whole"] for use in row["uses"]))
                shown = {name: row[name] for name in ("task", "success", "name", "uses")}
                kind = None if row["type"] == GENERAL else row["type"]
                dated = {"key": one["key"], "used_at": one["used_at"]}
                trial = Trial(strategies=wholes, task_type=kind, **dated, **shown)
                placed.append((recorded, trial))
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


def _shrunk(cell: Cell, rate: float, strength: float) -> float:
    return (cell.successes + strength * rate) / (cell.trials + strength)


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


def _gain(
    told: Floats, simple: Floats, came: Floats, tasks: Sequence[str]
) -> dict[str, float | None]:
    """Return how much lower the Brier score is than that of a simple predictor, and its error.

    The error is that of the paired differences. Those on one task are alike, so the tasks are the
    independent units if there are enough.
    """
    if len(came) < 2:
        return {"gain": None, "gain_error": None}
    better = (simple - came) ** 2 - (told - came) ** 2
    gain = float(better.mean())
    _, units = np.unique(tasks, return_inverse=True)
    if (count := int(units.max()) + 1) < UNITS:
        units, count = np.arange(len(came)), len(came)
    sums = np.bincount(units, better - gain)
    error = math.sqrt(count / (count - 1) * float((sums**2).sum())) / len(came)
    return {"gain": gain, "gain_error": error}


def _auc(told: Floats, came: Floats) -> float | None:
    """Return the share of pairs of a success and a failure in the right order; ties are half."""
    won = int(came.sum())
    if not 0 < won < len(came):
        return None
    _, place, times = np.unique(told, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2.0)[place]
    rank_sum = float(ranks[came == 1.0].sum())
    return (rank_sum - won * (won + 1) / 2.0) / (won * (len(came) - won))


def _weight(cell: Cell) -> float:
    return 1.0 / (cell.trials + 1) ** 2


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]
    total = sum(w * math.log(p / (1.0 - p)) for p, w in zip(values, weights, strict=True))
    return 1.0 / (1.0 + math.exp(-total / sum(weights)))
