"""The queue of nodes whose text needs a vector, or whose edges SIMILAR_TO must be made."""

from __future__ import annotations

from collections.abc import Iterable

from graphmem.graph.graph import Transaction
from graphmem.store.port import TEXTS


def pend(tx: Transaction, kind: str, ids: Iterable[str]) -> None:
    """Put nodes of a label into the queue; queued ones stay."""
    rows = [{"id": identity, "kind": kind} for identity in sorted(set(ids))]
    if rows:
        tx.run("similarity.pend", rows=rows)


class Loosened:
    """Watches nodes while they are derived again, and queues the changed ones.

    A removed node leaves its neighbours with one similar node less; a changed description needs
    another vector.
    """

    def __init__(self, tx: Transaction, kind: str, ids: Iterable[str]) -> None:
        self._tx, self._kind = tx, kind
        self._ids = list(ids)
        self._before = self._texts()
        self._links = tx.run(f"similarity.linked_to_{TEXTS[kind]}", ids=self._ids)

    def mark(self) -> None:
        """Queue the nodes that changed since, and remove deleted ones from the queue."""
        after = self._texts()
        gone = self._before.keys() - after.keys()
        changed = {key for key, text in after.items() if text != self._before.get(key)}
        lonely = {row["linked"] for row in self._links if row["id"] in gone} - gone
        if gone:
            self._tx.run("similarity.settle", ids=sorted(gone))
        pend(self._tx, self._kind, changed | lonely)

    def _texts(self) -> dict[str, str]:
        rows = self._tx.run(f"similarity.{TEXTS[self._kind]}", ids=self._ids)
        return {row["id"]: row["text"] for row in rows}
