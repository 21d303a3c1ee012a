"""The strengths of pooling of a namespace, fitted to its history, on a node ``Pooling``.

When the number of trials has changed by a tenth, they are fitted again.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pydantic

from graphmem.errors import StoreError
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import node_id
from graphmem.models.forecasts import PoolingStrengths
from graphmem.models.reports import Difference
from graphmem.store.paging import pages
from graphmem.store.port import Row

DEFAULTS = PoolingStrengths(
    task=2.0, strategy=2.0, cell=1.0, fitted=False, trials=0, gain=0.0, score=0.0
)
"""In force until a fit is accepted."""
LEAST = 100  # fewest trials for fitting
MAX_CELLS = 20_000  # most for fitting, which takes 1.5 s; more are sampled by the keys of tasks
_PAGE = 1_000
_COLUMNS = {name: f"{name}_strength" for name in ("task", "strategy", "cell")}
"""The properties of ``Pooling`` whose names are not those of the model."""

_log = logging.getLogger(__name__)


class Uses(NamedTuple):
    """The outcomes of a strategy on a task: the data for fitting strengths."""

    task: str | None
    type: str | None  # GENERAL: it has none
    whole: str | None
    trials: int
    successes: int
    n: float  # what the trials count elsewhere
    k: float


class Strengths:
    """Fits and keeps the strengths of pooling of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.id = node_id(graph.ns, "Pooling")
        self._unsaved: PoolingStrengths | None = None

    def in_force(self, trials: int, stored: Row | None) -> PoolingStrengths:
        """Return the strengths in force; fit them if the trials changed by a tenth.

        ``stored`` is what the graph holds of them. They are stored now if this process has the
        lease, else after its next write.
        """
        for known in (_strengths(stored), self._unsaved):
            if known is not None and abs(trials - known.trials) * 10 <= known.trials:
                return known
        if trials < LEAST:
            return DEFAULTS
        fitted = self._fit()
        if fitted.trials:
            self._keep(fitted)
        return fitted

    def refit(self) -> PoolingStrengths:
        """Fit the strengths to the whole history now, store them, and return them.

        If another process writes the memory, this process keeps them until its next write.
        """
        fitted, stored = self._fit(), self._stored()
        if (fitted.trials or stored) and fitted != _strengths(stored):
            self._graph.store.try_writing()
            self._keep(fitted)
        return fitted

    def verify(self, checked: Counter[str]) -> Iterator[Difference]:
        """Compare the stored strengths with fitted ones; yield differences, and count the checked.

        If the history has grown since, they are not compared: they stay in force for a while.
        """
        stored = self._stored()
        if stored is None:
            return
        checked.update(pooling=0)
        trials = self._graph.read("forecasting.totals")[0]["trials"]
        if isinstance(stored["trials"], int) and stored["trials"] != trials:
            return
        checked.update(pooling=1)
        for name, value in _row(self._fit()).items():
            held = stored[name]
            # The likelihood is flat there: another version's search may end a little elsewhere.
            if not isinstance(held, int | float) or not math.isclose(
                held, value, rel_tol=0.01, abs_tol=1e-9
            ):
                yield Difference(
                    kind="pooling", key=self.id, field=name, stored=held, expected=value
                )

    def _stored(self) -> Row | None:
        return next(iter(self._graph.read("forecasting.pooling", ids=[self.id])), None)

    def _keep_unsaved(self) -> None:
        if self._unsaved is not None:
            self._keep(self._unsaved)

    def _keep(self, strengths: PoolingStrengths) -> None:
        self._unsaved = strengths
        if not self._graph.store.writing:
            if self._keep_unsaved not in self._graph.after_write:
                self._graph.after_write.append(self._keep_unsaved)
            return

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
        trials = self._graph.read("forecasting.totals")[0]["trials"]
        from graphmem.advice.formula import fit_strengths

        return fit_strengths(self._cells() if trials >= LEAST else (), trials)

    def _cells(self) -> list[Uses]:
        tasks = self._graph.read("forecasting.task_keys")
        tasks.sort(key=lambda row: (hashlib.sha256(row["key"].encode()).digest(), row["id"]))
        cells: list[Uses] = []
        for ids in pages([row["id"] for row in tasks], _PAGE):
            cells += [Uses(**row) for row in self._graph.read("forecasting.cells", ids=ids)]
            if len(cells) >= MAX_CELLS:
                break
        return cells


def _strengths(row: Row | None) -> PoolingStrengths | None:
    """Return strengths from their row, or None if there is none, or one of a wrong type."""
    if row is None:
        return None
    try:
        return PoolingStrengths.model_validate(
            {name: row[_COLUMNS.get(name, name)] for name in PoolingStrengths.model_fields},
            strict=True,
        )
    except pydantic.ValidationError:
        return None


def _row(strengths: PoolingStrengths) -> Row:
    return {_COLUMNS.get(name, name): value for name, value in strengths.model_dump().items()}
