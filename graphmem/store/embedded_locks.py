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

READERS = "graph.kgl-readers"
"""Locked by each process that has a snapshot."""
WAITERS = "graph.kgl-waiters"
"""Locked by each process that waits to write."""

_LOCK = "graph.kgl.lock"
"""kglite's own lock: who has it writes."""
_OWNER = "graph.kgl.lock-owner"


def changed_hands(folder: Path) -> int | None:
    """Return a number that changes when a process takes the lease or gives it back."""
    try:
        return (folder / _OWNER).stat().st_mtime_ns
    except OSError:
        return None


def owner_of(folder: Path) -> dict[str, str]:
    """Return what kglite says of the process that has its lock."""
    try:
        lines = (folder / _OWNER).read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    return dict(line.split("=", 1) for line in lines if "=" in line)


@contextlib.contextmanager
def unused(folder: Path) -> Iterator[bool]:
    """Hold kglite's lock if nobody writes; yield whether that worked."""
    if fcntl is None:
        yield True
        return
    try:
        (folder / _LOCK).touch()
        file = (folder / _LOCK).open("r+b")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from error
    with file:
        yield flocked(file)


@contextlib.contextmanager
def waiting(folder: Path) -> Iterator[None]:
    """Let the process that writes know that another one waits."""
    if fcntl is None:
        yield
        return
    try:
        file = os.open(folder / WAITERS, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError:
        yield
        return
    try:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            fcntl.flock(file, fcntl.LOCK_SH)
        yield
    finally:
        os.close(file)


def wanted(folder: Path) -> bool:
    """Return whether a process waits to write."""
    if fcntl is None:
        return False
    try:
        file = os.open(folder / WAITERS, os.O_RDWR)
    except OSError:
        return False
    try:
        return not flocked(file)
    finally:
        os.close(file)


def readers_of(folder: Path) -> tuple[str, ...]:
    """Return which other processes have a snapshot, by number where the system tells it."""
    if fcntl is None:
        return ()
    try:
        file = (folder / READERS).open("rb")
    except OSError:
        return ()
    with file:
        if flocked(file):
            return ()
        inode = str(os.fstat(file.fileno()).st_ino)
        with contextlib.suppress(OSError):
            locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
            held = {words[4] for words in locks if words[5:] and words[5].endswith(f":{inode}")}
            if numbers := {int(number) for number in held if number.isdigit()}:
                return tuple(f"process {number}" for number in sorted(numbers - {os.getpid()}))
        return ("another process",)


def lock_for_reading(folder: Path) -> int | None:
    """Lock the file of readers, together with others; None where that cannot be."""
    if fcntl is None:
        return None
    try:
        file = os.open(folder / READERS, os.O_RDONLY)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # some network file systems have no locks
        fcntl.flock(file, fcntl.LOCK_SH)  # who looks for readers locks it for an instant
    return file


@contextlib.contextmanager
def open_locked(path: Path, mode: str) -> Iterator[BinaryIO | None]:
    """Open a file and lock it when nobody else has; yield None where there are no locks.

    Who has it locked may remove it.
    """
    if fcntl is None:
        yield None
        return
    while True:
        with cast("BinaryIO", path.open(mode)) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink:
                yield file
                return
