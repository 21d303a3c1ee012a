"""Marks on nodes whose text waits for a vector, or whose edges to similar nodes are to be drawn."""

from __future__ import annotations

from collections.abc import Iterable

from graphmem.graph.graph import Transaction
from graphmem.store.port import TEXTS


def pend(tx: Transaction, kind: str, ids: Iterable[str]) -> None:
    """Mark nodes of a label; those that are marked already stay as they are."""
    rows = [{"id": identity, "kind": kind} for identity in sorted(set(ids))]
    if rows:
        tx.run("similarity.pend", rows=rows)


class Loosened:
    """Watches some nodes while they are derived anew: what is marked is what that changes.

    A node that goes leaves its neighbours with one similar node less; a task whose description
    changes has another vector.
    """

    def __init__(self, tx: Transaction, kind: str, ids: Iterable[str]) -> None:
        self._tx, self._kind = tx, kind
        self._ids = list(ids)
        self._before = self._texts()
        self._links = tx.run(f"similarity.linked_to_{TEXTS[kind]}", ids=self._ids)

    def mark(self) -> None:
        """Mark what changed since, and remove the marks of nodes that are gone."""
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
