"""The sessions of the embedded engine: the writer that a process shares, and snapshots.

The writer of a process has kglite's lease. It gives the lease back between two transactions when
another process waits for it and this one does not write, or had its turn; then it is a snapshot.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kglite

from graphmem.errors import LockedError, StorageError
from graphmem.store import embedded_files as files
from graphmem.store import schema
from graphmem.store.embedded_errors import full, run, translated
from graphmem.store.port import check_wanted
from graphmem.store.tables import naming

if TYPE_CHECKING:
    from graphmem.store.embedded_search import VectorIndex

ENGINE = "kglite"
SNAPSHOT_SECONDS = 5.0  # a reader beside a writer takes a new snapshot after this many seconds
_COSTLY = 4.0  # a snapshot that took a second is read for so many
_POLL = 0.01  # seconds between two attempts to take the lease
_LOOK = 0.02  # seconds between two looks whether another process waits
_RESTS = 0.1  # seconds without a write after which the lease is given to a process that waits
_TURN = (0.5, 8, 2.0)
"""A process that goes on writing keeps the lease at least so many seconds, so many times as long as
opening took, and at most so many seconds."""
_PAUSE = 0.25  # seconds that a process leaves to those who wait before it takes the lease again
_CLOSING = 60.0  # seconds that closing waits for a running transaction


class Reader:
    """A snapshot of a folder that another process may write."""

    held = False
    """Whether this process has the lease."""
    outdated = False
    _current = True
    _filing: Any = contextlib.nullcontext()
    """Held while something is written beside the graph, for which the lease is needed."""
    _lock: int | None = None
    """The open file whose lock says that somebody reads."""

    def __init__(self, folder: Path) -> None:
        self._folder: Path | None = folder
        self._at = began = time.monotonic()
        self._signature = files.signature_of(folder)
        self.indexes: dict[tuple[type, str], VectorIndex] = {}
        self.users: weakref.WeakSet[object] = weakref.WeakSet()
        self._lock = files.lock_shared(folder / files.READERS)
        try:
            self.session, beside = files.open_snapshot(folder)
            self._current = not beside
            self.outdated = schema.outdated(schema.check(self.read))
        except BaseException:
            self.close()
            raise
        self._seconds = max(SNAPSHOT_SECONDS, _COSTLY * (time.monotonic() - began))

    def read(self, query: Any, /, **params: Any) -> list[dict[str, Any]]:
        return run(self.session.cypher, query, **params)

    def readable(self) -> bool:
        """Return whether to read this: nobody wrote since, or not for long."""
        if self.held or self._folder is None or files.signature_of(self._folder) == self._signature:
            self._at = time.monotonic()
            return True
        self._current = False
        return time.monotonic() - self._at < self._seconds

    @property
    def age(self) -> float | None:
        """Seconds since this was all there is; None if it is so."""
        return None if self.held or self._current else time.monotonic() - self._at

    @contextlib.contextmanager
    def filing(self) -> Iterator[bool]:
        """Keep the lease within, if this process has it; yield whether it does."""
        with self._filing:
            yield self.held

    def close(self) -> None:
        """Let the writer know that nobody reads this any more; running statements finish."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class Writer(Reader):
    """The one writing session of this process on a folder, shared by its handles."""

    def __init__(
        self, folder: Path | None, session: kglite.Session, *, durable: bool, began: float
    ) -> None:
        self._folder = folder
        self._signature = ()
        self.session = session
        self.indexes, self.users = {}, weakref.WeakSet()
        self.held = True  # only the holder of ``lock`` changes it
        self.lock = threading.RLock()
        self._depth = 0  # how many transactions are within each other
        self._filing = threading.RLock()
        self._files: files.WrittenFiles | None = None
        self._awaited = False
        try:
            self._files = files.WrittenFiles(folder, session, durable=durable) if folder else None
            # A replay of the engine's log does not declare names: then it warns of them.
            self.apply_schema(repair=any(session.cypher(text).warnings for text in naming()))
            if self._files:
                self._files.acknowledge()
        except BaseException:
            self.end()
            raise
        now = self._used = self._taken = self._at = time.monotonic()
        self._turn = min(max(_TURN[0], _TURN[1] * (now - began)), _TURN[2])
        self._seconds = max(SNAPSHOT_SECONDS, _COSTLY * (now - began))
        if folder:
            threading.Thread(
                target=_look_after, args=(weakref.ref(self),), name="graphmem-lease", daemon=True
            ).start()

    def apply_schema(self, *, repair: bool) -> None:
        execute = partial(run, self.session.execute)
        self.schema = schema.apply(ENGINE, self.read, execute, repair=repair)

    def enter(self) -> bool:
        """Begin a transaction; False where this process no longer has the lease."""
        self.lock.acquire()
        if self.held:
            self._depth += 1
            return True
        self.lock.release()
        return False

    def leave(self) -> None:
        """End a transaction; give the lease back where others wait and the turn is over."""
        try:
            self._depth -= 1
            self._used = time.monotonic()
            if self._awaited and self._used >= self._taken + self._turn:
                self._give()
        finally:
            self.lock.release()

    def acknowledge(self) -> None:
        """Note that a transaction is in the log, and write a checkpoint when that pays."""
        if self._files is not None:
            self._files.acknowledge()
            if self._files.grown:
                self._checkpoint_if_possible()

    def compact(self) -> None:
        """Fold the log into a new graph file."""
        if self._files:
            with translated():
                self._files.checkpoint()

    def close(self) -> None:
        """Write a checkpoint and give the lease back."""
        try:
            if self.held:
                self.compact()
        except StorageError as error:
            if not full(error.__cause__):  # else the log, beside which it has no room, has all
                raise
        finally:
            self.end()
            for index in list(self.indexes.values()):
                index.close()  # what it holds can then be freed

    def end(self) -> None:
        """Give the lease back as it is, for good."""
        self._end_session()
        super().close()

    def _end_session(self) -> None:
        self.held = False
        if not self.session.closed:
            files.abandon(self.session)
        if self._files:
            self._files.close()
            self._files = None

    def _checkpoint_if_possible(self) -> None:
        """Write a checkpoint; where that fails, everything is in the log."""
        if self._files:
            with contextlib.suppress(kglite.KgError, OSError):
                self._files.checkpoint()

    def _give(self) -> None:
        """Give the lease back, unless something is being written."""
        if self._folder is None or self._depth or not self.held:
            return
        if not self._filing.acquire(blocking=False):
            return
        try:
            self._checkpoint_if_possible()
            self._lock = files.lock_shared(self._folder / files.READERS)
            self._signature = files.signature_of(self._folder)
            self._at = time.monotonic()
            self._end_session()
        finally:
            self._filing.release()

    def lets_others(self) -> bool:
        """Return whether those who wait should have the lease first."""
        return time.monotonic() < self._at + _PAUSE and files.wanted(self._folder)

    def look(self) -> None:
        """Give the lease back if others wait and nobody here writes; fold a log that rests."""
        self._awaited = files.wanted(self._folder)
        rests = time.monotonic() - self._used
        folds = self._files is not None and self._files.idle(rests)
        if (folds or (self._awaited and rests >= _RESTS)) and self.lock.acquire(blocking=False):
            try:
                if self._awaited:
                    self._give()
                elif self.held and not self._depth:
                    self._checkpoint_if_possible()
            finally:
                self.lock.release()


