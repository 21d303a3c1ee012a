"""Counts reads outside of the graph, so that a read neither waits for the lease nor takes it.

The counts are added to the graph beside a later write of this memory, or when it is closed. What a
memory reads that never writes is not counted: it would have to take the lease for that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from time import monotonic

from graphmem.errors import StoreError
from graphmem.graph.graph import Graph, Transaction
from graphmem.store.port import Row

SECONDS = 5.0  # the counts wait so long for others
_PROCEDURES = {
    "Entry": "entries.count_reads",
    "Policy": "policies.count_reads",
    "Strategy": "learning.count_reads",
}
Counts = dict[str, dict[str, Row]]  # reads by label and id: rows of these procedures

_log = logging.getLogger(__name__)


class Reads:
    """Unwritten counts of reads of policies, strategies and entries."""

    def __init__(self, graph: Graph) -> None:
        self._enabled = graph.given.count_reads
        self._graph = graph
        self._lock = threading.RLock()
        self._counts: Counts = {}
        self._written = monotonic()

    def note(self, label: str, ids: Iterable[str]) -> None:
        """Count one read of each item."""
        if not self._enabled:
            return
        now = self._graph.now()
        with self._lock:
            for identity in ids:
                self._add(label, {"id": identity, "reads": 1, "at": now})
            if self._counts and self._write_later not in self._graph.after_write:
                self._graph.after_write.append(self._write_later)

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
        if self._graph.store.writing:
            self._write()
        self._take()

    def _write_later(self) -> None:
        if monotonic() - self._written < SECONDS:
            self._graph.after_write.append(self._write_later)
        else:
            self._write()

    def _write(self) -> None:
        try:
            self.flush()
        except StoreError as error:  # closed, or no server: they go with a later write
            _log.info("read counts wait: %s", error)

    def _take(self) -> Counts:
        """Return the counts, and forget them."""
        with self._lock:
            counts, self._counts, self._written = self._counts, {}, monotonic()
        return counts
