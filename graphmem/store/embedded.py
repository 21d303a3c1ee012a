"""The embedded engine: kglite, in this process.

One process writes, holding kglite's lease from its first write until it closes; all handles of that
process on one folder share it. Other processes read a snapshot: the checkpoint itself if the log is
empty, else a copy of checkpoint and log in another folder, which has every acknowledged write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import kglite

from graphmem.config import Settings
from graphmem.errors import (
    ForkedError,
    GraphMemError,
    LockedError,
    NotAMemoryError,
    QueryError,
    ReadOnlyError,
    StorageError,
    StoreError,
)
from graphmem.store import schema
from graphmem.store.port import Capabilities, Row, Transaction
from graphmem.store.queries import Query

if TYPE_CHECKING:
    from graphmem.store.embedded_search import EmbeddedIndex

T = TypeVar("T")

ENGINE = "kglite"
GRAPH = "graph.kgl"
LOG = "graph.kgl-wal"
CHECKPOINT_BYTES = 64 * 1024 * 1024
CHECKPOINT_EVERY = 64
"""Single statements between two checks of the log's size; a check costs 1 % of a statement."""
_POLL = 0.05
_LOG_HEADER = 8  # bytes; a log without frames has 5

_log = logging.getLogger(__name__)

kglite.set_query_warning_policy("silent")  # it warns of labels without nodes


class _Writer:
    """The one writing session of this process on a folder, shared by its handles."""

    def __init__(self, folder: Path | None, session: kglite.Session, scratch: Any = None) -> None:
        self.folder = folder
        self._log = str(folder / LOG) if folder else None
        self.session = session
        # After every opening: a replay of the log does not declare all names.
        self.schema = _apply(session, repair=True)
        self.lock = threading.RLock()
        self.handles = 0
        self.writes = 0
        self.pid = os.getpid()
        self.scratch = scratch
        self.indexes: dict[str, EmbeddedIndex] = {}

    def checkpoint(self) -> None:
        """Fold the log into the graph file when it has grown to half of that.

        It runs between two transactions: kglite's own checkpoints run beside the writer, which then
        copies the whole graph. The ratio keeps the average cost of a transaction constant.
        """
        if self._log is None or self.folder is None:
            return
        try:
            size = os.stat(self._log).st_size  # noqa: PTH116 - at every write: a Path costs more
        except OSError:
            return
        if size > CHECKPOINT_BYTES and size > _size(self.folder / GRAPH) // 2:
            # The transaction is already in the log, so a full disk must not fail it here.
            with contextlib.suppress(kglite.KgError, OSError):
                self.session.save()


_writers: dict[Path, _Writer] = {}
_writers_lock = threading.Lock()


class _Transaction:
    """Begins at its first write: until then it reads the session, which its writer has locked."""

    def __init__(self, session: kglite.Session) -> None:
        self._session = session
        self._inner: kglite.SessionTransaction | None = None
        self._finished = False

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        bound = query.bind(params)
        if self._finished:
            raise StoreError(f"{query.name}: the transaction is finished")
        with _translated(query):
            if self._inner is None and query.mode == "read":
                return _rows(self._session.cypher(query.text, params=bound))
            if self._inner is None:
                self._inner = self._session.begin()
            return _rows(self._inner.cypher(query.text, params=bound))

    def finish(self, query: Query, /, **params: Any) -> list[Row]:
        if self._inner is not None:
            return self.run(query, **params)
        bound = query.bind(params)
        with _translated(query):
            rows = _rows(self._session.execute(query.text, params=bound))
        self._finished = True
        return rows

    def commit(self) -> None:
        if self._inner is not None:
            with _translated():
                self._inner.commit()

    def rollback(self) -> None:
        if self._inner is not None and self._inner.active:
            self._inner.rollback()


class _View:
    def __init__(self, graph: kglite.FrozenGraph) -> None:
        self._graph = graph

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return _run(self._graph.cypher, query, params)

    finish = run


