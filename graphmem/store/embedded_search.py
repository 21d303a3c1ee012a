"""Search in the embedded engine: exact vector search (numpy) and BM25 over words (tantivy).

The index of a namespace is built from the graph on first use, and updated while this process
writes. Only vectors are stored on disk (:mod:`graphmem.store.vectors`); words are indexed in
memory, so that an erased text leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import tantivy

from graphmem.arrays import NDArray, np, product
from graphmem.store.embedded_vectors import Placed, VectorIndex
from graphmem.store.nearest import Matrix
from graphmem.store.port import TEXTS, Hits, Near
from graphmem.store.queries import procedure
from graphmem.store.vectors import digest
from graphmem.text.words import words

_HEAP = 15_000_000
"""Memory of a word index's writer in bytes: the smallest that tantivy accepts."""


class _Nodes(Placed):
    """The nodes of one label, and an index of their words in memory.

    A word index's writer has threads of its own and must not be freed in a forked child, so there
    is one only during a commit, which the next search after a change makes.
    """

    def __init__(self) -> None:
        super().__init__()
        schema = tantivy.SchemaBuilder()
        schema.add_unsigned_field("place", indexed=True, fast=True)
        schema.add_text_field("words", tokenizer_name="en_stem", index_option="freq")
        self._words = tantivy.Index(schema.build())
        self._waiting: list[tuple[int, str | None]] = []
        """Places and texts to add there; None where the text is to be removed."""

    def put(self, texts: Mapping[str, str]) -> None:
        """Add nodes, or replace their texts."""
        for identity, text in texts.items():
            key = digest(text)
            if (old := self.places.get(identity)) is not None:
                if self.keys[old] == key:
                    continue
                self._waiting.append((old, None))
            self._waiting.append((self.place(identity, key), text))

    def matching(self, asked: Sequence[str], limit: int) -> list[str]:
        """Return the ids of nodes with any of the words ``asked``, the best matches first."""
        if self._waiting:
            self._commit()
        if not asked:
            return []
        searcher = self._words.searcher()
        query, _ = self._words.parse_query_lenient(" ".join(dict.fromkeys(asked)), ["words"])
        hits = searcher.search(query, limit, count=False).hits
        places = searcher.fast_field_values("place", [address for _, address in hits])
        best = sorted(
            (-float(score or 0), self.ids[int(place)])
            for (score, _), place in zip(hits, places, strict=True)
            if place is not None
        )
        return [key for _, key in best]

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        writer = self._words.writer(_HEAP, 1)
        for place, text in waiting:
            if text is None:
                writer.delete_documents_by_term("place", place)
            else:
                document = tantivy.Document()
                document.add_unsigned("place", place)
                document.add_text("words", " ".join(words(text)))
                writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._words.reload()


class EmbeddedIndex(VectorIndex):
    """The search index of one namespace's strategies and tasks; thread-safe."""

    def with_vectors(self, label: str, texts: Mapping[str, str]) -> set[str]:  # noqa: ARG002
        with self._lock:
            table = self._opened_table()
            return {key for key, text in texts.items() if table.row(digest(text)) >= 0}

    def lacking(self, label: str) -> list[str]:
        with self._lock:
            nodes = self._of(label)
            missing = np.flatnonzero(nodes.rows < 0).tolist()
            return [key for place in missing if (key := nodes.ids[place])]

    def put(self, label: str, texts: Mapping[str, str], vectors: Mapping[str, Matrix]) -> None:
        with self._lock:
            self._add(vectors.items())
            self._of(label).put(texts)
            for nodes in self._nodes.values():
                nodes.find(self._opened_table().row)

    def near(
        self, label: str, vector: Matrix, limit: int, at_least: float = -1.0
    ) -> list[tuple[str, float]]:
        with self._lock:
            nodes = self._of(label)
            near = self._asking(vector).nearest(nodes.rows, limit, at_least)
            best = [(nodes.ids[place], similarity) for place, similarity in near]
        return sorted(best, key=lambda pair: (-pair[1], pair[0]))[:limit]

    exactly = near

    def hits(self, vector: Matrix, words: Sequence[str], limit: int) -> Hits:
        with self._lock:
            return {
                label: (self.near(label, vector, limit), self.matching(label, words, vector, limit))
                for label in TEXTS
            }

    def matching(self, label: str, words: Sequence[str], vector: Matrix, limit: int) -> Near:
        with self._lock:
            nodes = self._of(label)
            ids = nodes.matching(words, limit)
            rows = nodes.rows[[nodes.places[key] for key in ids]] if ids else nodes.rows[:0]
            there = iter(self._asking(vector).similarities(rows[rows >= 0]))
            return [
                (key, next(there) if row >= 0 else 0.0) for key, row in zip(ids, rows, strict=True)
            ]

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        vectors = self.vectors(label, {*ids, *others})
        nowhere = np.full(self._opened_table().dimensions, np.nan, np.float32)
        here, there = (
            np.array([vectors.get(key, nowhere) for key in keys]) for keys in (ids, others)
        )
        cosines: NDArray[np.float64] = product(here, there.T).astype(np.float64)
        return cosines

    def count(self, label: str) -> int:
        with self._lock:
            return len(self._of(label).places)

    def vectors(self, label: str, ids: Iterable[str]) -> dict[str, Matrix]:
        with self._lock:
            nodes, matrix = self._of(label), self._opened_table().matrix
            known = [key for key in ids if key in nodes.places]
            rows = {key: int(nodes.rows[nodes.places[key]]) for key in known}
            return {key: matrix[row] for key, row in rows.items() if row >= 0}

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], Matrix]:
        """Return the nodes that have a vector, and their vectors as rows."""
        with self._lock:
            nodes, table = self._of(label), self._opened_table()
            known = [key for key in ids if key in nodes.places]
            rows = nodes.rows[[nodes.places[key] for key in known]]
            there = [key for key, row in zip(known, rows.tolist(), strict=True) if row >= 0]
            rows = rows[rows >= 0]
            if len(rows) and (np.diff(rows) == 1).all():
                return there, table.matrix[rows[0] : rows[-1] + 1]
            return there, table.matrix[rows]

    def known(self, text: str) -> Matrix | None:
        with self._lock:
            table = self._opened_table()
            row = table.row(digest(text))
            return None if row < 0 else table.matrix[row].copy()

    def _texts(self) -> set[bytes]:
        nodes = self._nodes.values()
        return {one.keys[place] for one in nodes for place in one.places.values()}

    def _move(self) -> None:
        super()._move()
        for nodes in self._nodes.values():
            nodes.rows[:] = -1
            nodes.find(self._opened_table().row)

    def _fill(self) -> None:
        for label, name in TEXTS.items():
            rows = self._read(procedure(f"similarity.texts_of_{name}"), ns=self._namespace)
            self._nodes[label] = _Nodes()
            self._nodes[label].put({row["id"]: row["text"] for row in rows})
            self._nodes[label].find(self._opened_table().row)

    def _forget(self) -> None:
        super()._forget()
        self._nodes: dict[str, _Nodes] = {}

    def _of(self, label: str) -> _Nodes:
        self._opened_table()
        return self._nodes[label]
