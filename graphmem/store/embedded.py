"""The embedded engine: kglite, in this process.

One process writes at a time, by kglite's lease. Others read a snapshot: the checkpoint itself if
the log is empty, else a copy of checkpoint and log in another folder, which has every acknowledged
write. Who is alone with a log that a killed process left takes the lease also to read.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import kglite

from graphmem.config import Settings
from graphmem.errors import NotAMemoryError, QueryError, StorageError, StoreError
from graphmem.forks import in_child, keep
from graphmem.models.reports import LossReport
from graphmem.store import embedded_files as files
from graphmem.store.embedded_errors import run, translated
from graphmem.store.embedded_sessions import ENGINE, Leases, Reader, Writer
from graphmem.store.port import CLOSED, Capabilities, Limits, Row, Rows, Transaction, check_process
from graphmem.store.queries import Query

if TYPE_CHECKING:
    from graphmem.store.embedded_search import EmbeddedEntries, EmbeddedIndex, VectorIndex

    Index = TypeVar("Index", bound=VectorIndex)

T = TypeVar("T")

MOST_WORK = 4_000_000  # rows, or items of lists, that a clause of a user's query may go through
WAIT = 5.0  # seconds to wait for another writer, unless the setting ``wait`` says otherwise
kglite.set_query_warning_policy("silent")  # it warns of labels without nodes

_leases = Leases()
in_child(_leases, Leases.__init__)


class _Transaction:
    """Begins at its first write: until then it reads the session, which its writer has locked."""

    def __init__(self, session: kglite.Session) -> None:
        self._session = session
        self._inner: kglite.SessionTransaction | None = None
        self._finished = False

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        if self._finished:
            raise StoreError(f"{query.name}: the transaction is finished")
        if self._inner is None and query.mode == "read":
            return run(self._session.cypher, query, **params)
        if self._inner is None:
            with translated(query):
                self._inner = self._session.begin()
        return run(self._inner.cypher, query, **params)

    def finish(self, query: Query, /, **params: Any) -> list[Row]:
        if self._inner is not None:
            return self.run(query, **params)
        found = run(self._session.execute, query, **params)
        self._finished = True
        return found

    def commit(self) -> None:
        if self._inner is not None:
            with translated():
                self._inner.commit()

    def rollback(self) -> None:
        if self._inner is not None and self._inner.active:
            self._inner.rollback()


class _View:
    def __init__(self, graph: kglite.FrozenGraph) -> None:
        self._graph = graph

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        return run(self._graph.cypher, query, **params)

    finish = run


class EmbeddedStore:
    """A graph in a folder, or only in memory if ``folder`` is None."""

    def __init__(self, folder: Path | None, settings: Settings) -> None:
        self.folder = folder.expanduser().absolute() if folder else None
        self.url = str(self.folder or "memory:")
        self._settings = settings
        self._wait = WAIT if settings.wait is None else settings.wait
        self._lease = _leases.of(self.folder)
        self._closed = False
        self._pid = os.getpid()
        self.capabilities = Capabilities(ENGINE, kglite.__version__, server=False)
        if self.folder:
            files.check_folder(self.folder)
        in_child(self, keep)  # a forked child leaves everything to the parent

    @property
    def snapshot_age(self) -> float | None:
        session = self._lease.reader or self._lease.writer
        return session.age if session else None

    @property
    def writing(self) -> bool:
        """Whether this handle has written, and its process has the lease."""
        writer = self._lease.writer
        return writer is not None and writer.held and self in writer.users and not self._closed

    def try_writing(self) -> bool:
        try:
            self._writable(wait=0.0)
        except StoreError:
            return False
        return True

    @contextlib.contextmanager
    def alone(self) -> Iterator[Writer]:
        """Keep the lease within; the threads of this process do not write either."""
        while not (writer := self._writable()).enter():
            pass
        try:
            self._check_open()
            yield writer
        finally:
            writer.leave()

    def exists(self) -> bool:
        return self.folder is None or files.holds_graph(self.folder)

    def read(self, query: Query, /, **params: Any) -> list[Row]:
        return self._readable().read(query, **params)

    def ask(self, query: Query, limits: Limits, /, **params: Any) -> Rows:
        bound = query.bind(params)
        session = self._readable().session

        def work() -> Rows:
            with translated(query):
                answer = session.cypher(
                    query.text,
                    params=bound,
                    timeout_ms=max(1, int(limits.seconds * 1000)),
                    row_limit=limits.rows,
                    max_work_units=MOST_WORK,
                )
            total = (answer.diagnostics or {}).get("total_rows")
            return Rows(answer.to_list(), truncated=total is not None and total > limits.rows)

        try:
            return limits.hear(work)
        except QueryError as error:
            if isinstance(error.__cause__, kglite.CypherTimeoutError):
                raise limits.too_long() from error
            raise

    def write(self, query: Query, /, **params: Any) -> list[Row]:
        """Run one statement; cheaper than a transaction, which copies what it changes."""
        with self.alone() as writer:
            found = run(writer.session.execute, query, **params)
            writer.acknowledge()
            return found

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
        with self.alone() as writer:
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

    def view(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on an immutable snapshot."""
        return work(_View(self._readable().session.snapshot()))

    def apply_schema(self, *, repair: bool = False) -> int:
        with self.alone() as writer:
            if repair:
                writer.apply_schema(repair=True)
            return writer.schema

    def compact(self) -> bool:
        with self.alone() as writer:
            writer.compact()
            if self.folder:
                files.remove_left(self.folder)
        return not (self.folder and any(self.folder.glob(f"{files.DAMAGED}*")))

    def readers(self) -> tuple[str, ...]:
        return files.readers_of(self.folder) if self.folder else ()

    def backup(self, folder: Path) -> tuple[int, int]:
        if not self.exists():
            raise StorageError(f"{self.url} holds no memory, so there is nothing to back up")
        return files.write_backup(self._readable().session, folder.expanduser().absolute())

    def restore(self, folder: Path) -> tuple[int, int]:
        self._check_usable()
        if self.folder is None:
            raise StorageError("memory: has no files; open a folder and restore the backup there")
        source = folder.expanduser().absolute()
        with files.name_file(source):
            if not files.holds_graph(source):
                raise NotAMemoryError(f"{source} holds no backup; give the folder of one")
        return files.write_backup(files.open_snapshot(source)[0], self.folder)

    def accept_loss(self) -> LossReport:
        self._check_usable()
        # A writer checked it when it was opened.
        if self.folder is None or not files.holds_graph(self.folder) or self.writing:
            return LossReport()
        return files.accept_loss(self.folder)

    def index(self, namespace: str) -> EmbeddedIndex:
        from graphmem.store.embedded_search import EmbeddedIndex

        return self._index(EmbeddedIndex, namespace)

    def entries(self, namespace: str) -> EmbeddedEntries:
        from graphmem.store.embedded_search import EmbeddedEntries

        return self._index(EmbeddedEntries, namespace)

    def _index(self, kind: type[Index], namespace: str) -> Index:
        source = self._readable()
        index = source.indexes.get((kind, namespace))
        if index is None:
            there = weakref.ref(source)  # an index in use must not keep a graph that was let go

            def read(query: Query, /, **params: Any) -> list[Row]:
                return (there() or self._readable()).read(query, **params)

            def filing() -> contextlib.AbstractContextManager[bool]:
                present = there()
                return present.filing() if present else contextlib.nullcontext(enter_result=False)

            index = kind(read, self.folder, namespace, filing)
            # Another thread, or another handle, may have been quicker.
            index = source.indexes.setdefault((kind, namespace), index)
        return cast("Index", index)

    def close(self) -> None:
        """Close the handle after its running transaction; the last one writes a checkpoint."""
        self._closed = True
        if self._pid == os.getpid():
            self._lease.give(self)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(CLOSED)

    def _check_usable(self) -> None:
        check_process(self.url, self._pid)
        if self._closed:
            raise StoreError(CLOSED)

    def _writable(self, wait: float | None = None) -> Writer:
        self._check_usable()
        wait = self._wait if wait is None else wait
        writer = self._lease.take(self, self._settings.durability, wait, self._check_open)
        if self._closed:  # meanwhile
            self._lease.give(self)
            self._check_open()
        return writer

    def _readable(self) -> Reader:
        if self.folder is None:
            return self._writable()
        self._check_usable()
        if reader := self._lease.read(self):
            return reader
        if files.holds_log(self.folder) and not files.readers_of(self.folder):
            # Who is alone replays the log once, to read and to write.
            with contextlib.suppress(StoreError):
                return self._writable(wait=0.0)
        self._check_open()
        return self._lease.snapshot(self, self.folder) or self._writable()
