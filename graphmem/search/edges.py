"""Edges SIMILAR_TO: from a node to its most similar ones over a threshold, a few for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

from graphmem.graph.derived import upkeep
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import node_id
from graphmem.models.reports import Difference
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row, SearchIndex

LINKS = 8  # most edges that lead from a node
SHORTLIST = 1000  # nodes to look at when a new one is linked: it may be their neighbour
PAGE = 256
_BLOCK = 128  # rows to compare with all others at once
_SAME = 2e-6  # similarities that differ by less are the same, computed in another way
_NEVER = -4.0  # stands for no similarity
_CLOSE = 1e-5  # the error of a product in 32 bits; rounding may make such values equal

Links = dict[str, dict[str, float]]
"""Similarities by the node that an edge leads from, then by the one that it leads to."""


class Edges:
    """Draws and compares the edges of one namespace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.embedder_id = node_id(graph.ns, "Embedder", graph.ns)

    def state(self) -> Row:
        """Return the embedder (its name is None without vectors) and the queue of nodes."""
        return self._graph.read("similarity.state", id=self.embedder_id)[0]

    def draw_some(self, index: SearchIndex, label: str, ids: Sequence[str]) -> None:
        """Draw the edges of some nodes, and those that lead to them."""
        to = self._graph.read(f"similarity.linked_to_{TEXTS[label]}", ids=list(ids))
        changed = sorted({*ids, *(row["linked"] for row in to)})
        texts = read_texts(self._graph.read, label, changed)
        state = self.state()
        nearest: Links = {}
        beside: Links = {}
        for key, vector in zip(*index.matrix(label, changed), strict=True):
            nearest[key] = dict(index.near(label, vector, SHORTLIST, state["similar"]))
            nearest[key].pop(key, None)
        for key, near in nearest.items():
            for other in near.keys() - nearest.keys():
                beside.setdefault(other, {})[key] = near[other]

        def work(tx: Transaction) -> None:
            touched = sorted({*changed, *beside})
            tx.run(upkeep("lock", label), ids=touched)
            now = read_texts(tx.run, label, changed)
            steady = [key for key in changed if now.get(key) == texts.get(key)]
            links = {key: best(nearest[key]) for key in steady if key in nearest}
            stored: Links = {key: {} for key in sorted(beside)}
            for row in self._rows(label, list(stored), tx):
                stored[row["id"]][row["other"]] = row["similarity"]
            for key, before in stored.items():
                kept = {other: value for other, value in before.items() if other not in nearest}
                after = best(kept | beside[key])
                if after != before:
                    links[key] = after
            draw(tx, state["name"], label, links)
            tx.run("erasing.drop_pending", ids=steady)

        self._graph.transact(work)

    def draw_all(self, index: SearchIndex, label: str, ids: list[str], settled: list[str]) -> int:
        """Draw all edges of a label; return how many. Then take nodes from the queue.

        They stay there until the last page is drawn: before, edges that lead to them are missing.
        """
        name, links = self.state()["name"], 0
        for page in self._computed(index, label, ids):

            def work(tx: Transaction, page: Links = page) -> None:
                tx.run(upkeep("lock", label), ids=sorted(page))
                draw(tx, name, label, page)

            self._graph.transact(work)
            links += sum(map(len, page.values()))
        for some in pages(settled, PAGE):
            self._graph.write("erasing.drop_pending", ids=some)
        return links

    def _computed(self, index: SearchIndex, label: str, ids: list[str]) -> Iterator[Links]:
        """Yield the exact edges that there should be, a page of nodes at a time."""
        import numpy as np

        there, matrix = index.matrix(label, ids)
        threshold = float(self.state()["similar"])
        for start in range(0, len(there), _BLOCK):
            scores = matrix[start : start + _BLOCK] @ matrix.T
            page: Links = {}
            for place, row in enumerate(scores, start):
                row[place] = -2.0
                least = threshold
                if len(row) > LINKS:
                    least = max(least, float(np.partition(row, -LINKS)[-LINKS]))
                near = np.flatnonzero(row >= least - _CLOSE)
                # As a search does: equal ones must tie.
                exact = matrix[near].astype(np.float64) @ matrix[place].astype(np.float64)
                cosines = zip(near.tolist(), exact.tolist(), strict=True)
                close = {there[other]: round(cosine, 6) for other, cosine in cosines}
                page[there[place]] = best({k: v for k, v in close.items() if v >= threshold})
            yield page

    def compare(
        self, index: SearchIndex, label: str, ids: list[str], texts: Sequence[str]
    ) -> Generator[Difference, None, int]:
        """Yield the edges of texts that are wrong; return how many there are.

        ``ids`` are those of the texts that have a vector.
        """
        name = self.state()["name"]
        stored: Links = {}
        there = 0
        for row in self._rows(label, texts):
            there += 1
            links, key = stored.setdefault(row["id"], {}), f"{row['id']} {row['other']}"
            wrong = [("embedder", row["embedder"], name)] if row["embedder"] != name else []
            wrong += [("*", "several times", "once")] if row["other"] in links else []
            links[row["other"]] = row["similarity"]
            for field, held, right in wrong:
                yield Difference(kind="similar", key=key, field=field, stored=held, expected=right)
        server = self._graph.store.capabilities.server
        complete = not server or len(ids) <= SHORTLIST
        for page in self._computed(index, label, ids):
            for key, expected in page.items():
                have = stored.get(key, {})
                # A server computes in 32 bits: it may link to others with an equal last place.
                last = [_last(links) if server else _NEVER for links in (have, expected)]
                for other in sorted(have.keys() | expected.keys()):
                    was, should = have.get(other), expected.get(other)
                    if was is None and not complete:
                        continue
                    have_it = last[0] if was is None else _number(was)
                    want_it = last[1] if should is None else should
                    if not abs(have_it - want_it) <= _SAME:
                        values = {"field": "similarity", "stored": was, "expected": should}
                        yield Difference(kind="similar", key=f"{key} {other}", **values)
        return there

    def _rows(self, label: str, ids: Sequence[str], tx: Transaction | None = None) -> Iterator[Row]:
        """Yield the edges that lead from some nodes: {id, other, similarity, embedder}."""
        run = tx.run if tx else self._graph.read
        for page in pages(ids, PAGE):
            yield from run(f"similarity.links_of_{TEXTS[label]}", ids=page)

    def texts_of(self, label: str) -> dict[str, str]:
        """Return the texts of all nodes of a label, by id."""
        rows = self._graph.read(f"similarity.texts_of_{TEXTS[label]}")
        return {row["id"]: row["text"] for row in rows}


