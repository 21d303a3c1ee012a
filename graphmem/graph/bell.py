"""Bells: a write wakes those who wait for it in this process."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator

from graphmem.forks import in_child

Wake = Callable[[], object]
"""Called in the thread that wrote, often without need; it must be quick."""


class Bell:
    """The bell of one namespace: it rings when a memory of this process wrote something there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes: tuple[Wake, ...] = ()
        in_child(self, _renew)

    def ring(self) -> None:
        """Wake all listeners."""
        for wake in self._wakes:
            with contextlib.suppress(RuntimeError):  # its event loop was closed
                wake()

    @contextlib.contextmanager
    def heard(self, wake: Wake) -> Iterator[None]:
        """Have ``wake`` called at each ring within the block."""
        with self._lock:
            self._wakes = (*self._wakes, wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakes = tuple(one for one in self._wakes if one is not wake)


def _renew(bell: Bell) -> None:
    """Forget the listeners of the parent process."""
    bell._lock = threading.Lock()
    bell._wakes = ()


_bells: weakref.WeakValueDictionary[tuple[str, str], Bell] = weakref.WeakValueDictionary()


def bell_of(url: str, namespace: str) -> Bell:
    """Return the one bell of a namespace of a store."""
    return _bells.setdefault((url, namespace), Bell())
