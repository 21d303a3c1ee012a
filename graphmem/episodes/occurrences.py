"""Equal episodes without a source key, told apart by how many of them came before."""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import Self

from graphmem.errors import StorageError

FIRST = "1"
"""The occurrence of the first of equal episodes: its id needs no mark."""
IN_MEMORY = 100_000
"""Contents that are counted in memory; a longer log has its counts in a temporary file."""


class Occurrences:
    """Counts equal contents in one call, or in one file, in bounded memory.

    Close it, or use it in a ``with`` block.
    """

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._file: sqlite3.Connection | None = None

    def of(self, content_hash: str, given: str | None = None) -> str:
        """Return which occurrence of its content an episode is: ``given``, else the next one.

        Raises:
            StorageError: the temporary file cannot be written.
        """
        key = bytes.fromhex(content_hash)
        try:
            before = self._read(key)
            if given is None:
                count = before + 1
            else:
                numbered = given.isascii() and given.isdecimal() and len(given) < 10
                count = max(before + 1, int(given) if numbered else 0)
            self._write(key, count)
        except sqlite3.Error as error:
            raise StorageError(f"equal episodes cannot be counted: {error}") from error
        return str(count) if given is None else given

    def close(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()

    def _read(self, key: bytes) -> int:
        if self._file is None:
            return self._counts.get(key, 0)
        row = self._file.execute("SELECT times FROM counts WHERE content = ?", (key,)).fetchone()
        return 0 if row is None else int(row[0])

    def _write(self, key: bytes, count: int) -> None:
        if self._file is None:
            self._counts[key] = count
            if len(self._counts) > IN_MEMORY:
                self._spill()
        else:
            self._file.execute("INSERT OR REPLACE INTO counts VALUES (?, ?)", (key, count))

    def _spill(self) -> None:
        # "" is a file without a name. It is gone when it is closed, and nobody else can read it.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.execute("PRAGMA synchronous = OFF")
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute(
            "CREATE TABLE counts (content BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID"
        )
        self._file.executemany("INSERT INTO counts VALUES (?, ?)", self._counts.items())
        self._counts.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