@contextmanager
def queue_changes(tx: Transaction, kind: str, ids: Sequence[str]) -> Iterator[None]:
    """Queue the texts that the block changes, and the neighbours of those that it removes.

    A removed node leaves its neighbours with one similar node less; it leaves the queue itself.
    """
    if kind not in TEXTS:
        yield
        return
    before = read_texts(tx.run, kind, ids)
    links = tx.run(f"similarity.linked_to_{TEXTS[kind]}", ids=list(ids))
    yield
    after = read_texts(tx.run, kind, ids)
    gone = before.keys() - after.keys()
    waiting = {key for key, text in after.items() if text != before.get(key)}
    waiting |= {row["linked"] for row in links if row["id"] in gone} - gone
    if gone:
        tx.run("erasing.drop_pending", ids=sorted(gone))
    if waiting:
        tx.run("similarity.pend", rows=[{"id": key, "kind": kind} for key in sorted(waiting)])


def read_texts(read: Callable[..., list[Row]], label: str, ids: Sequence[str]) -> dict[str, str]:
    """Return the texts of some nodes, by id."""
    statement = "lookup.tasks" if label == "Task" else "lookup.subjects"
    return {row["id"]: row["text"] for row in read(statement, ids=list(ids))}


def _last(links: Mapping[str, float]) -> float:
    """Return the least similarity of nodes without room for more links."""
    return min(map(_number, links.values())) if len(links) == LINKS else _NEVER


def _number(value: object) -> float:
    """Return a similarity that was read; what is no number is near none."""
    return float(value) if isinstance(value, int | float) else math.nan


def best(near: Mapping[str, float]) -> dict[str, float]:
    """Return the most similar nodes, at most :data:`LINKS`, the nearest first, then by id."""
    ranked = sorted(near.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(ranked[:LINKS])


def draw(tx: Transaction, embedder: str, label: str, links: Links) -> None:
    """Write the edges of nodes, instead of those that they have."""
    if not links:
        return
    rows = [
        {"id": key, "links": [{"other": other, "similarity": near[other]} for other in near]}
        for key, near in sorted(links.items())
    ]
    tx.run(f"similarity.link_{TEXTS[label]}", embedder=embedder, rows=rows)
