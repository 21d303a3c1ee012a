"""The files of an embedded memory: graph file, log, manifest and locks; compared when opened."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
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

from graphmem.errors import LockedError, NotAMemoryError, StorageError, StoreError
from graphmem.files import fcntl, flocked, locked_file, part_of
from graphmem.models.reports import LossReport
from graphmem.store.embedded_errors import full, locked, translated
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
READERS = "graph.kgl-readers"  # locked by each process that has a snapshot
WAITERS = "graph.kgl-waiters"  # locked by each process that waits to write
_LOCK = "graph.kgl.lock"  # kglite's own lock: who has it writes
_OWNER = "graph.kgl.lock-owner"
_LEFT = (f"{LOG}.torn-*", f"{LOG}.tmp", f"{GRAPH}.tmp.*", f"{MANIFEST}.tmp")
"""What a killed process leaves; it can contain what was erased since."""
QUARANTINED = f"{LOG}.quarantine-*"  # parts of a log that the engine could not read
DAMAGED = f"{LOG}.damaged-"  # how the names begin under which damaged logs are kept, for people
_LOG_HEAD = 8  # a log without transactions is not longer than these bytes
_COPIES = "graphmem-copy-"
_COLUMNS = "kglite_portable_"
"""How the names of folders in the system's temporary folder begin, with the number of the process:
the copies of readers, and what the engine keeps of large graphs."""
_ATTEMPTS, _POLL = 20, 0.05
"""How often a snapshot is tried beside a writer, and the seconds between."""
_LOADED = 60  # seconds after which files in such folders are open, so that nobody needs their names
VECTORS = "vectors"  # the folder of vectors within that of the memory
CHECKPOINT_BYTES = 16 * 1024 * 1024  # a log may be so long without a checkpoint
SELDOM = 5.0  # seconds without a write after which the log is folded into a small graph file
_BYTES_A_SECOND = 10e6  # a larger graph file needs a second more of rest for so many bytes

# Snapshots read the graph file alone, on purpose.
warnings.filterwarnings("ignore", r"the write-ahead log at ", UserWarning)


class WrittenFiles:
    """The files that this process writes: keeps the manifest true."""

    def __init__(self, folder: Path, session: kglite.Session, *, durable: bool) -> None:
        self._folder = folder
        self._session = session
        self._durable = durable
        self._path, self._place = str(folder / LOG), folder / MANIFEST
        self._log: BinaryIO | None = None
        self._file: BinaryIO | None = None
        found, graph = read_manifest(folder), print_of(folder / GRAPH)
        if found is None or found.graph != graph or not found.counts(graph):
            before, nodes = found or Manifest(), session.node_count()
            mark = Mark(before.checkpoint)
            stored = replace(before, saving=False, graph=graph, nodes=nodes, mark=mark)
        else:
            stored = replace(found, saving=False)
        self._mark, self._manifest = stored.mark, stored
        self._written = stored == found
        if self._written:
            self._file = self._place.open("r+b", buffering=0)
        else:
            self._write()
        self.acknowledge()
        (folder / READERS).touch()

    def acknowledge(self) -> None:
        """Note that the log contains one more transaction, which counts from now on."""
        size = os.stat(self._path).st_size  # noqa: PTH116 - at every write: a Path costs more
        checkpoint, transactions, before, checksum = self._mark
        if size <= max(before, _LOG_HEAD) and self._written:
            return
        if self._log is None:
            self._log = (self._folder / LOG).open("rb", buffering=0)
        checksum = checksum_of(self._log, size, before, checksum)
        self._mark = Mark(checkpoint, transactions + 1, size, checksum)
        if self._file is not None and self._written:
            with name_file(self._place, "write"):
                write_mark(self._file, self._mark, durable=self._durable)
            return
        # The manifest on the disk says that a checkpoint is written, so the whole log counts.
        with contextlib.suppress(OSError):
            self._write()

    def checkpoint(self) -> None:
        """Write a new graph file, and begin a new log, unless nothing changed since the last."""
        if not holds_log(self._folder) and self._manifest.graph:
            return
        before = self._manifest
        self._manifest = replace(before, saving=True)
        self._write()
        try:
            self._session.save()
            self._written = False
            number = before.checkpoint + 1
            acknowledged = before.transactions + self._mark.transactions
            self._manifest = _manifest_of(self._folder, self._session, number, acknowledged)
            self._mark = Mark(number)
            self._write()
        finally:
            self._close_log()

    @property
    def grown(self) -> bool:
        """Whether the log is so long that it is folded at once."""
        graph = self._manifest.graph
        return self._mark.size > max(CHECKPOINT_BYTES, graph.bytes // 2 if graph else 0)

    def idle(self, seconds: float) -> bool:
        """Return whether to fold the log when nobody wrote for so many seconds."""
        graph = self._manifest.graph
        rest = SELDOM + (graph.bytes / _BYTES_A_SECOND if graph else 0)
        return seconds > rest and holds_log(self._folder)

    def close(self) -> None:
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
        self._file = self._place.open("r+b", buffering=0)


def _manifest_of(
    folder: Path, session: kglite.Session, checkpoint: int, transactions: int = 0
) -> Manifest:
    graph, nodes = print_of(folder / GRAPH), session.node_count()
    return Manifest(checkpoint, graph=graph, nodes=nodes, transactions=transactions)


def open_writer(folder: Path, durable: Any, before: Callable[[], None]) -> kglite.Session:
    """Open a folder for writing; the caller then has kglite's lease."""
    if holds_graph(folder):
        with unused(folder), name_file(folder):
            remove_left(folder)
            acknowledged = check_complete(folder, folder, read_manifest(folder))
            if acknowledged is not None and file_size(folder / LOG) > max(acknowledged, _LOG_HEAD):
                with (folder / LOG).open("r+b") as file:
                    file.truncate(acknowledged)
                    os.fsync(file.fileno())
    before()
    session = open_session(folder / GRAPH, durable)
    if problems := _set_aside(folder):  # by the engine, just now
        abandon(session)
        raise incomplete(f"{folder} is not complete: {'; '.join(problems)}")
    return session


