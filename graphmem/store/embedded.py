"""The embedded engine: kglite, in this process.

One process writes at a time, by kglite's lease, which it takes for a write and gives back when it
is idle or others wait; all handles of a process on one folder share it. Others read a snapshot: the
checkpoint itself if the log is empty, else a copy of checkpoint and log in another folder, which
has every acknowledged write. Who is alone with a log that a killed process left opens the folder
with the lease also to read. Who wrote last has that in its own session.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import kglite

from graphmem.config import Settings
from graphmem.errors import NotAMemoryError, StorageError, StoreError
from graphmem.forks import UNFORKED, Scratch, in_child, keep
from graphmem.store.embedded_errors import translated
from graphmem.store.embedded_files import (
    DAMAGED,
    GRAPH,
    check_folder,
    holds_graph,
    holds_log,
    open_writer,
    remove_left,
    signature_of,
    write_backup,
)
from graphmem.store.embedded_later import leave
from graphmem.store.embedded_lease import Lease, Leases
from graphmem.store.embedded_locks import can_be_given, readers_of
from graphmem.store.embedded_loss import accept_loss
from graphmem.store.embedded_query import Asker
from graphmem.store.embedded_rows import rows, run
from graphmem.store.embedded_sessions import (
    ENGINE,
    Reader,
    Writer,
    release,
    repair_schema,
)
from graphmem.store.embedded_snapshot import open_reader
from graphmem.store.port import (
    CLOSED,
    Capabilities,
    Limits,
    Loss,
    Row,
    Rows,
    Transaction,
    check_wanted,
    inherited,
)
from graphmem.store.queries import Query

if TYPE_CHECKING:
    from graphmem.store.embedded_entries import EmbeddedEntries
    from graphmem.store.embedded_search import EmbeddedIndex

T = TypeVar("T")

WAIT = 5.0
"""Seconds to wait for another writer, unless the setting ``wait`` says otherwise."""
LEASE_IDLE = 0.2
"""Seconds after its last write when a process gives the lease back.

