"""Search on a server, by its vector index and its full-text index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Row
from graphmem.store.queries import procedure
from graphmem.store.vectors import digest
from graphmem.text.words import words

MORE = 4
"""Factor by which the limit grows when too few answers are of this namespace."""
MOST = 20_000
PAGE = 500
_LEAST = 64
"""Smallest limit: the server's approximate search is better with a larger limit."""


class Neo4jIndex:
    """The search index of one namespace's strategies and tasks."""

    def __init__(
        self,
        read: Callable[..., list[Row]],
        write: Callable[..., list[Row]],
        namespace: str,
    ) -> None:
        self._read = read
        self._write = write
        self._namespace = namespace
        self._embedder = ""
        self._dimensions = 0

    def open(self, embedder: str, dimensions: int) -> None:
        """Set the embedder whose vectors count, and their size."""
        self._embedder, self._dimensions = embedder, dimensions

    def with_vectors(self, label: str, texts: Mapping[str, str]) -> set[str]:
        """Return the ids of nodes whose text has a vector of the right size."""
        query = procedure(f"search.digests_of_{TEXTS[label]}")
        ids = sorted(texts)
        return {
            row["id"]
            for page in pages(ids, PAGE)
            for row in self._read(query, ns=self._namespace, ids=page)
            if row["dimensions"] == self._dimensions
            and row["digest"] == self._digest(texts[row["id"]])
        }

    def put(
        self, label: str, texts: Mapping[str, str], vectors: Mapping[str, NDArray[np.float32]]
    ) -> None:
        """Store vectors and words on the nodes."""
        query = procedure(f"search.put_{TEXTS[label]}")
        rows = [
            {
                "id": identity,
                "digest": self._digest(text),
                "words": " ".join(words(text)),
                "vector": vectors[text].tolist(),
            }
            for identity, text in sorted(texts.items())
            if text in vectors
        ]
        for page in pages(rows, PAGE):
            self._write(query, ns=self._namespace, rows=page)

    def near(
        self, label: str, vector: NDArray[np.float32], limit: int, at_least: float = -1.0
    ) -> list[tuple[str, float]]:
        """Return the nearest nodes, by the server's approximate search."""
        name = f"search.near_{TEXTS[label]}"
        rows = self._own(
            name, limit, lambda row: bool(row["similarity"] < at_least), vector=vector.tolist()
        )
        best = [(row["id"], round(float(row["similarity"]), 6)) for row in rows]
        best = [pair for pair in best if pair[1] >= at_least]
        return sorted(best, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def matching(self, label: str, asked: Sequence[str], limit: int) -> list[tuple[str, float]]:
        """Return the nodes that match the words best."""
        text = " ".join(dict.fromkeys(asked))
        if not text:
            return []
        rows = self._own(f"search.{TEXTS[label]}_by_words", limit, words=text)
        return [(row["id"], float(row["score"])) for row in rows][:limit]

    def count(self, label: str) -> int:
        """Return the number of nodes."""
        query = procedure(f"search.count_{TEXTS[label]}")
        return int(self._read(query, ns=self._namespace)[0]["nodes"])

    def vectors(self, label: str, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """Return the vectors of nodes; vectors of another size are left out."""
        query = procedure(f"search.vectors_of_{TEXTS[label]}")
        return {
            row["id"]: np.array(row["vector"], np.float32)
            for page in pages(ids, PAGE)
            for row in self._read(query, ns=self._namespace, ids=page)
            if len(row["vector"]) == self._dimensions
        }

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], NDArray[np.float32]]:
        """Return the nodes that have a vector, and their vectors as rows."""
        vectors = self.vectors(label, ids)
        there = [key for key in ids if key in vectors]
        empty = np.empty((0, self._dimensions), np.float32)
        return there, np.stack([vectors[key] for key in there]) if there else empty

    def tidy(self) -> None:
        """Do nothing: words and vectors are removed with their node."""

    def _digest(self, text: str) -> str:
        """Return a digest of embedder and text, by which an outdated vector is noticed."""
        return digest(f"{self._embedder}\n{text}").hex()

    def _own(
        self,
        name: str,
        limit: int,
        enough: Callable[[Row], bool] = lambda _: False,
        **asked: object,
    ) -> list[Row]:
        """Return the best rows of this namespace; the index spans all namespaces.

        ``enough`` says of the last row whether the rows after it are not wanted.
        """
        size = max(_LEAST, limit)
        while True:
            rows = self._read(procedure(name), ns=self._namespace, limit=size, **asked)
            own = [row for row in rows if row["own"]]
            if len(own) >= limit or len(rows) < size or size >= MOST or enough(rows[-1]):
                return own
            size = min(size * MORE, MOST)
