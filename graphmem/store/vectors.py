"""Vectors of texts in a file beside the graph, looked up by the text's digest.

The file of a table begins with a header (format, dimensions, digest of the names of the table and
the embedder). Then comes a record for each text: its digest, its vector, and a checksum of both.
The file is read as a whole and checked at opening, and never mapped into memory: what was checked
is what is used, and a full disk or a file that somebody cuts off is an error rather than a signal.

A table is derived data. A record with a wrong checksum counts as missing and is made again. Records
are added at the end; everything else is written into a new file that replaces the old one, so that
a crash loses at most what was being added.

The nearest rows are found exactly, but mostly without multiplying whole vectors: a copy of them in
eight bits is a quarter as large, and products with it are as much quicker. How far rounding moved
each row is known, so that such a product gives an upper bound of the exact one (Cauchy-Schwarz). A
row whose bound is below what enough others have is left out; the others are multiplied exactly.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import os
import zlib
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import simsimd
from numpy.typing import NDArray

from graphmem.errors import StorageError

Matrix = NDArray[np.float32]
Places = NDArray[np.int64]
Filing = Callable[[], AbstractContextManager[bool]]
"""Keeps the lease within, if this process has it; says whether it does."""


KEY = 16  # length of a digest in bytes
ENDING = ".vectors"
_NEW = ".new"  # of what is written before it replaces a file; one may be left by a crash
_MAGIC = b"graphmem vectors 2\n"
_HEADER = 64
_ROOM = 1024  # rows that there is room for at least; the room doubles when it is full

LEAST = 1_000  # rows from which on they are looked at in eight bits first
CLOSE = 1e-6  # similarities are rounded to six places: nearer ones may tie
_SHARE = 8
"""Where at most one in so many rows of the table is wanted, they are multiplied as they are."""
_PAGE = 512  # rows that are converted at once: less than a megabyte, which fits a cache
_FLOAT = 4e-6  # what a product in 32 bits may lack, as a share of the lengths
_LONGEST = 1.01  # a row has unit length, nearly
_MOST = 127

_log = logging.getLogger(__name__)


def digest(text: str) -> bytes:
    """Return the key of a text's vector."""
    return hashlib.blake2b(text.encode(), digest_size=KEY).digest()


