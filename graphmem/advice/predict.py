"""Predicts the outcome of strategies on a task, by partial pooling.

The counts come from the graph and ``forecasting.pool`` computes the probability from them; the
strengths of pooling are fitted to the history (:mod:`graphmem.advice.pooling`) and stored on a node
``Pooling``, with the number of trials in the fit. They are fitted again when the number of trials
has changed by a tenth.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from graphmem.errors import StoreError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import checked_text
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import task_ids
from graphmem.ids import node_id, strategy_id
from graphmem.models import Difference
from graphmem.models.fields import MAX_STRATEGIES
from graphmem.models.forecasts import (
    Borrowed,
    Calibration,
    CalibrationOrder,
    OutcomePrediction,
    PoolingStrengths,
    PredictionBasis,
    StrategyBasis,
    TaskBasis,
)
from graphmem.store.paging import pages
from graphmem.store.port import Row

if TYPE_CHECKING:
    from graphmem.advice.pooling import Cells, Fitted

Progress = Callable[[int, int], None]
"""Called with the number of predicted episodes, and of all episodes."""
Near = Callable[[str, str, View], Sequence[tuple[str, float]]]
"""Finds nodes of a label (``Task``, ``Strategy``) similar to a text in a view: their ids, and
similarities in [-1, 1]."""
MAX_CELLS = 200_000
"""Most entries for fitting; a larger history is sampled by the keys of tasks."""
_PAGE = 1_000

_log = logging.getLogger(__name__)


Filters = Mapping[str, Any]
"""Whose episodes count (``agents``), and the ``types`` of tasks that do; None: all."""


class Forecaster:
    """Predicts outcomes in one namespace, and fits the strengths of pooling."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._settings = graph.settings
        self._id = node_id(graph.ns, "Pooling")
        self._unsaved: PoolingStrengths | None = None

    @property
    def prior(self) -> tuple[float, float]:
        """Successes and failures of the Beta prior of the overall rate."""
        return self._settings.prior_successes, self._settings.prior_failures

    def predict(
        self, task: str, strategy: str | Sequence[str], agent: str | None, near: Near | None = None
    ) -> OutcomePrediction:
        """Return the probability that a strategy, or several together, work on a task.

        ``near`` finds nodes similar to an unknown task or strategy.

        Raises:
            ValidationError: an argument is wrong.
        """
        text = _named("task", task)
        texts = _strategies(strategy)
        view = read_view(self._graph, agent)
        seen = view.filters(self._graph)
        if view.agents is None:
            totals = self._graph.read("forecasting.totals")[0]
            strengths = self._in_force(totals["trials"])
        else:  # strengths are fitted to the outcomes of all agents
            totals = self._graph.read("forecasting.totals_of", **seen)[0]
            strengths = undecided()
        own, tried = self._task(text, seen, view)
        borrowed = [] if tried["trials"] else self._near_tasks(text, own, near, seen, view)
        rows = self._strategies(texts, own, near, seen, view)
        answer = self._graph.read(
            "forecasting.pool",
            trials=totals["trials"],
            successes=totals["successes"],
            task_trials=tried["trials"],
            task_successes=tried["successes"],
            task_borrowed=[_weighed(one) for one in borrowed],
            rows=[
                {**_counts(row), "place": place, "borrowed": list(map(_weighed, row["near"]))}
                for place, row in enumerate(rows)
            ],
            **_parameters(strengths),
        )[0]
        parts = answer["parts"]
        weights = sum(part["weight"] for part in parts)
        basis = PredictionBasis(
            trials=totals["trials"],
            successes=totals["successes"],
            rate=parts[0]["rate"],
            task=TaskBasis(
                text=text,
                known=bool(own),
                trials=tried["trials"],
                successes=tried["successes"],
                rate=parts[0]["task_rate"],
                borrowed=tuple(borrowed),
            ),
            strategies=tuple(
                StrategyBasis(
                    text=row["text"],
                    known=row["known"],
                    trials=row["trials"],
                    successes=row["successes"],
                    rate=part["strategy_rate"],
                    here_trials=row["cell_trials"],
                    here_successes=row["cell_successes"],
                    prior=part["prior"],
                    probability=part["probability"],
                    weight=part["weight"] / weights,
                    borrowed=tuple(row["near"]),
                )
                for row, part in zip(rows, parts, strict=True)
            ),
            strengths=strengths,
            agents=seen["agents"],
        )
        from graphmem.advice.pooling import interval

        low, high = interval(answer["probability"], answer["concentration"])
        return OutcomePrediction(
            probability=answer["probability"],
            low=low,
            high=high,
            trials=min(row["cell_trials"] for row in rows),
            basis=basis,
        )

    def calibrate(
        self, by: CalibrationOrder, folds: int | None, on_progress: Progress | None
    ) -> Calibration:
        """Return how well past outcomes are predicted, and fit the strengths to the history."""
        from graphmem.advice.calibrate import Calibrator

        calibrator = Calibrator(self._graph)
        calibration = calibrator.calibrate(by, folds, on_progress)
        return calibration.model_copy(update={"strengths": self.refit()})

    # Counts

    def _task(self, text: str, seen: Filters, view: View) -> tuple[list[str], Row]:
        """Return the ids of a task, by key, id or description, and their common counts."""
        own = task_ids(self._graph, text, view)
        counted = self._graph.read("forecasting.tasks", ids=own, **seen) if own else []
        return own, {
            "trials": sum(row["trials"] for row in counted),
            "successes": sum(row["successes"] for row in counted),
        }

    def _near_tasks(
        self, text: str, own: list[str], near: Near | None, seen: Filters, view: View
    ) -> list[Borrowed]:
        """Return the tasks from which a task without trials borrows, and their counts."""
        similar: dict[str, float] = {}
        if own:
            rows = self._graph.read("forecasting.similar_tasks", ids=own)
            similar = _nearest(((row["similar"], row["similarity"]) for row in rows), own)
        elif near is not None:
            similar = _nearest(near("Task", text, view), own)
        if not similar:
            return []
        rows = self._graph.read("forecasting.tasks", ids=sorted(similar), **seen)
        if view.agents is not None:
            texts = view.tasks(self._graph, sorted(similar))
            rows = [{**row, "text": texts[row["id"]]["text"]} for row in rows if row["id"] in texts]
        return _borrowed(rows, similar)

    def _strategies(
        self, texts: list[str], tasks: list[str], near: Near | None, seen: Filters, view: View
    ) -> list[Row]:
        """Return the counts of strategies over all tasks and on given ones, in order."""
        ns = self._graph.ns
        named = {text: strategy_id(ns, text) for text in texts}
        rows = {
            row["id"]: row
            for row in self._tried({*texts, *named.values()}, seen)
            if view.agents is None or row["trials"]
        }
        known = {text: rows.get(named[text], rows.get(text)) for text in texts}
        wholes = sorted({row["whole"] for row in known.values() if row})
        here: dict[str, Row] = {}
        if wholes and tasks:
            cells = self._graph.read(
                "forecasting.outcomes", tasks=tasks, ids=wholes, agents=view.agents
            )
            here = {row["whole"]: row for row in cells}
        answer = []
        counted = set()
        for text, row in known.items():
            if row is not None and row["whole"] in counted:
                continue  # it is merged with another given one
            cell: Mapping[str, Any] = {}
            if row is not None:
                counted.add(row["whole"])
                cell = here.get(row["whole"], {})
            trials = row["trials"] if row else 0
            answer.append(
                {
                    "text": row["text"] if row else text,
                    "known": row is not None,
                    "trials": trials,
                    "successes": row["successes"] if row else 0,
                    "cell_trials": cell.get("trials", 0),
                    "cell_successes": cell.get("successes", 0),
                    "near": [] if trials else self._near_strategies(text, row, near, seen, view),
                }
            )
        return answer

    def _tried(self, ids: Iterable[str], seen: Filters) -> list[Row]:
        """Return the readable counts of strategies."""
        rows = self._graph.read("forecasting.strategies", ids=sorted(ids))
        if seen["agents"] is None or not rows:
            return rows
        members = {row["whole"]: row["members"] for row in rows}
        wholes = [{"whole": key, "members": members[key]} for key in sorted(members)]
        counted = self._graph.read("forecasting.strategies_of", rows=wholes, **seen)
        counts = {row["whole"]: row for row in counted}
        nothing = {"trials": 0, "successes": 0}
        return [{**row, **_pick(counts.get(row["whole"], nothing))} for row in rows]

    def _near_strategies(
        self, text: str, row: Row | None, near: Near | None, seen: Filters, view: View
    ) -> list[Borrowed]:
        """Return the strategies from which a strategy without trials borrows, and their counts."""
        similar: dict[str, float] = {}
        if row is not None:
            own = row["members"]
            links = self._graph.read("forecasting.similar_strategies", ids=sorted(own))
            similar = _nearest(((link["similar"], link["similarity"]) for link in links), own)
        elif near is not None:
            similar = _nearest(near("Strategy", text, view), [])
        rows = self._tried(similar, seen) if similar else []
        once = {one["whole"]: one for one in sorted(rows, key=lambda one: similar[one["id"]])}
        return _borrowed(once.values(), similar)

    # Strengths

    def refit(self) -> PoolingStrengths:
        """Fit the strengths to the whole history now, store them, and return them.

        If another process writes the memory, they are only kept in this process.
        """
        fitted = self._fit()
        stored = self._stored()
        if fitted == stored or not (fitted.trials or stored):
            return fitted
        if self._graph.store.writing or self._graph.store.try_writing():
            self._keep(fitted)
        else:
            self._unsaved = fitted
        return fitted

    def verify(self) -> tuple[list[Difference], dict[str, int]]:
        """Compare the stored strengths with fitted ones; also return the number checked.

        If the history has grown since, they are not compared: they stay in force for a while.
        """
        stored = self._stored()
        if stored is None:
            return [], {}
        trials = self._graph.read("forecasting.totals")[0]["trials"]
        if stored.trials != trials:
            return [], {"pooling": 0}
        fitted = self._fit().model_dump()
        differences = [
            Difference(
                kind="pooling", key=self._id, field=name, stored=value, expected=fitted[name]
            )
            for name, value in stored.model_dump().items()
            if not math.isclose(value, fitted[name], rel_tol=1e-4, abs_tol=1e-9)
        ]
        return differences, {"pooling": 1}

    def _stored(self) -> PoolingStrengths | None:
        rows = self._graph.read("forecasting.pooling", ids=[self._id])
        return _strengths(rows[0]) if rows else None

    def _in_force(self, trials: int) -> PoolingStrengths:
        """Return the strengths in force; fit them if the trials changed by a tenth.

        They are stored only if that needs no lock, so that a reader does not block writers.
        """
        for known in (self._stored(), self._unsaved):
            if known is not None and abs(trials - known.trials) * 10 <= known.trials:
                return known
        fitted = self._fit()
        if fitted.trials and self._graph.store.writing:
            self._keep(fitted)
        elif fitted.trials:
            self._unsaved = fitted
        return fitted

    def _keep(self, strengths: PoolingStrengths) -> None:
        self._unsaved = strengths
        names = ("trials", "gain", "score", "fitted")
        row = {**_parameters(strengths), **{name: getattr(strengths, name) for name in names}}

        def work(tx: Transaction) -> None:
            tx.run("forecasting.drop_pooling")
            if strengths.trials:
                tx.run("forecasting.put_pooling", id=self._id, strengths=row)

        try:
            self._graph.transact(work)
        except StoreError as error:  # the prediction is still valid, and storing can be retried
            _log.info("strengths of pooling were not stored: %s", error)
            return
        self._unsaved = None

    def _fit(self) -> PoolingStrengths:
        from graphmem.advice import pooling

        totals = self._graph.read("forecasting.totals")[0]
        if totals["trials"] < pooling.LEAST:
            return undecided()
        fitted = pooling.fit(self._cells(), totals["trials"], totals["successes"], self.prior)
        return described(fitted, totals["trials"])

    def _cells(self) -> Cells:
        """Read the data for fitting strengths."""
        wholes = {
            row["whole"]: (row["trials"], row["successes"])
            for row in self._graph.read("forecasting.wholes")
        }
        tasks = self._graph.read("forecasting.task_keys")
        tasks.sort(key=lambda row: (hashlib.sha256(row["key"].encode()).digest(), row["id"]))
        cells: list[tuple[int, ...]] = []
        numbers = {row["id"]: number for number, row in enumerate(tasks)}
        for ids in pages(list(numbers), _PAGE):
            cells += [
                (
                    *(numbers[row["task"]], row["task_trials"], row["task_successes"]),
                    *wholes.get(row["whole"], (row["trials"], row["successes"])),
                    *(row["trials"], row["successes"]),
                )
                for row in self._graph.read("forecasting.cells", ids=ids)
            ]
            if len(cells) >= MAX_CELLS:
                break
        return cells_of(cells)


