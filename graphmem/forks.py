"""Forked children: what they inherit stays the parent's, and its locks may be held for ever.

A child has only the thread that forked. A lock that another thread held is never released there,
and an engine that is freed there would end the lease of the parent, or wait for threads that are
gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Locked(Protocol):
    """An object with a lock."""

    _lock: threading.RLock


_IMPORTED = (
    "numpy",
    "tantivy",
    "scipy",
    "scipy.special",
    "scipy.stats",
    "onnxruntime",
    "tokenizers",
    "graphmem.search.embedding",
    "graphmem.store.embedded_search",
)
"""Modules that are imported when they are needed, by whatever thread; it takes a while."""
_NAMING = getattr(tempfile, "_once_lock", None)
"""Python's lock of temporary names, which it does not renew in children itself."""
MULTIPLYING = threading.Lock()
"""Held while arrays are multiplied."""
_owners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew`` with the owner in each child that inherits it, before the child goes on.

    ``renew`` replaces locks; it must not refer to the owner by itself, nor take a lock.
    """
    _owners[owner] = renew


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
    """Wait until other threads hold no lock of Python that the child would need for a memory."""
    for name in _IMPORTED:
        if name in sys.modules:
            with contextlib.suppress(Exception):
                import_module(name)
    MULTIPLYING.acquire()
    if _NAMING is not None:
        _NAMING.acquire()  # nobody else has it then, whatever a thread makes for the first time


def _go_on() -> None:
    if _NAMING is not None:
        _NAMING.release()
    MULTIPLYING.release()


def _renew_all() -> None:
    _go_on()
    for owner, renew in list(_owners.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_let_finish, after_in_parent=_go_on, after_in_child=_renew_all)
