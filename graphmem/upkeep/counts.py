"""Counts and lessons of strategies, tasks, agents, rules and mistakes, derived from the episodes.

The work is done in pages of nodes, each in a transaction that locks these nodes. Nodes with many
episodes have fewer in a page, and a node with very many is derived from ranges of its episodes, so
that what is held at a time does not grow with the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from graphmem.config import KEPT
from graphmem.episodes.learning import settled_half_life
from graphmem.graph.derived import (
    ANTI_PATTERNS,
    KINDS,
    LABELS,
    TALLIES,
    Page,
    Paged,
    Rebuilt,
    Verified,
    Work,
    by_key,
    differences_of,
    doubled,
    upkeep,
)
from graphmem.graph.graph import Reader, Transaction
from graphmem.ids import node_id, stream_id
from graphmem.models import Difference
from graphmem.policies.streams import lock
from graphmem.search.queue import Loosened
from graphmem.store.paging import ranges, weighed
from graphmem.store.port import TEXTS, Row

USES = 20_000
"""Episodes of the nodes in a page, or in a range of a node's episodes: an engine holds a row for
each use."""
WRITTEN = 4_000
"""The same on a server, which holds what a transaction writes: some ten nodes and edges a use."""
RANGE = 20_000
"""Ids of nodes to read at once."""


class Few(NamedTuple):
    """The nodes of a page, and in how many ranges of episodes they are derived."""

    label: str
    ids: list[str]
    parts: int = 1


class Counts(Paged):
    """The counts on the nodes of one namespace, kind by kind."""

    kinds = tuple(kind.name for kind in KINDS)

    def work(self) -> Work:
        """Return the ids of nodes, by label; those with many episodes have fewer in a page."""
        rows = self._graph.read("maintenance.sizes")
        nodes = {row["label"]: row["nodes"] for row in rows if row["label"] in LABELS}
        return Work(self._pages(nodes), sum(row["uses"] for row in rows if row["label"] in LABELS))

    def _pages(self, nodes: Mapping[str, int]) -> Iterator[Page]:
        for label in LABELS:
            most = min(USES, WRITTEN) if self._graph.must_lock else USES
            for first, beyond in ranges(nodes.get(label, 0), RANGE):
                rows = self._graph.read(upkeep("ids", label), first=first, beyond=beyond)
                uses = {row["id"]: row["uses"] for row in rows}
                for ids in weighed(uses.items(), most):
                    size = sum(uses[key] for key in ids)
                    yield Page(Few(label, ids, max(1, -(-size // USES))), size)

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the derived items of nodes with the facts."""
        label, ids, parts = page.items
        if self._graph.must_lock:  # lock this page against writers
            _lock(tx, label, ids)
        differences: list[Difference] = []
        counted = {}
        half_life = half_life_of(tx)
        for kind in KINDS:
            if kind.label != label:
                continue
            expected = by_key(kind, kind.derive(tx, ids, half_life, parts=parts))
            for key in [key for key, row in expected.items() if row.get("uses") == 0]:
                expected.pop(key)
            counted[kind.name] = len(expected)
            rows = kind.stored(tx, ids)
            stored = by_key(kind, rows)
            differences += differences_of(kind, stored, expected)
            if len(stored) < len(rows):
                differences += doubled(kind, rows)
        if label == "Strategy":
            right = not differences
            differences += [
                Difference(kind="strategies", key=row.pop("id"), field="merged_into", **row)
                for row in tx.run("lessons_maintenance.merged", ids=ids)
            ]
            if right:  # it adds up numbers of the heuristics
                differences += _opposing(tx.run("lessons_maintenance.opposing", ids=ids))
        return Verified(differences, counted)

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Write what the facts say of some nodes, and remove those without any fact.

        Reading is much quicker than writing, so nodes are written only if something differs.
        """
        verified = self.compare(tx, page)
        if not verified.differences:
            return Rebuilt(verified.checked)
        return derive(tx, *page.items)


def _opposing(rows: Sequence[Row]) -> Iterator[Difference]:
    """Yield the counts of opposing successes, and what follows from them, that are wrong."""
    names = ("successes", "odds")
    stored = {row["id"]: {name: row[name] for name in names} for row in rows}
    expected = {row["id"]: {name: row[f"right_{name}"] for name in names} for row in rows}
    return differences_of(ANTI_PATTERNS, stored, expected)


def derive(tx: Transaction, label: str, ids: Sequence[str], parts: int = 1) -> Rebuilt:
    """Write what the facts say of some nodes, and remove those without any fact."""
    ids = list(ids)
    _lock(tx, label, ids)
    for kind in KINDS:
        if kind.label == label and kind.linked:
            kind.clear(tx, ids)
    texts = Loosened(tx, label, ids) if label in TEXTS else None
    dropped = tx.run(upkeep("drop", label), ids=ids)
    written = {}
    half_life = half_life_of(tx)
    for kind in KINDS:
        if kind.label == label:
            rows = kind.derive(tx, ids, half_life, parts=parts)
            written[kind.name] = kind.put(tx, ids, rows)
    if texts:
        texts.mark()
    return Rebuilt(written, int(dropped[0]["removed"]) if dropped else 0)


def _lock(tx: Transaction, label: str, ids: list[str]) -> None:
    """Lock nodes, and what learning locks before it changes their derived data."""
    if label == TALLIES.label and tx.graph.must_lock:
        names = [row["name"] for row in tx.run("maintenance.names_of_agents", ids=ids)]
        lock(tx, [stream_id(tx.ns, name) for name in names])
    tx.run(upkeep("lock", label), ids=ids)


def half_life_of(reader: Reader) -> float:
    """Return the half-life of co-occurrences of a namespace, in milliseconds."""
    rows = reader.read("schema.namespace", id=node_id(reader.ns, "Namespace"))
    settings = reader.settings
    if not rows:
        return settings.half_life_ms
    return settled_half_life(rows[0]["co_occurrence_half_life_days"], settings)


def resettle(tx: Transaction) -> None:
    """Keep the explicitly given settings from now on."""
    given = tx.graph.given
    wanted = {name: getattr(given, name) for name in KEPT if name in given.model_fields_set}
    tx.run("schema.resettle", id=tx.graph.namespace_id, **wanted)