def cells_of(rows: Sequence[tuple[int, ...]]) -> Cells:
    """Return counts as arrays: (task, its trials, successes, the strategy's, the cell's)."""
    from graphmem.advice.pooling import Cells
    from graphmem.arrays import np

    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    group = table[:, 0].astype(np.int64)
    return Cells(group, *(np.ascontiguousarray(table[:, at]) for at in range(1, 7)))


def described(fitted: Fitted, trials: int) -> PoolingStrengths:
    """Return the strengths in force: those fitted to ``trials`` trials if accepted."""
    from graphmem.advice.pooling import DEFAULTS

    values = fitted.strengths if fitted.accepted else DEFAULTS
    return PoolingStrengths(
        task=values.task,
        strategy=values.strategy,
        cell=values.cell,
        task_slope=values.task_slope,
        strategy_slope=values.strategy_slope,
        fitted=fitted.accepted,
        trials=trials,
        gain=fitted.gain,
        score=fitted.score,
    )


def undecided() -> PoolingStrengths:
    """Return the defaults, for a history that is too short for fitting."""
    from graphmem.advice.pooling import DEFAULTS, Fitted

    return described(Fitted(DEFAULTS, 0.0, 0.0, accepted=False), 0)


def _strengths(row: Row) -> PoolingStrengths:
    return PoolingStrengths(
        task=row["task_strength"],
        strategy=row["strategy_strength"],
        cell=row["cell_strength"],
        **{
            name: row[name]
            for name in ("task_slope", "strategy_slope", "fitted", "trials", "gain", "score")
        },
    )


