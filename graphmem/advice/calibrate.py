"""Calibration: replays the history and predicts each episode before counting it.

:mod:`graphmem.advice.beliefs` judges the counts, as it does those in the graph. The strengths of
pooling are fitted again each time the replayed history has grown by a fifth.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from graphmem.advice.beliefs import (
    CLOSEST,
    Lately,
    Shared,
    Tally,
    effective,
    judge,
    lend,
    plus,
    weigh_near,
)
from graphmem.advice.estimate import combine_rates
from graphmem.advice.formula import DEFAULTS, LEAST, MAX_CELLS, Belief, Floats, Uses, fit_strengths
from graphmem.graph.arguments import Progress
from graphmem.graph.estimate import (
    LATEST,
    NOTHING,
    Estimate,
    NearCell,
    mean_of,
    rates_of,
    weight_of,
)
from graphmem.graph.graph import Graph
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


@dataclass(slots=True)
class Cell(Tally):
    """The outcomes of something, with the latest ones that have a date."""

    latest: list[tuple[int, str]] = field(default_factory=list)
    """Stamps (time * 2 + success) and tasks, ascending."""

    def add(self, won: bool, used_at: int | None = None, task: str = "") -> None:
        """Count an outcome."""
        self.trials += 1
        self.successes += won
        if used_at is not None:
            insort(self.latest, (used_at * 2 + won, task))
            del self.latest[:-LATEST]


_NONE = Cell()


@dataclass(slots=True)
class History:
    """The counts of episodes: of each task, of strategies, and of both, also by type."""

    similar: Similar
    tasks: dict[str, Cell] = field(default_factory=lambda: defaultdict(Cell))
    """The episodes of each task."""
    cells: dict[tuple[str | None, ...], Cell] = field(default_factory=lambda: defaultdict(Cell))
    """The uses of strategies, by task and strategy, and by ``type``, type and strategy; and their
    sums: all, by task, by strategy, by ``type`` and type, and by ``types`` and strategy."""
    types: dict[str | None, str | None] = field(default_factory=dict)
    _in_force: PoolingStrengths = DEFAULTS
    _due: float = LEAST

    def add(self, trial: Trial) -> None:
        """Count an episode."""
        task, kind, at = trial.task, trial.task_type or GENERAL, trial.used_at
        self.tasks[task].add(trial.success)
        self.types[task] = kind
        for strategy in trial.strategies:
            won = trial.worked(strategy)
            everywhere, typed = self.cells[()], self.cells["type", kind]
            there, used = self.cells[task,], self.cells[strategy,]
            for one in (everywhere, typed, there):
                one.add(won)
            used.add(won, at, task)
            self.cells[task, strategy].add(won, at, task)
            self.cells["type", kind, strategy].add(won)
            self._weigh(self.cells[task, strategy], there, used)
            kinds = self.cells["types", strategy]
            self._weigh(self.cells["type", kind, strategy], everywhere, typed, kinds)

    def _weigh(self, cell: Cell, *sums: Cell) -> None:
        """Weigh the outcomes of a cell again, also in sums of cells."""
        before = cell.worth
        cell.worth = effective(cell.trials, cell.successes)
        for one in sums:
            one.worth = plus(one.worth, cell.worth[0] - before[0], cell.worth[1] - before[1])

    def _at(self, *key: str | None) -> Cell:
        return self.cells.get(key, _NONE)

    def predict(self, trial: Trial, strengths: PoolingStrengths) -> float:
        """Return the probability that an episode succeeds, in (0, 1)."""
        strategies = trial.strategies or ("",)
        told = self.judge(trial, strategies, strengths).probability.tolist()
        return combine_rates(told, [weight_of(self._at(one).trials) for one in strategies])

    def judge(self, trial: Trial, strategies: Sequence[str], strengths: PoolingStrengths) -> Belief:
        """Return what is believed of strategies where an episode was."""
        task, kind = trial.task, trial.task_type
        weights = {
            other: min(weight, CLOSEST)
            for other, weight in self.similar.get(task, ())
            if other in self.tasks
        }
        tasks = ((self.tasks[other], weight) for other, weight in weights.items())
        near = weigh_near(NearCell(one.trials, one.successes, weight) for one, weight in tasks)
        wide = self._at(), self._at("type", kind)
        shared = Shared(*wide, self.tasks.get(task, _NONE), self._at(task), near)
        owns = [self._own(task, kind, one, weights) for one in strategies]

        def lately(places: Sequence[int]) -> dict[int, list[Lately]]:
            return {
                place: list(self._lately(strategies[place], trial, weights)) for place in places
            }

        return judge(shared, owns, strengths, lately).belief

    def _own(
        self, task: str, kind: str | None, strategy: str, weights: Mapping[str, float]
    ) -> Estimate:
        known, typed = self._at(strategy), self._at("type", kind, strategy)
        here = self._at(task, strategy)
        near = ((self.cells.get((other, strategy)), weight) for other, weight in weights.items())
        cells = [
            NearCell(one.trials, one.successes, weight, [stamp for stamp, _ in one.latest])
            for one, weight in near
            if one
        ]
        around_trials, around, gone, _ = weigh_near(cells)
        lent = NOTHING
        for other, weight in self.similar.get(strategy, ()):
            lent = plus(lent, *lend(weight, self._at(other).trials, self._at(other).successes))
        return Estimate(
            trials=known.trials,
            successes=known.successes,
            effective=known.worth,
            type_trials=typed.trials,
            type_successes=typed.successes,
            everything=self._at("types", strategy).worth,
            typed=typed.worth,
            here_trials=here.trials,
            here_successes=here.successes,
            here=here.worth,
            around_trials=around_trials,
            around=around,
            cells=cells,
            gone=gone,
            lent=lent,
            latest=[stamp for stamp, _ in known.latest],
            here_latest=[stamp for stamp, _ in here.latest],
        )

    def _lately(
        self, strategy: str, trial: Trial, weights: Mapping[str, float]
    ) -> Iterator[Lately]:
        for stamp, task in self._at(strategy).latest:
            all_, own = self.tasks[task], self.cells[task, strategy]
            others = (all_.trials - own.trials, all_.successes - own.successes)
            typed = trial.task_type is not None and self.types[task] == trial.task_type
            weight = None if task == trial.task else weights.get(task, 0.0)
            yield Lately(stamp, task, typed, (own.trials, own.successes), others, weight)

    def baselines(self, trial: Trial) -> tuple[float, float, float, float]:
        """Return the rates: overall, of the task, of the strategies, of the strategies on the task.

        All but the first are shrunk toward the first, which counts as 2 trials.
        """
        rate, names = mean_of(self._at().successes, self._at().trials), trial.strategies or ("",)
        weights = [weight_of(self._at(name).trials) for name in names]
        task = self.tasks.get(trial.task, _NONE)
        alone = [_shrunk(self._at(name), rate) for name in names]
        there = [_shrunk(self._at(trial.task, name), rate) for name in names]
        both = combine_rates(alone, weights), combine_rates(there, weights)
        return rate, _shrunk(task, rate), *both

    def strengths(self) -> PoolingStrengths:
        """Return the strengths fitted to these episodes."""
        uses = []
        for key, one in self.cells.items():
            if len(key) == 2 and (task := self.tasks.get(key[0] or "")):
                counts = (one.trials, one.successes, *one.worth, task.trials, task.successes)
                uses.append(Uses(key[0], self.types[key[0]], key[1], *counts))
        return fit_strengths(uses[-MAX_CELLS:], self._at().trials)

    def strengths_then(self) -> PoolingStrengths:
        """Return the strengths in force after these episodes, which are fitted now and then."""
        if self._at().trials >= self._due:
            self._in_force, self._due = self.strengths(), self._at().trials * GROWTH
        return self._in_force


class Calibrator:
    """Measures the predictions of one namespace."""

    def __init__(self, graph: Graph, near: Similarity) -> None:
        self._graph = graph
        self._near = near  # finds near tasks

    def calibrate(
        self, strengths: Callable[[], PoolingStrengths], on_progress: Progress | None
    ) -> Calibration:
        """Predict every episode from those before it, and return the scores; then fit strengths."""
        trials = self.trials()
        history = History(self.similar())
        told, came = np.empty((len(trials), 5)), np.empty(len(trials))
        for place, trial in enumerate(self.replay(trials, history, on_progress)):
            told[place, 0] = history.predict(trial, history.strengths_then())
            told[place, 1:], came[place] = history.baselines(trial), trial.success
        baselines = tuple(
            Baseline(
                name=name,
                **scores(told[:, at], came),
                **_gain(told[:, 0], told[:, at], came, [trial.task for trial in trials]),
            )
            for at, name in enumerate(get_args(BaselineName), 1)
        )
        own = scores(told[:, 0], came)
        return Calibration(
            verdict=answers.verdict(len(came), own["brier"], baselines),
            episodes=len(came),
            successes=int(came.sum()),
            **own,
            bins=tuple(self._bins(told[:, 0], came)),
            z=self._graph.settings.z,
            baselines=baselines,
            strengths=strengths(),
        )

    # Reading

    def replay(
        self, trials: Sequence[Trial], history: History, on_progress: Progress | None
    ) -> Iterator[Trial]:
        """Yield episodes, and then add them to the history; it knows what was near a task then."""
        found = self._near.near_before([trial.task for trial in trials])
        for place, trial in enumerate(trials, 1):
            if found is not None:
                history.similar[trial.task] = next(found)
            yield trial
            if found is not None:
                del history.similar[trial.task]
            history.add(trial)
            if on_progress and (place % 500 == 0 or place == len(trials)):
                on_progress(place, len(trials))

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
                trial = Trial(strategies=wholes, task_type=kind, used_at=one["used_at"], **shown)
                placed.append((recorded, trial))
        placed.sort(key=lambda pair: pair[0])
        return [trial for _, trial in placed]

    def similar(self) -> Similar:
        """Return the similar tasks and strategies from which each can borrow, by id."""
        embedder = node_id(self._graph.ns, "Embedder", self._graph.ns)
        rows = self._graph.read("calibration.similar", id=embedder, links=LINKS)
        return {row["id"]: row["similar"] for row in rows}

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


def _shrunk(cell: Cell, rate: float) -> float:
    return (cell.successes + 2.0 * rate) / (cell.trials + 2.0)


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