class VectorTable:
    """The vectors of one embedder, in a folder or only in memory (``folder`` None).

    The process with the lease (``filing``) may write. The others see the rows that existed when
    they opened it, and their own additions in memory. So does the writer where the disk is full or
    damaged, which it says once; it writes what is missing when it can.
    """

    def __init__(
        self, folder: Path | None, name: str, embedder: str, dimensions: int, *, filing: Filing
    ) -> None:
        self.dimensions = dimensions
        self._record = np.dtype(
            [("key", f"V{KEY}"), ("vector", "<f4", (dimensions,)), ("checksum", "<u4")]
        )
        self._header = (
            _MAGIC
            + dimensions.to_bytes(4, "little")
            + hashlib.blake2b(f"{name}\n{embedder}".encode(), digest_size=32).digest()
        ).ljust(_HEADER, b"\0")
        self._path = folder / f"{name}{ENDING}" if folder else None
        self._filing = filing
        self._rows: dict[bytes, int] = {}
        self._room: Matrix = np.empty((0, dimensions), np.float32)
        self._stored = 0  # rows that are in the file: the first ones
        self._sound = False  # whether the file holds these rows and nothing else
        self._warned = False
        if self._path is not None:
            self._load(self._path)

    @property
    def matrix(self) -> Matrix:
        """All rows, shape (rows, dimensions)."""
        return self._room[: len(self._rows)]

    def row(self, key: bytes) -> int:
        """Return the row of a text, or -1."""
        return self._rows.get(key, -1)

    def add(self, keys: Sequence[bytes], vectors: Matrix) -> None:
        """Add rows for texts that have none."""
        first, count = len(self._rows), len(self._rows) + len(keys)
        if count > len(self._room):  # a large array takes no memory before it is used
            room: Matrix = np.empty((max(_ROOM, 2 * count), self.dimensions), np.float32)
            room[:first] = self.matrix
            self._room = room
        self._room[first:count] = vectors
        self._rows.update((key, first + place) for place, key in enumerate(keys))
        self.save()

    def save(self) -> None:
        """Write the rows that the file lacks, if this process has the lease."""
        if self._path is not None and not (self._sound and self._stored == len(self._rows)):
            with self._filing() as mine:
                if mine:
                    self._store(self._path)

    def keep(self, keys: Collection[bytes]) -> None:
        """Remove all rows except those of ``keys``, on disk as well."""
        kept = [key for key in self._rows if key in keys]
        if len(kept) < len(self._rows):
            self._room = self._room[[self._rows[key] for key in kept]]
            self._rows = {key: row for row, key in enumerate(kept)}
            self._sound = False
        if self._path is None or self._sound:
            return
        with self._filing() as mine:
            try:
                if mine and (not kept or not self._store(self._path)):
                    with contextlib.suppress(
                        FileNotFoundError, NotADirectoryError, IsADirectoryError
                    ):
                        self._path.unlink()
            except OSError as error:
                raise StorageError(
                    f"cannot remove vectors of removed texts from {self._path}: {error}"
                ) from error

    def _load(self, path: Path) -> None:
        try:
            with self._filing() as mine:
                if mine:
                    path.with_suffix(_NEW).unlink(missing_ok=True)
            with path.open("rb") as file:
                if file.read(_HEADER) != self._header:
                    return
                size = os.fstat(file.fileno()).st_size - _HEADER
                count, rest = divmod(size, self._record.itemsize)
                records = np.fromfile(file, self._record, count)
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn(f"cannot read {path} ({error}); what is missing is made again")
            return
        sound = np.flatnonzero(records["checksum"] == np.array(_checksums(records), "<u4")).tolist()
        places = dict(zip(records["key"][sound].tolist(), sound, strict=True))
        self._room = records["vector"][[*places.values()]]
        self._rows = {key: row for row, key in enumerate(places)}
        self._stored = len(places)
        self._sound = not rest and self._stored == count

    def _store(self, path: Path) -> bool:
        """Write the rows that the file lacks at its end, else all of them into a new file."""
        end = _HEADER + self._stored * self._record.itemsize
        first, target = self._stored, path
        try:
            if not (self._sound and path.exists() and path.stat().st_size == end):
                first, target = 0, path.with_suffix(_NEW)
                path.parent.mkdir(exist_ok=True)
            with target.open("ab" if target is path else "wb") as file:
                if target is not path:
                    file.write(self._header)
                file.write(self._records(first))
            if target is not path:
                target.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):  # else it counts as damaged at the next opening
                if target is path:
                    os.truncate(path, end)
                else:
                    target.unlink(missing_ok=True)
            self._sound = target is path
            self._warn(f"cannot write {path} ({error}); vectors are kept in memory")
            return False
        self._stored, self._sound, self._warned = len(self._rows), True, False
        return True

    def _records(self, first: int) -> memoryview:
        """Return the records of the rows from ``first`` on."""
        keys = [*itertools.islice(reversed(self._rows), len(self._rows) - first)][::-1]
        records = np.empty(len(keys), self._record)
        records["key"] = np.frombuffer(b"".join(keys), f"V{KEY}")
        records["vector"] = self.matrix[first:]
        records["checksum"] = _checksums(records)
        return records.view(np.uint8).data

    def _warn(self, message: str) -> None:
        (_log.debug if self._warned else _log.warning)("%s", message)
        self._warned = True


def _checksums(records: NDArray[np.void]) -> list[int]:
    """Return the checksums of records, each without its last part, which holds it."""
    data, size = records.view(np.uint8).data, records.itemsize
    return [zlib.crc32(data[end - size : end - 4]) for end in range(size, len(data) + 1, size)]


