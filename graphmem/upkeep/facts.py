"""Compares episodes with what was learned: content, classes, and the policies that they took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graphmem.episodes.rows import classes_of, read_contents
from graphmem.graph.derived import Page, Paged, Rebuilt, Verified, Work
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, digest
from graphmem.models import Difference
from graphmem.models.episodes import hashed
from graphmem.policies.streams import took
from graphmem.store.paging import ranges, weighed

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
            weights = ((row["id"], 1 + row["uses"]) for row in rows)
            for page in weighed(weights, ITEMS, EPISODES):
                yield Page(page, len(page))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare episodes with the hash of their content, and with what follows from it."""
        contents = read_contents(tx, page.items)
        differences = list(_took_differences(tx, page.items, contents))
        for row in tx.run("lessons_maintenance.classes", ids=page.items):
            held = contents.get(row["id"])
            actual = None if held is None else digest(canonical_json(hashed(held)))
            wrong = [("content_hash", actual, row["content_hash"])]
            if held is not None:
                wrong += [(name, row[name], value) for name, value in classes_of(held).items()]
            differences += [
                Difference(kind="episodes", key=row["id"], field=name, stored=was, expected=should)
                for name, was, should in wrong
                if was != should
            ]
        return Verified(differences, {"episodes": len(page.items)})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Let episodes count under the right classes; the facts never change."""
        contents = read_contents(tx, page.items)
        rows = []
        for row in tx.run("lessons_maintenance.classes", ids=page.items):
            classes = classes_of(contents[row["id"]]) if row["id"] in contents else {}
            if any(row[name] != value for name, value in classes.items()):
                rows.append({"id": row["id"], **classes})
        if rows:
            tx.run("lessons_maintenance.put_classes", rows=rows)
        return Rebuilt()


def _took_differences(
    tx: Transaction, ids: list[str], contents: Mapping[str, dict[str, Any]]
) -> Iterator[Difference]:
    """Compare the policies that episodes took with their steps."""
    rows = tx.run("maintenance.stored_took", ids=ids)
    stored = {
        f"{row['episode']} {row['policy']}": (row["steps"], row["first"])
        for row in rows
        if row["policy"] is not None
    }
    expected = {}
    for episode in {row["episode"] for row in rows if row["noted"]} & contents.keys():
        steps = (
            (step.get("state"), step.get("action_type"), step.get("action"))
            for step in contents[episode].get("steps", ())
        )
        for taken, count, first in took(tx.ns, contents[episode]["agent"], steps):
            expected[f"{episode} {taken.id}"] = (count, first)
    for key in sorted(stored.keys() | expected.keys()):
        was, should = stored.get(key, ()), expected.get(key, ())
        if was != should:
            yield Difference(
                kind="took", key=key, field="steps", stored=list(was), expected=list(should)
            )