class EmbeddedStore:
    """A graph in a folder, or only in memory if ``folder`` is None."""

    def __init__(self, folder: Path | None, settings: Settings) -> None:
        self.folder = folder.expanduser().absolute() if folder else None
        self._settings = settings
        self._writer: _Writer | None = None
        self._reader: kglite.Session | None = None
        self._reader_signature: tuple[Any, ...] = ()
        self._reader_at = 0.0
        self._reader_indexes: dict[str, EmbeddedIndex] = {}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.RLock()
        self._closed = False
        self._pid = os.getpid()
        self.capabilities = Capabilities(ENGINE, kglite.__version__, server=False)
        if self.folder:
            _check_folder(self.folder)

    @property
    def url(self) -> str:
        """The folder, or ``memory:``."""
        return str(self.folder) if self.folder else "memory:"

    @property
    def snapshot_age(self) -> float | None:
        """Seconds since the snapshot was copied; None if the folder itself is read."""
        if self._writer or not self._scratch:
            return None
        return time.monotonic() - self._reader_at

    @property
    def writing(self) -> bool:
        """Whether this handle has written; this process then has the lease."""
        return self._writer is not None and not self._closed

    def try_writing(self) -> bool:
        """Take the lease if no other process has it, without waiting; return whether it worked."""
        try:
            self._writable(wait=0.0)
        except StoreError:
            return False
        return True

    def exists(self) -> bool:
        """Return whether the folder holds a memory (``memory:`` always does)."""
        return self.folder is None or _holds_graph(self.folder)

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a reading statement, on the writer's graph or on a snapshot."""
        bound = query.bind(params)
        session = self._readable()
        with _translated(query):
            return _rows(session.cypher(query.text, params=bound))

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement; cheaper than a transaction, which copies what it changes."""
        bound = query.bind(params)
        writer = self._writable()
        with writer.lock:
            try:
                rows = _rows(writer.session.execute(query.text, params=bound))
            except Exception:
                with _translated(query):
                    raise
            writer.writes += 1
            if writer.writes % CHECKPOINT_EVERY == 0:
                writer.checkpoint()
            return rows

    def attempt(
        self, query: Query, fits: Callable[[list[Row]], bool], /, **params: Any
    ) -> list[Row]:
        """Run one statement; nobody else writes meanwhile, so that what it checks stays so."""
        writer = self._writable()
        with writer.lock:
            rows = self.write(query, **params)
            writer.checkpoint()
        if rows and not fits(rows):
            raise StoreError(f"{query.name}: the graph is not as it should be; see verify")
        return rows

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` in one transaction; writers of this process take turns."""
        writer = self._writable()
        with writer.lock:
            tx = _Transaction(writer.session)
            try:
                answer = work(tx)
                tx.commit()
            except BaseException:
                tx.rollback()
                raise
            writer.checkpoint()
            return answer

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on an immutable snapshot."""
        return work(_View(self._readable().snapshot()))

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create missing constraints and indexes; return the schema version."""
        writer = self._writable()
        if repair:
            with writer.lock:
                writer.schema = _apply(writer.session, repair=True)
        return writer.schema

    def compact(self) -> bool:
        """Fold the log into a new graph file, which contains nothing of removed data."""
        writer = self._writable()
        with writer.lock, _translated():
            writer.session.save()
        return True

    def index(self, namespace: str) -> EmbeddedIndex:
        """Return the index of a namespace: the writer's, or that of the snapshot."""
        from graphmem.store.embedded_search import EmbeddedIndex

        session = self._readable()
        with self._lock:
            writer = self._writer
            indexes = writer.indexes if writer else self._reader_indexes
            if namespace not in indexes:
                indexes[namespace] = EmbeddedIndex(
                    lambda query, **params: _run(session.cypher, query, params),
                    self.folder,
                    namespace,
                    writable=writer is not None,
                    durable=self._settings.durability == "full",
                )
            return indexes[namespace]

    def close(self) -> None:
        """If this was the last handle: write a checkpoint and release the lease."""
        with self._lock:
            self._closed = True
            self._drop_reader()
            writer, self._writer = self._writer, None
            if writer is None or writer.pid != os.getpid():
                return
            with _writers_lock:
                writer.handles -= 1
                if writer.handles:
                    return
                if writer.folder:
                    _writers.pop(writer.folder, None)
                try:
                    with _translated(), writer.lock:
                        writer.session.close()
                finally:
                    if writer.scratch:
                        writer.scratch.cleanup()

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreError("the memory is closed; open it again with Memory.open")
        if self._pid != os.getpid():
            raise ForkedError(
                f"the memory {self.url} was opened in process {self._pid}, this is its child "
                f"{os.getpid()}; open it in the child with Memory.open"
            )

    def _writable(self, wait: float | None = None) -> _Writer:
        self._check_usable()
        if self._writer:
            return self._writer
        with self._lock:
            if self._writer:
                return self._writer
            with _writers_lock:
                writer = _writers.get(self.folder) if self.folder else None
                if writer is None or writer.pid != os.getpid():
                    writer = self._open_writer(wait)
                    if self.folder:
                        _writers[self.folder] = writer
                writer.handles += 1
            self._writer = writer
            self._drop_reader()
            return writer

    def _open_writer(self, wait: float | None) -> _Writer:
        scratch = None
        folder = self.folder
        if folder is None:
            scratch = tempfile.TemporaryDirectory(prefix="graphmem-")
            path = Path(scratch.name) / GRAPH
        else:
            _check_folder(folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageError(f"cannot create {folder}: {error.strerror}") from error
            path = folder / GRAPH
        durable = "off" if folder is None else self._settings.durability
        session = self._lease(path, durable, self._settings.wait if wait is None else wait)
        try:
            return _Writer(folder, session, scratch)
        except BaseException:
            session.close()
            raise

    def _lease(self, path: Path, durable: Any, wait: float) -> kglite.Session:
        deadline = time.monotonic() + wait
        while True:
            try:
                with _translated(path=path):
                    return _recover(path, durable)
            except LockedError:
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_POLL)

    def _readable(self) -> kglite.Session:
        self._check_usable()
        if self._writer:
            return self._writer.session
        with self._lock:
            if self._writer:
                return self._writer.session
            if self.folder is None:
                return self._writable().session
            with _writers_lock:
                shared = _writers.get(self.folder)
            if shared and shared.pid == os.getpid():
                return self._writable().session
            signature = _signature(self.folder)
            fresh = time.monotonic() - self._reader_at < self._settings.snapshot_seconds
            if self._reader and (fresh or signature == self._reader_signature):
                if signature == self._reader_signature:
                    self._reader_at = time.monotonic()
                return self._reader
            self._drop_reader()
            self._reader_at = time.monotonic()
            self._reader = self._open_reader(self.folder)
            self._reader_signature = signature
            session = self._reader
            schema.check(lambda query, **params: _run(session.cypher, query, params))
            return session

    def _open_reader(self, folder: Path) -> kglite.Session:
        _check_folder(folder)
        graph, log = folder / GRAPH, folder / LOG
        for _ in range(20):
            before = _stat(graph)
            if before and _size(log) <= _LOG_HEADER:
                with _translated(path=graph):
                    session = kglite.open_session(str(graph))
                if _stat(graph) == before and _size(log) <= _LOG_HEADER:
                    return session
                continue
            if not before and not log.exists():
                return _empty()
            scratch = tempfile.TemporaryDirectory(prefix="graphmem-")
            copy = Path(scratch.name) / GRAPH
            # Copy the log first: a checkpoint in between then contains all of that log, and the
            # changed graph file is noticed and the copy repeated.
            try:
                if log.exists():
                    shutil.copyfile(log, Path(scratch.name) / LOG)
                if before:
                    shutil.copyfile(graph, copy)
            except FileNotFoundError:
                scratch.cleanup()
                continue
            except OSError as error:
                scratch.cleanup()
                raise StorageError(f"cannot copy {folder} to read it: {error}") from error
            if _stat(graph) != before:
                scratch.cleanup()
                continue
            try:
                with _translated(path=graph):
                    session = _recover(copy, "normal")
            except BaseException:
                scratch.cleanup()
                raise
            self._scratch = scratch
            return session
        raise LockedError(f"{folder} is being rewritten continuously; try again")

    def _drop_reader(self) -> None:
        self._reader = None
        self._reader_indexes = {}
        scratch, self._scratch = self._scratch, None
        if scratch and self._pid == os.getpid():
            scratch.cleanup()