def abandon(session: kglite.Session) -> None:
    """End a session, and with it the lease, as it is."""
    # Closing it would write a graph file that the manifest does not know.
    session.__exit__(StoreError, None, None)


@contextlib.contextmanager
def name_file(folder: Path, what: str = "read") -> Iterator[None]:
    """Name the file, or the memory, with which something cannot be done."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        why = error.strerror or error
        cannot = "the disk is full: cannot write" if full(error) else f"cannot {what}"
        raise StorageError(f"{cannot} {where}: {why}") from error


def check_complete(folder: Path, copy: Path, manifest: Manifest | None) -> int | None:
    """Return how many bytes of the log were acknowledged; None: the manifest does not say."""
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
        how = "missing" if graph is None else "damaged, older, or of another memory"
        problems.append(
            f"{folder / GRAPH} is {how}, where checkpoint {manifest.checkpoint} should be "
            f"({manifest.nodes:,} nodes of {manifest.transactions:,} transactions)"
        )
    mark, size = manifest.mark, file_size(copy / LOG)
    whole = size >= mark.size
    if whole and mark.size:
        with (copy / LOG).open("rb") as file:
            whole = checksum_of(file, mark.size) == mark.checksum
    if not whole:
        problems.append(
            f"{folder / LOG} is damaged, missing or cut off at byte {size:,}: it lacks some of the "
            f"{mark.transactions:,} transactions that were acknowledged since checkpoint "
            f"{manifest.checkpoint}"
        )
    return tuple(problems)


def _set_aside(folder: Path) -> list[str]:
    return [f"a part of its log was set aside ({part.name})" for part in folder.glob(QUARANTINED)]


def keep_damaged(folder: Path, name: str) -> Path:
    """Copy a damaged file under a name under which nobody removes it; return that."""
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    names = (folder / f"{DAMAGED}{now}-{number}" for number in count(1))
    kept = next(name for name in names if not name.exists())
    shutil.copyfile(folder / name, kept)
    return kept


def open_session(graph: Path, durable: Any = None) -> kglite.Session:
    """Open a graph, alone or to be ``durable`` with its log; keep others from its columns."""
    how = {"durable": durable, "auto_checkpoint_wal_mib": 0} if durable else {}
    with translated(path=graph):
        session = kglite.open_session(str(graph), **how)
    for folder in _temporary(f"{_COLUMNS}{os.getpid()}_*"):
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
    return session


def _temporary(pattern: str) -> Iterator[Path]:
    return Path(tempfile.gettempdir()).glob(pattern)


@atexit.register
def _remove_columns() -> None:
    for folder in _temporary(f"{_COLUMNS}{os.getpid()}_*"):
        shutil.rmtree(folder, ignore_errors=True)


def remove_left(folder: Path) -> None:
    """Remove what killed processes left beside the files, and as copies and columns of graphs."""
    for pattern in _LEFT:
        for left in folder.glob(pattern):
            left.unlink(missing_ok=True)
    for there in (*_temporary(f"{_COPIES}*"), *_temporary(f"{_COLUMNS}*")):
        number = re.search(r"\d+", there.name)
        with contextlib.suppress(OSError):
            # A process of another container has a number that is not known here.
            loaded = time.time() - there.stat().st_mtime > _LOADED
            if number and loaded and not _runs(int(number[0])):
                shutil.rmtree(there, ignore_errors=True)


def _runs(process: int) -> bool:
    if os.name == "nt":  # a signal would end it, and folders in use cannot be removed
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def write_backup(session: kglite.Session, folder: Path) -> tuple[int, int]:
    """Write a graph to a new folder, whole or not at all; return its bytes and nodes."""
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
            manifest = _manifest_of(new, session, 1)
            manifest.write(new)
            new.chmod(0o755)
            new.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise StorageError(f"cannot write {folder}: {error.strerror or error}") from error
    return manifest.graph.bytes if manifest.graph else 0, manifest.nodes


def holds_graph(folder: Path) -> bool:
    """Return whether there is a memory."""
    return any((folder / name).exists() for name in (GRAPH, LOG, MANIFEST))


def holds_log(folder: Path) -> bool:
    """Return whether there is a log of transactions that the graph file does not have."""
    return file_size(folder / LOG) > _LOG_HEAD


def check_folder(folder: Path) -> None:
    """Raise unless the folder is a memory or empty."""
    with name_file(folder):  # no permission, or a name that is too long
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


def open_snapshot(folder: Path) -> tuple[kglite.Session, bool]:
    """Return a graph with every acknowledged transaction, and whether others may write it now."""
    check_folder(folder)
    for attempt in range(_ATTEMPTS):
        before = signature_of(folder)
        try:
            with name_file(folder):
                snapshot = _snapshot(folder)
        except StorageError:
            if attempt and signature_of(folder) == before:
                raise
            snapshot = None  # a writer replaced one of the files between two looks
        if snapshot:
            return snapshot
        time.sleep(_POLL if attempt else 0)
    raise LockedError(f"{folder} is being rewritten continuously; try again")


def _snapshot(folder: Path) -> tuple[kglite.Session, bool] | None:
    graph = folder / GRAPH
    before = stat_of(graph)
    manifest = read_manifest(folder)
    if before and not holds_log(folder):
        check_complete(folder, folder, manifest)
        session = open_session(graph)
        unchanged = stat_of(graph) == before and not holds_log(folder)
        return (session, False) if unchanged else None
    if not before and not (folder / LOG).exists() and not manifest:
        return kglite.KnowledgeGraph().session(), False
    with tempfile.TemporaryDirectory(prefix=f"{_COPIES}{os.getpid()}-") as name:
        copy = Path(name)
        try:
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(folder / LOG, copy / LOG)
            if before:  # it is replaced, never changed in place
                try:
                    (copy / GRAPH).hardlink_to(graph)
                except OSError:  # on another disk, of another user, or not supported
                    shutil.copyfile(graph, copy / GRAPH)
        except FileNotFoundError:
            return None
        if stat_of(graph) != before:  # a checkpoint began another log meanwhile
            return None
        acknowledged = check_complete(folder, copy, manifest)
        if acknowledged is not None and (copy / LOG).exists():
            os.truncate(copy / LOG, acknowledged)
        try:
            # Both files are read: nothing of the copy need stay on the disk.
            return open_session(copy / GRAPH, "normal"), True
        except StoreError as error:
            raise type(error)(str(error).replace(name, str(folder))) from error


def accept_loss(folder: Path) -> LossReport:
    """Make a memory of the files that are there; return what they lack."""
    with unused(folder), name_file(folder):
        problems: tuple[str, ...] = ()
        try:
            manifest = read_manifest(folder)
        except StorageError as error:
            if isinstance(error.__cause__, OSError):
                raise
            manifest, problems = None, ("its manifest is damaged",)
        problems += find_problems(folder, folder, manifest)
        if not problems:
            return LossReport()
        kept = [keep_damaged(folder, part.name) for part in folder.glob(QUARANTINED)]
        if holds_log(folder):
            kept.append(keep_damaged(folder, LOG))
    try:
        session = open_session(folder / GRAPH, "normal")
    except StorageError:
        problems += ("its log does not continue its graph file",)
        session = _open_alone(folder)
    before = manifest or Manifest()
    try:
        with name_file(folder), translated(path=folder / GRAPH):
            # Until the new manifest is there, nothing is checked: the graph file is the next one.
            replace(before, saving=True, graph=None, mark=Mark(before.checkpoint)).write(folder)
            session.save()
            number = before.checkpoint + 1
            _manifest_of(folder, session, number, before.transactions).write(folder)
            for part in folder.glob(QUARANTINED):  # the log is kept as a whole
                part.unlink()
            remove_left(folder)
    finally:
        abandon(session)
    names = tuple(map(str, kept))
    return LossReport(problems=problems, transactions=before.mark.transactions, kept=names)


def _open_alone(folder: Path) -> kglite.Session:
    try:
        (folder / LOG).rename(folder / f"{LOG}.tmp")
        return open_session(folder / GRAPH, "normal")
    except (StorageError, FileNotFoundError) as error:
        with contextlib.suppress(OSError):
            (folder / f"{LOG}.tmp").rename(folder / LOG)
        raise StorageError(
            f"{error}; restore a backup, or move the file away and try again with the log alone"
        ) from error


def _owner_of(folder: Path) -> dict[str, str]:
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
    with name_file(folder, "write"):
        (folder / _LOCK).touch()
    with locked_file(folder / _LOCK) as free:
        if not free:
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


def wanted(folder: Path | None) -> bool:
    """Return whether a process waits to write."""
    return folder is not None and _is_locked(folder / WAITERS)


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
