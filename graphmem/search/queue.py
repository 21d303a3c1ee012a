"""Marks on nodes whose text waits for a vector, or whose edges to similar nodes are to be drawn."""

from __future__ import annotations

from collections.abc import Iterable

from graphmem.graph.clock import now_millis
from graphmem.store.port import TEXTS, Transaction
from graphmem.store.queries import procedure


def pend(tx: Transaction, ns: str, kind: str, ids: Iterable[str], now: int | None = None) -> None:
    """Mark nodes of a label; those that are marked already stay as they are."""
    rows = [{"id": identity, "kind": kind} for identity in sorted(set(ids))]
    if rows:
        now = now_millis() if now is None else now
        tx.run(procedure("similarity.pend"), ns=ns, now=now, rows=rows)


class Loosened:
    """Watches some nodes while they are derived anew: what is marked is what that changes.

    A node that goes leaves its neighbours with one similar node less; a task whose description
    changes has another vector.
    """

    def __init__(self, tx: Transaction, ns: str, kind: str, ids: Iterable[str]) -> None:
        self._tx, self._ns, self._kind = tx, ns, kind
        self._ids = list(ids)
        self._before = self._texts()
        query = procedure(f"similarity.linked_to_{TEXTS[kind]}")
        self._links = tx.run(query, ns=ns, ids=self._ids)

    def mark(self) -> None:
        """Mark what changed since, and remove the marks of nodes that are gone."""
        after = self._texts()
        gone = self._before.keys() - after.keys()
        changed = {key for key, text in after.items() if text != self._before.get(key)}
        lonely = {row["linked"] for row in self._links if row["id"] in gone} - gone
        if gone:
            self._tx.run(procedure("similarity.settle"), ns=self._ns, ids=sorted(gone))
        pend(self._tx, self._ns, self._kind, changed | lonely)

    def _texts(self) -> dict[str, str]:
        query = procedure(f"similarity.{TEXTS[self._kind]}")
        rows = self._tx.run(query, ns=self._ns, ids=self._ids)
        return {row["id"]: row["text"] for row in rows}
