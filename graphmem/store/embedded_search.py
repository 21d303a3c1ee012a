"""Search in the embedded engine: exact vector search (numpy) and BM25 over words (tantivy).

The index of a namespace is built from the graph on first use, and updated while this process
writes. Only vectors are stored on disk (:mod:`graphmem.store.vectors`); words are indexed in
memory, so that an erased text leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import tantivy

from graphmem.arrays import NDArray, np, product
from graphmem.store.embedded_entries import EmbeddedEntries
from graphmem.store.embedded_files import VECTORS
from graphmem.store.embedded_vectors import VectorIndex
from graphmem.store.nearest import Asked, Matrix, Places, Rounded
from graphmem.store.port import TEXTS, Hits, Near, Row
from graphmem.store.queries import procedure
from graphmem.store.vectors import Filing, digest, freely
from graphmem.text.words import words

_HEAP = 15_000_000
"""Memory of a word index's writer in bytes: the smallest that tantivy accepts."""
_MANY = 1000
"""From so many texts on a commit takes some 5 ms and gets a thread of its own."""


class _Nodes:
    """The nodes of one label: the rows of their vectors, and their words."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.places: dict[str, int] = {}
        self.keys: list[bytes] = []
        self.rows: Places = np.empty(0, np.int64)
        self.rounded = Rounded()
        self._words = _Words()

    def put(self, texts: Mapping[str, str], row_of: Callable[[bytes], int]) -> None:
        """Add nodes, or replace their texts."""
        for identity, text in texts.items():
            key = digest(text)
            if (place := self.places.get(identity)) is not None:
                if self.keys[place] == key:
                    continue
                self.ids[place] = ""  # leave its place empty
                self.rows[place] = -1
                self._words.drop(place)
            self.places[identity] = len(self.ids)
            self._words.add(len(self.ids), text)
            self.ids.append(identity)
            self.keys.append(key)
        if len(texts) >= _MANY:
            self._words.begin_commit()
        if len(self.rows) < len(self.ids):
            missing = self.keys[len(self.rows) :]
            rows = np.fromiter(map(row_of, missing), np.int64, len(missing))
            self.rows = np.concatenate([self.rows, rows])

    def refresh(self, row_of: Callable[[bytes], int]) -> None:
        """Look up missing rows again, after the table of vectors changed."""
        for place in np.flatnonzero(self.rows < 0).tolist():
            if self.ids[place]:
                self.rows[place] = row_of(self.keys[place])

    def lacking(self) -> list[str]:
        """Return the ids of nodes that have no vector."""
        return [key for place in np.flatnonzero(self.rows < 0).tolist() if (key := self.ids[place])]

    def matching(self, asked: Sequence[str], limit: int) -> list[str]:
        """Return the ids of nodes with any of the words ``asked``, the best matches first."""
        hits = self._words.search(asked, limit)
        best = sorted((-score, self.ids[place]) for place, score in hits)
        return [key for _, key in best]

    def close(self) -> None:
        """Let nothing of it go on."""
        self._words.end_commit()


class _Words:
    """An index of words in memory; an added text is searchable from the next search on.

    A writer has threads of its own and must not be freed in a forked child, so there is one only
    during a commit, as a local variable of the thread that commits.
    """

    def __init__(self) -> None:
        schema = tantivy.SchemaBuilder()
        schema.add_unsigned_field("place", indexed=True, fast=True)
        schema.add_text_field("words", tokenizer_name="en_stem", index_option="freq")
        self._index = tantivy.Index(schema.build())
        self._waiting: list[tuple[int, str | None]] = []
        """Places and what to add there; None where the text is to be removed."""
        self._committing: Future[None] | None = None

    def add(self, place: int, text: str) -> None:
        """Add a text."""
        self._waiting.append((place, text))

    def drop(self, place: int) -> None:
        """Remove a text."""
        self._waiting.append((place, None))

    def begin_commit(self) -> None:
        """Commit what waits in a thread, so that the caller need not wait."""
        self.end_commit()
        waiting, self._waiting = self._waiting, []
        thread = ThreadPoolExecutor(1)
        self._committing = thread.submit(self._commit, waiting)
        thread.shutdown(wait=False)

    def end_commit(self) -> None:
        """Wait for that thread."""
        if self._committing is not None:
            committing, self._committing = self._committing, None
            committing.result()

    def _commit(self, waiting: Iterable[tuple[int, str | None]]) -> None:
        writer = self._index.writer(_HEAP, 1)
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
        self._index.reload()

    def search(self, asked: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """Return places and scores (BM25) of texts with any of the words ``asked``."""
        self.end_commit()
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._commit(waiting)
        known = " ".join(dict.fromkeys(asked))
        if not known:
            return []
        searcher = self._index.searcher()
        query, _ = self._index.parse_query_lenient(known, ["words"])
        hits = searcher.search(query, limit, count=False).hits
        places = searcher.fast_field_values("place", [address for _, address in hits])
        return [
            (int(place), float(score or 0))
            for (score, _), place in zip(hits, places, strict=True)
            if place is not None
        ]


class EmbeddedIndex(VectorIndex):
    """The search index of one namespace's strategies and tasks; thread-safe."""

    def __init__(
        self,
        read: Callable[..., list[Row]],
        folder: Path | None,
        namespace: str,
        *,
        writable: bool,
        durable: bool,
        filing: Filing = freely,
    ) -> None:
        folder = folder / VECTORS if folder else None
        super().__init__(read, folder, namespace, writable=writable, durable=durable, filing=filing)
        self._nodes: dict[str, _Nodes] = {}
        self._asked: Asked | None = None
        """What was looked for last, as long as nothing changed."""
        self.entries = EmbeddedEntries(
            read, folder, namespace, writable=writable, durable=durable, filing=filing
        )
        """The index of the entries of levels, which has vectors of its own."""

    def close(self) -> None:
        """Release vectors and words; every later call is an error."""
        with self._lock:
            self.entries.close()
            super().close()

    def with_vectors(self, label: str, texts: Mapping[str, str]) -> set[str]:  # noqa: ARG002
        """Return the ids of nodes whose text has a vector."""
        with self._lock:
            table = self._opened_table()
            return {key for key, text in texts.items() if table.row(digest(text)) >= 0}

    def lacking(self, label: str) -> list[str]:
        """Return the ids of nodes without a vector."""
        with self._lock:
            return self._of(label).lacking()

    def put(self, label: str, texts: Mapping[str, str], vectors: Mapping[str, Matrix]) -> None:
        """Store vectors, by text, and make nodes searchable."""
        with self._lock:
            table, self._asked = self._opened_table(), None
            new = {
                key: vector
                for text, vector in vectors.items()
                if table.row(key := digest(text)) < 0
            }
            if new:
                table.add(list(new), np.stack(list(new.values())))
            self._of(label).put(texts, table.row)
            if new:
                for nodes in self._nodes.values():
                    nodes.refresh(table.row)

    def near(
        self, label: str, vector: Matrix, limit: int, at_least: float = -1.0
    ) -> list[tuple[str, float]]:
        """Return the nearest nodes, by exact search."""
        with self._lock:
            nodes, asked = self._of(label), self._asking(vector)
            bounds = asked.bounds(nodes.rows, nodes.rounded)
            near = asked.nearest(nodes.rows, bounds, limit, at_least)
            best = [(nodes.ids[place], similarity) for place, similarity in near]
        return sorted(best, key=lambda pair: (-pair[1], pair[0]))[:limit]

    def exactly(self, label: str, vector: Matrix, limit: int) -> Near:
        """Return the nearest nodes, by exact search."""
        return self.near(label, vector, limit)

    def hits(self, vector: Matrix, words: Sequence[str], limit: int) -> Hits:
        """Return the nearest nodes of each label, exactly, and those that match the words best."""
        with self._lock:
            return {
                label: (
                    self.near(label, vector, limit),
                    self.matching(label, words, vector, limit),
                )
                for label in TEXTS
            }

    def matching(self, label: str, words: Sequence[str], vector: Matrix, limit: int) -> Near:
        """Return the nodes that match the words best, with their similarities."""
        with self._lock:
            nodes = self._of(label)
            return self._similar(nodes, nodes.matching(words, limit), vector)

    def cosines(self, label: str, ids: Sequence[str], others: Sequence[str]) -> NDArray[np.float64]:
        """Return the similarities of nodes and others, NaN if either has no vector."""
        vectors = self.vectors(label, {*ids, *others})
        nowhere = np.full(self._opened_table().dimensions, np.nan, np.float32)
        here, there = (
            np.array([vectors.get(key, nowhere) for key in keys]) for keys in (ids, others)
        )
        cosines: NDArray[np.float64] = product(here, there.T).astype(np.float64)
        return cosines

    def count(self, label: str) -> int:
        """Return the number of nodes."""
        with self._lock:
            return len(self._of(label).places)

    def vectors(self, label: str, ids: Iterable[str]) -> dict[str, Matrix]:
        """Return the vectors of nodes."""
        with self._lock:
            nodes, matrix = self._of(label), self._opened_table().matrix
            rows = {
                identity: int(nodes.rows[nodes.places[identity]])
                for identity in ids
                if identity in nodes.places
            }
            return {identity: matrix[row] for identity, row in rows.items() if row >= 0}

    def matrix(self, label: str, ids: Sequence[str]) -> tuple[list[str], Matrix]:
        """Return the nodes that have a vector, and their vectors as rows.

        Rows that are consecutive on disk are not copied.
        """
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
        """Return the vector of the text of a node, if it has one."""
        with self._lock:
            table = self._opened_table()
            row = table.row(digest(text))
            return None if row < 0 else table.matrix[row].copy()

    def tidy(self) -> None:
        """Drop the texts and vectors of removed nodes and entries, on disk as well."""
        with self._lock:
            if self._opened is not None:
                self.entries.open(*self._opened)
                self.entries.tidy()
            super().tidy()

    def _texts(self) -> set[bytes]:
        nodes = self._nodes.values()
        return {one.keys[place] for one in nodes for place in one.places.values()}

    def _keep(self) -> None:
        """Keep only the vectors of the nodes."""
        table = self._opened_table()
        there = len(table.matrix)
        try:
            super()._keep()
        finally:
            if len(table.matrix) < there:
                self._asked = None
                for one in self._nodes.values():
                    one.rows[:] = -1
                    one.refresh(table.row)

    def _asking(self, vector: Matrix) -> Asked:
        """Return what looks for a vector; what it finds out serves both labels."""
        asked = self._asked
        if asked is None or asked.vector is not vector:
            asked = self._asked = Asked(self._opened_table().matrix, vector)
        return asked

    def _similar(self, nodes: _Nodes, ids: Sequence[str], vector: Matrix) -> Near:
        """Return nodes with their similarities, 0 for a node without a vector."""
        rows = nodes.rows[[nodes.places[key] for key in ids]] if ids else nodes.rows[:0]
        there = iter(self._asking(vector).similarities(rows[rows >= 0]))
        return [(key, next(there) if row >= 0 else 0.0) for key, row in zip(ids, rows, strict=True)]

    def _fill(self) -> None:
        table, self._asked = self._opened_table(), None
        for label, name in TEXTS.items():
            rows = self._read(procedure(f"similarity.texts_of_{name}"), ns=self._namespace)
            nodes = _Nodes()
            nodes.put({row["id"]: row["text"] for row in rows}, table.row)
            self._nodes[label] = nodes

    def _forget(self) -> None:
        super()._forget()
        self._asked = None
        nodes, self._nodes = self._nodes, {}
        for of_label in nodes.values():
            of_label.close()

    def _of(self, label: str) -> _Nodes:
        self._opened_table()
        return self._nodes[label]
