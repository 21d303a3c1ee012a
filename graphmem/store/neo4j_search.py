"""Search on a server, by its vector index and its full-text index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from graphmem.store.paging import pages
from graphmem.store.port import TEXTS, Levels, Near, Question, Row, Run
from graphmem.store.queries import procedure
from graphmem.store.vectors import Matrix, digest
from graphmem.text.words import words

MORE = 4  # factor by which the limit grows at most when too few answers are of this namespace
SPARE = 1.25  # factor by which more is asked for than the share of this namespace needs
MOST = 20_000
PAGE = 500
_ALL = 1_000_000_000
_LARGE, _RECOUNT = 1_000, 10.0  # nodes whose number may be so many seconds old: to count takes long
_LEAST = 64  # smallest limit: the server's approximate search is better with a larger limit


class _ServerIndex:
    """A search index of one namespace on a server: vectors lie on their nodes."""

    def __init__(self, read: Run, write: Run, namespace: str) -> None:
        self._read = read
        self._write = write
        self._namespace = namespace
        self._embedder = ""
        self._dimensions = 0
        self._counts: dict[str, int] = {}
        """Nodes by label: a search needs their number several times, and a server counts them."""

    def open(self, embedder: str, dimensions: int) -> None:
        self._embedder, self._dimensions = embedder, dimensions

    def save(self) -> None:
        """Do nothing: a vector is stored as soon as it is made."""

    def tidy(self) -> None:
        """Do nothing: words and vectors are removed with their node."""

    def _ask(self, name: str, **params: object) -> list[Row]:
        return self._read(procedure(name), ns=self._namespace, **params)

    def _put(self, name: str, rows: Sequence[Row], **common: str) -> None:
        for page in pages(rows, PAGE):
            self._write(procedure(name), ns=self._namespace, rows=page, **common)


class Neo4jIndex(_ServerIndex):
    """The search index of one namespace's strategies and tasks, opened anew for each search."""

    shares: dict[tuple[str, str], float]
    """The share of this namespace in what each search (statement and label) found last: one search
    is to be enough."""
    counted: dict[str, tuple[int, float]]
    """How many nodes of each label there were when they were counted last, and when that was."""

    def with_vectors(self, label: str, texts: Mapping[str, str]) -> set[str]:
        return {
            row["id"]
            for page in pages(sorted(texts), PAGE)
            for row in self._ask(f"search.digests_of_{TEXTS[label]}", ids=page)
            if row["dimensions"] == self._dimensions
            and row["digest"] == self._digest(texts[row["id"]])
        }

    def lacking(self, label: str) -> list[str]:
        rows = self._ask(f"search.lacking_{TEXTS[label]}", dimensions=self._dimensions)
        return [row["id"] for row in rows]

    def put(self, label: str, texts: Mapping[str, str], vectors: Mapping[str, Matrix]) -> None:
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
        self._put(f"search.put_{TEXTS[label]}", rows)

    def near(self, label: str, vector: Matrix, limit: int, at_least: float = -1.0) -> Near:
        own = self._own("search.near", label, limit, at_least, vector=vector.tolist())
        best = [pair for pair in own if pair[1] >= at_least]
        return sorted(best, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def exactly(self, label: str, vector: Matrix, limit: int) -> Near:
        rows = self._ask(f"search.ranked_{TEXTS[label]}", vector=vector.tolist(), limit=limit)
        return [(row["id"], row["similarity"]) for row in rows]

    def matching(self, label: str, words: Sequence[str], vector: Matrix, limit: int) -> Near:
        if not words:
            return []
        asked = {"words": " ".join(dict.fromkeys(words)), "vector": vector.tolist()}
        return self._own("search.matching", label, limit, **asked)[:limit]

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        params = {"ids": list(ids), "others": list(others), "dimensions": self._dimensions}
        rows = self._ask(f"search.cosines_of_{TEXTS[label]}", **params)
        found = {row["id"]: row["cosines"] for row in rows}
        nothing = [None] * len(others)
        return np.array([found.get(key, nothing) for key in ids], np.float64)

    def count(self, label: str) -> int:
        if label not in self._counts:
            nodes, at = self.counted.get(label, (0, 0.0))
            if nodes < _LARGE or monotonic() - at > _RECOUNT:
                nodes = int(self._ask(f"search.count_{TEXTS[label]}")[0]["nodes"])
                self.counted[label] = nodes, monotonic()
            self._counts[label] = nodes
        return self._counts[label]

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], Matrix]:
        """Return nodes and their vectors; vectors of another size are left out."""
        vectors = {
            row["id"]: row["vector"]
            for page in pages(ids, PAGE)
            for row in self._ask(f"search.vectors_of_{TEXTS[label]}", ids=page)
            if len(row["vector"]) == self._dimensions
        }
        there = [key for key in ids if key in vectors]
        rows = np.array([vectors[key] for key in there], np.float32)
        return there, rows.reshape(-1, self._dimensions)

    def known(self, text: str) -> Matrix | None:  # noqa: ARG002
        """Return None: to ask the server takes about as long as to make the vector."""
        return None

    def same_tasks(self, text: str) -> list[str] | None:
        found = self._ask("search.same_tasks", digest=self._digest(text))
        return [row["id"] for row in found]

    def _digest(self, text: str) -> str:
        return digest(f"{self._embedder}\n{text}").hex()

    def _own(self, name: str, label: str, limit: int, least: float = -1.0, **asked: object) -> Near:
        """Return the best of this namespace; the index spans all namespaces.

        A score under the least that is wanted ends the search.
        """
        search = name, label
        size = self._size(search, limit)
        while True:
            row = self._ask(name, index=label.lower(), size=size, **asked)[0]
            own, seen = row["ids"], row["seen"]
            self.shares[search] = (len(own) + 1) / (seen + 1)
            if len(own) >= limit or seen < size or size >= MOST or row["least"] < least:
                scores = (round(float(score), 6) for score in row["scores"])
                return list(zip(own, scores, strict=True))
            size = min(max(size + limit, self._size(search, limit)), size * MORE, MOST)

    def _size(self, search: tuple[str, str], limit: int) -> int:
        """Return how many to ask for, of all namespaces, to get so many of this one."""
        share = self.shares.get(search, 1.0)
        return max(_LEAST, limit if share == 1.0 else min(int(limit * SPARE / share), MOST))


