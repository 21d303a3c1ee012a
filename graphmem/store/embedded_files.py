"""The files of an embedded memory: graph file, log and manifest.

They are compared at every opening, because kglite opens any graph file with any log, and cuts or
sets aside what it cannot read.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import kglite

from graphmem.errors import NotAMemoryError, StorageError, StoreError, shown
from graphmem.files import locked_file, part_of
from graphmem.store.embedded_columns import open_session, remove_left_columns
from graphmem.store.embedded_errors import full, locked, translated
from graphmem.store.embedded_locks import READERS, owner_of, unused
from graphmem.store.manifest import (
    MANIFEST,
    Manifest,
    Mark,
    checksum_of,
    incomplete,
    print_of,
    read_manifest,
    sync_folder,
    write_mark,
)

GRAPH = "graph.kgl"
LOG = "graph.kgl-wal"
_LEFT = (f"{LOG}.torn-*", f"{LOG}.tmp", f"{GRAPH}.tmp.*", f"{MANIFEST}.tmp")
"""What a killed process leaves; it can contain what was erased since."""
QUARANTINED = f"{LOG}.quarantine-*"
"""Parts of a log that the engine could not read."""
DAMAGED = f"{LOG}.damaged-"
"""How the names begin under which damaged logs are kept, for people."""
_ASIDE = f"{LOG}.aside"
"""The log that a killed process of an earlier version was about to write into the graph."""
_LOG_HEAD = 8
"""A log without transactions is not longer than these bytes."""
_SCRATCH = "graphmem-copy-"
_HELD = "held"
VECTORS = "vectors"
"""The folder of vectors within that of the memory."""
CHECKPOINT_BYTES = 64 * 1024 * 1024
"""A log may be so long without a checkpoint."""
SELDOM = 30.0
"""Seconds without a write after which the log is folded into the graph file."""
RARELY = 100.0
"""A checkpoint that took a second is followed by none for so many seconds, unless the log is long:
checkpoints take 1 % of the time."""
_BYTES_PER_SECOND = 100e6
"""How quickly a graph file is written, where none was written yet."""

_log = logging.getLogger(__name__)

# Snapshots read the graph file alone, on purpose.
warnings.filterwarnings("ignore", r"the write-ahead log at ", UserWarning)


class WrittenFiles:
    """The files that this process writes: keeps the manifest true."""

    def __init__(self, folder: Path, session: kglite.Session, *, durable: bool) -> None:
        self._folder = folder
        self._session = session
        self._durable = durable
        self._path = str(folder / LOG)
        self._log: BinaryIO | None = None
        self._file: BinaryIO | None = None
        found, graph = read_manifest(folder), print_of(folder / GRAPH)
        stored = found
        if stored is None or stored.graph != graph or not stored.counts(graph):
            nodes = session.node_count()
            stored = replace(
                stored or Manifest(), saving=False, graph=graph, nodes=nodes, checked=True
            )
            mark = Mark(stored.checkpoint)
        else:
            mark, stored = stored.mark, replace(stored, saving=False)
        self._mark, self._manifest = mark, stored
        self._took = graph.bytes / _BYTES_PER_SECOND if graph else 0.0
        """Seconds of the last checkpoint."""
        self._folded = time.monotonic()
        """When it was."""
        self._written = stored == found
        if self._written:
            self._file = (folder / MANIFEST).open("r+b", buffering=0)
        else:
            self._write()
        self.acknowledge()
        (folder / READERS).touch()

    def acknowledge(self) -> None:
        """Note that the log contains one more transaction, which counts from now on.

        Raises:
            StorageError: the manifest cannot be written.
        """
        size = os.stat(self._path).st_size  # noqa: PTH116 - at every write: a Path costs more
        checkpoint, transactions, before, checksum = self._mark
        if size <= max(before, _LOG_HEAD) and self._written:
            return
        if self._log is None:
            self._log = (self._folder / LOG).open("rb", buffering=0)
        checksum = checksum_of(self._log, size, before, checksum)
        self._mark = Mark(checkpoint, transactions + 1, size, checksum)
        try:
            if self._file is not None and self._written:
                write_mark(self._file, self._mark, durable=self._durable)
                return
        except OSError as error:
            raise StorageError(f"cannot write {self._folder / MANIFEST}: {error}") from error
        # The manifest on the disk says that a checkpoint is written, so the whole log counts.
        with contextlib.suppress(OSError):
            self._write()

    def checkpoint(self) -> None:
        """Write a new graph file, and begin a new log, unless nothing changed since the last.

        Raises:
            OSError, kglite.KgError: there is no room; the old files are still in force.
        """
        if not self.pending and self._manifest.graph:
            return
        began, before = time.monotonic(), self._manifest
        self._manifest = replace(before, saving=True)
        self._write()
        try:
            self._session.save()
            self._written = False
            number = before.checkpoint + 1
            self._manifest = Manifest(
                checkpoint=number,
                graph=print_of(self._folder / GRAPH),
                nodes=self._session.node_count(),
                transactions=before.transactions + self._mark.transactions,
            )
            self._mark = Mark(number)
            self._write()
        finally:
            self._close_log()
        self._folded = time.monotonic()
        self._took = self._folded - began

    @property
    def pending(self) -> bool:
        """Whether the log has transactions that the graph file lacks."""
        return holds_log(self._folder)

    @property
    def grown(self) -> bool:
        """Whether the log is so long that it is folded at once.

        Half of the graph file keeps the average cost of a transaction constant.
        """
        graph = self._manifest.graph
        return self._mark.size > max(CHECKPOINT_BYTES, graph.bytes // 2 if graph else 0)

    def idle(self, seconds: float) -> bool:
        """Return whether to fold the log when nobody wrote for so many seconds."""
        rested = time.monotonic() - self._folded
        return seconds > SELDOM and rested > RARELY * self._took and self.pending

    def close(self) -> None:
        """Release the files."""
        self._close_log()
        if self._file:
            self._file.close()
            self._file = None

    def _close_log(self) -> None:
        if self._log:
            self._log.close()
            self._log = None

    def _write(self) -> None:
        replace(self._manifest, mark=self._mark).write(self._folder)
        self._written = True
        if self._file:
            self._file.close()
        self._file = (self._folder / MANIFEST).open("r+b", buffering=0)


def open_writer(folder: Path, durable: Any, before: Callable[[], None]) -> kglite.Session:
    """Open a folder for writing; the caller then has kglite's lease.

    ``before`` is called before the graph is loaded, if no other process writes.

    Raises:
        LockedError: another process writes.
        StorageError: files are missing, damaged, or do not belong together.
    """
    if holds_graph(folder):
        with unused(folder) as free:
            if not free:
                raise locked(owner_of(folder))
            with name_file(folder):
                _mend(folder)
    before()
    with translated(path=folder / GRAPH):
        session = open_session(str(folder / GRAPH), durable=durable, auto_checkpoint_wal_mib=0)
    if problems := _set_aside(folder):  # by the engine, just now
        abandon(session)
        raise incomplete(f"{folder} is not complete: {'; '.join(problems)}")
    return session


def abandon(session: kglite.Session) -> None:
    """End a session, and with it the lease, as it is.

    Closing it writes a graph file that the manifest does not know, even where a statement changed
    nothing since the last checkpoint.
    """
    session.__exit__(StoreError, None, None)


@contextlib.contextmanager
def name_file(folder: Path) -> Iterator[None]:
    """Name the file, or the memory, that cannot be read or written."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        why = error.strerror or error
        cannot = "the disk is full: cannot write" if full(error) else "cannot read"
        raise StorageError(f"{cannot} {where}: {why}") from error