def _parameters(strengths: PoolingStrengths) -> dict[str, float]:
    return {
        "task_strength": strengths.task,
        "strategy_strength": strengths.strategy,
        "cell_strength": strengths.cell,
        "task_slope": strengths.task_slope,
        "strategy_slope": strengths.strategy_slope,
    }


def _named(name: str, value: object) -> str:
    text = checked_text(name, value)  # type: ignore[arg-type]
    if not text:
        raise ValidationError(name, value, "is empty", "name it by its text, key or id")
    return text


def _strategies(given: object) -> list[str]:
    several = [given] if isinstance(given, str) else given
    if not isinstance(several, Sequence) or not 0 < len(several) <= MAX_STRATEGIES:
        raise ValidationError(
            "strategy", given, f"must be a text, or a list of 1 to {MAX_STRATEGIES} texts"
        )
    return list(dict.fromkeys(_named("strategy", one) for one in several))


def _nearest(pairs: Iterable[tuple[str, float]], own: Iterable[str]) -> dict[str, float]:
    """Return the similarities of others by id, without those that are not positive."""
    mine = set(own)
    similar: dict[str, float] = {}
    for identity, similarity in pairs:
        if identity not in mine and similarity > 0.0:
            similar[identity] = max(similar.get(identity, 0.0), min(float(similarity), 1.0))
    return similar


def _borrowed(rows: Iterable[Row], similarity: Mapping[str, float]) -> list[Borrowed]:
    lent = [
        Borrowed(
            id=row["id"],
            text=row["text"],
            similarity=similarity[row["id"]],
            trials=row["trials"],
            successes=row["successes"],
        )
        for row in rows
        if row["trials"]
    ]
    return sorted(lent, key=lambda one: (-one.similarity, one.text, one.id))


def _weighed(one: Borrowed) -> dict[str, float]:
    return {"similarity": one.similarity, "trials": one.trials, "successes": one.successes}


def _pick(row: Mapping[str, Any]) -> dict[str, int]:
    return {"trials": row["trials"], "successes": row["successes"]}


def _counts(row: Row) -> dict[str, int]:
    names = ("trials", "successes", "cell_trials", "cell_successes")
    return {name: row[name] for name in names}
