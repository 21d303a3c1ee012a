"""What is similar: searching strategies and tasks by meaning and words, and linking them.

Learning does not embed texts. New texts are marked (:mod:`graphmem.search.queue`); the next search,
or :meth:`Similarity.relink`, embeds and links them (:mod:`graphmem.search.edges`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from graphmem.errors import LockedError, NotFoundError, SettingsError, StorageError
from graphmem.forks import in_child, renew_lock
from graphmem.graph.access import EVERYTHING, View
from graphmem.graph.arguments import check_limit, searched
from graphmem.graph.graph import Graph
from graphmem.graph.lookup import find_strategy
from graphmem.graph.nearness import NearTasks
from graphmem.ids import node_id
from graphmem.models import Difference
from graphmem.models.similarity import RelinkReport, SimilarStrategy
from graphmem.notebook.frames import Listed
from graphmem.search.edges import LINKS, PAGE, Edges
from graphmem.search.queue import queued
from graphmem.search.queue import waiting as waiting_in
from graphmem.search.seen import Seen
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row, SearchIndex
from graphmem.text.words import words

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder
    from graphmem.store.port import Cosines, Vector

Progress = Callable[[int, int], None]
"""Called with the number of finished steps, and of all."""

FUSION = 60
"""The constant of reciprocal rank fusion, added to a rank (Cormack, Clarke & Buettcher 2009)."""
_SHARE = 5
"""If one in so many nodes is new, linking all anew is quicker."""
ROUNDED = 1e-6
"""How far the cosine of a text with itself may be from 1."""
_UNSEEN = 100
"""The assumed number of texts of a label, if there may be more than were looked at."""
_KEPT = 256
"""Vectors of searched texts to keep."""
_LOOK = 60.0
"""Seconds between two looks for lost vectors on a server; an embedded index knows at once."""

_log = logging.getLogger(__name__)


class Hit(NamedTuple):
    """A node that a search found."""

    id: str
    label: str
    """``Strategy`` or ``Task``."""
    similarity: float
    """Cosine of its text and the text that was searched for, in [-1, 1]."""
    vector_rank: int | None
    """From 1; None if only its words found it."""
    text_rank: int | None
    """From 1; None if only its vector found it."""
    fused: float
    """Reciprocal rank fusion of the two, at most 2 / 61."""


class Similarity:
    """Searches and links the strategies and tasks of one namespace."""

    def __init__(self, graph: Graph, embedder: Embedder | None = None) -> None:
        self._graph = graph
        self._embedder = embedder
        self._id = node_id(graph.ns, "Embedder", graph.ns)
        self._edges = Edges(graph)
        self._lock = threading.RLock()
        in_child(self, renew_lock)
        self._asked: dict[str, Vector] = {}
        self._index: SearchIndex | None = None
        self._looked = -math.inf
        self._told = False

    def search(self, text: str, limit: int = 50, view: View = EVERYTHING) -> list[Hit]:
        """Return the tasks and strategies that match a text, up to ``limit`` for a label and way.

        It searches by meaning (vectors) and by words (BM25), and fuses the ranks of both; the best
        come first. Pending texts are embedded before. An empty memory gives nothing, and loads no
        model. ``view`` is the readable part of the memory: it finds only what is in it.

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
        vector, said = self.vector(asked, index), words(asked)
        found = index.hits(vector, said, limit)
        if view.agents is not None:
            for label, (near, matching) in found.items():
                seen = Seen(self._graph, index, label, vector, limit, view)
                found[label] = seen.near(near), seen.matching(said, matching)
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

    def nearest(self, label: str, text: str, view: View = EVERYTHING) -> list[tuple[str, float]]:
        """Return the :data:`LINKS` nodes nearest to a text by meaning alone, the nearest first."""
        asked = searched("text", text)
        index = self.fresh(asked)
        if index is None:
            return []
        vector = self.vector(asked, index)
        found = index.near(label, vector, LINKS)
        if view.agents is None:
            return found
        return list(Seen(self._graph, index, label, vector, LINKS, view).near(found))

    def near_strategies(self, text: str, view: View = EVERYTHING) -> list[tuple[str, float]]:
        """Return the ids and similarities of the strategies that lend to a strategy with a text."""
        near = self.nearest("Strategy", text, view)
        least = self.embedder.thresholds.similar if near else 1.0
        return [pair for pair in near if pair[1] >= least]

    def near_tasks(self, text: str, view: View = EVERYTHING) -> NearTasks:
        """Return the tasks to which a text is relevantly similar.

        The nearest one can lend its type if their similarity is at least the embedder's ``near``,
        which one in 1,000 pairs of unrelated texts exceeds.
        """
        return self._lending(self.nearest("Task", text, view), view)

    def near_tasks_of(self, hits: Sequence[Hit], view: View = EVERYTHING) -> NearTasks:
        """Return the same from the hits of a search for at least :data:`LINKS`."""
        ranks = [
            (hit.vector_rank, hit.id, hit.similarity)
            for hit in hits
            if hit.label == "Task" and hit.vector_rank and hit.vector_rank <= LINKS
        ]
        return self._lending([(key, similarity) for _, key, similarity in sorted(ranks)], view)

    def _lending(self, near: Sequence[tuple[str, float]], view: View) -> NearTasks:
        least = max(self._floor("Task", len(near), LINKS, view) - ROUNDED, 0.0)
        tasks = tuple(pair for pair in near if pair[1] >= least)
        lends = bool(tasks) and tasks[0][1] >= self.embedder.thresholds.near
        return NearTasks(tasks, tasks[0][0] if lends else None)

    def floors(self, hits: Sequence[Hit], limit: int, view: View = EVERYTHING) -> dict[str, float]:
        """Return by label the similarity below which no hit is relevant.

        It is the setting ``relevance_floor``, else the embedder's, which depends on the number of
        nodes (:meth:`graphmem.search.embedding.Thresholds.relevant`). For a reader that may not
        read everything, that is the number of hits, or :data:`_UNSEEN` if the search, with its
        ``limit``, may have left some out: what others did must not show.
        """
        found = Counter(hit.label for hit in hits if hit.vector_rank is not None)
        return {label: self._floor(label, found[label], limit, view) for label in TEXTS}

    def _floor(self, label: str, found: int, limit: int, view: View) -> float:
        """Return the floor for a label with so many hits."""
        given = self._graph.settings.relevance_floor
        if given is not None or self._index is None:
            return 0.0 if given is None else given
        if view.agents is None:
            return self.embedder.thresholds.relevant(self._index.count(label))
        return self.embedder.thresholds.relevant(found if found < limit else _UNSEEN)

    def vector(self, text: str, index: SearchIndex | None = None) -> Vector:
        """Return the vector of a searched text: shape (dimensions,), of length 1.

        The text may be that of a known task or strategy, whose vector an index has.
        """
        vector = self._asked.get(text)
        if vector is None:
            vector = None if index is None else index.known(text)
            if vector is None:
                vector = self.embedder.embed([text])[0]
            if len(self._asked) >= _KEPT:
                self._asked.clear()
            self._asked[text] = vector
        return vector

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> Cosines:
        """Return the similarities of nodes and others, as of the last search.

        The shape is (ids, others); NaN stands for a missing vector.
        """
        from graphmem.arrays import np

        index = self._index or self.fresh()
        if index is None:
            return np.full((len(ids), len(others)), np.nan)
        return index.cosines(label, ids, others)

    def similar(self, strategy: str, limit: int = 10) -> Listed[SimilarStrategy]:
        """Return the strategies with the most similar texts, the nearest first.

        Strategies are linked (SIMILAR_TO) if the similarity is over the embedder's threshold. They
        are never merged automatically; ``memory.lessons.merge`` does that. New texts are embedded
        first.

        Args:
            strategy: its id or text.
            limit: most strategies to return.

        Raises:
            NotFoundError: there is no such strategy.
            SettingsError: the memory was built with another embedder.
            ValidationError: an argument is wrong.
        """
        check_limit(limit)
        text = searched("strategy", strategy)
        found = find_strategy(self._graph, "strategy", text)
        own = found["id"]
        index = self.fresh()
        if index is None:  # it was erased meanwhile
            return Listed()
        vector = index.vectors("Strategy", [own]).get(own)
        if vector is None:
            vector = self.vector(found["text"])
        near = index.near("Strategy", vector, limit + 1)
        linked = {
            row["other"] for row in self._graph.read("similarity.links_of_strategies", ids=[own])
        }
        rows = self._graph.read("similarity.rates", ids=[key for key, _ in near])
        rates = {row.pop("id"): row for row in rows}
        wanted = ("text", "trials", "successes", "mean", "lower", "status")
        others = [one for one in near if one[0] != own and one[0] in rates]
        return Listed(
            SimilarStrategy(
                id=key,
                similarity=similarity,
                linked=key in linked,
                **{name: rates[key][name] for name in wanted},
            )
            for key, similarity in others[:limit]
        )

    def built_with(self) -> str | None:
        """Return the name of the embedder of the vectors; None before the first search."""
        stored = self._edges.state()
        return None if stored is None else str(stored["name"])

    def pending(self) -> dict[str, int]:
        """Return how many strategies and tasks wait for their vector or edges, by label.

        Texts whose vector is missing or lost are among them.
        """
        stored = self._edges.state()
        if stored is None:
            return {label: len(self._edges.texts_of(label)) for label in TEXTS}
        with self._lock:
            index = self._opened(stored)
            return {label: len(ids) for label, ids in waiting_in(stored, index).items()}

    def relink(
        self, embedder: Embedder | None = None, on_progress: Progress | None = None
    ) -> RelinkReport:
        """Embed texts without a vector, and draw all edges anew.

        A given embedder is the one from now on, and embeds all texts.

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
            with self._graph.store.alone():
                index = self._opened()
                index.tidy()
            texts = {label: self._edges.texts_of(label) for label in TEXTS}
            total = 2 * sum(map(len, texts.values()))
            embedded = done = 0
            for label, held in texts.items():
                for page in pages(sorted(held), PAGE):
                    of_page = {key: held[key] for key in page}
                    made = self._made(index, label, of_page)
                    self._pend(label, [key for key in page if held[key] in made])
                    index = self._put(index, label, of_page, made)
                    embedded += len(made)
                    done += len(page)
                    if on_progress:
                        on_progress(done, total)
            links = 0
            with self._graph.store.alone():
                index = self._opened()
                for label, held in texts.items():
                    for count, drawn in self._edges.draw_all(index, label, sorted(held)):
                        links += drawn
                        done += count
                        if on_progress:
                            on_progress(done, total)
                    self._edges.settle(sorted(held))
            return RelinkReport(
                embedder=chosen.name,
                dimensions=chosen.dimensions,
                strategies=len(texts["Strategy"]),
                tasks=len(texts["Task"]),
                embedded=embedded,
                links=links,
            )

    def fresh(self, asked: str | None = None) -> SearchIndex | None:
        """Return the index with everything that was pending; None for an empty memory.

        The first time, it makes the vector of ``asked`` while it builds the index.
        """
        with self._lock:
            stored = self._edges.state()
            if stored is None and not self._graph.read("similarity.any_text"):
                return None
            embedder = self.embedder
            self._check(embedder, stored)
            index = self._graph.store.index(self._graph.ns)
            if asked is not None and self._index is None:
                with ThreadPoolExecutor(1) as beside:
                    made = beside.submit(self.vector, asked)
                    index.open(embedder.name, embedder.dimensions)
                    made.result()
            else:
                index.open(embedder.name, embedder.dimensions)
            if stored is None:
                waiting = unmarked = {label: sorted(self._edges.texts_of(label)) for label in TEXTS}
            else:
                marked = queued(stored)
                unmarked = self._lost(index, marked) if self._looks() else {}
                waiting = {label: [*marked[label], *unmarked.get(label, ())] for label in TEXTS}
            if any(waiting.values()):
                index = self._settle(index, waiting, unmarked, first=stored is None)
            self._index = index
            return index

    def state(self) -> Row | None:
        """Return the embedder of the vectors (``similarity.state``), if there are any."""
        return self._edges.state()

    def adopted(self) -> Embedder:
        """Return the embedder in force, which the memory keeps from now on.

        Raises:
            SettingsError: the memory was built with another one.
        """
        with self._lock:
            stored = self._edges.state()
            self._check(self.embedder, stored)
            if stored is None and self._graph.store.try_writing():
                with self._stored_if_possible():
                    self._adopt(self.embedder)
            return self.embedder

    def _looks(self) -> bool:
        """Return whether to look for lost vectors now."""
        now = time.monotonic()
        if self._graph.store.capabilities.server and now - self._looked < _LOOK:
            return False
        self._looked = now
        return True

    @property
    def embedder(self) -> Embedder:
        """The embedder: the given one, that of the settings, or that of the memory."""
        if self._embedder is None:
            from graphmem.search.embedding import open_embedder

            stored = self._edges.state()
            if stored is not None and "embedder" not in self._graph.settings.model_fields_set:
                try:
                    self._embedder = open_embedder(stored["name"])
                except NotFoundError as error:
                    raise SettingsError(
                        f"the memory was embedded with {stored['name']}, which is not here; give "
                        "it to Memory.open(embedder=...), or embed the memory anew with "
                        "`graphmem upkeep relink --embedder minilm`"
                    ) from error
            else:
                self._embedder = open_embedder(self._graph.settings.embedder)
        return self._embedder

    @property
    def searched_with(self) -> str | None:
        """The name of the embedder of the last search; None if there was nothing to search."""
        return self._embedder.name if self._embedder and self._index else None

    def tidy(self) -> None:
        """Remove erased texts for good."""
        if (stored := self._edges.state()) is not None:
            with self._lock, self._graph.store.alone():
                index = self._opened(stored)
                index.tidy()
                self._asked.clear()

    def rebuild(self) -> int:
        """Draw all edges anew from the present vectors; return how many. It needs no model.

        Texts without a vector are marked.
        """
        stored = self._edges.state()
        if stored is None:
            return 0
        links = 0
        with self._lock, self._graph.store.alone():
            index = self._opened(stored)
            index.tidy()
            for label in TEXTS:
                texts = self._edges.texts_of(label)
                embedded = index.with_vectors(label, texts)
                links += sum(
                    drawn for _, drawn in self._edges.draw_all(index, label, sorted(embedded))
                )
                self._edges.settle(sorted(embedded))
                self._pend(label, sorted(texts.keys() - embedded))
        return links

    def verify(self, checked: Counter[str]) -> Iterator[Difference]:
        """Compare vectors and edges with the texts; yield differences, and count what was checked.

        Pending texts are left out; edges are compared only if nothing is pending. A server's index
        may miss neighbours among more than :data:`SHORTLIST` nodes: there only wrong edges, or
        wrong similarities, are differences.
        """
        stored = self._edges.state()
        if stored is None:
            return
        checked.update(vectors=0, similar=0)
        with self._lock:
            index = self._opened(stored)
            waiting = set().union(*waiting_in(stored, index).values())
            for label in TEXTS:
                texts = self._edges.texts_of(label)
                embedded = index.with_vectors(label, texts)
                checked["vectors"] += len(embedded)
                for key in sorted(texts.keys() - embedded - waiting):
                    yield Difference(
                        kind="vectors", key=key, field="*", stored=None, expected="present"
                    )
                if not waiting:
                    checked["similar"] += yield from self._edges.compare(
                        index, label, sorted(embedded), sorted(texts)
                    )

    def _settle(
        self,
        index: SearchIndex,
        waiting: Mapping[str, Sequence[str]],
        unmarked: Mapping[str, Sequence[str]],
        *,
        first: bool,
    ) -> SearchIndex:
        """Embed and link what waits, of which some is not in the queue yet.

        If another process writes, or the disk is full, only this process sees the result. Return
        the index with it: a reader that becomes the writer has another one.
        """
        lost = 0 if first else sum(map(len, unmarked.values()))
        if lost:
            said = "%d texts have no vector: it was lost, damaged, or never stored; they are "
            _log.warning(said + "embedded anew", lost)
        writing, server = self._graph.store.try_writing(), self._graph.must_lock
        if writing:
            index = self._opened()
        with self._stored_if_possible():
            if writing and first:
                self._adopt(self.embedder)
            for label, ids in unmarked.items() if writing else ():
                self._pend(label, ids)
        for label, ids in waiting.items():
            for page in pages(ids, PAGE):
                rows = self._graph.read(f"similarity.{TEXTS[label]}", ids=page)
                texts = {row["id"]: row["text"] for row in rows}
                made = self._made(index, label, texts)
                if writing:
                    index = self._put(index, label, texts, made)
                else:
                    index.put(label, texts, made)
        if writing:
            with self._stored_if_possible(), self._graph.store.alone():
                index = self._opened()
                stored = self._edges.state()
                for label, there in queued(stored).items() if stored is not None else ():
                    # Another process may have linked them; what was not stored waits on.
                    left = {*waiting[label]} & {*there}
                    if left := left.difference(() if server else index.lacking(label)):
                        self._link_waiting(index, label, sorted(left))
                self._told = False
        return index

    def _pend(self, label: str, ids: Sequence[str]) -> None:
        """Put nodes into the queue before they get a vector: they wait for their edges then."""
        for page in pages(ids, PAGE):
            rows = [{"id": key, "kind": label} for key in page]
            self._graph.write("similarity.pend", rows=rows)

    @staticmethod
    def _lost(index: SearchIndex, waiting: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Return the nodes without a vector that are not in the queue, by label."""
        return {
            label: sorted(set(index.lacking(label)).difference(ids))
            for label, ids in waiting.items()
        }

    def _link_waiting(self, index: SearchIndex, label: str, ids: Sequence[str]) -> None:
        if len(ids) * _SHARE >= index.count(label):
            for _ in self._edges.draw_all(index, label, sorted(self._edges.texts_of(label))):
                pass
            self._edges.settle(ids)
        else:
            for page in pages(ids, PAGE):
                self._edges.draw_some(index, label, page)

    @contextlib.contextmanager
    def _stored_if_possible(self) -> Iterator[None]:
        """Go on without what cannot be stored, and say so, but not at every search."""
        try:
            yield
        except (StorageError, LockedError) as error:
            say = _log.debug if self._told else _log.warning
            say("what searches by meaning is kept in memory, and made again later: %s", error)
            self._told = True

    def _opened(self, stored: Row | None = None) -> SearchIndex:
        """Return the index for the stored vectors, else for the embedder in force."""
        index = self._graph.store.index(self._graph.ns)
        if stored is None:
            index.open(self.embedder.name, self.embedder.dimensions)
        else:
            index.open(stored["name"], stored["dimensions"])
        return index

    def _put(
        self,
        index: SearchIndex,
        label: str,
        texts: Mapping[str, str],
        made: Mapping[str, Vector],
    ) -> SearchIndex:
        """Index nodes with the new vectors, and return the index with them.

        That is another index if another process wrote meanwhile.
        """
        try:
            with self._graph.store.alone():
                index = self._opened()
                index.put(label, texts, made)
        except LockedError:  # then only memory has them
            index.put(label, texts, made)
        return index

    def _made(self, index: SearchIndex, label: str, texts: dict[str, str]) -> dict[str, Vector]:
        """Return vectors for the texts of nodes that have none, by text."""
        embedded = index.with_vectors(label, texts)
        missing = sorted({text for key, text in texts.items() if key not in embedded})
        made = {text: self._asked[text] for text in missing if text in self._asked}
        new = [text for text in missing if text not in made]
        made.update(zip(new, self.embedder.embed(new) if new else (), strict=True))
        return made

    def _adopt(self, embedder: Embedder) -> None:
        thresholds = embedder.thresholds
        self._graph.write(
            "similarity.adopt",
            id=self._id,
            name=embedder.name,
            dimensions=embedder.dimensions,
            similar=thresholds.similar,
            near=thresholds.near,
            floor=thresholds.near if thresholds.floor is None else thresholds.floor,
        )

    def _check(self, embedder: Embedder, stored: Row | None = None) -> None:
        """Refuse to mix vectors of two embedders."""
        stored = stored or self._edges.state()
        if stored is None:
            return
        had, have = (stored["name"], stored["dimensions"]), (embedder.name, embedder.dimensions)
        if had != have:
            raise SettingsError(
                f"the memory was embedded with {had[0]} ({had[1]} dimensions), in force is "
                f"{have[0]} ({have[1]}); set GRAPHMEM_EMBEDDER={had[0]}, or embed it anew with "
                f"`graphmem upkeep relink --embedder {have[0]}`"
            )


def _fused(*ranks: int | None) -> float:
    return sum(1.0 / (FUSION + rank) for rank in ranks if rank is not None)
