"""The locks of an embedded memory: who writes, who waits to write, and who reads a snapshot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

try:
    import fcntl
except ImportError:  # Windows: kglite alone guards the files, and nobody gives the lease back
    fcntl = None  # type: ignore[assignment]

from graphmem.errors import StorageError
from graphmem.files import flocked
from graphmem.store.embedded_errors import locked

READERS = "graph.kgl-readers"
"""Locked by each process that has a snapshot."""
WAITERS = "graph.kgl-waiters"
"""Locked by each process that waits to write."""

_LOCK = "graph.kgl.lock"
"""kglite's own lock: who has it writes."""
_OWNER = "graph.kgl.lock-owner"


def _owner_of(folder: Path) -> dict[str, str]:
    """Return what kglite says of the process that has its lock."""
    try:
        lines = (folder / _OWNER).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[None]:
    """Hold kglite's lock; raise LockedError if somebody writes."""
    if fcntl is None:
        yield
        return
    try:
        (folder / _LOCK).touch()
        file = (folder / _LOCK).open("r+b")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from error
    with file:
        if not flocked(file):
            raise locked(_owner_of(folder))
        yield


def lock_shared(path: Path, *, create: bool = False) -> int | None:
    """Lock a file together with others until it is closed; None where that cannot be."""
    if fcntl is None:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY, 0o644)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(file, fcntl.LOCK_SH)
    return file


def _is_locked(path: Path) -> bool:
    if fcntl is None:
        return False
    try:
        with path.open("rb") as file:
            return not flocked(file)
    except OSError:
        return False


def wanted(folder: Path) -> bool:
    """Return whether a process waits to write."""
    return _is_locked(folder / WAITERS)


def readers_of(folder: Path) -> tuple[str, ...]:
    """Return which other processes have a snapshot, by number where the system tells it."""
    if not _is_locked(folder / READERS):
        return ()
    with contextlib.suppress(OSError):
        inode = str((folder / READERS).stat().st_ino)
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        owners = {words[4] for words in locks if words[5:] and words[5].endswith(f":{inode}")}
        if numbers := {int(number) for number in owners if number.isdigit()} - {os.getpid()}:
            return tuple(f"process {number}" for number in sorted(numbers))
    return ("another process",)


@contextlib.contextmanager
def open_locked(path: Path, mode: str) -> Iterator[BinaryIO | None]:
    """Open a file and lock it when nobody else has; yield None where there are no locks."""
    if fcntl is None:
        yield None
        return
    while True:
        with cast("BinaryIO", path.open(mode)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                yield file
                return