def _mend(folder: Path) -> None:
    """Remove what killed processes left; raise if acknowledged work is missing.

    Nobody was told that a transaction behind the mark is there, so it is cut off.
    """
    remove_left(folder)
    if (folder / _ASIDE).exists():
        (folder / _ASIDE).replace(folder / LOG)
    manifest = read_manifest(folder)
    acknowledged = check_complete(folder, folder, manifest)
    size = file_size(folder / LOG)
    if acknowledged is not None and size > max(acknowledged, _LOG_HEAD):
        _log.info(
            "%s: cut %d bytes of an unfinished transaction",
            shown(str(folder / LOG)),
            size - acknowledged,
        )
        with (folder / LOG).open("r+b") as file:
            file.truncate(acknowledged)
            os.fsync(file.fileno())


def check_complete(folder: Path, copy: Path, manifest: Manifest | None) -> int | None:
    """Return how many bytes of the log were acknowledged; None: the manifest does not say.

    ``copy`` has the files of ``folder``, or their copies.

    Raises:
        StorageError: the files are not what the manifest says.
    """
    if problems := find_problems(folder, copy, manifest):
        raise incomplete(f"{folder} is not complete: {'; '.join(problems)}")
    return manifest.mark.size if manifest and manifest.counts(print_of(copy / GRAPH)) else None


