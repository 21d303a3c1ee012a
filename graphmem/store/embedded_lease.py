"""The write lease of a folder, which the threads of this process share."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from graphmem.errors import LockedError, StoreError
from graphmem.forks import in_child
from graphmem.store.embedded_errors import locked
from graphmem.store.embedded_locks import changed_hands, owner_of
from graphmem.store.embedded_queue import Queue

_log = logging.getLogger(__name__)

_POLL = 0.05
"""Seconds between two looks at the line."""
_NEXT_POLL = 0.01
"""Seconds between two attempts of the next in line to take the lease from another process."""
_CLOSING = 60.0
"""Seconds that closing waits for a running transaction."""


class Writer(Protocol):
    """The holder of the lease, by turns, until it is closed."""

    @property
    def held(self) -> bool:
        """Whether it has the lease now."""
        ...

    @property
    def over(self) -> bool:
        """Whether it lost the lease for good."""
        ...

    @property
    def lock(self) -> threading.RLock:
        """Held by a transaction."""
        ...

    def close(self) -> None:
        """Give the lease back for good; the caller has the lock."""
        ...

    def abandon(self) -> None:
        """Give up, where another process wrote meanwhile."""
        ...


W = TypeVar("W", bound=Writer)


class Lease(Generic[W]):
    """The lease of one folder: its users share one writer, which the last of them closes.

    The writer gives the lease back when it is idle, and takes it again for a write.

    One thread at a time opens the writer. Nothing is locked meanwhile, nor while another process
    has the lease: threads that need no writer go on.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._queue = Queue(folder) if folder else None
        self._changed = threading.Condition()
        self._busy = False
        self._waiting = 0
        """Threads that wait for another process."""
        self._pause = _NEXT_POLL
        self._writer: W | None = None
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._refused: tuple[float, str] | None = None
        self.abandoned = -math.inf
        """When a writer last gave up: a snapshot taken since then has what it wrote."""

    def take(
        self, user: object, opened: Callable[[], W], wait: float, check: Callable[[], None]
    ) -> W:
        """Return the writer, which has the lease; the user has the writer until :meth:`give`.

        Args:
            user: who wants it.
            opened: opens a writer, or lets the present one take the lease again; it raises
                LockedError at once if another process has the lease.
            wait: seconds to try again for, from the last change of the lease's holder. Threads that
                wait at the same time share the attempts.
            check: called in between; an error of it ends the wait.
        """
        since = time.monotonic()
        hands: int | None = None
        waits = False
        try:
            while True:
                with self._changed:
                    check()
                    while self._busy:  # another thread of this process opens or closes it
                        self._changed.wait(_POLL)
                        check()
                    writer = self._joined(user)
                    if writer is not None and writer.held:
                        return writer
                    refused = self._refused
                    attempt = refused is None or time.monotonic() - refused[0] >= self._pause / 2
                    self._busy = attempt
                if attempt:
                    try:
                        return self._open(user, opened)
                    except LockedError as error:
                        refused = time.monotonic(), str(error)
                if wait and self._folder and (now := changed_hands(self._folder)) != hands:
                    hands, since = now, time.monotonic()
                if refused and time.monotonic() >= since + wait:
                    raise LockedError(refused[1])
                with self._changed:
                    if not waits:
                        waits = True
                        self._waiting += 1
                    self._changed.wait(self._pause)
        finally:
            if waits:
                self._end_waiting()

    def try_take(self, user: object, opened: Callable[[], W]) -> W | None:
        """Open the first writer; None where one is there or comes, or it cannot be opened now."""
        with self._changed:
            if self._busy or self._writer is not None:
                return None
            self._busy = True
        try:
            return self._open(user, opened)
        except StoreError as error:
            _log.debug("%s is read as a snapshot: %s", self._folder, error)
            return None

    def join(self, user: object) -> W | None:
        """Return the writer of this process, if there is one; it may not have the lease now.

        The user has it until :meth:`give`.
        """
        if self._writer is None:
            return None
        with self._changed:
            return self._joined(user)

    def leave_behind(self, writer: W) -> None:
        """Give up a writer that is out of date, unless a thread opens or closes it now."""
        with self._changed:
            if self._busy or self._writer is not writer or writer.held:
                return
            self._writer, self.abandoned = None, time.monotonic()
        writer.abandon()

    @property
    def behind(self) -> W | None:
        """The writer, which has given the lease back, for the thread that opens one."""
        return self._writer

    def give(self, user: object) -> None:
        """Give the writer back; the last user closes it after the running transaction.

        Raises:
            LockedError: the transaction takes too long. The writer was not given back.
        """
        with self._changed:
            self._changed.notify_all()  # threads of this user stop waiting
            writer = self._writer
            if writer is None or user not in self._users:
                return
            self._users.discard(user)
            if self._users:
                return
        if not writer.lock.acquire(timeout=_CLOSING):
            with self._changed:
                self._users.add(user)
            raise LockedError(
                f"another thread is still in a transaction after {_CLOSING:g} seconds; close the "
                "memory again when it is done"
            )
        try:
            with self._changed:
                if self._users or self._writer is not writer:  # others took it meanwhile
                    return
                self._writer, self._busy = None, True
            try:
                writer.close()
            finally:
                with self._changed:
                    self._turn_over(None)
        finally:
            writer.lock.release()

    @property
    def busy(self) -> bool:
        """Whether a thread opens or closes the writer now."""
        return self._busy

    def _joined(self, user: object) -> W | None:
        if self._writer is not None:
            self._users.add(user)
        return self._writer

    def _open(self, user: object, opened: Callable[[], W]) -> W:
        writer, refused = None, None
        try:
            self._stand_in_line()
            writer = opened()
        except LockedError as error:
            refused = time.monotonic(), str(error)
            raise
        finally:
            before = self._writer
            with self._changed:
                if writer is not None:
                    self._users.add(user)
                elif before is not None and not before.over:
                    writer = before
                if before is not None and before is not writer:
                    self.abandoned = time.monotonic()
                if refused is None and self._queue is not None:
                    self._queue.leave()
                self._turn_over(writer, refused)
        return writer

    def _stand_in_line(self) -> None:
        """Raise a LockedError if other processes waited before this one."""
        if self._queue is None or self._folder is None:
            return
        with self._changed, contextlib.suppress(OSError):  # then without a place in the line
            if self._waiting:
                self._queue.join()
        first = self._queue.first()
        self._pause = _NEXT_POLL if first else _POLL
        if not first:
            raise locked(owner_of(self._folder))

    def _end_waiting(self) -> None:
        with self._changed:
            self._waiting -= 1
            if not self._waiting and self._queue is not None:
                self._queue.leave()

    def _turn_over(self, writer: W | None, refused: tuple[float, str] | None = None) -> None:
        """Let other threads have a turn."""
        self._busy = False
        self._writer, self._refused = writer, refused
        self._changed.notify_all()


class Leases(Generic[W]):
    """The leases of the folders that this process has open; a lease lives as long as a handle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: weakref.WeakValueDictionary[Path, Lease[W]] = weakref.WeakValueDictionary()
        in_child(self, Leases.__init__)

    def of(self, folder: Path | None) -> Lease[W]:
        """Return the lease of a folder, whatever path leads to it; None is a folder of its own."""
        if folder is None:
            return Lease()
        key = Path(os.path.realpath(folder))  # where resolve() refuses links that lead in a circle
        with self._lock:
            lease = self._leases.get(key)
            if lease is None:
                lease = self._leases[key] = Lease(folder)
            return lease
