"""Search by meaning among the entries of levels and the items of views."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from graphmem.errors import StoreError
from graphmem.graph.graph import Graph
from graphmem.search.edges import PAGE
from graphmem.search.similarity import ROUNDED
from graphmem.search.vectors import Vectors
from graphmem.store.paging import pages
from graphmem.store.port import EntryIndex, Levels, Near, Question, Row

_FIRST = 256  # how many of the nearest to look at first
_MORE = 4  # factor for looking at more, if too few match


class EntrySearch:
    """Searches the entries of one namespace's levels."""

    def __init__(self, graph: Graph, vectors: Vectors) -> None:
        self._graph = graph
        self._vectors = vectors
        self._lock = threading.RLock()

    def nearest(self, text: str, asked: Question, levels: Levels, limit: int) -> list[Row]:
        """Return the matching entries of levels, the nearest first.

        Texts without a vector are embedded before. See :meth:`EntryIndex.nearest`.
        """
        if not levels:
            return []
        return self.fresh(levels).nearest(self._vectors.of(text), asked, levels, limit)

    def ranked(self, label: str, text: str) -> Iterator[Near]:
        """Yield what views show, the nearest first: tasks, strategies, or knowledge.

        Equally near ones come together. Texts without a vector are embedded before.
        """
        if label == "Knowledge":
            yield self.fresh(None).near_facts(self._vectors.of(text))
            return
        index = self._vectors.fresh()
        if index is None:
            return
        vector, size, done = self._vectors.of(text, index), _FIRST, 0
        while True:
            found = index.exactly(label, vector, size)
            end = len(found)
            if end == size:  # the next may be as near as the last one
                end = sum(pair[1] > found[-1][1] for pair in found)
            if end > done:
                yield found[done:end]
            if len(found) < size:
                return
            done, size = max(done, end), size * _MORE

    def _opened(self, built: tuple[str, int] | None = None) -> EntryIndex:
        """Return the index of the stored vectors, else that of the embedder in force."""
        built = built or self._vectors.adopt()
        index = self._graph.store.entries(self._graph.ns)
        index.open(*built)
        return index

    def floor(self, texts: int) -> float:
        """Return the similarity from which the nearest of so many entries is relevant."""
        return self._vectors.floor(texts) - ROUNDED

    def tidy(self) -> None:
        """Remove the words of removed entries for good."""
        built = self._vectors.built_for()
        if built is not None:
            with self._lock, self._graph.store.alone():
                self._opened(built).tidy()

    def fresh(self, levels: Levels | None) -> EntryIndex:
        """Return the index with all entries of levels, or facts; embed those without a vector."""
        with self._lock:
            index = self._opened()
            lacking = index.lacking(levels)
            for page in pages(lacking, PAGE):
                texts = sorted({row["text"] for row in page})
                vectors = self._vectors.embedder.embed(texts)
                index.put(page, dict(zip(texts, vectors, strict=True)))
            if lacking and self._save not in self._graph.after_write:
                self._graph.after_write.append(self._save)
            return index

    def embed(self, levels: Levels) -> int:
        """Embed the entries of levels that have no vector, and store that; return how many."""
        self._graph.store.try_writing()
        with self._lock:
            count = len(self._opened().lacking(levels))
            self.fresh(levels)
            return count

    def twins(
        self, level: str, stream: str, compared: tuple[int, str], near: float
    ) -> tuple[list[Row], tuple[int, str]]:
        """Return pairs of near entries of a level, and what was compared, as the index does.

        That is up to which number of the stream, and how. Entries without a vector wait.
        """
        built = self._vectors.built_for()
        if built is None:
            return [], (0, "")
        with self._lock:
            index = self._opened(built)
            way = f"{built[0]}:{built[1]}:{near}"
            last = self._graph.read("levels.ends", ids=[stream])
            lacking = [row["seq"] - 1 for row in index.lacking({level: stream})]
            upto = min([last[0]["last"] if last else 0, *lacking])
            after = compared[0] if compared[1] == way else 0
            return index.twins(level, stream, after, near), (max(after, upto), way)

    def _save(self) -> None:
        """Store after a write the vectors that were made for searches."""
        with contextlib.suppress(StoreError):
            self._graph.store.entries(self._graph.ns).save()
