"""Search in the embedded engine: exact vector search (numpy) and BM25 over words (tantivy).

The index of a namespace is built from the graph on first use, and updated while this process
writes. Only vectors are stored on disk (:mod:`graphmem.store.vectors`); words are indexed in
memory, so that an erased text leaves nothing behind.

Entries of levels have an index and a table of vectors of their own, so that searches of strategies
and tasks do not look at them. What is in a level is read when it is asked first, and then as its
stream of events goes on; removed ones are noticed when what was found is looked up in the graph.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tantivy
from numpy.typing import NDArray

from graphmem.errors import StorageError, StoreError
from graphmem.store.embedded_files import VECTORS
from graphmem.store.paging import pages
from graphmem.store.port import CLOSED, TEXTS, Levels, Near, Question, Row, Run
from graphmem.store.queries import procedure
from graphmem.store.vectors import (
    CLOSE,
    Asked,
    Filing,
    Matrix,
    Places,
    Rounded,
    VectorTable,
    digest,
)
from graphmem.text.words import words

_log = logging.getLogger(__name__)

_HEAP = 15_000_000  # memory of a word index's writer in bytes: the smallest that tantivy accepts
_FIRST = 64  # how many of the nearest are looked up first, at least
_MORE = 4  # as many times the limit are looked up first
_PAGE = 1_000


class Placed:
    """What is searched, each at a place: ids, keys of texts, and rows of vectors (-1: none)."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.places: dict[str, int] = {}
        self.keys: list[bytes] = []
        self.rows: Places = np.empty(0, np.int64)

    def place(self, identity: str, key: bytes) -> int:
        """Give something a new place, and leave its old one empty; return the new one."""
        if (old := self.places.get(identity)) is not None:
            self.ids[old], self.keys[old] = "", b""
            self.rows[old : old + 1] = -1
        place = self.places[identity] = len(self.ids)
        self.ids.append(identity)
        self.keys.append(key)
        return place

    def find(self, row_of: Callable[[bytes], int]) -> None:
        """Look up the rows that are new or missing."""
        new = np.full(len(self.keys) - len(self.rows), -1, np.int64)
        self.rows = np.concatenate([self.rows, new])
        for place in np.flatnonzero(self.rows < 0).tolist():
            self.rows[place] = row_of(self.keys[place])


class VectorIndex(ABC):
    """A search index of one namespace; thread-safe."""

    NAME = ""
    """What the name of its table ends with."""
    _placed: Mapping[str, Placed]
    """What is searched: nodes by their labels, or entries by their levels."""
    _table: VectorTable | None
    _opened: tuple[str, int] | None
    _asked: Asked | None
    """What was looked for last, as long as nothing changed."""

    def __init__(self, read: Run, folder: Path | None, namespace: str, filing: Filing) -> None:
        self._read = read
        self._folder = folder / VECTORS if folder else None
        self._namespace = namespace
        self._filing = filing
        self._lock = threading.RLock()
        self._closed = False
        self._forget()

    def open(self, embedder: str, dimensions: int) -> None:
        """Open the vectors of an embedder, and read what is to be read at once."""
        with self._lock:
            if self._closed:
                raise StoreError(CLOSED)
            if self._opened == (embedder, dimensions):
                return
            self._forget()
            digested = hashlib.blake2b(self._namespace.encode(), digest_size=8).hexdigest()
            self._table = VectorTable(
                self._folder, f"{digested}{self.NAME}", embedder, dimensions, filing=self._filing
            )
            self._fill()
            try:
                with self._filing() as mine:
                    if mine:
                        self._keep()  # a crash may have left vectors of removed texts
            except StorageError as error:
                _log.warning("%s", error)
            self._opened = embedder, dimensions

    def close(self) -> None:
        """Release what it holds, also the graph; every later call is an error."""
        with self._lock:
            self._closed = True
            self._forget()
            del self._read, self._filing

    def save(self) -> None:
        with self._lock:
            if self._table is not None:
                self._table.save()

    def tidy(self) -> None:
        """Read the texts again, and keep only their vectors, if there is a table."""
        with self._lock:
            if self._opened is not None:
                self._fill()
                self._keep()

    @abstractmethod
    def _fill(self) -> None:
        """Read what is searched, in place of what was read."""

    @abstractmethod
    def _texts(self) -> Collection[bytes]:
        """Return the keys of the texts that are there."""

    def _keep(self) -> None:
        table = self._opened_table()
        there = len(table.matrix)
        try:
            if there:
                table.keep(self._texts())
        finally:
            if len(table.matrix) < there:
                self._asked, self._rounded = None, Rounded()
                for placed in self._placed.values():
                    placed.rows[:] = -1
                self._find()

    def _find(self) -> None:
        for placed in self._placed.values():
            placed.find(self._opened_table().row)

    def _add(self, vectors: Iterable[tuple[str, Matrix]]) -> None:
        table = self._opened_table()
        new = {key: made for text, made in vectors if table.row(key := digest(text)) < 0}
        self._asked = None
        if new:
            table.add(list(new), np.stack(list(new.values())))

    def _asking(self, vector: Matrix) -> Asked:
        if self._asked is None or self._asked.vector is not vector:
            self._asked = Asked(self._opened_table().matrix, vector, self._rounded)
        return self._asked

    def _forget(self) -> None:
        self._table = self._opened = self._asked = None
        self._rounded, self._placed = Rounded(), {}

    def _opened_table(self) -> VectorTable:
        if self._table is None:
            raise StoreError(CLOSED)
        return self._table


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

    _placed: dict[str, _Nodes]

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
            self._find()

    def near(self, label: str, vector: Matrix, limit: int, at_least: float = -1.0) -> Near:
        with self._lock:
            nodes = self._of(label)
            near = self._asking(vector).nearest(nodes.rows, limit, at_least)
            best = sorted([(-similarity, nodes.ids[place]) for place, similarity in near])
        return [(key, -negative) for negative, key in best[:limit]]

    exactly = near

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
        vectors = dict(zip(*self.matrix(label, {*ids, *others}), strict=True))
        nowhere = np.full(self._opened_table().dimensions, np.nan, np.float32)
        here, there = (
            np.array([vectors.get(key, nowhere) for key in keys]) for keys in (ids, others)
        )
        cosines: NDArray[np.float64] = (here @ there.T).astype(np.float64)
        return cosines

    def count(self, label: str) -> int:
        with self._lock:
            return len(self._of(label).places)

    def matrix(self, label: str, ids: Iterable[str]) -> tuple[list[str], Matrix]:
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

    def same_tasks(self, text: str) -> list[str] | None:  # noqa: ARG002
        return None

    def _texts(self) -> set[bytes]:
        nodes = self._placed.values()
        return {one.keys[place] for one in nodes for place in one.places.values()}

    def _fill(self) -> None:
        for label, name in TEXTS.items():
            rows = self._read(procedure(f"similarity.texts_of_{name}"), ns=self._namespace)
            self._placed[label] = _Nodes()
            self._placed[label].put({row["id"]: row["text"] for row in rows})
        self._find()

    def _of(self, label: str) -> _Nodes:
        self._opened_table()
        return self._placed[label]