class Neo4jEntries(_ServerIndex):
    """The search index of levels' entries, and of knowledge."""

    def lacking(self, levels: Levels | None) -> list[Row]:
        if levels is None:
            return self._ask("search.lacking_facts", embedder=self._made_with)
        asked = {"levels": sorted(levels), "embedder": self._made_with}
        return self._ask("search.lacking_entries", **asked)

    def put(self, rows: Sequence[Row], vectors: Mapping[str, Matrix]) -> None:
        new = [
            {"id": row["id"], "seq": row.get("seq"), "vector": vectors[row["text"]].tolist()}
            for row in rows
        ]
        name = "search.put_entries" if "seq" in rows[0] else "search.put_facts"
        self._put(name, new, embedder=self._made_with)

    def nearest(self, vector: Matrix, asked: Question, levels: Levels, limit: int) -> list[Row]:
        common = {"ns": self._namespace, "levels": sorted(levels), "limit": limit}
        options, params = asked.options, {**asked.params, **common}
        if asked.fits is not None:
            rows = self._ask("levels.holdings", ids=[*levels], now=params["now"])
            params["tagsets"] = sorted(filter(asked.fits, {row["tagset"] for row in rows}))
            options = (*options, "tagged")
        query = procedure("search.nearest_entries").wanting(*options)
        return self._read(query, vector=vector.tolist(), **params)

    def twins(self, level: str, stream: str, compared: int, near: float) -> list[Row]:
        del stream
        asked = {"level": level, "compared": compared, "near": near, "embedder": self._made_with}
        return self._ask("search.twin_entries", **asked)

    def near_facts(self, vector: Matrix) -> Near:
        rows = self._ask("search.ranked_knowledge", vector=vector.tolist(), limit=_ALL)
        return [(row["id"], row["similarity"]) for row in rows]

    @property
    def _made_with(self) -> str:
        return f"{self._embedder}:{self._dimensions}"
