"""Counts reads outside of the graph, so that a read neither waits for the lease nor takes it.

Some seconds after the next write of this memory a thread adds the counts to the graph. What a
memory reads that never writes is not counted: it would have to take the lease for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from graphmem.errors import StoreError
from graphmem.forks import in_child, renew_lock
from graphmem.graph.graph import Graph, Transaction
from graphmem.store.port import Row

SECONDS = 5.0
_PROCEDURES = {
    "Entry": "entries.count_reads",
    "Policy": "policies.count_reads",
    "Strategy": "learning.count_reads",
}
Counts = dict[str, dict[str, Row]]
"""Reads by label and id: rows of these procedures."""

_log = logging.getLogger(__name__)


class Reads:
    """Unwritten counts of reads of policies, strategies and entries."""

    def __init__(self, graph: Graph) -> None:
        self._enabled = graph.given.count_reads
        self._graph = graph
        self._lock = threading.RLock()
        in_child(self, renew_lock)
        self._counts: Counts = {}
        self._timer: threading.Timer | None = None

    def note(self, label: str, ids: Iterable[str]) -> None:
        """Count one read of each item."""
        if not self._enabled:
            return
        now = self._graph.now()
        with self._lock:
            for identity in ids:
                self._add(label, {"id": identity, "reads": 1, "at": now})
            if not self._counts or self._timer is not None:
                return
            if self._graph.store.writing:
                self._start()
            elif self._start not in self._graph.after_write:
                self._graph.after_write.append(self._start)

    def _add(self, label: str, row: Row) -> None:
        known = self._counts.setdefault(label, {}).setdefault(row["id"], {**row, "reads": 0})
        known |= {"reads": known["reads"] + row["reads"], "at": max(known["at"], row["at"])}

    def flush(self) -> int:
        """Add the counts to the graph; return the number of items."""
        counts = self._take()

        def work(tx: Transaction) -> int:
            items = 0
            for label, rows in counts.items():
                counted = [rows[identity] for identity in sorted(rows)]
                items += tx.run(_PROCEDURES[label], rows=counted)[0]["items"]
            return items

        try:
            return self._graph.transact(work) if counts else 0
        except BaseException:
            with self._lock:
                for label, rows in counts.items():
                    for row in rows.values():
                        self._add(label, row)
            raise

    def close(self) -> None:
        """Write the counts for the last time."""
        try:
            if self._graph.store.writing:
                self.flush()
        except StoreError as error:
            _log.info("read counts were dropped: %s", error)
        self._take()

    def _start(self) -> None:
        """Start the thread that writes the counts, unless there is one or nothing to write."""
        with self._lock:
            if self._counts and self._timer is None:
                self._timer = threading.Timer(SECONDS, self._tick)
                self._timer.daemon = True
                self._timer.start()

    def _take(self) -> Counts:
        """Return the counts, and forget them; stop the thread that would write them."""
        with self._lock:
            counts, self._counts = self._counts, {}
            timer, self._timer = self._timer, None
        if timer is not None and timer is not threading.current_thread():
            timer.cancel()
        return counts

    def _tick(self) -> None:
        try:
            self.flush()
        except StoreError as error:  # closed, or no server: retry at the next tick
            _log.info("read counts wait: %s", error)
