"""A namespace of a store: every part reads and writes the graph through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from graphmem.config import Settings
from graphmem.store import port
from graphmem.store.port import Row, Store
from graphmem.store.queries import Query, procedure

T = TypeVar("T")


class Graph:
    """One namespace of a store, with the settings and the clock in force.

    Procedures are called by name. ``$ns``, ``$now`` and the parameters of :attr:`Settings.bounds`
    are filled in if a procedure takes them and the caller does not give them.
    """

    def __init__(self, store: Store, namespace: str, settings: Settings) -> None:
        self.store = store
        self.ns = namespace
        self.settings = settings
        self._common = {"ns": namespace, **settings.bounds}
        self._known: dict[str, tuple[Query, dict[str, Any], bool]] = {}

    @property
    def must_lock(self) -> bool:
        """Whether a view must lock what it reads, because a server has no snapshots."""
        return self.store.capabilities.server

    def now(self) -> int:
        """Return the clock in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def read(self, name: str, /, **params: Any) -> list[Row]:
        """Run a reading procedure."""
        query, common, dated = self._known.get(name) or self._look_up(name)
        if dated and "now" not in params:
            params["now"] = self.now()
        return self.store.read(query, **{**common, **params})

    def write(self, name: str, /, **params: Any) -> list[Row]:
        """Run one procedure in a transaction of its own."""
        query, common, dated = self._known.get(name) or self._look_up(name)
        if dated and "now" not in params:
            params["now"] = self.now()
        return self.store.write(query, **{**common, **params})

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction and return its answer; see :meth:`Store.transact`."""
        now = self.now()
        return self.store.transact(lambda tx: work(Transaction(self, tx, now)))

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads, on one consistent state; see :meth:`Store.view`."""
        now = self.now()
        return self.store.view(lambda tx: work(Transaction(self, tx, now)))

    def _look_up(self, name: str) -> tuple[Query, dict[str, Any], bool]:
        query = procedure(name)
        common = {key: value for key, value in self._common.items() if key in query.params}
        self._known[name] = (query, common, "now" in query.params)
        return self._known[name]


class Transaction:
    """A transaction of a graph; ``now`` is the time of its first attempt."""

    __slots__ = ("_tx", "graph", "now", "ns", "settings")

    def __init__(self, graph: Graph, tx: port.Transaction, now: int) -> None:
        self._tx = tx
        self.graph = graph
        self.ns = graph.ns
        self.settings = graph.settings
        self.now = now

    def run(self, name: str, /, **params: Any) -> list[Row]:
        """Run a procedure and return its rows."""
        query, common, dated = self.graph._known.get(name) or self.graph._look_up(name)
        if dated and "now" not in params:
            params["now"] = self.now
        return self._tx.run(query, **{**common, **params})

    read = run


Reader = Graph | Transaction
"""What can run reading procedures: a graph, or a transaction."""