class _Held(Placed):
    """The entries of one level, and their sets of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0  # number of the last event of its stream that was looked at
        self.seqs: list[int] = []
        self.named: list[bool] = []  # whether they have a key
        self.tags: list[int] = []
        self.codes = np.empty(0, np.int64)  # the same as an array
        self.texts: dict[int, str] = {}  # by place: the words of entries without a vector

    def put(self, rows: Iterable[Row], tags: dict[str, int]) -> None:
        for row in rows:
            if (old := self.places.get(row["id"])) is not None:
                if self.seqs[old] == row["seq"]:
                    continue
                self.texts.pop(old, None)
            self.texts[self.place(row["id"], digest(row["text"]))] = row["text"]
            self.seqs.append(row["seq"])
            self.named.append(row["key"] is not None)
            self.tags.append(tags.setdefault(row["tagset"], len(tags)))

    def find(self, row_of: Callable[[bytes], int]) -> None:
        super().find(row_of)
        self.codes = np.array(self.tags, np.int64)
        self.texts = {place: text for place, text in self.texts.items() if self.rows[place] < 0}


class EmbeddedEntries(VectorIndex):
    """The search index of the entries of one namespace's levels; thread-safe."""

    NAME = "-entries"
    _placed: dict[str, _Held]

    def lacking(self, levels: Levels | None) -> list[Row]:
        with self._lock:
            if levels is None:
                table = self._opened_table()
                return [row for row in self._facts() if table.row(digest(row["text"])) < 0]
            self._look(levels)
            return [
                {"id": held.ids[place], "text": text, "seq": held.seqs[place]}
                for held in map(self._placed.__getitem__, levels)
                for place, text in held.texts.items()
            ]

    def put(self, rows: Sequence[Row], vectors: Mapping[str, Matrix]) -> None:
        with self._lock:
            self._add((row["text"], vectors[row["text"]]) for row in rows)
            self._find()

    def nearest(self, vector: Matrix, asked: Question, levels: Levels, limit: int) -> list[Row]:
        with self._lock:
            self._look(levels)
            held = [self._placed[level] for level in levels]
            ids = [id_ for one in held for id_ in one.ids] if held[1:] else held[0].ids
            rows = np.concatenate([one.rows for one in held])
            if asked.fits is not None:
                fitting = np.fromiter(map(asked.fits, self._tags), np.bool_, len(self._tags))
                rows = np.where(fitting[np.concatenate([one.codes for one in held])], rows, -1)
            search, size = self._asking(vector), max(_FIRST, _MORE * limit)
            near = {ids[place]: cosine for place, cosine in search.nearest(rows, size)}
            found = self._fitting([*near], asked, levels)
            if len(found) < limit and len(near) >= size:  # few of them fit: look among all that do
                query = procedure("entries.fitting").wanting(*asked.options)
                given = {"ns": self._namespace, "levels": sorted(levels), **asked.params}
                fit = {row["id"] for row in self._read(query, **given)}
                inside = np.fromiter((one in fit for one in ids), np.bool_, len(ids))
                nearest = search.nearest(np.where(inside, rows, -1), limit)
                near = {ids[place]: cosine for place, cosine in nearest}
                found = self._fitting([*near], asked, levels)
        found = [row | {"similarity": near[row["id"]]} for row in found]
        found.sort(key=lambda row: (-row["similarity"], -row["relevance"], -row["at"], row["id"]))
        return found[:limit]

    def twins(self, level: str, stream: str, compared: int, near: float) -> list[Row]:
        with self._lock:
            self._look({level: stream})
            held, matrix = self._placed[level], self._opened_table().matrix
            seqs = np.array(held.seqs, np.int64)
            places = np.flatnonzero((held.rows >= 0) & ~np.array(held.named, np.bool_))
            places = places[np.argsort(seqs[places])]
            # Those with the same words have one vector: the first of them stands for all.
            _, firsts, same = np.unique(held.rows[places], return_index=True, return_inverse=True)
            new = seqs[places] > compared
            pairs = [(at, int(firsts[group])) for at, group in enumerate(same) if new[at]]
            pairs = [pair for pair in pairs if pair[0] != pair[1]]
            few = np.sort(firsts)
            vectors = matrix[held.rows[places[few]]]
            for start in range(int(np.count_nonzero(~new[few])), len(few), _PAGE):
                scores = vectors[start : start + _PAGE] @ vectors[: start + _PAGE].T
                near_ones = np.argwhere(np.tril(scores >= near - CLOSE, start - 1)).tolist()
                pairs += [(int(few[start + at]), int(few[twin])) for at, twin in near_ones]
            named = [(held.ids[place], held.seqs[place]) for place in places.tolist()]
            return [
                dict(zip(("id", "seq", "twin", "twin_seq"), named[at] + named[twin], strict=True))
                for at, twin in sorted(pairs)
            ]

    def near_facts(self, vector: Matrix) -> Near:
        with self._lock:
            table, facts = self._opened_table(), self._facts()
            rows = np.array([table.row(digest(row["text"])) for row in facts], np.int64)
            near = self._asking(vector).nearest(rows, max(1, len(facts)))
        found = [(facts[place]["id"], similarity) for place, similarity in near]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def _facts(self) -> list[Row]:
        return self._read(procedure("similarity.texts_of_facts"), ns=self._namespace)

    def _fitting(self, ids: Sequence[str], asked: Question, levels: Levels) -> list[Row]:
        query = procedure("entries.matching").wanting("within", *asked.options)
        common = {"ns": self._namespace, "levels": sorted(levels), "limit": len(ids)}
        given = {**asked.params, **common}
        return [row for page in pages(ids, _PAGE) for row in self._read(query, ids=page, **given)]

    def _look(self, levels: Levels) -> None:
        table = self._opened_table()
        query = procedure("levels.ends")
        for row in self._read(query, ns=self._namespace, ids=sorted(levels.values())):
            level, last = row["level"], row["last"]
            held = self._placed.get(level)
            if held is not None and held.seen == last:
                continue
            new = None if held is None else self._new(row["stream"], held, last)
            if held is None or new is None:
                held = self._placed[level] = _Held()
                new = self._read(procedure("entries.held").wanting(), ns=self._namespace, id=level)
            held.put(new, self._tags)
            held.find(table.row)
            held.seen = last
        for level in levels:
            self._placed.setdefault(level, _Held())  # it was closed meanwhile

    def _new(self, stream: str, held: _Held, last: int) -> list[Row] | None:
        """Return the entries that were stored since; None where it is better to read them all."""
        if last - held.seen > max(_PAGE, len(held.places)):
            return None
        rows, stored = list[Row](), procedure("entries.held").wanting("stored")
        events = [f"{stream}:{seq}" for seq in range(held.seen + 1, last + 1)]
        for page in pages(events, _PAGE):
            found = self._read(procedure("events.read"), ns=self._namespace, ids=page)
            if any(event["kind"] != "entry" for event in found):
                return None  # entries may have been removed
            rows += self._read(stored, ns=self._namespace, ids=page)
        return rows

    def _fill(self) -> None:
        self._placed = {}
        self._tags: dict[str, int] = {}  # the sets of tags of entries, as JSON, numbered

    def _texts(self) -> set[bytes]:
        rows = self._read(procedure("entries.texts"), ns=self._namespace)
        return {digest(row["text"]) for row in rows}

    def _forget(self) -> None:
        super()._forget()
        self._fill()