def _look_after(writer: weakref.ref[Writer]) -> None:
    while True:
        present = writer()
        if present is None or not present.held:
            return
        present.look()
        del present
        time.sleep(_LOOK)


class Lease:
    """The sessions of one folder in this process: its handles share them, and the last one closes.

    There is a writer, which may have given kglite's lease back, or a snapshot.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self.writer: Writer | None = None
        self.reader: Reader | None = None

    def take(self, user: object, durability: str, wait: float, check: Callable[[], None]) -> Writer:
        """Return the writer, which has the lease; the user has the writer until :meth:`give`."""
        writer = self.writer
        if writer is not None and writer.held and user in writer.users:
            return writer
        since, refused, flag = time.monotonic(), "", None
        try:
            while True:
                check()
                check_wanted()
                try:
                    writer = self._attempt(user, durability)
                    if writer is not None:
                        return writer
                except LockedError as error:
                    if str(error) != refused and wait:  # another holder, or a later turn of it
                        since, refused = time.monotonic(), str(error)
                    if time.monotonic() >= since + wait:
                        raise
                if self._folder is not None and flag is None and wait:
                    flag = files.lock_shared(self._folder / files.WAITERS, create=True)
                time.sleep(_POLL * random.uniform(0.5, 1.5))  # noqa: S311 - not all at once
        finally:
            if flag is not None:
                os.close(flag)

    def _attempt(self, user: object, durability: str) -> Writer | None:
        with self._lock:
            before = writer = self.writer
            if writer is None or not writer.held:
                if writer is not None and writer.lets_others():
                    return None
                writer = self.writer = self._open(durability)
                if before is not None:
                    before.end()
            writer.users.add(user)
            return writer

    def _open(self, durability: str) -> Writer:
        began, folder = time.monotonic(), self._folder
        if folder is None:
            scratch = Path(tempfile.mkdtemp(prefix="graphmem-"))
            try:
                session = files.open_writer(scratch, "off", self._drop_reader)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)  # it is not written
        else:
            files.check_folder(folder)
            with files.name_file(folder, "create"):
                folder.mkdir(parents=True, exist_ok=True)
            session = files.open_writer(folder, durability, self._drop_reader)
        with translated(path=folder and folder / files.GRAPH):
            return Writer(folder, session, durable=durability == "full", began=began)

    def read(self, user: object) -> Reader | None:
        """Return what there is to read, if it may still be read; the user has it as with a write.

        That is the writer, what it had when it gave the lease back, or a snapshot.
        """
        session: Reader | None = self.writer
        if session is None or not session.held:
            with self._lock:
                session = self.reader or self.writer
                if session is None or not session.readable():
                    self._drop_reader()
                    if self.writer is not None and not self.writer.held:
                        self.writer.end()
                        self.writer = None
                    return None
        session.users.add(user)
        return session

    def snapshot(self, user: object, folder: Path) -> Reader | None:
        """Return a snapshot; None where there is a writer now, or one must renew the schema."""
        with self._lock:
            if self.writer is not None and self.writer.held:
                return None
            reader = self.reader = self.reader or Reader(folder)
            reader.users.add(user)
            if reader.outdated:
                self._drop_reader()
            return None if reader.outdated else reader

    def give(self, user: object) -> None:
        """Give the sessions back; the last user closes the writer after the running transaction."""
        with self._lock:
            writer = self.writer
            if self.reader is not None:
                self.reader.users.discard(user)
                if not self.reader.users:
                    self._drop_reader()
            if writer is None or user not in writer.users:
                return
            if writer.users - {user}:
                writer.users.discard(user)
                return
            if not writer.lock.acquire(timeout=_CLOSING):
                raise LockedError(
                    f"another thread is still in a transaction after {_CLOSING:g} seconds; close "
                    "the memory again when it is done"
                )
            try:
                writer.users.discard(user)
                self.writer = None
                writer.close()
            finally:
                writer.lock.release()

    def _drop_reader(self) -> None:
        with self._lock:
            reader, self.reader = self.reader, None
            if reader is not None:
                reader.close()


class Leases:
    """The leases of the folders that this process has open; a lease lives as long as a handle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: weakref.WeakValueDictionary[Path, Lease] = weakref.WeakValueDictionary()

    def of(self, folder: Path | None) -> Lease:
        """Return the lease of a folder, whatever path leads to it; None is a folder of its own."""
        if folder is None:
            return Lease()
        key = Path(os.path.realpath(folder))  # where resolve() refuses links that lead in a circle
        with self._lock:
            lease = self._leases.get(key)
            if lease is None:
                lease = self._leases[key] = Lease(folder)
            return lease
