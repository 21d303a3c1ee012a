"""Vectors of texts: the embedder, the queue of texts without a vector, and the index of the rest.

Learning embeds nothing; it puts new texts into a queue. A search embeds what is in the queue, and
takes no lease for that: if this process has the lease, it stores and links the vectors at once
(:mod:`graphmem.search.edges`), else after its next write. :meth:`Vectors.relink` does so, too.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from graphmem.errors import LockedError, NotFoundError, SettingsError, StorageError
from graphmem.graph.arguments import Progress
from graphmem.graph.graph import Graph
from graphmem.models.reports import Difference, RelinkReport
from graphmem.search.edges import PAGE, Edges, read_texts
from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row, SearchIndex, Vector

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

Ids = dict[str, list[str]]  # ids of nodes, by label

CACHE = 10_000  # most vectors in memory: of questions, and of texts whose vector is not stored yet
_SHARE = 5  # if one in so many nodes is new, linking all anew is quicker
MANY = 1_000  # so many texts without a vector make a search tell that it embeds them first
_LOOK = 60.0
"""Seconds between two looks for lost vectors on a server; an embedded index knows at once."""

_log = logging.getLogger(__name__)


class Vectors:
    """The vectors of the strategies and tasks of one namespace."""

    def __init__(self, graph: Graph, embedder: Embedder | None = None) -> None:
        self._graph = graph
        self._embedder = embedder
        self._edges = Edges(graph)
        self._lock = threading.RLock()
        self._cache: dict[str, Vector] = {}
        self._unstored: dict[str, set[str]] = {}  # what was embedded for answers since a write
        self.index: SearchIndex | None = None  # of the last search
        self.skills: list[str] = []  # the ids of the skills at the last search
        self._looked = -math.inf

    # The embedder

    @property
    def embedder(self) -> Embedder:
        """The embedder: the given one, that of the settings, or that of the memory."""
        if self._embedder is None:
            from graphmem.search.embedding import open_embedder

            built = self.built_for()
            if built is not None and "embedder" not in self._graph.settings.model_fields_set:
                try:
                    self._embedder = open_embedder(built[0])
                except NotFoundError as error:
                    raise SettingsError(
                        f"the memory was embedded with {built[0]}, which is not here; give it to "
                        "Memory.open(embedder=...), or embed the memory anew with "
                        "`graphmem upkeep relink --embedder minilm`"
                    ) from error
            else:
                self._embedder = open_embedder(self._graph.settings.embedder)
        return self._embedder

    def built_for(self) -> tuple[str, int] | None:
        """Return the name and the dimensions of the embedder of the stored vectors, if any."""
        stored = self._edges.state()
        return None if stored["name"] is None else (stored["name"], stored["dimensions"])

    def adopt(self) -> tuple[str, int]:
        """Return name and dimensions of the embedder in force, which a memory that writes keeps."""
        with self._lock:
            stored = self._checked()
            if stored["name"] is None and self._graph.store.writing:
                with contextlib.suppress(StorageError, LockedError):
                    self._store_embedder()
            return self.embedder.name, self.embedder.dimensions

    def _store_embedder(self) -> None:
        embedder, thresholds = self.embedder, self.embedder.thresholds
        self._graph.write(
            "similarity.adopt",
            id=self._edges.embedder_id,
            name=embedder.name,
            dimensions=embedder.dimensions,
            similar=thresholds.similar,
            near=thresholds.near,
            floor=thresholds.lowest,
        )

    def _checked(self, stored: Row | None = None) -> Row:
        """Return the state; refuse to mix vectors of two embedders."""
        stored, embedder = stored or self._edges.state(), self.embedder
        had, have = (stored["name"], stored["dimensions"]), (embedder.name, embedder.dimensions)
        if had[0] is not None and had != have:
            raise SettingsError(
                f"the memory was embedded with {had[0]} ({had[1]} dimensions), in force is "
                f"{have[0]} ({have[1]}); set GRAPHMEM_EMBEDDER={had[0]}, or embed it anew with "
                f"`graphmem upkeep relink --embedder {have[0]}`"
            )
        return stored

    # Searching

    def of(self, text: str, index: SearchIndex | None = None, tasks: Sequence[str] = ()) -> Vector:
        """Return the vector of a text, which may be that of a known node, or of ``tasks`` (ids)."""
        vector = self._cache.get(text)
        if vector is None:
            known = None if index is None else index.known(text)
            if known is None and index is not None and tasks:
                known = next(iter(index.matrix("Task", tasks[:1])[1]), None)
            vector = self.embedder.embed([text])[0] if known is None else known
            self._keep({text: vector})
        return vector

    def floor(self, texts: int) -> float:
        """Return the cosine from which the nearest of so many texts is relevant."""
        given = self._graph.settings.relevance_floor
        return self.embedder.thresholds.relevant(texts) if given is None else given

    def _keep(self, vectors: Mapping[str, Vector]) -> None:
        if len(self._cache) + len(vectors) > CACHE:
            self._cache.clear()
        self._cache.update(vectors)

    def fresh(self) -> SearchIndex | None:
        """Return the index, with all texts of the graph; None for an empty memory."""
        with self._lock:
            stored = self._edges.state()
            self.skills = stored["skills"]
            if not (stored["name"] or stored["pending"] or self._edges.texts_of("Task")):
                return None
            self._checked(stored)
            index, queue = self._opened(), _queue(stored)
            lost: dict[str, set[str]] = {}
            now = time.monotonic()
            if not self._graph.must_lock or now - self._looked >= _LOOK:
                self._looked = now
                lost = {label: {*index.lacking(label)} - {*ids} for label, ids in queue.items()}
            waiting = {label: sorted({*queue[label], *lost.get(label, ())}) for label in TEXTS}
            if any(waiting.values()):
                if stored["name"] is not None and any(lost.values()):
                    _log.warning(
                        "%d texts have no vector: it was lost, damaged, or never stored; they are "
                        "embedded anew",
                        sum(map(len, lost.values())),
                    )
                known = self._unstored
                new = sum(len({*ids} - known.get(at, set())) for at, ids in waiting.items())
                if new >= MANY:
                    _log.warning(
                        "%d texts have no vector yet; this search embeds them first, which can "
                        "take minutes (`graphmem upkeep relink` does so once and for all)",
                        new,
                    )
                index = self._embed(index, waiting)
            self.index = index
            return index

    def _embed(self, index: SearchIndex, waiting: Ids) -> SearchIndex:
        """Embed what waits, and store it if that takes no lease; return the index with it."""
        if self._graph.store.writing:
            try:
                return self._store(waiting)
            except (StorageError, LockedError) as error:
                _log.warning("what searches by meaning is kept in memory for now: %s", error)
        before = self._unstored
        new = any({*ids} - before.get(label, set()) for label, ids in waiting.items())
        if self.index is index and not new:
            return index
        for label, ids in waiting.items():
            for texts in self._texts(label, ids):
                vectors = self._embed_missing(index, label, texts)
                self._keep(vectors)
                index.put(label, texts, vectors)
        self._unstored = {at: {*ids} | before.get(at, set()) for at, ids in waiting.items()}
        if self._store_later not in self._graph.after_write:
            self._graph.after_write.append(self._store_later)
        return index

    def _store_later(self) -> None:
        """Store after a write what reads embedded; the write is done, whatever happens here."""
        if not self._unstored or not self._lock.acquire(blocking=False):
            return
        try:
            self._store({label: sorted(ids) for label, ids in self._unstored.items()})
        except Exception as error:  # noqa: BLE001 - also of an embedder by others
            _log.info("vectors are not stored yet: %s", error)
        finally:
            self._lock.release()

    def _store(self, waiting: Ids) -> SearchIndex:
        """Store the vectors of what waits, and draw its edges; return the index with them.

        Nodes get into the queue before they get a vector, where they wait for their edges.
        """
        self._unstored = {}
        with self._graph.store.alone():
            stored = self._checked()
            if stored["name"] is None:
                self._store_embedder()
        queue = _queue(stored)
        for label, ids in waiting.items():
            for texts in self._texts(label, ids):
                self._put(label, texts, sorted(texts.keys() - {*queue[label]}))
        with self._graph.store.alone():
            index = self._opened()
            index.save()
            server = self._graph.must_lock
            for label, there in _queue(self._edges.state()).items():
                # Another process may have linked them; what has no vector waits on.
                left = {*waiting[label]} & {*there}
                left -= set(() if server else index.lacking(label))
                if left and len(left) * _SHARE >= index.count(label):
                    ids = sorted(self._edges.texts_of(label))
                    self._edges.draw_all(index, label, ids, sorted(left))
                else:
                    for page in pages(sorted(left), PAGE):
                        self._edges.draw_some(index, label, page)
        return index

    def _opened(self, stored: Row | None = None) -> SearchIndex:
        """Return the index of the stored vectors, else that of the embedder in force."""
        index = self._graph.store.index(self._graph.ns)
        embedder = stored or {"name": self.embedder.name, "dimensions": self.embedder.dimensions}
        index.open(embedder["name"], embedder["dimensions"])
        return index

    def _texts(self, label: str, ids: Sequence[str]) -> Iterator[dict[str, str]]:
        """Yield the texts of nodes by id, a page at a time."""
        for page in pages(ids, PAGE):
            yield read_texts(self._graph.read, label, page)

    def _embed_missing(
        self, index: SearchIndex, label: str, texts: Mapping[str, str]
    ) -> dict[str, Vector]:
        """Return vectors for the texts of nodes that have none, by text."""
        embedded = index.with_vectors(label, texts)
        missing = sorted({text for key, text in texts.items() if key not in embedded})
        vectors = {text: self._cache[text] for text in missing if text in self._cache}
        new = [text for text in missing if text not in vectors]
        vectors.update(zip(new, self.embedder.embed(new) if new else (), strict=True))
        return vectors

    def _put(self, label: str, texts: Mapping[str, str], queued: Sequence[str]) -> int:
        """Put nodes into the queue, and store the vectors of texts; return how many are new."""
        self._pend(label, queued)
        vectors = self._embed_missing(self._opened(), label, texts)
        with self._graph.store.alone():
            self._opened().put(label, texts, vectors)
        return len(vectors)

    def _pend(self, label: str, ids: Sequence[str]) -> None:
        for page in pages(ids, PAGE):
            rows = [{"id": key, "kind": label} for key in page]
            self._graph.write("similarity.pend", rows=rows)

    # Upkeep

    def pending(self) -> dict[str, int]:
        """Return how many strategies and tasks wait for their vector or edges, by label.

        Texts whose vector is missing or lost are among them.
        """
        stored = self._edges.state()
        if stored["name"] is None:
            return {label: len(self._edges.texts_of(label)) for label in TEXTS}
        with self._lock:
            waiting = self._waiting(self._opened(stored), stored)
            return {label: len(ids) for label, ids in waiting.items()}

    def relink(
        self, embedder: Embedder | None = None, on_progress: Progress | None = None
    ) -> RelinkReport:
        """Embed texts without a vector, and draw all edges anew.

        A given embedder is the one from now on, and embeds all texts.
        """
        with self._lock:
            if embedder is None:
                self._checked()
            else:
                self._embedder = embedder
                self._cache.clear()
            self._unstored = {}
            self._store_embedder()
            texts = {label: self._edges.texts_of(label) for label in TEXTS}
            total = sum(map(len, texts.values()))
            embedded = done = 0
            for label, of_label in texts.items():
                for page in self._texts(label, sorted(of_label)):
                    lacking = page.keys() - self._opened().with_vectors(label, page)
                    embedded += self._put(label, page, sorted(lacking))
                    done += len(page)
                    if on_progress:
                        on_progress(done, total)
            links = self.rebuild()
            return RelinkReport(
                embedder=self.embedder.name,
                dimensions=self.embedder.dimensions,
                strategies=len(texts["Strategy"]),
                tasks=len(texts["Task"]),
                embedded=embedded,
                links=links,
            )

    def share(self, graph: Graph) -> None:
        """Give the same texts in another store the vectors that are stored here."""
        stored = self._edges.state()
        if stored["name"] is None:
            return
        own, other = self._opened(stored), graph.store.index(graph.ns)
        other.open(stored["name"], stored["dimensions"])
        for label in TEXTS:
            for page in pages(sorted(Edges(graph).texts_of(label)), PAGE):
                texts = read_texts(graph.read, label, page)
                there, rows = own.matrix(label, sorted(own.with_vectors(label, texts)))
                vectors = {texts[key]: vector for key, vector in zip(there, rows, strict=True)}
                other.put(label, {key: texts[key] for key in there}, vectors)

    def tidy(self) -> None:
        """Remove erased texts for good."""
        stored = self._edges.state()
        if stored["name"] is not None:
            with self._lock, self._graph.store.alone():
                self._opened(stored).tidy()
                entries = self._graph.store.entries(self._graph.ns)
                entries.open(stored["name"], stored["dimensions"])
                entries.tidy()
                self._cache.clear()

    def rebuild(self) -> int:
        """Draw all edges anew from the present vectors; return how many. It needs no model.

        Texts without a vector are put into the queue.
        """
        stored = self._edges.state()
        if stored["name"] is None:
            return 0
        links = 0
        with self._lock, self._graph.store.alone():
            index = self._opened(stored)
            index.tidy()
            index.save()
            for label in TEXTS:
                texts = self._edges.texts_of(label)
                embedded = sorted(index.with_vectors(label, texts))
                links += self._edges.draw_all(index, label, embedded, embedded)
                self._pend(label, sorted(texts.keys() - {*embedded}))
        return links

    def verify(self, checked: Counter[str]) -> Iterator[Difference]:
        """Compare vectors and edges with the texts; yield differences, and count what was checked.

        Pending texts are left out; edges are compared only if nothing is pending. A server may miss
        neighbours among more than :data:`SHORTLIST` nodes: there a missing edge is no difference.
        """
        stored = self._edges.state()
        if stored["name"] is None:
            return
        checked.update(vectors=0, similar=0)
        with self._lock:
            index = self._opened(stored)
            waiting = set().union(*self._waiting(index, stored).values())
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

    @staticmethod
    def _waiting(index: SearchIndex, stored: Row) -> dict[str, set[str]]:
        queue = _queue(stored)
        return {label: {*queue[label], *index.lacking(label)} for label in TEXTS}


def _queue(stored: Row) -> Ids:
    """Return the ids of the nodes in the queue, by label."""
    queue: Ids = {label: [] for label in TEXTS}
    for row in stored["pending"]:
        queue[row["kind"]].append(row["id"])
    return queue
