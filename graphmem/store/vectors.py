"""Vectors of texts in a memory-mapped file beside the graph, looked up by the text's digest.

A table is two files. ``NAME.f32`` has one row of float32 for each text. ``NAME.keys`` begins with a
header (format, dimensions, digest of the embedder's name) and has one record for each row: the
digest of the text and the checksum of the row. A vector is written before its record. A row with a
wrong checksum is ignored and made again, for instance after a crash. The table is derived data; it
may be removed while no process has it open.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphmem.errors import StorageError

Matrix = NDArray[np.float32]

KEY = 16
"""Length of a digest in bytes."""
_RECORD = np.dtype([("key", f"V{KEY}"), ("checksum", "<u4")])
_MAGIC = b"graphmem vectors 1\n"
_HEADER = 64
_LEAST = 1024
"""Initial capacity in rows; it doubles when it is full."""


def digest(text: str) -> bytes:
    """Return the key of a text's vector."""
    return hashlib.blake2b(text.encode(), digest_size=KEY).digest()


class VectorTable:
    """The vectors of one embedder, in a folder or in memory (``folder`` None, or not ``writable``).

    One process may write. The others see the rows that existed when they opened it, and their own
    additions in memory.
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
    ) -> None:
        self.dimensions = dimensions
        self._header = (
            _MAGIC
            + dimensions.to_bytes(4, "little")
            + hashlib.blake2b(embedder.encode(), digest_size=32).digest()
        ).ljust(_HEADER, b"\0")
        self._vectors = folder / f"{name}.f32" if folder else None
        self._keys = folder / f"{name}.keys" if folder else None
        self._writable = writable and folder is not None
        self._durable = durable
        self._rows: dict[bytes, int] = {}
        self._count = 0
        self._room: Matrix = np.empty((0, dimensions), np.float32)
        try:
            self._load()
        except OSError as error:
            raise StorageError(f"cannot read the vectors in {folder}: {error}") from error

    @property
    def matrix(self) -> Matrix:
        """All rows, shape (rows, dimensions), including unused ones."""
        return self._room[: self._count]

    def row(self, key: bytes) -> int:
        """Return the row of a text, or -1."""
        return self._rows.get(key, -1)

    def add(self, keys: Sequence[bytes], vectors: Matrix) -> None:
        """Add rows for texts that have none."""
        first, self._count = self._count, self._count + len(keys)
        try:
            self._reserve(self._count)
            self._room[first : self._count] = vectors
            if self._writable:
                self._record(keys, vectors)
        except OSError as error:
            self._count = first
            raise StorageError(f"cannot write {self._vectors}: {error}") from error
        except BaseException:
            self._count = first
            raise
        self._rows.update((key, first + place) for place, key in enumerate(keys))

    def keep(self, keys: Collection[bytes]) -> None:
        """Remove all rows except those of ``keys``, on disk as well."""
        kept = [key for key in self._rows if key in keys]
        if len(kept) == self._count:
            return
        rows = self._room[[self._rows[key] for key in kept]]
        self._room = np.empty((0, self.dimensions), np.float32)  # releases the old file
        if self._writable and self._keys and self._vectors:
            self._vectors.unlink(missing_ok=True)
            self._keys.unlink(missing_ok=True)
        self._rows, self._count = {}, 0
        self.add(kept, rows)

    def _load(self) -> None:
        if self._keys is None or self._vectors is None:
            return
        width = self.dimensions * 4
        room = self._vectors.stat().st_size // width if self._vectors.exists() else 0
        data = self._keys.read_bytes() if self._keys.exists() else b""
        if not data.startswith(self._header) or not room:
            if self._writable:
                self._vectors.unlink(missing_ok=True)
                self._keys.unlink(missing_ok=True)
            return
        count = min((len(data) - _HEADER) // _RECORD.itemsize, room)
        records = np.frombuffer(data, _RECORD, count, _HEADER)
        if self._writable:  # cuts off a partial record after a crash
            os.truncate(self._keys, _HEADER + count * _RECORD.itemsize)
        self._map(room)
        self._count = count
        data_of_rows = self._room.data.cast("B")
        keys = records["key"].tobytes()
        for place, checksum in enumerate(records["checksum"].tolist()):
            if zlib.crc32(data_of_rows[place * width : (place + 1) * width]) == checksum:
                self._rows[keys[place * KEY : (place + 1) * KEY]] = place

    def _map(self, rows: int) -> None:
        shape = (rows, self.dimensions)
        mode = "r+" if self._writable else "c"
        self._room = np.memmap(str(self._vectors), np.float32, mode, shape=shape)  # type: ignore[call-overload]

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._room):
            return
        room = max(_LEAST, 2 * len(self._room), rows)
        if not self._writable or self._vectors is None:
            larger = np.empty((room, self.dimensions), np.float32)
            larger[: len(self._room)] = self._room
            self._room = larger
            return
        self._vectors.parent.mkdir(exist_ok=True)
        with self._vectors.open("ab") as file:
            os.truncate(file.fileno(), room * self.dimensions * 4)
        self._map(room)

    def _record(self, keys: Sequence[bytes], vectors: Matrix) -> None:
        if self._keys is None:
            return
        if self._durable and isinstance(self._room, np.memmap):
            self._room.flush()
        records = np.empty(len(keys), _RECORD)
        for place, (key, vector) in enumerate(zip(keys, vectors, strict=True)):
            records[place] = (key, zlib.crc32(np.ascontiguousarray(vector, np.float32).data))
        with self._keys.open("ab") as file:
            if file.tell() == 0:
                file.write(self._header)
            file.write(records.tobytes())
            file.flush()
            if self._durable:
                os.fsync(file.fileno())