def _apply(session: kglite.Session, *, repair: bool = False) -> int:
    return schema.apply(
        ENGINE,
        lambda query, **params: _run(session.cypher, query, params),
        lambda query, **params: _run(session.execute, query, params),
        repair=repair,
    )


def _recover(path: Path, durable: Any) -> kglite.Session:
    """Open a graph with its log; raise if damage inside the log lost acknowledged work."""
    with _quiet_recovery(_size(path.parent / LOG) > _LOG_HEADER):
        session = kglite.open_session(str(path), durable=durable, auto_checkpoint_wal_mib=0)
    aside = sorted(path.parent.glob(f"{LOG}.quarantine-*"))
    if aside:
        session.close()
        raise StorageError(
            f"the log of {path.parent} is damaged, and acknowledged episodes are missing; "
            f"the damaged part is in {aside[-1].name}; move that file away to use the rest"
        )
    return session


@contextlib.contextmanager
def _quiet_recovery(needed: bool) -> Iterator[None]:
    """Write kglite's warnings about a torn end of the log (after a crash) to our logger.

    kglite warns, and prints to file descriptor 2 itself: its lines are caught, and all other output
    is passed on.
    """
    if not needed:
        yield
        return
    with warnings.catch_warnings(), tempfile.TemporaryFile() as caught:
        warnings.simplefilter("ignore", UserWarning)
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught:
                if line.startswith(b"[kglite]"):
                    _log.info("%s", line.decode(errors="replace").strip())
                else:
                    os.write(2, line)


