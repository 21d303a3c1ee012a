"""What is similar: searching strategies and tasks by meaning and words, and linking them.

Texts are embedded off the learning path: what is new is marked (:mod:`graphmem.search.queue`), and
is embedded and linked at the next search or by :meth:`Similarity.relink`. Edges SIMILAR_TO lead
from a node to the most similar ones, at most :data:`LINKS`, over the embedder's threshold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from graphmem.errors import NotFoundError, SettingsError, ValidationError
from graphmem.graph.arguments import check_limit, checked_text
from graphmem.graph.derived import upkeep
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import find_strategy
from graphmem.ids import node_id
from graphmem.models import Difference
from graphmem.models.similarity import RelinkReport, SimilarStrategy
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row, SearchIndex
from graphmem.text.words import words

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder
    from graphmem.store.port import Cosines, Vector

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

LINKS = 8
"""Edges SIMILAR_TO that lead from a node at most."""
FUSION = 60
"""What reciprocal rank fusion adds to a rank (Cormack, Clarke & Buettcher 2009)."""
SHORTLIST = 1000
"""Nodes that are looked at when a new one is linked: those that it may be a neighbour of."""
LONGEST = 100_000
"""Characters of a text that is searched for."""
_PAGE = 256
_BLOCK = 128
"""Rows that are compared with all others at once."""
_SHARE = 5
"""Where one in so many nodes is new, all are linked anew: that is quicker."""
_KEPT = 256
"""Vectors of texts that were searched for that are kept."""

Links = dict[str, dict[str, float]]
"""Similarities by the node that an edge leads from, then by the one that it leads to."""


class Hit(NamedTuple):
    """A node that a search found."""

    id: str
    label: str
    """``Strategy`` or ``Task``."""
    similarity: float
    """Cosine of its text and the text that was searched for, in [-1, 1]."""
    vector_rank: int | None
    """From 1; None where it was found by its words alone."""
    text_rank: int | None
    """From 1; None where it was found by its vector alone."""
    fused: float
    """Reciprocal rank fusion of the two, at most 2 / 61."""


class Similarity:
    """Searches and links the strategies and tasks of one namespace."""

    def __init__(self, graph: Graph, embedder: Embedder | None = None) -> None:
        self._graph = graph
        self._settings = graph.settings
        self._embedder = embedder
        self._id = node_id(graph.ns, "Embedder", graph.ns)
        self._lock = threading.RLock()
        self._asked: dict[str, Vector] = {}
        self._index: SearchIndex | None = None

    def search(self, text: str, limit: int = 50) -> list[Hit]:
        """Return the tasks and strategies that fit a text, up to ``limit`` a label and way.

        By meaning (vectors) and by words (BM25), with the ranks of both fused; the best first.
        What is pending is embedded before. An empty memory gives nothing, and loads no model.

        Raises:
            ValidationError: the text is empty, too long, or holds a lone surrogate.
            SettingsError: the memory was built with another embedder than the one in force.
        """
        check_limit(limit)
        asked = searched("text", text)
        index = self.fresh(asked)
        if index is None:
            return []
        hits: list[Hit] = []
        found = index.hits(self.vector(asked), words(asked), limit)
        for label, (near, matching) in found.items():
            similar = dict(matching) | dict(near)
            by_vector = {key: rank for rank, (key, _) in enumerate(near, 1)}
            by_words = {key: rank for rank, (key, _) in enumerate(matching, 1)}
            hits += [
                Hit(
                    key,
                    label,
                    similar[key],
                    by_vector.get(key),
                    by_words.get(key),
                    _fused(by_vector.get(key), by_words.get(key)),
                )
                for key in by_vector | by_words
            ]
        return sorted(hits, key=lambda hit: (-hit.fused, -hit.similarity, hit.id))

    def lenders(self, label: str, text: str) -> list[tuple[str, float]]:
        """Return the ids and similarities of nodes that lend to a strategy or task with a text."""
        hits = self.search(text, LINKS)
        if not hits:
            return []
        thresholds = self.embedder.thresholds
        least = thresholds.near if label == "Task" else thresholds.similar
        return [
            (hit.id, hit.similarity)
            for hit in hits
            if hit.label == label and hit.similarity >= least
        ]

    def vector(self, text: str) -> Vector:
        """Return the vector of a text that is searched for: shape (dimensions,), of length 1."""
        vector = self._asked.get(text)
        if vector is None:
            vector = self.embedder.embed([text])[0]
            if len(self._asked) >= _KEPT:
                self._asked.clear()
            self._asked[text] = vector
        return vector

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> Cosines:
        """Return the similarities of nodes and others, as of the last search.

        The shape is (ids, others); NaN is for what has no vector.
        """
        import numpy as np

        index = self._index or self.fresh()
        if index is None:
            return np.full((len(ids), len(others)), np.nan)
        return index.cosines(label, ids, others)

    def similar(self, strategy: str, limit: int = 10) -> list[SimilarStrategy]:
        """Return the strategies most similar to one (its id or text), the nearest first.

        Raises:
            NotFoundError: there is no such strategy.
        """
        check_limit(limit)
        text = searched("strategy", strategy)
        index = self.fresh()
        own = find_strategy(self._graph, "strategy", text)["id"]
        assert index is not None  # noqa: S101 - there is one where there is a strategy
        vectors = index.vectors("Strategy", [own])
        near = index.near("Strategy", vectors[own], limit + 1)
        linked = {
            row["other"] for row in self._graph.read("similarity.links_of_strategies", ids=[own])
        }
        rows = self._graph.read("similarity.rates", ids=[key for key, _ in near])
        rates = {row.pop("id"): row for row in rows}
        wanted = ("text", "trials", "successes", "mean", "lower", "status")
        return [
            SimilarStrategy(
                id=key,
                similarity=similarity,
                linked=key in linked,
                **{name: rates[key][name] for name in wanted},
            )
            for key, similarity in near
            if key != own and key in rates
        ][:limit]

    def built_with(self) -> str | None:
        """Return the name of what the vectors were made with; None before the first search."""
        stored = self._stored()
        return None if stored is None else str(stored["name"])

    def pending(self) -> dict[str, int]:
        """Return how many strategies and tasks wait for their vector or edges, by label."""
        stored = self._stored()
        if stored is None:
            return {label: len(self._texts_of(label)) for label in TEXTS}
        counts = dict.fromkeys(TEXTS, 0)
        for row in stored["pending"]:
            counts[row["kind"]] += 1
        return counts

    def relink(
        self, embedder: Embedder | None = None, on_progress: Progress | None = None
    ) -> RelinkReport:
        """Embed what has no vector, and draw all edges anew.

        With an embedder, that is the one from now on, and all texts get its vectors.

        Raises:
            SettingsError: no embedder is given, and the memory was built with another one than
                that in force.
        """
        with self._lock:
            if embedder is not None:
                self._embedder = embedder
                self._asked.clear()
            chosen = self.embedder if embedder is None else embedder
            if embedder is None:
                self._check(chosen)
            self._adopt(chosen)
            index = self._graph.store.index(self._graph.ns)
            index.open(chosen.name, chosen.dimensions)
            index.tidy()
            texts = {label: self._texts_of(label) for label in TEXTS}
            total = 2 * sum(map(len, texts.values()))
            embedded = done = 0
            for label, held in texts.items():
                for page in pages(sorted(held), _PAGE):
                    embedded += self._embed(index, label, {key: held[key] for key in page})
                    done += len(page)
                    if on_progress:
                        on_progress(done, total)
            links = 0
            for label, held in texts.items():
                for count, drawn in self._link_all(index, label, sorted(held)):
                    links += drawn
                    done += count
                    if on_progress:
                        on_progress(done, total)
            return RelinkReport(
                embedder=chosen.name,
                dimensions=chosen.dimensions,
                strategies=len(texts["Strategy"]),
                tasks=len(texts["Task"]),
                embedded=embedded,
                links=links,
            )

    def fresh(self, asked: str | None = None) -> SearchIndex | None:
        """Return the index with everything in it that was pending; None for an empty memory.

        The first time, the vector of what is ``asked`` is made while the index is.
        """
        with self._lock:
            stored = self._stored()
            if stored is None and not self._graph.read("similarity.any_text"):
                return None
            embedder = self.embedder
            self._check(embedder, stored)
            index = self._graph.store.index(self._graph.ns)
            if asked is not None and not self._asked:
                with ThreadPoolExecutor(1) as beside:
                    made = beside.submit(self.vector, asked)
                    index.open(embedder.name, embedder.dimensions)
                    made.result()
            else:
                index.open(embedder.name, embedder.dimensions)
            if stored is None:
                waiting = {label: sorted(self._texts_of(label)) for label in TEXTS}
            else:
                waiting = {label: [] for label in TEXTS}
                for row in stored["pending"]:
                    waiting[row["kind"]].append(row["id"])
            if any(waiting.values()):
                index = self._settle(index, waiting, first=stored is None)
            self._index = index
            return index

    @property
    def embedder(self) -> Embedder:
        """What texts are embedded with: the one given, that of the settings, or of the memory."""
        if self._embedder is None:
            from graphmem.search.embedding import open_embedder

            stored = self._stored()
            if stored is not None and "embedder" not in self._settings.model_fields_set:
                try:
                    self._embedder = open_embedder(stored["name"])
                except NotFoundError as error:
                    raise SettingsError(
                        f"the memory was embedded with {stored['name']}, which is not here; give "
                        "it to Memory.open(embedder=...), or embed the memory anew with "
                        "`graphmem upkeep relink --embedder minilm`"
                    ) from error
            else:
                self._embedder = open_embedder(self._settings.embedder)
        return self._embedder

    @property
    def searched_with(self) -> str | None:
        """The name of the embedder of the last search; None where nothing was there to search."""
        return self._embedder.name if self._embedder and self._index else None

    def tidy(self) -> None:
        """Let nothing be left of texts that were erased."""
        if (stored := self._stored()) is not None:
            with self._lock:
                index = self._graph.store.index(self._graph.ns)
                index.open(stored["name"], stored["dimensions"])
                index.tidy()
                self._asked.clear()

    def rebuild(self) -> int:
        """Draw all edges anew from the vectors that there are; return how many. Needs no model.

        Texts that have no vector are marked.
        """
        stored = self._stored()
        if stored is None:
            return 0
        links = 0
        with self._lock:
            index = self._graph.store.index(self._graph.ns)
            index.open(stored["name"], stored["dimensions"])
            index.tidy()
            for label in TEXTS:
                texts = self._texts_of(label)
                embedded = index.with_vectors(label, texts)
                links += sum(drawn for _, drawn in self._link_all(index, label, sorted(embedded)))
                missing = sorted(texts.keys() - embedded)
                rows = [{"id": key, "kind": label} for key in missing]
                for page in pages(rows, _PAGE):
                    self._graph.write("similarity.pend", rows=page)
        return links

    def verify(self) -> tuple[list[Difference], dict[str, int]]:
        """Compare vectors and edges with the texts; return what differs, and what was checked.

        What is pending is left out, and edges are compared where nothing is. A server's index may
        miss neighbours among more than :data:`SHORTLIST` nodes: there only edges that should not
        be there, or with another similarity, are differences.
        """
        stored = self._stored()
        if stored is None:
            return [], {}
        found: list[Difference] = []
        checked = {"vectors": 0, "similar": 0}
        with self._lock:
            index = self._graph.store.index(self._graph.ns)
            index.open(stored["name"], stored["dimensions"])
            waiting = {row["id"] for row in stored["pending"]}
            for label in TEXTS:
                texts = self._texts_of(label)
                embedded = index.with_vectors(label, texts)
                checked["vectors"] += len(embedded)
                found += [
                    Difference(kind="vectors", key=key, field="*", stored=None, expected="present")
                    for key in sorted(texts.keys() - embedded - waiting)
                ]
                if not waiting:
                    links = self._links(label, sorted(texts))
                    checked["similar"] += sum(map(len, links.values()))
                    found += self._compare(index, label, sorted(embedded), links)
        return found, checked

    def _settle(
        self, index: SearchIndex, waiting: Mapping[str, Sequence[str]], *, first: bool
    ) -> SearchIndex:
        """Embed and link what waits; where another process writes, only for the eyes of this.

        Returns the index that it is in: a reader that becomes the writer has another one.
        """
        writing = self._graph.store.try_writing()
        if writing:
            index = self._graph.store.index(self._graph.ns)
            index.open(self.embedder.name, self.embedder.dimensions)
            if first:
                self._adopt(self.embedder)
        for label, ids in waiting.items():
            for page in pages(ids, _PAGE):
                rows = self._graph.read(f"similarity.{TEXTS[label]}", ids=page)
                self._embed(index, label, {row["id"]: row["text"] for row in rows})
        for label, ids in waiting.items():
            if not writing or not ids:
                continue
            if len(ids) * _SHARE >= index.count(label):
                for _ in self._link_all(index, label, sorted(self._texts_of(label))):
                    pass
                self._graph.write("similarity.settle", ids=list(ids))
            else:
                for page in pages(ids, _PAGE):
                    self._link(index, label, page)
        return index

    def _embed(self, index: SearchIndex, label: str, texts: dict[str, str]) -> int:
        """Embed and index nodes; return how many texts were embedded."""
        embedded = index.with_vectors(label, texts)
        missing = sorted({text for key, text in texts.items() if key not in embedded})
        made = self.embedder.embed(missing) if missing else ()
        index.put(label, texts, dict(zip(missing, made, strict=True)))
        return len(missing)

    def _link(self, index: SearchIndex, label: str, ids: Sequence[str]) -> None:
        """Draw the edges of some nodes, and those that lead to them."""
        to = self._graph.read(f"similarity.linked_to_{TEXTS[label]}", ids=list(ids))
        changed = sorted({*ids, *(row["linked"] for row in to)})
        texts = {row["id"]: row["text"] for row in self._texts(label, changed)}
        vectors = index.vectors(label, changed)
        threshold = self._threshold()
        nearest = {
            key: {
                other: similarity
                for other, similarity in index.near(label, vector, SHORTLIST, threshold)
                if other != key
            }
            for key, vector in vectors.items()
        }
        beside: Links = {}
        for key, near in nearest.items():
            for other, similarity in near.items():
                if other not in nearest:
                    beside.setdefault(other, {})[key] = similarity
        name = self.embedder.name

        def work(tx: Transaction) -> None:
            touched = sorted({*changed, *beside})
            tx.run(upkeep("lock", label), ids=touched)
            now = {row["id"]: row["text"] for row in self._texts(label, changed, tx)}
            steady = [key for key in changed if now.get(key) == texts.get(key)]
            links = {key: best(nearest[key]) for key in steady if key in nearest}
            for key, before in self._links(label, sorted(beside), tx).items():
                kept = {other: value for other, value in before.items() if other not in nearest}
                after = best(kept | beside[key])
                if after != before:
                    links[key] = after
            draw(tx, name, label, links)
            tx.run("similarity.settle", ids=steady)

        self._graph.transact(work)

    def _link_all(
        self, index: SearchIndex, label: str, ids: list[str]
    ) -> Iterator[tuple[int, int]]:
        """Draw all edges of a label; yield of how many nodes, and how many edges, as it goes."""
        name = str((self._stored() or {})["name"])
        for page in self._computed(index, label, ids):

            def work(tx: Transaction, page: Links = page) -> None:
                tx.run(upkeep("lock", label), ids=sorted(page))
                draw(tx, name, label, page)
                tx.run("similarity.settle", ids=sorted(page))

            self._graph.transact(work)
            yield len(page), sum(map(len, page.values()))

    def _computed(self, index: SearchIndex, label: str, ids: list[str]) -> Iterator[Links]:
        """Yield the edges that there should be, exactly, a page of nodes at a time."""
        import numpy as np

        there, matrix = index.matrix(label, ids)
        threshold = self._threshold()
        for start in range(0, len(there), _BLOCK):
            scores = matrix[start : start + _BLOCK] @ matrix.T
            page: Links = {}
            for place, row in enumerate(scores, start):
                row[place] = -2.0
                least = threshold
                if len(row) > LINKS:
                    least = max(least, float(np.partition(row, -LINKS)[-LINKS]))
                near = np.flatnonzero(row >= least - 1e-6)
                page[there[place]] = best(
                    {
                        there[other]: similarity
                        for other in near.tolist()
                        if (similarity := round(float(row[other]), 6)) >= threshold
                    }
                )
            yield page

    def _compare(
        self, index: SearchIndex, label: str, ids: list[str], stored: Links
    ) -> Iterator[Difference]:
        """Yield edges that are not as they should be."""
        complete = not self._graph.store.capabilities.server or len(ids) <= SHORTLIST
        for page in self._computed(index, label, ids):
            for key, expected in page.items():
                have = stored.get(key, {})
                for other in sorted(have.keys() | expected.keys()):
                    was, should = have.get(other), expected.get(other)
                    if was is None and not complete:
                        continue
                    if was is None or should is None or abs(was - should) > 2e-6:
                        yield Difference(
                            kind="similar",
                            key=f"{key} {other}",
                            field="similarity",
                            stored=was,
                            expected=should,
                        )

    def _links(self, label: str, ids: Sequence[str], tx: Transaction | None = None) -> Links:
        run = tx.run if tx else self._graph.read
        links: Links = {key: {} for key in ids}
        for page in pages(ids, _PAGE):
            for row in run(f"similarity.links_of_{TEXTS[label]}", ids=page):
                links[row["id"]][row["other"]] = row["similarity"]
        return links

    def _texts(self, label: str, ids: Sequence[str], tx: Transaction | None = None) -> list[Row]:
        run = tx.run if tx else self._graph.read
        return run(f"similarity.{TEXTS[label]}", ids=list(ids))

    def _texts_of(self, label: str) -> dict[str, str]:
        rows = self._graph.read(f"similarity.texts_of_{TEXTS[label]}")
        return {row["id"]: row["text"] for row in rows}

    def _stored(self) -> Row | None:
        """Return what vectors are made with, and what waits (``similarity.state``), if any are."""
        return next(iter(self._graph.read("similarity.state", id=self._id)), None)

    def _threshold(self) -> float:
        """Return the similarity from which on nodes are linked."""
        return float((self._stored() or {})["similar"])

    def _adopt(self, embedder: Embedder) -> None:
        self._graph.write(
            "similarity.adopt",
            id=self._id,
            name=embedder.name,
            dimensions=embedder.dimensions,
            similar=embedder.thresholds.similar,
            near=embedder.thresholds.near,
        )

    def _check(self, embedder: Embedder, stored: Row | None = None) -> None:
        """Refuse to mix vectors of two embedders."""
        stored = stored or self._stored()
        if stored is None:
            return
        had, have = (stored["name"], stored["dimensions"]), (embedder.name, embedder.dimensions)
        if had != have:
            raise SettingsError(
                f"the memory was embedded with {had[0]} ({had[1]} dimensions), in force is "
                f"{have[0]} ({have[1]}); set GRAPHMEM_EMBEDDER={had[0]}, or embed it anew with "
                f"`graphmem upkeep relink --embedder {have[0]}`"
            )


def searched(field: str, text: str) -> str:
    """Return a text that is searched for, as texts are stored.

    Raises:
        ValidationError: it is no text, empty, too long, or holds a lone surrogate.
    """
    asked = str(checked_text(field, text)) if text is not None else ""
    if not asked:
        raise ValidationError(field, text, "is empty", "say what it is about")
    if len(asked) > LONGEST:
        raise ValidationError(
            field, asked[:40], f"has {len(asked):,} characters", f"give at most {LONGEST:,}"
        )
    return asked


def best(near: Mapping[str, float]) -> dict[str, float]:
    """Return the most similar nodes, at most :data:`LINKS`, the nearest first, then by id."""
    ranked = sorted(near.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(ranked[:LINKS])


def draw(tx: Transaction, embedder: str, label: str, links: Links) -> None:
    """Write the edges of nodes in place of those that they have."""
    if not links:
        return
    rows = [
        {"id": key, "other": other, "similarity": similarity}
        for key, near in sorted(links.items())
        for other, similarity in near.items()
    ]
    tx.run(f"similarity.unlink_{TEXTS[label]}", ids=sorted(links))
    if rows:
        tx.run(f"similarity.link_{TEXTS[label]}", embedder=embedder, rows=rows)


def _fused(*ranks: int | None) -> float:
    return sum(1.0 / (FUSION + rank) for rank in ranks if rank is not None)
