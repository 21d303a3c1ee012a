"""Forked children: what they inherit stays the parent's, and its locks may be held for ever.

A child has only the thread that forked. Nothing releases a lock there that another thread held. An
engine that is freed there would end the lease of the parent, or wait for threads that are gone.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - forks run its hook, which locks, after ours
import contextlib
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Locked(Protocol):
    """An object with a lock."""

    _lock: threading.RLock


_IMPORTED = (
    "numpy",
    "simsimd",
    "tantivy",
    "onnxruntime",
    "graphmem.search.embedding",
    "graphmem.store.embedded_search",
)
"""Modules that any thread imports when it needs them; an import takes a while."""
_NAMING = getattr(tempfile, "_once_lock", None)
"""Python's lock of temporary names, which it does not renew in children itself."""
_held: list[Any] = []
"""The locks that a fork has taken."""
_owners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_threads: dict[str, Callable[[], None]] = {}
"""Names that threads of libraries begin with, and who is told that a child lacks them."""
_missed: list[Callable[[], None]] = []
"""Those who are told in the child of the fork that runs."""


class _Unforked(threading.local):
    """Has a lock for each thread: within ``with UNFORKED.lock`` no other thread forks.

    It is for work of a library that has locks or threads of its own, which a child would find taken
    or gone. A fork waits for all such blocks, so they must wait for nothing but the library.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        with _LOCKS.counting:
            _LOCKS.all.add(self.lock)


class _Locks:
    """The locks of all living threads."""

    def __init__(self) -> None:
        self.counting = threading.RLock()
        """Held by the fork that takes them, and while one is added."""
        self.all: weakref.WeakSet[Any] = weakref.WeakSet()
        self.forking: set[Any] = set()

    """Threads that fork or wait for a fork, within a library or not."""


_LOCKS = _Locks()
UNFORKED = _Unforked()


def in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew`` with the owner in each child that inherits it, before the child goes on.

    ``renew`` replaces locks; it must not refer to the owner by itself, nor take a lock.
    """
    _owners[owner] = renew


def when_missed(thread: str, told: Callable[[], None]) -> None:
    """Call ``told`` in each child whose parent has threads with a name that begins so.

    Where the system does not say which threads there are, each child may lack them.
    """
    _threads[thread] = told


def renew_lock(owner: Locked) -> None:
    """Give an object a new lock: for :func:`in_child`."""
    owner._lock = threading.RLock()


def keep(thing: object) -> None:
    """Never free an object, not even when the process ends."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


class Scratch:
    """A temporary folder, removed with this object, but only by the process that made it."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="graphmem-")
        self.cleanup = weakref.finalize(self, _remove, self.name, os.getpid())
        """Removes the folder now."""


def _remove(name: str, pid: int) -> None:
    if pid == os.getpid():
        shutil.rmtree(name, ignore_errors=True)


def _let_finish() -> None:
    """Wait until other threads hold no lock that the child would need for a memory."""
    _LOCKS.forking.add(UNFORKED.lock)
    _LOCKS.counting.acquire()
    _held.append(_LOCKS.counting)
    for lock in list(_LOCKS.all):
        # A thread that forks too, from within a library, waits for this fork; do not wait for it.
        while lock not in _LOCKS.forking:
            if lock.acquire(timeout=0.05):
                _held.append(lock)
                break
    # Last, because a thread may begin an import meanwhile; no import waits for those locks.
    for name in _IMPORTED:
        if name in sys.modules:
            with contextlib.suppress(Exception):
                import_module(name)
    if _NAMING is not None:
        _NAMING.acquire()  # nobody else has it then, whatever a thread does for the first time
        _held.append(_NAMING)
    _missed[:] = [told for thread, told in _threads.items() if _runs(thread)]


def _runs(thread: str) -> bool:
    """Return whether a thread of this process may have a name that begins so."""
    try:
        running = list(Path("/proc/self/task").iterdir())
    except OSError:
        return True
    for each in running:
        with contextlib.suppress(OSError):  # it has ended
            if (each / "comm").read_bytes().startswith(thread.encode()):
                return True
    return False


def _go_on() -> None:
    _LOCKS.forking.discard(UNFORKED.lock)
    held = _held[::-1]
    _held.clear()
    for lock in held:
        lock.release()


def _renew_all() -> None:
    _LOCKS.forking.clear()
    _go_on()
    for owner, renew in list(_owners.items()):
        renew(owner)
    for told in _missed:
        told()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_let_finish, after_in_parent=_go_on, after_in_child=_renew_all)
