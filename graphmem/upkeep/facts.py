"""Compares episodes with what was learned: content, classes, and the policies that they took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphmem.episodes.rows import classes_of, read_contents
from graphmem.graph.derived import Page, Paged, Rebuilt, Verified, Work
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, digest
from graphmem.models import Difference
from graphmem.models.episodes import hashed
from graphmem.policies.streams import took
from graphmem.store.paging import ranges, weighed
from graphmem.store.port import Row

Contents = Mapping[str, dict[str, Any]]
RANGE = 20_000
"""Ids of episodes to read at once."""
EPISODES = 1_000
"""Episodes in a page."""
ITEMS = 2_000
"""Episodes and steps in a page."""


class Facts(Paged):
    """The episodes of one namespace."""

    kinds = ("episodes",)

    def work(self) -> Work:
        """Return the ids of episodes."""
        rows = self._graph.read("maintenance.sizes")
        count = sum(row["nodes"] for row in rows if row["label"] == "Episode")
        return Work(self._pages(count), count)

    def _pages(self, count: int) -> Iterator[Page]:
        for first, beyond in ranges(count, RANGE):
            rows = self._graph.read("maintenance.ids_episodes", first=first, beyond=beyond)
            weights = ((row["id"], 1 + row["steps"]) for row in rows)
            for page in weighed(weights, ITEMS, EPISODES):
                yield Page(page, len(page))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare episodes with the hash of their content, and with what follows from it."""
        ids = page.items
        contents = read_contents(tx, ids)
        rows = tx.run("lessons_maintenance.classes", ids=ids)
        differences = list(_took_differences(tx, ids, contents))
        differences += [
            Difference(kind="episodes", key=key, field=name, stored=row[name], expected=value)
            for key, row, classes in _misclassified(rows, contents)
            for name, value in classes.items()
            if row[name] != value
        ]
        for row in rows:
            held = contents.get(row["id"])
            actual = digest(canonical_json(hashed(held))) if held is not None else None
            if actual != row["content_hash"]:
                differences.append(
                    Difference(
                        kind="episodes",
                        key=row["id"],
                        field="content_hash",
                        stored=actual,
                        expected=row["content_hash"],
                    )
                )
        return Verified(differences, {"episodes": len(ids)})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Let episodes count under the right classes; the facts never change."""
        contents = read_contents(tx, page.items)
        stored = tx.run("lessons_maintenance.classes", ids=page.items)
        rows = [{"id": key, **classes} for key, _, classes in _misclassified(stored, contents)]
        if rows:
            tx.run("lessons_maintenance.put_classes", rows=rows)
        return Rebuilt()


def _misclassified(
    rows: Iterable[Row], contents: Contents
) -> Iterator[tuple[str, Row, dict[str, str | None]]]:
    """Yield episodes that count under a wrong class: id, stored, expected."""
    for row in rows:
        held = contents.get(row["id"])
        if held is not None:
            classes = classes_of(held)
            if any(row[name] != value for name, value in classes.items()):
                yield row["id"], row, classes


def _took_differences(tx: Transaction, ids: list[str], contents: Contents) -> Iterator[Difference]:
    """Compare the policies that episodes took with their steps."""
    expected = {}
    for episode in (row["id"] for row in tx.run("maintenance.noted", ids=ids)):
        held = contents.get(episode, {"agent": ""})
        steps = (
            (step.get("state"), step.get("action_type"), step.get("action"))
            for step in held.get("steps", ())
        )
        for taken, count, first in took(tx.ns, held["agent"], steps):
            expected[f"{episode} {taken.id}"] = (count, first)
    rows = tx.run("maintenance.stored_took", ids=ids)
    stored = {f"{row['episode']} {row['policy']}": (row["steps"], row["first"]) for row in rows}
    for key in sorted(stored.keys() | expected.keys()):
        if stored.get(key) != expected.get(key):
            yield Difference(
                kind="took",
                key=key,
                field="steps",
                stored=list(stored.get(key, ())),
                expected=list(expected.get(key, ())),
            )
