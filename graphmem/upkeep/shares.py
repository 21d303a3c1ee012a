"""Takes the shares of erased episodes from derived data.

What a share does not tell (the latest time now, for instance) is derived anew from the remaining
episodes, only for the items that need it. So the time depends on what is erased, not on what stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from graphmem.graph.derived import (
    AGENTS,
    ANTI_PATTERNS,
    CO_OCCURRENCES,
    HEURISTICS,
    OUTCOMES,
    RECENT,
    STRATEGIES,
    TALLIES,
    TASKS,
    Kind,
    upkeep,
)
from graphmem.graph.graph import Transaction
from graphmem.search.queue import Loosened
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row
from graphmem.upkeep.counts import half_life_of

SHARED = (STRATEGIES, OUTCOMES, CO_OCCURRENCES, HEURISTICS, ANTI_PATTERNS, TASKS, AGENTS, TALLIES)
"""Kinds from which shares are taken, in this order."""
LABELS = ("Strategy", "Task", "Agent")
_FEW = 50
"""Most values that narrow a derivation; an engine looks through them one by one."""
_PAGE = 1_000


class Shares:
    """The shares of some episodes, read before these are removed."""

    def __init__(self, tx: Transaction, episodes: Sequence[str]) -> None:
        self._tx = tx
        self._half_life = half_life_of(tx)
        self._rows = {
            kind.name: kind.derive(tx, episodes, self._half_life, "share") for kind in SHARED
        }

    def take(self, label: str, ids: Sequence[str]) -> int:
        """Take the shares from nodes of a label that the episodes were linked to.

        Return the number of nodes removed because no episode supports them any more.
        """
        removed = 0
        for page in pages(ids, _PAGE):
            texts = Loosened(self._tx, label, page) if label in TEXTS else None
            dropped = self._tx.run(upkeep("drop", label), ids=page)
            removed += int(dropped[0]["removed"]) if dropped else 0
            there = set(page)
            for kind in SHARED:
                if kind.label == label:
                    rows = self._rows[kind.name]
                    self._take(kind, [row for row in rows if row[kind.home] in there])
            if label == HEURISTICS.label:
                lessons = [row for row in self._rows[HEURISTICS.name] if row["strategy"] in there]
                for some in pages(lessons, _PAGE):
                    self._tx.run("shares.weigh_anti_patterns", rows=some)
            if label == RECENT.label:
                self._renew_recent(page)
            if texts:
                texts.mark()
        return removed

    def _take(self, kind: Kind, rows: list[Row]) -> None:
        for page in pages(rows, _PAGE):
            extra = {"half_life": self._half_life} if kind.needs_half_life else {}
            taken = self._tx.run(f"shares.take_{kind.name}", rows=page, **extra)
            inexact = {kind.key_of(row) for row in taken if not row["exact"]}
            if kind is ANTI_PATTERNS:
                found = self._tx.run("shares.types_gone", rows=page)
                inexact |= {row["id"] for row in found}
            undated = {kind.key_of(row) for row in taken if not row.get("dated", True)} - inexact
            for keys, renew in ((inexact, self._renew), (undated, self._date)):
                if keys:
                    renew(kind, [row for row in page if kind.key_of(row) in keys])

    def _renew(self, kind: Kind, rows: list[Row]) -> None:
        """Derive existing items anew."""
        homes, narrow = _about(kind, rows)
        options = ["few"] if kind is OUTCOMES and narrow["tasks"] is not None else []
        wanted = {kind.key_of(row) for row in rows}
        derived = kind.derive(self._tx, homes, self._half_life, *options, **narrow)
        found = [row for row in derived if kind.key_of(row) in wanted]
        if found:
            kind.set(self._tx, found)

    def _date(self, kind: Kind, rows: list[Row]) -> None:
        """Derive the times of lessons anew."""
        homes, narrow = _about(kind, rows)
        columns = (kind.home, *kind.narrowed.values())
        ids = {tuple(row[name] for name in columns): row["id"] for row in rows}
        derived = self._tx.run(f"shares.times_of_{kind.name}", ids=homes, **narrow)
        found = [
            {**row, "id": ids[key]}
            for row in derived
            if (key := tuple(row[name] for name in columns)) in ids
        ]
        if found:
            self._tx.run(f"shares.date_{kind.name}", rows=found)

    def _renew_recent(self, ids: Sequence[str]) -> None:
        lacking = [row["id"] for row in self._tx.run("shares.lacking_recent", ids=list(ids))]
        if lacking:
            RECENT.put(self._tx, lacking, RECENT.derive(self._tx, lacking, self._half_life))


def _about(kind: Kind, rows: list[Row]) -> tuple[list[str], dict[str, Any]]:
    """Return the nodes that items belong to, and what narrows a derivation to these items."""
    narrow = {name: _few(row[column] for row in rows) for name, column in kind.narrowed.items()}
    return sorted({row[kind.home] for row in rows}), narrow


def _few(values: Iterable[str]) -> list[str] | None:
    """Return the distinct values, or None if there are too many to narrow a derivation."""
    distinct = sorted(set(values))
    return distinct if len(distinct) <= _FEW else None
