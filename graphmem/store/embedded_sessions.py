"""The sessions of the embedded engine: the writer that a process shares, and snapshots.

The writer of a process has the lease while it is in use. It gives the lease back between two
transactions, when nobody wrote for a while, or another process waits and this one had its turn. Its
session stays open: where nobody else wrote until it takes the lease again, it goes on with it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kglite

from graphmem.errors import StorageError, StoreError, shown
from graphmem.forks import UNFORKED, Scratch
from graphmem.store import schema
from graphmem.store.embedded_errors import full, locked, translated
from graphmem.store.embedded_files import (
    WrittenFiles,
    abandon,
    signature_of,
    vectors_of,
)
from graphmem.store.embedded_later import count_in, take_over
from graphmem.store.embedded_locks import HeldLock, held_lock, owner_of
from graphmem.store.embedded_queue import Queue
from graphmem.store.embedded_rows import run
from graphmem.store.embedded_snapshot import open_reader
from graphmem.store.tables import naming

if TYPE_CHECKING:
    from graphmem.store.embedded_search import EmbeddedIndex

ENGINE = "kglite"

_log = logging.getLogger(__name__)

_LOOK = 0.02
"""Seconds between two looks whether to give the lease back."""
_WANTED = 0.1
"""The part of the time without a write after which it is given back, where others wait."""
_OPENINGS = 4
"""A turn takes as many times as long as opening the writer did, at least: else opening is all."""


class Writer:
    """The one writing session of this process on a folder, shared by its handles."""

    def __init__(
        self,
        folder: Path | None,
        session: kglite.Session,
        scratch: Scratch | None = None,
        *,
        durable: bool = False,
        idle: float = 0.0,
        began: float = 0.0,
    ) -> None:
        self.folder = folder
        self.indexes: dict[str, EmbeddedIndex] = {}
        self.session = session
        self.scratch = scratch
        self.files: WrittenFiles | None = None
        self.held = True
        """Whether this process has the lease; only who has ``lock``, or opens it, changes that."""
        self.over = False
        """It was closed, or what it has is not what there is."""
        self.resting = False
        """It was opened to read, and nobody has written since."""
        self.lock = threading.RLock()
        self._depth = 0
        """How many transactions are within each other."""
        self._filing = threading.RLock()
        """Held while something is written beside the graph, for which the lease is needed."""
        self._lock: HeldLock | None = None
        try:
            self.files = WrittenFiles(folder, session, durable=durable) if folder else None
            self.schema = _apply(session, repair=not _declared(session))
            if folder:
                take_over(folder, session)
            self._lock = held_lock(folder) if folder else None
        except BaseException:
            self.close()
            raise
        if self.files:
            self.files.acknowledge()
        self._idle = idle
        self._turn = max(idle, _OPENINGS * (time.monotonic() - began))
        self._left: tuple[Any, ...] = ()
        """What the files were like when the lease was given back."""
        self._vectors: frozenset[tuple[str, int, int]] = frozenset()
        self._seen = self._used = self._taken = time.monotonic()
        self._stale = False
        self._awaited = False
        """Whether another process waited when that was looked at last."""
        self._again = threading.Event()
        self._queue = Queue(folder) if folder else None
        self._keeper: threading.Thread | None = None

    def enter(self) -> bool:
        """Begin a transaction; False where this process no longer has the lease."""
        self.lock.acquire()
        if self.held:
            self._depth += 1
            return True
        self.lock.release()
        return False

    def leave(self) -> None:
        """End a transaction; give the lease back where that is due."""
        try:
            self._depth -= 1
            if not self._depth and self._lock is not None:
                now = self._used = time.monotonic()
                if self._keeper is None:
                    self._start_keeper()
                if not self._idle or (self._awaited and now >= self._taken + self._turn):
                    self._give()
        finally:
            self.lock.release()

    def rest(self) -> None:
        """Give the lease back before the first write, with all that a log held in the graph file.

        Where that file is large and the log short, the log stays: who only reads should not wait
        until the file is written, nor need the memory. Who writes writes it when it closes.
        """
        with self.lock:
            if self.held and not self._depth:
                with contextlib.suppress(kglite.KgError, OSError):
                    if self.files and not self.files.heavy:
                        self.files.checkpoint()
                self._give()
                self.resting = not self.held

    def acknowledge(self) -> None:
        """Note that a transaction is in the log, and write a checkpoint when that pays.

        It runs between two transactions: kglite's own checkpoints run beside the writer, which then
        copies the whole graph.
        """
        if self.files is None:
            return
        self.files.acknowledge()
        if self.files.grown:
            # The transaction is already in the log, so a full disk must not fail it here.
            with contextlib.suppress(kglite.KgError, OSError):
                self.files.checkpoint()

    @contextlib.contextmanager
    def filing(self) -> Iterator[bool]:
        """Keep the lease within, if this process has it; yield whether it does."""
        with self._filing:
            yield self.held

    def unchanged(self) -> bool:
        """Return whether what this session has is what there is."""
        if self.held:
            return True
        if self.over or self.folder is None or signature_of(self.folder) != self._left:
            self._stale = True
            return False
        self._seen = time.monotonic()
        return True

    def readable(self, seconds: float) -> bool:
        """Return whether to read this session: nobody wrote since, or not so many seconds ago."""
        return self.unchanged() or (not self.over and time.monotonic() - self._seen < seconds)

    @property
    def age(self) -> float | None:
        """Seconds since this was all there is; None if it is so."""
        stale = self._stale and not self.held
        return time.monotonic() - self._seen if stale else None

    def resume(self) -> bool:
        """Take the lease again; return False where another process wrote meanwhile.

        Raises:
            LockedError: another process has it.
        """
        if self._lock is None or self.folder is None or not self._lock.take():
            raise locked(owner_of(self.folder) if self.folder else {})
        if not self.unchanged() or vectors_of(self.folder) != self._vectors:
            return False
        self._taken = self._used = time.monotonic()
        self.held, self.resting = True, False
        self._again.set()
        return True

    def close(self) -> None:
        """Write a checkpoint and give the lease back."""
        try:
            if self.resting or (not self.held and not self._resumed()):
                return
            if self.files:
                self._checkpoint(self.files)
        finally:
            self.abandon()
            release(self.indexes)

    @staticmethod
    def _checkpoint(files: WrittenFiles) -> None:
        """Write a checkpoint, for the last time; where it does not fit, the log has everything."""
        try:
            with translated():
                files.checkpoint()
        except StorageError as error:
            if not full(error.__cause__):
                raise
            _log.warning(
                "there is no room for a new graph file beside the log, which has all that was "
                "learned: %s",
                shown(str(error.__cause__)),
            )

    def abandon(self) -> None:
        """Give the lease back as it is, for what this session has is not what there is."""
        self.held, self.over = False, True
        if not self.session.closed:
            abandon(self.session)
        if self._lock:
            self._lock.end_reading()
            self._lock.close()
        if self.files:
            self.files.close()
        if self.scratch:
            self.scratch.cleanup()
        again = getattr(self, "_again", None)
        if again:
            again.set()

    def _resumed(self) -> bool:
        try:
            return not self.over and self.resume()
        except StoreError:
            return False  # who has the lease writes the checkpoint

    def _wanted(self) -> bool:
        return self._queue is not None and self._queue.wanted()

    def _give(self) -> None:
        """Give the lease back; the caller has the lock, and no transaction runs."""
        if self._lock is None or self.files is None or self.folder is None:
            return
        if not self._filing.acquire(blocking=False):
            return
        try:
            if self.files.long and self._awaited:
                with contextlib.suppress(kglite.KgError, OSError):
                    self.files.checkpoint()
            self._left, self._stale = signature_of(self.folder), False
            self._vectors = vectors_of(self.folder)
            self._seen = time.monotonic()
            self._again.clear()
            self._awaited = self.held = False
            self._lock.give()
        finally:
            self._filing.release()

    def _start_keeper(self) -> None:
        self._keeper = threading.Thread(
            target=_keep, args=(weakref.ref(self), self._again), name="graphmem-lease", daemon=True
        )
        weakref.finalize(self, self._again.set).atexit = False
        self._keeper.start()

    def look(self) -> bool:
        """Give the lease back if it was not used for a while; return whether to look again soon."""
        self._awaited = self._wanted()
        limit = self._idle * (_WANTED if self._awaited else 1.0)
        if time.monotonic() - self._used >= limit and self.lock.acquire(blocking=False):
            try:
                if self.held and not self._depth and time.monotonic() - self._used >= limit:
                    self._give()
            finally:
                self.lock.release()
        return self.held


def _keep(writer: weakref.ref[Writer], again: threading.Event) -> None:
    """Look after a writer as long as it is there; without its lease, wait until it has it again."""
    while True:
        kept = writer()
        if kept is None or kept.over:
            return
        soon = kept.look()
        del kept
        if soon:
            time.sleep(_LOOK)
        else:
            again.wait()


class Reader:
    """A snapshot of a folder that another process may write."""

    def __init__(self, folder: Path) -> None:
        self.at = time.monotonic()
        self.signature = signature_of(folder)
        self.snapshot = open_reader(folder)
        self.session = self.snapshot.session
        self.indexes: dict[str, EmbeddedIndex] = {}
        try:
            version = schema.check(lambda query, **params: run(self.session.cypher, query, params))
            self.outdated = schema.outdated(version)
            if not self.outdated:
                count_in(folder, self.session)
        except BaseException:
            self.close()
            raise

    @contextlib.contextmanager
    def filing(self) -> Iterator[bool]:
        """Yield False: a reader writes nothing."""
        yield False

    def close(self) -> None:
        """Let the writer know that nobody reads this any more; running statements finish."""
        self.snapshot.close()


def _apply(session: kglite.Session, *, repair: bool = False) -> int:
    return schema.apply(
        ENGINE,
        lambda query, **params: run(session.cypher, query, params),
        lambda query, **params: run(session.execute, query, params),
        repair=repair,
    )


def _declared(session: kglite.Session) -> bool:
    """Return whether the engine knows all names: a replay of its log does not declare them.

    It warns of names that it does not know. To look is quicker than to declare them again, which
    copies the columns of all labels, and leaves a log that closing writes into the graph file.
    """
    with UNFORKED.lock:
        return not any(session.cypher(text).warnings for text in naming())


def repair_schema(writer: Writer) -> None:
    """Create what is missing of the schema."""
    writer.schema = _apply(writer.session, repair=True)


def release(indexes: dict[str, EmbeddedIndex]) -> None:
    """Close indexes: what they hold can then be freed."""
    for index in list(indexes.values()):
        index.close()
