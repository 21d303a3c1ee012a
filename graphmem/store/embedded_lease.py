"""The write lease of a folder, as the threads of this process share it."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from graphmem.errors import LockedError
from graphmem.forks import in_child

_POLL = 0.05
"""Seconds between two attempts to take the lease from another process."""
_CLOSING = 60.0
"""Seconds that closing waits for a running transaction."""


class Writer(Protocol):
    """What has the lease until it is closed."""

    @property
    def lock(self) -> threading.RLock:
        """Held by a transaction."""
        ...

    def close(self) -> None:
        """Give the lease back; the caller has the lock."""
        ...


W = TypeVar("W", bound=Writer)


class Lease(Generic[W]):
    """The lease of one folder: its users share one writer, which the last of them closes.

    One thread at a time opens the writer. Nothing is locked while it does, nor while another
    process has the lease: whoever can do without a writer goes on.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._writer: W | None = None
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._refused: tuple[float, str] | None = None

    def take(
        self, user: object, opened: Callable[[], W], wait: float, check: Callable[[], None]
    ) -> W:
        """Return the writer, opened if there is none; the user has it until :meth:`give`.

        Args:
            user: who wants it.
            opened: opens a writer, or raises LockedError at once if another process has the lease.
            wait: seconds to try again for. Threads that wait at the same time share the attempts.
            check: called in between; what it raises ends the wait.
        """
        deadline = time.monotonic() + wait
        while True:
            with self._changed:
                check()
                while self._busy:  # another thread of this process opens or closes it
                    self._changed.wait(_POLL)
                    check()
                if writer := self._joined(user):
                    return writer
                refused = self._refused
                attempt = refused is None or time.monotonic() - refused[0] >= _POLL / 2
                self._busy = attempt
            if attempt:
                try:
                    return self._open(user, opened)
                except LockedError:
                    if time.monotonic() >= deadline:
                        raise
            elif refused and time.monotonic() >= deadline:
                raise LockedError(refused[1])
            with self._changed:
                self._changed.wait(_POLL)

    def join(self, user: object) -> W | None:
        """Return the writer if this process has one; the user has it until :meth:`give`."""
        if self._writer is None:
            return None
        with self._changed:
            return self._joined(user)

    def give(self, user: object) -> None:
        """Give the writer back; the last user closes it after the running transaction.

        Raises:
            LockedError: the transaction takes too long. The writer was not given back.
        """
        with self._changed:
            self._changed.notify_all()  # threads of this user need not wait any longer
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
            writer = opened()
        except LockedError as error:
            refused = time.monotonic(), str(error)
            raise
        finally:
            with self._changed:
                if writer is not None:
                    self._users.add(user)
                self._turn_over(writer, refused)
        return writer

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
        key = folder.resolve()
        with self._lock:
            lease = self._leases.get(key)
            if lease is None:
                lease = self._leases[key] = Lease()
            return lease
