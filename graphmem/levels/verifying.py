"""Verifies levels: their edges and streams, the events of their entries, and the levels of lenses.

Entries are no facts, and nothing follows from them: rebuilding leaves them as they are.
"""

from __future__ import annotations

from graphmem.graph.derived import Page, Paged, Rebuilt, Verified
from graphmem.graph.graph import Transaction
from graphmem.ids import level_stream_id
from graphmem.models import Difference


class Held(Paged):
    """The levels of one namespace, their entries and lenses."""

    kinds = ("levels", "entries", "lenses")

    def compare(self, tx: Transaction, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare edges and events with what the nodes say."""
        levels = tx.run("levels.streams")
        if tx.graph.must_lock:  # keep writers off
            tx.run("levels.lock", ids=[row["stream"] for row in levels if row["stream"]])
            levels = tx.run("levels.streams")
        found = []
        for row in levels:
            own = level_stream_id(tx.ns, row["name"])
            if (row["stream"], row["level"]) != (own, row["id"]):
                found.append(_difference("levels", row["name"], "stream", row["stream"], own))
        found += [
            _difference("entries", row["id"], "level", row["homes"], [row["level"]])
            for row in tx.run("entries.astray")
        ]
        found += [
            _difference("entries", row["id"], "event", row["subject"], row["id"])
            for row in tx.run("entries.unwritten")
        ]
        lenses = tx.run("lenses.seen")
        found += [
            _difference("lenses", row["name"], "levels", sorted(row["seen"]), row["levels"])
            for row in lenses
            if not row["levels"] or sorted(row["seen"]) != sorted(row["levels"])
        ]
        entries = int(tx.run("entries.count")[0]["entries"])
        counts = {"levels": len(levels), "entries": entries, "lenses": len(lenses)}
        return Verified(found, counts)

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:  # noqa: ARG002
        """Leave everything as it is."""
        return Rebuilt()


def _difference(kind: str, key: str, field: str, stored: object, expected: object) -> Difference:
    return Difference(kind=kind, key=key, field=field, stored=stored, expected=expected)