def _empty() -> kglite.Session:
    return kglite.KnowledgeGraph().session()


def _run(call: Callable[..., Any], query: Query, params: dict[str, Any]) -> list[Row]:
    with _translated(query):
        return _rows(call(query.text, params=query.bind(params)))


def _rows(result: Any) -> list[Row]:
    rows: list[Row] = result.to_list() if hasattr(result, "to_list") else []
    return rows


def _holds_graph(folder: Path) -> bool:
    return (folder / GRAPH).exists() or (folder / LOG).exists()


def _check_folder(folder: Path) -> None:
    """Raise unless the folder is a memory or empty."""
    try:
        if not folder.exists():
            return
        if not folder.is_dir():
            raise NotAMemoryError(f"{folder} is a file, not a memory folder; give a folder")
        if not _holds_graph(folder) and any(
            not entry.name.startswith((GRAPH, ".")) for entry in folder.iterdir()
        ):
            raise NotAMemoryError(
                f"{folder} holds other files and no memory; give an empty or a new folder"
            )
    except PermissionError as error:
        raise StorageError(f"no permission to read {folder}") from error


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        stat = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _size(path: Path) -> int:
    stat = _stat(path)
    return stat[1] if stat else 0


def _signature(folder: Path) -> tuple[Any, ...]:
    return _stat(folder / GRAPH), _stat(folder / LOG)


@contextlib.contextmanager
def _translated(query: Query | None = None, path: Path | None = None) -> Iterator[None]:
    """Turn kglite's errors into ours."""
    name = f"{query.name}: " if query and query.checked else ""
    try:
        yield
    except GraphMemError:
        raise
    except kglite.WriterLeaseHeldError as error:
        holder = getattr(error, "holder", None) or {}
        since = f" since {holder['since']}" if holder.get("since") else ""
        raise LockedError(
            f"process {holder.get('pid') or 'unknown'} writes this memory{since}; wait for it, "
            "raise GRAPHMEM_WAIT (--wait), or put the memory on a server (neo4j://)"
        ) from error
    except kglite.ArgumentError as error:
        if "mutation" in str(error).lower() or "read-only" in str(error).lower():
            raise ReadOnlyError(f"{name}only reading is allowed here: {error}") from error
        raise QueryError(f"{name}{error}") from error
    except (kglite.FileFormatError, kglite.FileError) as error:
        raise StorageError(f"{path or 'the graph file'} is damaged: {error}") from error
    except (kglite.FileIoError, OSError) as error:
        raise StorageError(f"{name}cannot write or read the memory: {error}") from error
    except kglite.CypherError as error:
        raise QueryError(f"{name}{error}") from error
    except (kglite.KgError, RuntimeError, ValueError) as error:
        raise StoreError(f"{name}{error}") from error