class Rounded:
    """The rows of a table in eight bits; it follows a table that grows."""

    def __init__(self) -> None:
        self._count = 0
        self._codes: NDArray[np.int8] = np.empty((0, 0), np.int8)
        self._scales: Matrix = np.empty((2, 0), np.float32)  # and how far rounding moved each

    def bounds(self, matrix: Matrix, vector: Matrix) -> Matrix:
        """Return upper bounds of the products of the rows of a table and a vector."""
        self._follow(matrix)
        count = len(matrix)
        codes, scales = _rounded(vector[np.newaxis])
        moved = float(np.linalg.norm(vector - codes[0] * scales[0]))
        length = float(np.linalg.norm(vector))
        bounds: Matrix = dots(self._codes[:count], codes[0]).astype(np.float32)
        bounds *= self._scales[0, :count] * scales[0]
        bounds += self._scales[1, :count] * np.float32(length + moved)
        bounds += np.float32(_LONGEST * (moved + _FLOAT * length))
        return bounds

    def _follow(self, matrix: Matrix) -> None:
        """Round the rows that are new; room that is not used yet takes no memory."""
        known, count = self._count, len(matrix)
        if count > len(self._codes):
            codes, scales = self._codes, self._scales
            self._codes = np.empty((2 * count, matrix.shape[1]), np.int8)
            self._scales = np.empty((2, 2 * count), np.float32)
            if known:
                self._codes[:known], self._scales[:, :known] = codes[:known], scales[:, :known]
        for start in range(known, count, _PAGE):
            some = slice(start, min(start + _PAGE, count))
            self._codes[some], self._scales[0, some] = codes, scales = _rounded(matrix[some])
            moved = matrix[some] - codes * scales[:, np.newaxis]
            self._scales[1, some] = np.linalg.norm(moved, axis=1)
        self._count = count


class Asked:
    """A vector that is looked for in a table, which does not change meanwhile."""

    def __init__(self, matrix: Matrix, vector: Matrix, rounded: Rounded) -> None:
        self.matrix = matrix
        self.vector = vector
        self._rounded = rounded
        # No cached_property: before Python 3.12 it has a lock, which a forked child may find taken.
        self._bounds: Matrix | None = None

    def similarities(self, rows: Places) -> list[float]:
        """Return the exact products of rows with the vector, to six places."""
        vector = self.vector.astype(np.float64)
        found: list[float] = []
        for start in range(0, len(rows), _PAGE):
            page = self.matrix[rows[start : start + _PAGE]].astype(np.float64)
            found += [round(exact, 6) for exact in dots(page, vector).tolist()]
        return found

    def nearest(self, rows: Places, limit: int, at_least: float = -1.0) -> list[tuple[int, float]]:
        """Return the places of the nearest rows (-1: none) with their similarities, in no order.

        These are the best ``limit``, and what ties with the last; all of at least that similarity.
        """
        places = np.flatnonzero(rows >= 0)
        if len(self.matrix) >= LEAST and len(places) * _SHARE > len(self.matrix):
            if self._bounds is None:
                self._bounds = self._rounded.bounds(self.matrix, self.vector)
            places = self._left(places, rows, self._bounds[rows[places]], limit, at_least)
        close = dots(self.matrix[rows[places]], self.vector).astype(np.float32)
        places = self._left(places, rows, close + np.float32(_FLOAT), limit, at_least)
        similar = self.similarities(rows[places])
        if len(similar) > limit:
            at_least = max(at_least, sorted(similar)[-limit])
        near = zip(places.tolist(), similar, strict=True)
        return [(place, similarity) for place, similarity in near if similarity >= at_least]

    def _left(
        self, places: Places, rows: Places, bounds: Matrix, limit: int, at_least: float
    ) -> Places:
        least = at_least - CLOSE
        if limit < len(places):
            best = np.argpartition(-bounds, limit)[:limit]  # quicker than the last ones, with ties
            worst = float(dots(self.matrix[rows[places[best]]], self.vector).min())
            least = max(least, worst - _FLOAT - CLOSE)
        return places[bounds >= least]


def dots(rows: NDArray[Any], vector: NDArray[Any]) -> NDArray[np.float64]:
    """Return the product of each row with a vector of its type; it is exact for int8."""
    if not len(rows):
        return np.empty(0)
    found: NDArray[np.float64] = np.asarray(
        simsimd.cdist(vector[np.newaxis], rows, "dot", threads=1)
    )[0]
    return found


def _rounded(vectors: Matrix) -> tuple[NDArray[np.int8], Matrix]:
    scales = np.abs(vectors).max(axis=1) / np.float32(_MOST)
    scales[scales == 0] = 1
    return np.rint(vectors / scales[:, np.newaxis]).astype(np.int8), scales
