"""Equal episodes without a source key, told apart by how many of them came before."""

from __future__ import annotations

import sqlite3

from graphmem.errors import StorageError

FIRST = "1"
"""The occurrence of the first of equal episodes: its id needs no mark."""


class Occurrences:
    """Counts equal contents in one call, or in one file."""

    def __init__(self) -> None:
        # "" is a file without a name. It is written when its cache in memory is full, it is gone
        # when it is closed, and nobody else can read it.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._file.executescript(
            "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;"
            "CREATE TABLE counts (content BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID"
        )

    def of(self, content_hash: str, given: str | None = None) -> str:
        """Return which occurrence of its content an episode is: ``given``, else the next one."""
        numbered = given and given.isascii() and given.isdecimal() and len(given) < 10
        try:
            [(count,)] = self._file.execute(
                "INSERT INTO counts VALUES (?, max(1, ?2)) ON CONFLICT DO UPDATE "
                "SET times = max(times + 1, ?2) RETURNING times",
                (bytes.fromhex(content_hash), int(given) if given and numbered else 0),
            ).fetchall()
        except sqlite3.Error as error:
            raise StorageError(f"equal episodes cannot be counted: {error}") from error
        return str(count) if given is None else given

    def close(self) -> None:
        """Drop the counts."""
        self._file.close()
