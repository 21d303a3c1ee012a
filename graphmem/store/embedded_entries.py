"""Search by meaning among the entries of levels, and what is known, in the embedded engine.

Their vectors have a file of their own, so that searches of strategies and tasks do not look at
them. What is in a level is read when it is asked first, and then as its stream of events goes on;
entries that were removed since are noticed when what was found is looked up in the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from graphmem.arrays import np, product
from graphmem.store.embedded_vectors import Placed, VectorIndex
from graphmem.store.nearest import CLOSE, Matrix
from graphmem.store.paging import pages
from graphmem.store.port import Near, Question, Row
from graphmem.store.queries import procedure
from graphmem.store.vectors import digest

_FIRST = 64
"""How many of the nearest are looked up first, at least."""
_MORE = 4
"""As many times the limit are looked up first."""
_PAGE = 1_000


class _Held(Placed):
    """The entries of one level, and their sets of tags."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0
        """Number of the last event of its stream that was looked at."""
        self.seqs: list[int] = []
        self.named: list[bool] = []
        """Whether they have a key."""
        self.tags: list[int] = []
        self.codes = np.empty(0, np.int64)
        """The same as an array."""
        self.texts: dict[int, str] = {}
        """By place: the words of entries without a vector."""

    def put(self, rows: Iterable[Row], tags: dict[str, int]) -> None:
        """Add entries, or replace them."""
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
        """Look up the rows that are new or missing."""
        super().find(row_of)
        self.codes = np.array(self.tags, np.int64)
        self.texts = {place: text for place, text in self.texts.items() if self.rows[place] < 0}


class EmbeddedEntries(VectorIndex):
    """The search index of the entries of one namespace's levels; thread-safe."""

    NAME = "-entries"

    def lacking(self, levels: Mapping[str, str]) -> list[Row]:
        with self._lock:
            self._look(levels)
            return [
                {"id": held.ids[place], "text": text, "seq": held.seqs[place]}
                for held in map(self._levels.__getitem__, levels)
                for place, text in held.texts.items()
            ]

    def put(self, rows: Sequence[Row], vectors: Mapping[str, Matrix]) -> None:
        with self._lock:
            self._add((row["text"], vectors[row["text"]]) for row in rows)
            for held in self._levels.values():
                held.find(self._opened_table().row)

    def nearest(
        self, vector: Matrix, asked: Question, levels: Mapping[str, str], limit: int
    ) -> list[Row]:
        with self._lock:
            self._look(levels)
            held = [self._levels[level] for level in levels]
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
        order = sorted(
            found, key=lambda row: (-row["similarity"], -row["relevance"], -row["at"], row["id"])
        )
        return order[:limit]

    def twins(self, level: str, stream: str, compared: int, near: float) -> list[Row]:
        with self._lock:
            self._look({level: stream})
            held, matrix = self._levels[level], self._opened_table().matrix
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
                scores = product(vectors[start : start + _PAGE], vectors[: start + _PAGE].T)
                near_ones = np.argwhere(np.tril(scores >= near - CLOSE, start - 1)).tolist()
                pairs += [(int(few[start + at]), int(few[twin])) for at, twin in near_ones]
            named = [(held.ids[place], held.seqs[place]) for place in places.tolist()]
            return [
                dict(zip(("id", "seq", "twin", "twin_seq"), named[at] + named[twin], strict=True))
                for at, twin in sorted(pairs)
            ]

    def facts_lacking(self) -> list[Row]:
        with self._lock:
            table = self._opened_table()
            return [row for row in self._facts() if table.row(digest(row["text"])) < 0]

    put_facts = put

    def near_facts(self, vector: Matrix) -> Near:
        with self._lock:
            table, facts = self._opened_table(), self._facts()
            rows = np.array([table.row(digest(row["text"])) for row in facts], np.int64)
            near = self._asking(vector).nearest(rows, max(1, len(facts)))
        found = [(facts[place]["id"], similarity) for place, similarity in near]
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def _facts(self) -> list[Row]:
        return self._read(procedure("views.facts"), ns=self._namespace)

    def _fitting(self, ids: Sequence[str], asked: Question, levels: Mapping[str, str]) -> list[Row]:
        query = procedure("entries.matching").wanting("within", *asked.options)
        common = {"ns": self._namespace, "levels": sorted(levels), "limit": len(ids)}
        given = {**asked.params, **common}
        return [row for page in pages(ids, _PAGE) for row in self._read(query, ids=page, **given)]

    def _look(self, levels: Mapping[str, str]) -> None:
        table = self._opened_table()
        query = procedure("levels.ends")
        for row in self._read(query, ns=self._namespace, ids=sorted(levels.values())):
            level, last = row["level"], row["last"]
            held = self._levels.get(level)
            if held is not None and held.seen == last:
                continue
            new = None if held is None else self._new(row["stream"], held, last)
            if held is None or new is None:
                held = self._levels[level] = _Held()
                new = self._read(procedure("entries.held").wanting(), ns=self._namespace, id=level)
            held.put(new, self._tags)
            held.find(table.row)
            held.seen = last
        for level in levels:
            self._levels.setdefault(level, _Held())  # it was closed meanwhile

    def _new(self, stream: str, held: _Held, last: int) -> list[Row] | None:
        """Return the entries that were stored since; None where it is better to read them all."""
        if last - held.seen > max(_PAGE, len(held.places)):
            return None
        rows: list[Row] = []
        events = [f"{stream}:{seq}" for seq in range(held.seen + 1, last + 1)]
        for page in pages(events, _PAGE):
            found = self._read(procedure("events.read"), ns=self._namespace, ids=page)
            if any(event["kind"] != "entry" for event in found):
                return None  # entries may have been removed
            rows += self._read(
                procedure("entries.held").wanting("stored"), ns=self._namespace, ids=page
            )
        return rows

    def _fill(self) -> None:
        self._levels: dict[str, _Held] = {}
        self._tags: dict[str, int] = {}
        """The sets of tags of entries, as JSON, numbered."""

    def _texts(self) -> set[bytes]:
        rows = self._read(procedure("entries.texts"), ns=self._namespace)
        return {digest(row["text"]) for row in rows}

    def _forget(self) -> None:
        super()._forget()
        self._fill()
