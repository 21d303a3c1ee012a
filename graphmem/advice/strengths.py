"""The strengths of pooling of a namespace: fitted to its history, and kept in the graph.

They are on a node ``Pooling``, with the number of trials that they were fitted to
(:mod:`graphmem.advice.pooling`). When that has changed by a tenth, they are fitted again.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pydantic

from graphmem.errors import StoreError
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.rates import PRIOR
from graphmem.ids import node_id
from graphmem.models import Difference
from graphmem.models.forecasts import PoolingStrengths
from graphmem.store.paging import pages
from graphmem.store.port import Row

if TYPE_CHECKING:
    from graphmem.advice.pooling import Cells, Fitted

MAX_CELLS = 200_000
"""Most entries for fitting; a larger history is sampled by the keys of tasks."""
_PAGE = 1_000

_log = logging.getLogger(__name__)


class Strengths:
    """Fits and keeps the strengths of pooling of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.id = node_id(graph.ns, "Pooling")
        self._unsaved: PoolingStrengths | None = None

    @property
    def prior(self) -> tuple[float, float]:
        """Successes and failures of the Beta prior of the overall rate."""
        return PRIOR

    def refit(self) -> PoolingStrengths:
        """Fit the strengths to the whole history now, store them, and return them.

        If another process writes the memory, only this process keeps them.
        """
        fitted = self._fit()
        stored = self._stored()
        if not (fitted.trials or stored) or (stored and fitted == _strengths(stored)):
            return fitted
        if self._graph.store.writing or self._graph.store.try_writing():
            self._keep(fitted)
        else:
            self._unsaved = fitted
        return fitted

    def verify(self, checked: Counter[str]) -> Iterator[Difference]:
        """Compare the stored strengths with fitted ones; yield differences, and count the checked.

        If the history has grown since, they are not compared: they stay in force for a while.
        """
        stored = self._stored()
        if stored is None:
            return
        trials = self._graph.read("forecasting.totals")[0]["trials"]
        if isinstance(stored["trials"], int) and stored["trials"] != trials:
            checked.update(pooling=0)
            return
        checked.update(pooling=1)
        for name, value in _row(self._fit()).items():
            if not _close(stored[name], value):
                yield Difference(
                    kind="pooling", key=self.id, field=name, stored=stored[name], expected=value
                )

    def _stored(self) -> Row | None:
        return next(iter(self._graph.read("forecasting.pooling", ids=[self.id])), None)

    def in_force(self, trials: int, stored: Row | None) -> PoolingStrengths:
        """Return the strengths in force; fit them if the trials changed by a tenth.

        ``stored`` is what the graph holds of them. They are stored now if this process has the
        lease, else after its next write.
        """
        for known in (_strengths(stored) if stored else None, self._unsaved):
            if known is not None and abs(trials - known.trials) * 10 <= known.trials:
                return known
        fitted = self._fit()
        if fitted.trials and self._graph.store.writing:
            self._keep(fitted)
        elif fitted.trials:
            self._unsaved = fitted
            if self._keep_unsaved not in self._graph.after_write:
                self._graph.after_write.append(self._keep_unsaved)
        return fitted

    def _keep_unsaved(self) -> None:
        if self._unsaved is not None:
            self._keep(self._unsaved)

    def _keep(self, strengths: PoolingStrengths) -> None:
        self._unsaved = strengths

        def work(tx: Transaction) -> None:
            tx.run("forecasting.drop_pooling")
            if strengths.trials:
                tx.run("forecasting.put_pooling", id=self.id, strengths=_row(strengths))

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
        cells = self._cells()
        if not len(cells.group):  # all tasks are lost
            return undecided()
        fitted = pooling.fit(cells, totals["trials"], totals["successes"], self.prior)
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


def _strengths(row: Row) -> PoolingStrengths | None:
    """Return strengths from their row, or None if they are of a wrong type."""
    names = ("task_slope", "strategy_slope", "fitted", "trials", "gain", "score")
    values = {
        **{name: row[f"{name}_strength"] for name in ("task", "strategy", "cell")},
        **{name: row[name] for name in names},
    }
    try:
        return PoolingStrengths.model_validate(values, strict=True)
    except pydantic.ValidationError:
        return None


def _row(strengths: PoolingStrengths) -> Row:
    names = ("trials", "gain", "score", "fitted")
    return {**parameters(strengths), **{name: getattr(strengths, name) for name in names}}


def _close(stored: object, value: float) -> bool:
    """Return whether a stored number is the fitted one, as far as a fit is exact."""
    return isinstance(stored, int | float) and math.isclose(
        stored, value, rel_tol=1e-4, abs_tol=1e-9
    )


def parameters(strengths: PoolingStrengths) -> dict[str, float]:
    """Return strengths as parameters of ``forecasting.pool``."""
    return {
        "task_strength": strengths.task,
        "strategy_strength": strengths.strategy,
        "cell_strength": strengths.cell,
        "task_slope": strengths.task_slope,
        "strategy_slope": strengths.strategy_slope,
    }
