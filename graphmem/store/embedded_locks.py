"""The locks of an embedded memory: its lease, and who reads a snapshot.

The lease is kglite's: an open session has its file of locks locked. That lock belongs to the open
file, so this process gives it back and takes it again while the session stays open.
"""

from __future__ import annotations

import contextlib
import os
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

try:
    import fcntl
except ImportError:  # Windows: kglite alone guards the files, and mends a torn log
    fcntl = None  # type: ignore[assignment]

from graphmem.errors import StorageError
from graphmem.files import flocked

READERS = "graph.kgl-readers"
"""Locked by each process that has a snapshot."""

_LOCK = "graph.kgl.lock"
"""kglite's own lock: who has it writes."""
_OWNER = "graph.kgl.lock-owner"


class HeldLock:
    """The lock of a session that is open, and has it."""

    def __init__(self, folder: Path, file: int) -> None:
        self._folder = folder
        self._file = file
        self._readers: int | None = None
        self._hands: int | None = None
        self.close = weakref.finalize(self, os.close, file)
        """Lets the session have the lock for itself; its end ends the lock, too."""
        self.close.atexit = False

    def give(self) -> None:
        """Let other processes have it; this one is a reader then, of what is in its memory."""
        self._readers = reading(self._folder)
        self._hands = changed_hands(self._folder)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def take(self) -> bool:
        """Take it back if it is free; return whether that worked."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        self.end_reading()
        if changed_hands(self._folder) != self._hands:
            since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            with contextlib.suppress(OSError):
                (self._folder / _OWNER).write_text(f"pid={os.getpid()}\nsince={since}\n")
        return True

    def end_reading(self) -> None:
        """Let others know that what was read is not used any more."""
        if self._readers is not None:
            os.close(self._readers)
            self._readers = None


def can_be_given() -> bool:
    """Return whether a session can give its lock back while it stays open."""
    return fcntl is not None and Path("/dev/fd").is_dir()


def held_lock(folder: Path) -> HeldLock | None:
    """Return the lock of the session that this process has open on a folder, if it can be given.

    None where the system has no such locks, or does not tell the open files.
    """
    if fcntl is None:
        return None
    try:
        wanted = (folder / _LOCK).stat()
        numbers = [int(entry.name) for entry in Path("/dev/fd").iterdir()]
    except OSError:
        return None
    for number in numbers:
        with contextlib.suppress(OSError):
            found = os.fstat(number)
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                # Only who has it gets it again.
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return HeldLock(folder, os.dup(number))
    return None


def changed_hands(folder: Path) -> int | None:
    """Return what differs when another process got the lease, or the same one again."""
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
        yield False
        return
    try:
        (folder / _LOCK).touch()
        file = (folder / _LOCK).open("r+b")
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror}") from error
    with file:
        yield flocked(file)


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


def reading(folder: Path) -> int | None:
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
def waited_for(path: Path, mode: str) -> Iterator[BinaryIO | None]:
    """Open and lock a file as soon as nobody else has it so; yield None where there are no locks.

    Who has it so may remove it.
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
