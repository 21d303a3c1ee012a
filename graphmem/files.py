"""Writes files that a person names: whole or not at all, and never in place of a device."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO, cast
from uuid import uuid4

from graphmem.errors import StorageError, shown

try:
    import fcntl as fcntl  # noqa: PLC0414 - it is for the files of an embedded memory, too
except ImportError:  # Windows: kglite alone guards its files, and nobody gives the lease back
    fcntl = None  # type: ignore[assignment]


@contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """Yield an empty file; at the end it replaces ``path``, or the target of that link.

    A device, a pipe or a socket is not replaced; everything is written to it at the end, and into
    a pipe when somebody reads it.

    Raises:
        StorageError: it cannot be written; an existing file is unchanged.
    """
    name = shown(str(path))
    if "\0" in str(path):
        raise StorageError(f"{name} is not the name of a file")
    try:
        with ExitStack() as stack:
            there = Path(path).stat() if Path(path).exists() else None
            if there is None or stat.S_ISREG(there.st_mode):
                yield stack.enter_context(_replacing(Path(os.path.realpath(path)), there))
            elif stat.S_ISDIR(there.st_mode):
                raise StorageError(f"{name} is a folder; name a file")
            else:
                file = cast(BinaryIO, stack.enter_context(tempfile.TemporaryFile()))
                yield file
                file.seek(0)
                with os.fdopen(os.open(path, os.O_WRONLY), "wb") as into:  # neither made nor cut
                    shutil.copyfileobj(file, into)
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror or error}; nothing was written") from error


@contextmanager
def _replacing(target: Path, there: os.stat_result | None) -> Iterator[BinaryIO]:
    """Yield a file beside ``target``, which it replaces at the end."""
    if not target.parent.is_dir():
        raise StorageError(f"{shown(str(target))}: there is no folder {shown(str(target.parent))}")
    with part_of(target, lambda part: part.open("xb").close()) as part:
        with part.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if there is not None:
            part.chmod(stat.S_IMODE(there.st_mode))
        part.replace(target)


@contextmanager
def part_of(target: Path, make: Callable[[Path], None]) -> Iterator[Path]:
    """Make a file or folder beside ``target``, which is to become it, and yield its path.

    It is locked as long as somebody writes it. What a killed process left there is removed.
    """
    beginning = f".{target.name[:100]}."
    for left in target.parent.glob(f"{escape(beginning)}{'[0-9a-f]' * 32}.part"):
        with suppress(OSError), locked_file(left) as free:
            if free:
                _remove(left)
    part = target.with_name(f"{beginning}{uuid4().hex}.part")
    try:
        make(part)
        with locked_file(part):
            yield part
    finally:
        _remove(part)


@contextmanager
def locked_file(path: Path) -> Iterator[bool]:
    """Lock a file or a folder that is there, without waiting; yield whether that worked."""
    if fcntl is None:
        yield False
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        yield flocked(handle)
    finally:
        os.close(handle)


def flocked(file: int | BinaryIO) -> bool:
    """Lock an open file as long as it is open, without waiting; return whether that worked."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
