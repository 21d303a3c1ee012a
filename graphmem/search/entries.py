"""Search by meaning among the entries of levels: embedding what is new, and asking the index."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from graphmem.forks import in_child, renew_lock
from graphmem.graph.graph import Graph
from graphmem.search.similarity import Similarity, searched
from graphmem.store.paging import pages
from graphmem.store.port import EntryIndex, Question, Row

PAGE = 256


class EntrySearch:
    """Searches the entries of one namespace's levels."""

    def __init__(self, graph: Graph, similarity: Similarity) -> None:
        self._graph = graph
        self._similarity = similarity
        self._lock = threading.RLock()
        in_child(self, renew_lock)

    def nearest(
        self, text: str, asked: Question, levels: Mapping[str, str], limit: int
    ) -> list[Row]:
        """Return the entries of levels (ids of their streams, by id) that fit, the nearest first.

        What has no vector is embedded before. See :meth:`EntryIndex.nearest`.

        Raises:
            ValidationError: the text is empty, too long, or holds a lone surrogate.
            SettingsError: the memory was built with another embedder than the one in force.
        """
        wanted = searched("text", text)
        if not levels:
            return []
        index = self.fresh(levels)
        return index.nearest(self._similarity.vector(wanted), asked, levels, limit)

    def tidy(self) -> None:
        """Let nothing be left of the words of removed entries."""
        stored = self._similarity.state()
        if stored is not None:
            with self._lock:
                index = self._graph.store.entries(self._graph.ns)
                index.open(stored["name"], stored["dimensions"])
                index.tidy()

    def fresh(self, levels: Mapping[str, str]) -> EntryIndex:
        """Return the index with all entries of levels in it; embed those that have no vector."""
        with self._lock:
            embedder = self._similarity.adopted()
            index = self._graph.store.entries(self._graph.ns)
            index.open(embedder.name, embedder.dimensions)
            for page in pages(index.lacking(levels), PAGE):
                texts = sorted({row["text"] for row in page})
                index.put(page, dict(zip(texts, embedder.embed(texts), strict=True)))
            return index