If others wait, this long after it got the lease.
"""
SNAPSHOT_SECONDS = 5.0
"""A reader beside a writer takes a new snapshot after this many seconds."""

kglite.set_query_warning_policy("silent")  # it warns of labels without nodes


_leases: Leases[Writer] = Leases()


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
        with translated(query):
            if self._inner is None and query.mode == "read":
                return rows(self._session.cypher, query.text, bound)
            if self._inner is None:
                with UNFORKED.lock:
                    self._inner = self._session.begin()
            return rows(self._inner.cypher, query.text, bound)

    def finish(self, query: Query, /, **params: Any) -> list[Row]:
        if self._inner is not None:
            return self.run(query, **params)
        bound = query.bind(params)
        with translated(query):
            found = rows(self._session.execute, query.text, bound)
        self._finished = True
        return found

    def commit(self) -> None:
        if self._inner is not None:
            with translated(), UNFORKED.lock:
                self._inner.commit()

    def rollback(self) -> None:
        if self._inner is not None and self._inner.active:
            with UNFORKED.lock:
                self._inner.rollback()


class _View:
    def __init__(self, graph: kglite.FrozenGraph) -> None:
        self._graph = graph

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return run(self._graph.cypher, query, params)

    finish = run


class EmbeddedStore:
    """A graph in a folder, or only in memory if ``folder`` is None."""

    def __init__(self, folder: Path | None, settings: Settings) -> None:
        self.folder = folder.expanduser().absolute() if folder else None
        self._settings = settings
        self._wait = WAIT if settings.wait is None else settings.wait
        self._lease: Lease[Writer] = _leases.of(self.folder)
        self._writer: Writer | None = None
        self._reader: Reader | None = None
        self._reading = threading.RLock()
        """Guards ``_reader``."""
        self._asker = Asker()
        self._closed = False
        self._pid = os.getpid()
        self.capabilities = Capabilities(ENGINE, kglite.__version__, server=False)
        if self.folder:
            check_folder(self.folder)
        in_child(self, EmbeddedStore._abandon)

    @property
    def url(self) -> str:
        """The folder, or ``memory:``."""
        return str(self.folder) if self.folder else "memory:"

    @property
    def snapshot_age(self) -> float | None:
        """Seconds since the snapshot was copied; None if what is read is all there is."""
        writer, reader = self._writer, self._reader
        if writer and not writer.over:
            return writer.age
        if reader is None or not reader.snapshot.copied:
            return None
        return time.monotonic() - reader.at

    @property
    def writing(self) -> bool:
        """Whether this handle has written, and its process still has the lease."""
        writer = self._writer
        return writer is not None and writer.held and not self._closed

    def try_writing(self) -> bool:
        """Take the lease if no other process has it, without waiting; return whether it worked."""
        try:
            self._writable(wait=0.0)
        except StoreError:
            return False
        return True

    def leave(self, query: Query, /, **params: Any) -> bool:
        """Leave a statement for who writes next."""
        return self.folder is not None and self.exists() and leave(self.folder, query, params)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep the lease within; the threads of this process do not write either."""
        writer = self._begin()
        try:
            yield
        finally:
            writer.leave()

    def exists(self) -> bool:
        """Return whether the folder holds a memory (``memory:`` always does)."""
        return self.folder is None or holds_graph(self.folder)

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        """Run a reading statement, on the writer's graph or on a snapshot."""
        bound = query.bind(params)
        session = self._readable().session
        with translated(query):
            return rows(session.cypher, query.text, bound)

    def ask(self, query: Query, limits: Limits, /, **params: Any) -> Rows:
        """Run a query of others, in another process on a copy of the graph."""
        bound = query.bind(params)
        session = self._readable().session
        with translated(query):
            return self._asker.ask(session, query.text, bound, limits)

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement; cheaper than a transaction, which copies what it changes."""
        bound = query.bind(params)
        writer = self._begin()
        try:
            try:
                found = rows(writer.session.execute, query.text, bound)
            except Exception:
                with translated(query):
                    raise
            writer.acknowledge()
            return found
        finally:
            writer.leave()

    def attempt(
        self, query: Query, fits: Callable[[list[Row]], bool], /, **params: Any
    ) -> list[Row]:
        """Run one statement; nobody else writes meanwhile, so that what it checks stays so."""
        found = self.write(query, **params)
        if found and not fits(found):
            raise StoreError(f"{query.name}: the graph is not as it should be; see verify")
        return found

    def transact(
        self,
        work: Callable[[Transaction], T],
        *,
        brief: bool = False,  # noqa: ARG002 - here it waits for no locks within
    ) -> T:
        """Run ``work`` in one transaction; writers of this process take turns."""
        writer = self._begin()
        try:
            tx = _Transaction(writer.session)
            try:
                answer = work(tx)
                tx.commit()
            except BaseException as error:
                tx.rollback()
                if self._closed and isinstance(error, StoreError):  # by the work itself
                    raise StoreError(CLOSED) from error
                raise
            writer.acknowledge()
            return answer
        finally:
            writer.leave()

    def one_call(self) -> contextlib.AbstractContextManager[None]:
        """Do nothing: here only the lease is waited for, and that has its own limit."""
        return contextlib.nullcontext()

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on an immutable snapshot."""
        return work(_View(self._readable().session.snapshot()))

    def apply_schema(self, *, repair: bool = False) -> int:
        """Create missing constraints and indexes; return the schema version."""
        writer = self._begin()
        try:
            if repair:
                repair_schema(writer)
            return writer.schema
        finally:
            writer.leave()

    def compact(self) -> bool:
        """Fold the log into a new graph file, which contains nothing of removed data."""
        writer = self._begin()
        try:
            if writer.folder and writer.files:
                with translated():
                    writer.files.checkpoint()
                    remove_left(writer.folder)
        finally:
            writer.leave()
        return not (self.folder and any(self.folder.glob(f"{DAMAGED}*")))

    def readers(self) -> tuple[str, ...]:
        """Return the other processes that have a snapshot."""
        return readers_of(self.folder) if self.folder else ()

    def backup(self, folder: Path) -> tuple[int, int]:
        """Write all namespaces to a new folder; writers may go on meanwhile."""
        if not self.exists():
            raise StorageError(f"{self.url} holds no memory, so there is nothing to back up")
        return write_backup(self._readable().session, folder.expanduser().absolute())

    def restore(self, folder: Path) -> tuple[int, int]:
        """Fill this memory, of which nothing is there yet, from a backup."""
        self._check_usable()
        if self.folder is None:
            raise StorageError("memory: has no files; open a folder and restore the backup there")
        source = folder.expanduser().absolute()
        try:
            found = holds_graph(source)
        except OSError as error:
            raise StorageError(f"{source} cannot be read: {error}") from error
        if not found:
            raise NotAMemoryError(f"{source} holds no backup; give the folder of one")
        backup = open_reader(source)
        try:
            return write_backup(backup.session, self.folder)
        finally:
            backup.close()

    def accept_loss(self) -> Loss:
        """Make a memory of the files that are there."""
        self._check_usable()
        if self.folder is None or not holds_graph(self.folder):
            return Loss()
        if self._writer and self._writer.held:
            return Loss()  # it was checked when it was opened
        return accept_loss(self.folder)

    def index(self, namespace: str) -> EmbeddedIndex:
        """Return the index of a namespace: the writer's, or that of the snapshot."""
        from graphmem.store.embedded_search import EmbeddedIndex

        source = self._readable()
        index = source.indexes.get(namespace)
        if index is None:
            there = weakref.ref(source)  # an index in use must not keep a graph that was let go

            def read(query: Query, /, **params: Any) -> list[Row]:
                return run((there() or self._readable()).session.cypher, query, params)

            index = EmbeddedIndex(
                read,
                self.folder,
                namespace,
                writable=isinstance(source, Writer),
                filing=lambda: self._filing(there()),
                durable=self._settings.durability == "full",
            )
            # Another thread, or another handle, may have been quicker.
            index = source.indexes.setdefault(namespace, index)
        return index

    @contextlib.contextmanager
    def _filing(self, source: Writer | Reader | None) -> Iterator[bool]:
        """Keep the lease within, to write vectors; yield False if another process has it."""
        if source is None:
            yield False
            return
        with source.filing() as mine:
            yield mine

    def entries(self, namespace: str) -> EmbeddedEntries:
        """Return the index of the entries of a namespace's levels."""
        return self.index(namespace).entries

    def close(self) -> None:
        """Close the handle after its running transaction; the last one writes a checkpoint.

        Other threads that wait for the lease, or call later, get a StoreError.

        Raises:
            LockedError: another thread's transaction takes too long; close again later.
            StorageError: there is no room for a checkpoint. Everything is in the log.
        """
        if self._pid != os.getpid():
            self._closed = True
            return
        self._closed = True
        self._writer = None
        self._asker.forget()
        with self._reading:
            if self._reader:
                release(self._reader.indexes)
            self._drop_reader()
        self._lease.give(self)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    def _check_usable(self) -> None:
        if self._pid != os.getpid():
            raise inherited(self.url, self._pid)
        self._check_open()

    def _begin(self) -> Writer:
        """Return the writer, with the lease, for a transaction that :meth:`Writer.leave` ends."""
        while True:
            writer = self._writable()
            if writer.enter():
                if self._closed:
                    writer.leave()
                    self._check_open()
                return writer

    def _writable(self, wait: float | None = None) -> Writer:
        self._check_usable()
        writer = self._writer
        if writer is not None and writer.held:
            return writer
        wait = self._wait if wait is None else wait
        return self._own(self._lease.take(self, self._open_writer, wait, self._check_waiting))

    def _check_waiting(self) -> None:
        self._check_open()
        check_wanted()

    def _own(self, writer: Writer) -> Writer:
        """Write with what the lease gave, and read it."""
        self._writer = writer
        if self._closed:  # meanwhile
            self._writer = None
            self._lease.give(self)
            self._check_open()
        self._drop_reader()
        return writer

    def _open_writer(self) -> Writer:
        behind = self._lease.behind
        if behind is not None and not behind.over:
            if behind.resume():
                return behind
            behind.abandon()
        began = time.monotonic()
        scratch = None
        folder = self.folder
        if folder is None:
            scratch = Scratch()
            path = Path(scratch.name) / GRAPH
        else:
            check_folder(folder)
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StorageError(f"cannot create {folder}: {error.strerror}") from error
            path = folder / GRAPH
        durable = "off" if folder is None else self._settings.durability
        session = open_writer(path.parent, durable, self._drop_reader)
        if scratch:  # where the system lets us: a killed process leaves nothing then
            shutil.rmtree(scratch.name, ignore_errors=True)
        with translated(path=path):
            idle = LEASE_IDLE
            return Writer(
                folder, session, scratch, durable=durable == "full", idle=idle, began=began
            )

    def _readable(self) -> Writer | Reader:
        self._check_usable()
        writer = self._writer
        if writer is not None and writer.held:
            return writer
        if self.folder is None:
            return self._writable()
        if writer is None or writer.over:
            writer = self._lease.join(self)
            if writer is not None:
                self._own(writer)
        seconds = SNAPSHOT_SECONDS
        if writer is not None and writer.readable(seconds):
            return writer
        with self._reading:
            self._check_open()
            if writer is None and self._reader is None:
                writer = self._writer or self._open_resting()  # or another thread was quicker
                if writer is not None and writer.readable(seconds):
                    return writer
            reader = self._snapshot(self.folder, writer)
        return reader or self._writable()  # which brings it to the present version

    def _snapshot(self, folder: Path, writer: Writer | None) -> Reader | None:
        """Return a snapshot in place of a writer that is out of date; None if its version is.

        The caller guards the reader.
        """
        reader = self._reader
        if reader and reader.at >= self._lease.abandoned:
            same = signature_of(folder) == reader.signature
            if same:
                reader.at = time.monotonic()
            if same or time.monotonic() - reader.at < SNAPSHOT_SECONDS:
                return reader
        self._drop_reader()
        reader = Reader(folder)
        if reader.outdated:
            reader.close()
            return None
        self._reader = reader
        if writer is not None:
            self._lease.leave_behind(writer)
            if writer.over and self._writer is writer:
                self._writer = None  # and with it a graph
        return reader

    def _open_resting(self) -> Writer | None:
        """Open a folder with a log as a writer does, and give the lease back before a write.

        So the log is read once, and the first write goes on with what was read. None where there
        is no log, since a snapshot is then read in less time; where other processes are there,
        which this would hold up; or where this one may not write.
        """
        if self.folder is None or not can_be_given() or not holds_graph(self.folder):
            return None
        if not holds_log(self.folder) or readers_of(self.folder):
            return None
        writer = self._lease.try_take(self, self._open_writer)
        if writer is None:
            return None
        writer.rest()
        return self._own(writer)

    def _drop_reader(self) -> None:
        """Let the snapshot go: two graphs would take twice the memory."""
        with self._reading:
            reader, self._reader = self._reader, None
        if reader:
            self._asker.forget(reader.session)
            reader.close()

    def _abandon(self) -> None:
        """In a forked child: leave everything to the parent."""
        keep(self)
        if self.folder and (not self._closed or self._lease.busy):
            _let_go(self.folder)


def _let_go(folder: Path) -> None:
    """Close inherited descriptors of a folder's files, so that its lease ends with the parent.

    The descriptors stay taken: the engine may still close them.
    """
    ours = {_identity(path) for path in folder.glob(f"{GRAPH}?*")} - {None}
    nothing = os.open(os.devnull, os.O_RDWR)
    for entry in list(Path("/dev/fd").iterdir()):
        number = int(entry.name)
        if _identity(number) in ours:
            os.dup2(nothing, number, inheritable=False)
    os.close(nothing)


def _identity(file: Path | int) -> tuple[int, int] | None:
    try:
        stat = os.stat(file)  # noqa: PTH116 - of a descriptor, too
    except OSError:
        return None
    return stat.st_dev, stat.st_ino