def find_problems(folder: Path, copy: Path, manifest: Manifest | None) -> tuple[str, ...]:
    """Return what the files lack, by the manifest."""
    problems = _set_aside(folder)
    graph = print_of(copy / GRAPH)
    if manifest is None or (manifest.saving and graph and graph != manifest.graph):
        return tuple(problems)
    if graph != manifest.graph:
        expected = (
            f"checkpoint {manifest.checkpoint} ({manifest.nodes:,} nodes of "
            f"{manifest.transactions:,} transactions)"
        )
        problems.append(
            f"{folder / GRAPH} is missing, with {expected}"
            if graph is None
            else f"{folder / GRAPH} is damaged, older, or of another memory: it is not {expected}"
        )
    if manifest.checked and not _has_acknowledged(copy / LOG, manifest.mark):
        size = file_size(copy / LOG)
        what = (
            f"is missing or cut off at byte {size:,}"
            if size < manifest.mark.size
            else "is damaged, or that of another memory"
        )
        problems.append(
            f"{folder / LOG} {what}: it lacks some of the {manifest.mark.transactions:,} "
            f"transactions that were acknowledged since checkpoint {manifest.checkpoint}"
        )
    return tuple(problems)


def _has_acknowledged(log: Path, mark: Mark) -> bool:
    if not mark.size:
        return True
    try:
        with log.open("rb") as file:
            return checksum_of(file, mark.size) == mark.checksum
    except (FileNotFoundError, EOFError):
        return False


def _set_aside(folder: Path) -> list[str]:
    return [f"a part of its log was set aside ({part.name})" for part in folder.glob(QUARANTINED)]


def keep_damaged(folder: Path, name: str) -> Path:
    """Copy a damaged file under a name under which nobody removes it; return that."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in count(1):
        kept = folder / f"{DAMAGED}{now}-{number}"
        if not kept.exists():
            break
    shutil.copyfile(folder / name, kept)
    return kept


def remove_left(folder: Path) -> None:
    """Remove what killed processes left beside the files, and as copies and columns of graphs."""
    for pattern in _LEFT:
        for left in folder.glob(pattern):
            left.unlink(missing_ok=True)
    for copy in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError), locked_file(copy / _HELD) as free:
            if free:
                shutil.rmtree(copy, ignore_errors=True)
    remove_left_columns()


def link(file: Path, name: Path) -> None:
    """Give a file another name, or copy it: it is replaced, never changed in place."""
    try:
        name.hardlink_to(file)
    except OSError:  # on another disk, of another user, or not supported
        shutil.copyfile(file, name)


def write_backup(session: kglite.Session, folder: Path) -> tuple[int, int]:
    """Write a graph to a new folder, whole or not at all; return its bytes and nodes.

    Raises:
        StorageError: the folder holds something, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise StorageError(f"{folder} is not empty; give a new folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with part_of(folder, lambda new: new.mkdir(0o700)) as new:
            try:
                with translated(path=folder):
                    session.backup(str(new / GRAPH))
            except StorageError as error:
                raise StorageError(f"cannot write {folder}: {error}") from error
            graph = print_of(new / GRAPH)
            Manifest(checkpoint=1, graph=graph, nodes=session.node_count(), mark=Mark(1)).write(new)
            new.chmod(0o755)
            new.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
    return graph.bytes if graph else 0, session.node_count()


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a temporary folder, and remove it; if this process is killed, another does."""
    # Another process removes what nobody has locked, so it has that name only then.
    folder = Path(tempfile.mkdtemp(prefix=f"new-{_SCRATCH}"))
    try:
        (folder / _HELD).touch()
        with locked_file(folder / _HELD):
            folder = folder.rename(folder.with_name(folder.name.removeprefix("new-")))
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def holds_graph(folder: Path) -> bool:
    """Return whether there is a memory."""
    return any((folder / name).exists() for name in (GRAPH, LOG, MANIFEST))


def holds_log(folder: Path) -> bool:
    """Return whether there is a log of transactions that the graph file does not have."""
    return file_size(folder / LOG) > _LOG_HEAD or (folder / _ASIDE).exists()


def check_folder(folder: Path) -> None:
    """Raise unless the folder is a memory or empty."""
    try:
        if not folder.exists():
            if folder.is_symlink():
                raise StorageError(f"{folder} is a link that leads nowhere; give a folder")
            return
        if not folder.is_dir():
            raise NotAMemoryError(f"{folder} is a file, not a memory folder; give a folder")
        if not holds_graph(folder) and any(
            not entry.name.startswith((GRAPH, ".")) for entry in folder.iterdir()
        ):
            raise NotAMemoryError(
                f"{folder} holds other files and no memory; give an empty or a new folder"
            )
    except PermissionError as error:
        raise StorageError(f"no permission to read {folder}") from error


def stat_of(path: Path | str) -> tuple[int, ...] | None:
    """Return what changes when a file is written or replaced; None if it is not there."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - at every read: a Path costs more
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def file_size(path: Path) -> int:
    """Return the size in bytes, 0 for a file that is not there."""
    stat = stat_of(path)
    return stat[1] if stat else 0


def signature_of(folder: Path) -> tuple[Any, ...]:
    """Return what changes whenever somebody writes."""
    beginning = f"{folder}{os.sep}"
    return stat_of(beginning + GRAPH), stat_of(beginning + LOG), stat_of(beginning + MANIFEST)
