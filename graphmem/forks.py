"""Forked children: what they inherit stays the parent's.

A child may not use a memory of its parent (ForkedError); it opens its own. What it frees would
write the files of the parent, or end its lease, so it frees nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

_ENGINE_THREADS = b"kglite-query"
"""How the names of the threads begin that the embedded engine starts for long statements."""


class Locked(Protocol):
    """An object with a lock."""

    _lock: threading.RLock


_owners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
_threads = {"lacking": False}


def in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew`` with the owner in each child that inherits it, before the child goes on.

    ``renew`` must not refer to the owner by itself, nor take a lock.
    """
    _owners[owner] = renew


def renew_lock(owner: Locked) -> None:
    """Give an object a new lock: for :func:`in_child`."""
    owner._lock = threading.RLock()


def keep(thing: object) -> None:
    """Never free an object, not even when the process ends."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def lacks_threads() -> bool:
    """Return whether this process was forked from one that had threads of the embedded engine."""
    return _threads["lacking"]


def _look_for_threads() -> None:
    names = []
    with contextlib.suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has ended
                names.append((task / "comm").read_bytes())
    if any(name.startswith(_ENGINE_THREADS) for name in names):
        _threads["inherited"] = True


def _renew_all() -> None:
    _threads["lacking"] = _threads["lacking"] or _threads.pop("inherited", False)
    for owner, renew in list(_owners.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(before=_look_for_threads, after_in_child=_renew_all)
