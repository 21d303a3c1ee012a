"""Vectors of texts in a file beside the graph, looked up by the text's digest.

The file of a table begins with a header (format, dimensions, digest of the names of the table and
the embedder). Then comes a record for each text: its digest, its vector, and a checksum of both.
The file is read as a whole and checked at opening, and never mapped into memory: what was checked
is what is used, and a full disk or a file that somebody cuts off is an error rather than a signal.

A table is derived data. A record with a wrong checksum counts as missing and is made again. Records
are added at the end; everything else is written into a new file that replaces the old one, so that
a crash loses at most what was being added.
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
from io import FileIO
from pathlib import Path

from graphmem.arrays import NDArray, np
from graphmem.errors import StorageError

Matrix = NDArray[np.float32]
Filing = Callable[[], AbstractContextManager[bool]]
"""Keeps the lease within, if this process has it; says whether it does."""


def freely() -> AbstractContextManager[bool]:
    """Say that this may be written, for it needs no lease."""
    return contextlib.nullcontext(enter_result=True)


KEY = 16
"""Length of a digest in bytes."""
ENDING = ".vectors"
_MAGIC = b"graphmem vectors 2\n"
_HEADER = 64
_LEAST = 1024
"""Rows that there is room for at least; the room doubles when it is full."""
_BLOCK = 512
"""Records that are read or written at once: less than a megabyte, which fits a cache."""
_NOTHING = FileNotFoundError, NotADirectoryError, IsADirectoryError
"""What is told where there is no file of ours to remove."""

_log = logging.getLogger(__name__)


def digest(text: str) -> bytes:
    """Return the key of a text's vector."""
    return hashlib.blake2b(text.encode(), digest_size=KEY).digest()


