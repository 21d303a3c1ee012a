"""What the search indexes of the embedded engine share: a graph to read, and a table of vectors."""

from __future__ import annotations

import hashlib
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from graphmem.arrays import np
from graphmem.errors import StorageError, StoreError
from graphmem.store.embedded_files import VECTORS
from graphmem.store.nearest import Asked, Matrix, Places, Rounded
from graphmem.store.port import CLOSED, Row
from graphmem.store.vectors import Filing, VectorTable, digest, freely

_log = logging.getLogger(__name__)


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
    _table: VectorTable | None
    _opened: tuple[str, int] | None
    _asked: Asked | None
    """What was looked for last, as long as nothing changed."""

    def __init__(
        self,
        read: Callable[..., list[Row]],
        folder: Path | None,
        namespace: str,
        *,
        durable: bool,
        filing: Filing,
    ) -> None:
        self._read = read
        self._folder = folder / VECTORS if folder else None
        self._namespace = namespace
        self._durable = durable
        self._filing = filing
        self._lock = threading.RLock()
        self._closed = False
        self._forget()

    def open(self, embedder: str, dimensions: int) -> None:
        """Open the vectors of an embedder, and read what is to be read at once."""
        with self._lock:
            self._check()
            if self._opened == (embedder, dimensions):
                return
            self._forget()
            digested = hashlib.blake2b(self._namespace.encode(), digest_size=8).hexdigest()
            self._table = VectorTable(
                self._folder,
                f"{digested}{self.NAME}",
                embedder,
                dimensions,
                durable=self._durable,
                filing=self._filing,
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
            self._read, self._filing = _closed, freely
            self._forget()

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
                self._move()

    def _move(self) -> None:
        """Forget the rows of vectors, which have moved."""
        self._asked, self._rounded = None, Rounded()

    def _add(self, vectors: Iterable[tuple[str, Matrix]]) -> bool:
        """Add the vectors of texts that have none; return whether there were any."""
        table = self._opened_table()
        new = {key: made for text, made in vectors if table.row(key := digest(text)) < 0}
        self._asked = None
        if new:
            table.add(list(new), np.stack(list(new.values())))
        return bool(new)

    def _asking(self, vector: Matrix) -> Asked:
        if self._asked is None or self._asked.vector is not vector:
            self._asked = Asked(self._opened_table().matrix, vector, self._rounded)
        return self._asked

    def _forget(self) -> None:
        self._table = self._opened = self._asked = None
        self._rounded = Rounded()

    def _check(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    def _opened_table(self) -> VectorTable:
        self._check()
        if self._table is None:
            raise RuntimeError("the index was not opened")
        return self._table


def _closed(*_: object, **__: object) -> list[Row]:
    """Stand for the graph after it was closed, which then can be freed."""
    raise StoreError(CLOSED)
