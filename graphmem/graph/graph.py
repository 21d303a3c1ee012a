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
    Options after the name choose the optional lines of a statement.
    """

    def __init__(self, store: Store, namespace: str, settings: Settings) -> None:
        self.store = store
        self.ns = namespace
        self.settings = settings
        self._common = {"ns": namespace, **settings.bounds}
        self._known: dict[tuple[str, ...], tuple[Query, dict[str, Any], bool]] = {}

    @property
    def must_lock(self) -> bool:
        """Whether a view must lock what it reads, because a server has no snapshots."""
        return self.store.capabilities.server

    def now(self) -> int:
        """Return the clock in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def read(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run a reading procedure."""
        query, bound = self._bound(name, options, params)
        return self.store.read(query, **bound)

    def write(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run one procedure in a transaction of its own."""
        query, bound = self._bound(name, options, params)
        return self.store.write(query, **bound)

    def attempt(
        self, name: str, fits: Callable[[list[Row]], bool], /, *options: str, **params: Any
    ) -> list[Row]:
        """Run one procedure, undone where its rows do not fit; see :meth:`Store.attempt`."""
        query, bound = self._bound(name, options, params)
        return self.store.attempt(query, fits, **bound)

    def transact(self, work: Callable[[Transaction], T], *, brief: bool = False) -> T:
        """Run ``work`` in one transaction and return its answer; see :meth:`Store.transact`."""
        now = self.now()
        return self.store.transact(lambda tx: work(Transaction(self, tx, now)), brief=brief)

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads, on one consistent state; see :meth:`Store.view`."""
        now = self.now()
        return self.store.view(lambda tx: work(Transaction(self, tx, now)))

    def _bound(
        self, name: str, options: tuple[str, ...], params: dict[str, Any], now: int | None = None
    ) -> tuple[Query, dict[str, Any]]:
        """Return a procedure (with its optional lines for ``options``) and all its parameters."""
        key = (name, *options)
        if key not in self._known:
            query = procedure(name)
            query = query.wanting(*options) if query.options else query
            common = {key: value for key, value in self._common.items() if key in query.params}
            self._known[key] = (query, common, "now" in query.params)
        query, common, dated = self._known[key]
        if dated and "now" not in params:
            params["now"] = self.now() if now is None else now
        return query, {**common, **params}


class Transaction:
    """A transaction of a graph; ``now`` is the time of its first attempt."""

    __slots__ = ("_tx", "graph", "now", "ns", "settings")

    def __init__(self, graph: Graph, tx: port.Transaction, now: int) -> None:
        self._tx = tx
        self.graph = graph
        self.ns = graph.ns
        self.settings = graph.settings
        self.now = now

    def run(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run a procedure and return its rows."""
        query, bound = self.graph._bound(name, options, params, self.now)
        return self._tx.run(query, **bound)

    def finish(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run the last procedure of the transaction; see :meth:`port.Transaction.finish`."""
        query, bound = self.graph._bound(name, options, params, self.now)
        return self._tx.finish(query, **bound)

    read = run


Reader = Graph | Transaction
"""What can run reading procedures: a graph, or a transaction."""
