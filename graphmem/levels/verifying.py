"""Verifies levels: their edges and streams, the events of their entries, and the levels of lenses.

Entries are no facts, and nothing follows from them: rebuilding leaves them as they are.
"""

from __future__ import annotations

from graphmem.graph.derived import Page, Paged, Rebuilt, Verified
from graphmem.graph.graph import Transaction
from graphmem.ids import level_stream_id
from graphmem.models import Difference


class LevelCheck(Paged):
    """The levels of one namespace, their entries and lenses."""

    kinds = ("levels", "entries", "lenses")

    def compare(self, tx: Transaction, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare edges and events with what the nodes say."""
        levels = tx.run("upkeep.levels")
        if tx.graph.must_lock:  # keep writers off
            tx.run("levels.lock", ids=[row["stream"] for row in levels if row["stream"]])
            levels = tx.run("upkeep.levels")
        differences = []

        def differ(kind: str, key: str, field: str, stored: object, expected: object) -> None:
            differences.append(
                Difference(kind=kind, key=key, field=field, stored=stored, expected=expected)
            )

        for row in levels:
            stream = level_stream_id(tx.ns, row["name"])
            if (row["stream"], row["home"]) != (stream, row["id"]):
                differ("levels", row["name"], "stream", row["stream"], stream)
        for row in tx.run("entries.astray"):
            if row["homes"] != [row["level"]]:
                differ("entries", row["id"], "level", row["homes"], [row["level"]])
            else:
                differ("entries", row["id"], "event", row["subject"], row["id"])
        lenses = tx.run("lenses.list")
        for row in lenses:
            if not row["levels"] or sorted(row["seen"]) != sorted(row["levels"]):
                differ("lenses", row["name"], "levels", sorted(row["seen"]), row["levels"])
        held = tx.run("levels.holdings", ids=[row["id"] for row in levels])
        entries = sum(row["entries"] + row["expired"] for row in held)
        counts = {"levels": len(levels), "entries": entries, "lenses": len(lenses)}
        return Verified(differences, counts)

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:  # noqa: ARG002
        """Leave everything as it is."""
        return Rebuilt()
