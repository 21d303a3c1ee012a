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
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import kglite

from graphmem.errors import NotAMemoryError, StorageError, StoreError, shown
from graphmem.files import locked_file, part_of
from graphmem.forks import UNFORKED
from graphmem.store.embedded_columns import opened, remove_left_columns
from graphmem.store.embedded_errors import full, locked, translated
from graphmem.store.embedded_locks import (
    READERS,
    owner_of,
    unused,
)
from graphmem.store.embedded_log import UnknownLogError, replay
from graphmem.store.manifest import (
    FIRST_FRAME,
    HEAD,
    LOG_HEADER,
    MANIFEST,
    Manifest,
    Mark,
    Print,
    Scan,
    frame_at,
    incomplete,
    number_at,
    print_of,
    read_manifest,
    scan,
    sync_folder,
    write_mark,
)
from graphmem.store.port import Loss
from graphmem.uninterrupted import uninterrupted

GRAPH = "graph.kgl"
LOG = "graph.kgl-wal"
_LEFT = (f"{LOG}.torn-*", f"{LOG}.tmp", f"{GRAPH}.tmp.*", f"{MANIFEST}.tmp")
"""What a killed process leaves; it can contain what was erased since."""
QUARANTINED = f"{LOG}.quarantine-*"
"""Parts of a log that the engine could not read."""
DAMAGED = f"{LOG}.damaged-"
"""How the names begin under which damaged logs are kept, for people."""
ASIDE = f"{LOG}.aside"
"""The log while it is written into the graph, and thereby into a new log.

As long as it is there it has all, and the new log nothing else.
"""
_SCRATCH = "graphmem-copy-"
_HELD = "held"
VECTORS = "vectors"
"""The folder of vectors within that of the memory."""
CHECKPOINT_BYTES = 64 * 1024 * 1024
"""A log may be so long without a checkpoint."""
FOLDED_BYTES = 8 * 1024 * 1024
"""A log may be so long where a checkpoint takes little of the time."""
_HANDED_BYTES = 256 * 1024
_READ = 128
"""To read a log of this part of the graph file takes longer than to write that file."""
_QUICK = 64 * 1024 * 1024
"""A graph file that is no longer is written at once where a log of a killed process was read."""
RARELY = 16.0
"""How many times as long as a checkpoint takes there is none, unless the log grows fast."""
SELDOM = 10.0
"""For so many seconds there is none, unless the log grows fast: a seeding is often done by then."""
_WRITTEN = 100e6
"""Bytes of a graph file that are written in a second, where none was written yet."""

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
        known = stored = read_manifest(folder)
        graph = print_of(folder / GRAPH)
        log = scan(folder / LOG, known.mark if known else Mark())
        self._position = log.last
        if known is None or known.saving or known.graph != graph:
            known = replace(
                known or Manifest(),
                saving=False,
                graph=graph,
                nodes=session.node_count(),
                position=None,
            )
        elif self._position is None:
            self._position = known.position
        self._mark = log.mark._replace(checkpoint=known.checkpoint)
        self._manifest = replace(known, mark=self._mark)
        self._took = graph.bytes / _WRITTEN if graph else 0.0
        """Seconds of the last checkpoint."""
        self._folded = time.monotonic()
        """When it was."""
        self._written = self._manifest == stored
        if self._written:
            self._file = (folder / MANIFEST).open("r+b", buffering=0)
        else:
            self._write()
        (folder / READERS).touch()

    def acknowledge(self) -> None:
        """Note that the log contains one more transaction.

        The transaction is already in the log, so a full disk must not fail it here.
        """
        checkpoint, transactions, start, end, checksum = self._mark
        size = os.stat(self._path).st_size  # noqa: PTH116 - at every write: a Path costs more
        if size <= (end or LOG_HEADER) and self._written:
            return
        try:
            if self._log is None:
                self._log = (self._folder / LOG).open("rb", buffering=0)
            end = end or FIRST_FRAME
            while end < size:
                start = end
                end, checksum = frame_at(self._log, start)
                transactions += 1
            self._mark = Mark(checkpoint, transactions, start, end, checksum)
            if self._file is None or not self._written:
                self._write()
            else:
                write_mark(self._file, self._mark, durable=self._durable)
        except OSError:
            pass

    def checkpoint(self) -> None:
        """Write a new graph file, and begin a new log, unless nothing changed since the last.

        Raises:
            OSError, kglite.KgError: there is no room; the old files are still in force.
        """
        self.acknowledge()
        if not holds_log(self._folder) and self._manifest.graph:
            return
        if self._log and self._mark.transactions:
            self._position = number_at(self._log, self._mark.start)
        began = time.monotonic()
        with uninterrupted():  # else the manifest would not know the new graph file
            self._save(self._manifest)
        self._folded = time.monotonic()
        self._took = self._folded - began

    def _save(self, before: Manifest) -> None:
        self._manifest = replace(before, saving=True)
        self._write()
        with UNFORKED.lock:
            self._session.save()
        self._written = False
        number = before.checkpoint + 1
        self._manifest = Manifest(
            checkpoint=number,
            graph=print_of(self._folder / GRAPH),
            nodes=self._session.node_count(),
            transactions=before.transactions + self._mark.transactions,
            position=self._position,
        )
        self._mark = Mark(number)
        self._write()

    @property
    def grown(self) -> bool:
        """Whether the log is so long that a checkpoint pays.

        Half of the graph file keeps the average cost of a transaction constant where the log grows
        fast. Where it grows slowly, a shorter one takes little of the time, and saves more of it
        after a crash.
        """
        if self._longer_than(CHECKPOINT_BYTES, 2):
            return True
        slowly = self._longer_than(FOLDED_BYTES, _READ)
        return slowly and time.monotonic() - self._folded > max(SELDOM, RARELY * self._took)

    @property
    def long(self) -> bool:
        """Whether it takes the next writer longer to read the log than this one a checkpoint."""
        return self._longer_than(_HANDED_BYTES, _READ)

    @property
    def heavy(self) -> bool:
        """Whether a checkpoint takes much longer than to read the log again."""
        graph = self._manifest.graph
        return graph is not None and graph.bytes > _QUICK and not self.long

    def _longer_than(self, least: int, part: int) -> bool:
        """Return whether the log is longer than some bytes, and than a part of the graph file."""
        graph = self._manifest.graph
        return self._mark.end > max(least, graph.bytes // part if graph else 0)

    def close(self) -> None:
        """Release the files."""
        for file in (self._log, self._file):
            if file:
                file.close()
        self._log = self._file = None

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
            with found(folder):
                _mend(folder)
    before()
    session = _opened(folder, durable)
    if not (folder / ASIDE).exists():
        return session
    try:
        if _replayed(folder, session):
            return session
    except BaseException:
        abandon(session)
        raise
    abandon(session)
    return _opened(folder, durable)


def _opened(folder: Path, durable: Any) -> kglite.Session:
    with translated(path=folder / GRAPH):
        return opened(str(folder / GRAPH), durable=durable, auto_checkpoint_wal_mib=0)


def _replayed(folder: Path, session: kglite.Session) -> bool:
    """Write the log that was set aside into the graph; return False if the engine has to."""
    aside = folder / ASIDE
    with translated(path=folder / GRAPH):
        try:
            replay(aside, session)
        except UnknownLogError as error:
            _log.debug("%s is left to the engine: %s", aside, error)
            aside.replace(folder / LOG)
            return False
        with UNFORKED.lock:
            session.sync()
        manifest = read_manifest(folder)
        if manifest:  # from now on the new log is the one that counts
            replace(manifest, mark=scan(folder / LOG, Mark()).mark).write(folder)
        aside.unlink()
        sync_folder(folder)
    return True


def abandon(session: kglite.Session) -> None:
    """End a session as it is.

    Closing it writes a graph file that the manifest does not know, even where a statement changed
    nothing since the last checkpoint.
    """
    with UNFORKED.lock:
        session.__exit__(StoreError, None, None)


@contextlib.contextmanager
def found(folder: Path) -> Iterator[None]:
    """Say which memory it is of which a file cannot be read, or removed."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        why = error.strerror or error
        cannot = "the disk is full: cannot write" if full(error) else "cannot read"
        raise StorageError(f"{cannot} {where}: {why}") from error


def _mend(folder: Path) -> None:
    """Remove what killed processes left; raise if acknowledged work is missing.

    A log that goes with the graph file is set aside, for :func:`_replayed`.
    """
    remove_left(folder)
    manifest = read_manifest(folder)
    found = complete(folder, folder, manifest)
    if found is None:
        return
    name, log = found
    settle_aside(folder, name)
    if log.end < log.size:
        cut(folder / LOG, log)
    graph = print_of(folder / GRAPH)
    if log.frames and graph and (manifest is None or manifest.graph == graph):
        (folder / LOG).replace(folder / ASIDE)


def settle_aside(folder: Path, name: str) -> None:
    """Put the log back that a killed process had set aside; remove it if another log counts."""
    aside = folder / ASIDE
    if name == ASIDE:
        aside.replace(folder / LOG)
    elif aside.exists():
        log = scan(aside, Mark())
        if log.size and not log.whole:
            kept = keep_damaged(folder, ASIDE)
            _log.warning("%s; it is kept as %s, and not needed", log.told(aside), kept.name)
        aside.unlink()


def keep_damaged(folder: Path, name: str) -> Path:
    """Give a damaged file a further name, under which nobody removes it; return that."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    for number in count(1):
        kept = folder / f"{DAMAGED}{now}-{number}"
        if not kept.exists():
            break
    link(folder / name, kept)
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


def cut(path: Path, log: Scan) -> None:
    """Cut the torn end off a log, of a transaction that nobody was told of."""
    cut = log.size - log.end
    _log.info("%s: cut %d bytes of an unfinished transaction", shown(str(path)), cut)
    with path.open("r+b") as file:
        file.truncate(log.end)
        os.fsync(file.fileno())


def link(file: Path, name: Path) -> None:
    """Give a file another name, or copy it: it is replaced, never changed in place."""
    try:
        name.hardlink_to(file)
    except OSError:  # on another disk, of another user, or not supported
        shutil.copyfile(file, name)


Log = tuple[str, Scan]
"""The name of a log in its folder, and what is in it."""


def complete(folder: Path, copy: Path, manifest: Manifest | None) -> Log | None:
    """Return the log of files, or of their copy; raise if they are not what the manifest says."""
    log = log_of(folder, copy, manifest)
    loss = loss_of(folder, manifest, print_of(copy / GRAPH), log)
    if loss.problems:
        raise incomplete(f"{folder} is not complete: {'; '.join(loss.problems)}")
    return log


def log_of(folder: Path, copy: Path, manifest: Manifest | None) -> Log | None:
    """Return the log that counts: the one set aside, unless only the other has what it must.

    Raises:
        StorageError: it is of another version of the engine.
    """
    mark = manifest.mark if manifest else Mark()
    found = None
    for name in (ASIDE, LOG):
        try:
            log = scan(copy / name, mark)
        except FileNotFoundError:
            continue
        enough = log.known is not None if mark.transactions else log.frames > 0
        if found is None or enough or not (mark.transactions or found[1].frames):
            found = name, log
        if enough:
            break
    if found:
        _check_version(folder, *found)
    return found


def _check_version(folder: Path, name: str, log: Scan) -> None:
    if not log.beheaded and log.head != HEAD and not _readable(log.head):
        raise StorageError(
            f"{folder / name} is of another version of the engine (form {log.head[-1]}), and was "
            "left as it is: open the memory with the version of graphmem that wrote it; if no "
            "other ever did, the file is damaged: move it away, and go on without what it holds: "
            "graphmem doctor --accept-loss"
        )


@cache
def _readable(head: bytes) -> bool:
    """Return whether the engine that is installed reads logs that begin so."""
    with scratch_folder() as scratch:
        (scratch / LOG).write_bytes(head)
        try:
            abandon(opened(str(scratch / GRAPH), durable="normal"))
        except (OSError, RuntimeError, ValueError, kglite.KgError):
            return False
    return True


def loss_of(
    folder: Path, manifest: Manifest | None, graph: Print | None, found: Log | None
) -> Loss:
    """Return what the files lack, by the manifest."""
    name, log = found or (LOG, None)
    told = log.told(folder / name) if log else f"{folder / name} is missing"
    problems = [
        f"a part of its log was set aside ({aside.name})" for aside in folder.glob(QUARANTINED)
    ]
    if log and log.beheaded:
        problems.append(told)
    if manifest is None:
        if log and log.end < log.size and not log.tail and not log.beheaded:
            problems.append(told)
        return Loss(tuple(problems), 0)
    if manifest.saving and graph is not None and graph != manifest.graph:
        return Loss(tuple(problems), 0)  # the new graph file contains all of the log
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
    acknowledged = manifest.mark.transactions
    if acknowledged and (log is None or log.known is None):
        frames = log.frames if log else 0
        lost = acknowledged - frames if frames < acknowledged else acknowledged
        lacks = (
            f"lacks {lost:,} of the {acknowledged:,} transactions that were acknowledged since "
            f"checkpoint {manifest.checkpoint}"
        )
        problems.append(f"its log {lacks}" if log and log.beheaded else f"{told}: it {lacks}")
        return Loss(tuple(problems), lost)
    if log and log.first and manifest.position is not None and log.first != manifest.position + 1:
        problems.append("its log is that of another graph file")
    return Loss(tuple(problems), 0)


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
                with translated(path=folder), UNFORKED.lock:
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
    return file_size(folder / LOG) > LOG_HEADER or (folder / ASIDE).exists()


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


def vectors_of(folder: Path) -> frozenset[tuple[str, int, int]]:
    """Return what changes whenever somebody writes vectors."""
    try:
        with os.scandir(folder / VECTORS) as entries:
            return frozenset((entry.name, entry.inode(), entry.stat().st_size) for entry in entries)
    except OSError:
        return frozenset()
