"""Forked children: what they inherit stays the parent's.

A child may not use a memory of its parent (ForkedError); it opens its own. What it frees would
write the files of the parent, or end its lease, so it frees nothing.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


_owners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def in_child(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew`` with the owner in each child that inherits it, before the child goes on.

    ``renew`` must not refer to the owner by itself, nor take a lock.
    """
    _owners[owner] = renew


def keep(thing: object) -> None:
    """Never free an object, not even when the process ends."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _renew_all() -> None:
    for owner, renew in list(_owners.items()):
        renew(owner)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_renew_all)