class VectorTable:
    """The vectors of one embedder, in a folder or only in memory (``folder`` None).

    One process may write (``writable``). The others see the rows that existed when they opened it,
    and their own additions in memory. So does the writer while it has no lease (``filing``), or
    where the disk is full or damaged, which it says once; it writes what is missing when it can.
    """

    def __init__(
        self,
        folder: Path | None,
        name: str,
        embedder: str,
        dimensions: int,
        *,
        writable: bool,
        durable: bool = False,
        filing: Filing = freely,
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
        self._writable = writable
        self._filing = filing
        self._durable = durable
        self._rows: dict[bytes, int] = {}
        self._room: Matrix = np.empty((0, dimensions), np.float32)
        self._stored = 0
        """Rows that are in the file: the first ones."""
        self._sound = False
        """Whether the file holds these rows and nothing else."""
        self._told = False
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
        first = len(self._rows)
        self._reserve(first + len(keys))
        self._room[first : first + len(keys)] = vectors
        self._rows.update((key, first + place) for place, key in enumerate(keys))
        self.save()

    def save(self) -> None:
        """Write the rows that the file lacks, if this process has the lease."""
        complete = self._sound and self._stored == len(self._rows)
        if self._writable and self._path is not None and not complete:
            with self._filing() as mine:
                if mine:
                    self._store(self._path)

    def keep(self, keys: Collection[bytes]) -> None:
        """Remove all rows except those of ``keys``, on disk as well.

        Raises:
            StorageError: what is to be removed cannot be removed from the disk.
        """
        kept = [key for key in self._rows if key in keys]
        if len(kept) < len(self._rows):
            self._room = self._room[[self._rows[key] for key in kept]]
            self._rows = {key: row for row, key in enumerate(kept)}
            self._sound = False
        if not self._writable or self._path is None or self._sound:
            return
        with self._filing() as mine:
            try:
                if mine and (not kept or not self._store(self._path)):
                    with contextlib.suppress(*_NOTHING):
                        self._path.unlink()
            except OSError as error:
                raise StorageError(
                    f"cannot remove vectors of removed texts from {self._path}: {error}"
                ) from error

    def _load(self, path: Path) -> None:
        """Read the file; leave out what is damaged."""
        size = self._record.itemsize
        try:
            if self._writable:
                with self._filing() as mine:
                    if mine:
                        _beside(path).unlink(missing_ok=True)
            with path.open("rb") as file:
                if file.read(_HEADER) != self._header:
                    return
                count, rest = divmod(os.fstat(file.fileno()).st_size - _HEADER, size)
                self._reserve(count)
                data = bytearray(size * _BLOCK)
                while read := file.readinto(data) // size:
                    self._take(data, read)
        except FileNotFoundError:
            return
        except OSError as error:
            self._tell(f"cannot read {path} ({error}); what is missing is made again")
            return
        self._sound = not rest and len(self._rows) == count

    def _take(self, data: bytearray, count: int) -> None:
        """Take over the sound ones of so many records."""
        view, size = memoryview(data), self._record.itemsize
        records = np.frombuffer(data, self._record, count)
        first = row = len(self._rows)
        self._reserve(row + count)
        places = []
        for place, (key, checksum) in enumerate(
            zip(records["key"].tolist(), records["checksum"].tolist(), strict=True)
        ):
            checked = view[place * size : (place + 1) * size - 4]
            if zlib.crc32(checked) == checksum and self._rows.setdefault(key, row) == row:
                places.append(place)
                row += 1
        vectors = records["vector"]
        self._room[first:row] = vectors if len(places) == count else vectors[places]
        self._stored = row

    def _reserve(self, rows: int) -> None:
        """Have room for so many rows, and as many more: that takes no memory before it is used."""
        if rows > len(self._room):
            room: Matrix = np.empty((max(_LEAST, 2 * rows), self.dimensions), np.float32)
            room[: len(self._rows)] = self.matrix
            self._room = room

    def _store(self, path: Path) -> bool:
        """Write the rows that are not in the file yet; return False if there is no room."""
        try:
            if not self._append(path):
                self._replace(path)
        except OSError as error:
            self._tell(f"cannot write {path} ({error}); vectors are kept in memory")
            return False
        self._told = False
        return True

    def _append(self, path: Path) -> bool:
        """Write new rows at the end of the file; return False if it is not what was written."""
        if not self._sound:
            return False
        end = _HEADER + self._stored * self._record.itemsize
        try:
            file = path.open("r+b", buffering=0)
        except FileNotFoundError:
            return False
        with file:
            if os.fstat(file.fileno()).st_size != end:
                return False
            file.seek(end)
            try:
                self._write(file, self._stored)
            except OSError:
                with contextlib.suppress(OSError):  # else it counts as damaged at the next opening
                    file.truncate(end)
                raise
        return True

    def _replace(self, path: Path) -> None:
        """Write all rows into a new file in place of the old one."""
        self._sound = False
        path.parent.mkdir(exist_ok=True)
        new = _beside(path)
        try:
            with new.open("wb", buffering=0) as file:
                _write_all(file, self._header)
                self._write(file, 0)
            new.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            raise
        self._sound = True

    def _write(self, file: FileIO, first: int) -> None:
        """Write the records of the rows from ``first`` on, to the disk where that is wanted."""
        size = self._record.itemsize
        keys = list(itertools.islice(reversed(self._rows), len(self._rows) - first))[::-1]
        for start in range(0, len(keys), _BLOCK):
            block = keys[start : start + _BLOCK]
            records = np.empty(len(block), self._record)
            records["key"] = np.frombuffer(b"".join(block), f"V{KEY}")
            row = first + start
            records["vector"] = self._room[row : row + len(block)]
            view = records.view(np.uint8).data
            records["checksum"] = [
                zlib.crc32(view[place * size : (place + 1) * size - 4])
                for place in range(len(block))
            ]
            _write_all(file, view)
        if self._durable:
            os.fsync(file.fileno())
        self._stored = first + len(keys)

    def _tell(self, message: str) -> None:
        """Warn, but not at every call."""
        (_log.debug if self._told else _log.warning)("%s", message)
        self._told = True


def _beside(path: Path) -> Path:
    """Return the file that is written before it replaces another; one may be left by a crash."""
    return path.with_suffix(".new")


def _write_all(file: FileIO, data: bytes | memoryview) -> None:
    """Write all of it: a file without a buffer may take a part, for instance on a full disk."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]
