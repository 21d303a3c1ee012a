"""A namespace of a store: every part reads and writes the graph through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from graphmem.config import KEPT, Settings
from graphmem.ids import node_id
from graphmem.store import port
from graphmem.store.port import Row, Store
from graphmem.store.queries import Query, procedure
from graphmem.text.fencing import masked

T = TypeVar("T")
LOOK_SECONDS = 1.0  # the seconds after which a memory without kept settings is asked for them again


class Graph:
    """One namespace of a store, with the settings and the clock in force.

    Explicit settings go before those that the memory keeps (``KEPT``), and these before defaults.
    Procedures are called by name, with ``$ns``, ``$now`` and ``$z_value`` filled in; options after
    the name choose the optional lines of a statement.
    """

    def __init__(self, store: Store, namespace: str, settings: Settings) -> None:
        self.store = store
        self.ns = namespace
        self.given = settings  # the settings with which the memory was opened
        self.namespace_id = node_id(namespace, "Namespace")
        self.after_write: list[Callable[[], None]] = []
        """What to do once, after the next write of this graph; it must raise nothing."""
        self.reload()

    def reload(self) -> None:
        """Look up the kept settings again, at their next use."""
        self._adopt({})
        self._look_after = 0.0

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        self._look()
        return self._settings

    def _look(self) -> None:
        if not self._settled and time.monotonic() >= self._look_after:
            self._look_after = time.monotonic() + LOOK_SECONDS
            for row in self.store.read(procedure("schema.namespace"), id=self.namespace_id):
                self._adopt(row)

    def _adopt(self, kept: Row) -> None:
        own = self.given.model_fields_set | {"co_occurrence_half_life_days"}  # it is checked
        update = {
            name: kept[name] for name in KEPT if kept.get(name) is not None and name not in own
        }
        self._settings = self.given.model_copy(update=update) if update else self.given
        self._common: dict[str, Any] = {"ns": self.ns, "z_value": self._settings.z}
        self._known: dict[tuple[str, ...], tuple[Query, dict[str, Any], bool]] = {}
        self._settled = all(kept.get(name) is not None for name in KEPT)

    @property
    def must_lock(self) -> bool:
        """Whether a view must lock what it reads, because a server has no snapshots."""
        return self.store.capabilities.server

    def now(self) -> int:
        """Return the clock in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def storable(self, given: T) -> T:
        """Return what is stored of something: no keys and tokens, if the setting says so."""
        stored: T = masked(given) if self.settings.mask_secrets else given
        return stored

    def read(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run a reading procedure."""
        query, bound = self._bound(name, options, params)
        return self.store.read(query, **bound)

    def write(self, name: str, /, *options: str, **params: Any) -> list[Row]:
        """Run one procedure in a transaction of its own."""
        query, bound = self._bound(name, options, params)
        rows = self.store.write(query, **bound)
        self._end_write()
        return rows

    def attempt(self, name: str, fits: port.Fits, /, *options: str, **params: Any) -> list[Row]:
        """Run one procedure; undo it if its rows do not fit; see :meth:`Store.attempt`."""
        query, bound = self._bound(name, options, params)
        rows = self.store.attempt(query, fits, **bound)
        self._end_write()
        return rows

    def transact(self, work: Callable[[Transaction], T], *, brief: bool = False) -> T:
        """Run ``work`` in one transaction and return its answer; see :meth:`Store.transact`."""
        now = self.now()
        self._look()
        if self._settled:
            done = self.store.transact(lambda tx: work(Transaction(self, tx, now)), brief=brief)
            self._end_write()
            return done
        kept: list[Row] = []
        wanted = {name: getattr(self.given, name) for name in KEPT}

        def settled(tx: port.Transaction) -> T:
            query = procedure("schema.settle")
            kept[:] = tx.run(query, id=self.namespace_id, ns=self.ns, now=now, **wanted)
            return work(Transaction(self, tx, now))

        answer = self.store.transact(settled, brief=brief)
        self._adopt(kept[0])
        self._end_write()
        return answer

    def _end_write(self) -> None:
        if self.after_write:
            due, self.after_write = self.after_write, []
            for call in due:
                call()

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work``, which only reads, on one consistent state; see :meth:`Store.view`."""
        now = self.now()
        self._look()
        return self.store.view(lambda tx: work(Transaction(self, tx, now)))

    def _bound(
        self, name: str, options: tuple[str, ...], params: dict[str, Any], now: int | None = None
    ) -> tuple[Query, dict[str, Any]]:
        """Return a procedure (with its optional lines for ``options``) and all its parameters."""
        if now is None and not self._settled:  # in a transaction it would take a second connection
            self._look()
        key, known = (name, *options), self._known
        if key not in known:
            query = procedure(name)
            query = query.wanting(*options) if query.options else query
            common = {key: value for key, value in self._common.items() if key in query.params}
            known[key] = (query, common, "now" in query.params)
        query, common, dated = known[key]
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
        self.settings = graph._settings  # a look now would take a second connection
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


Reader = Graph | Transaction  # a runner of reading procedures: a graph, or a transaction
