"""A thread that ticks: the dataflow and the maintenance of levels at intervals."""

from __future__ import annotations

import logging
import threading
import weakref

from graphmem.forks import in_child
from graphmem.graph.graph import Graph
from graphmem.levels.base import Search
from graphmem.levels.becoming import Outlets
from graphmem.levels.flow import Flow
from graphmem.models.fields import Input
from graphmem.models.levels import Seconds

_log = logging.getLogger(__name__)


class _Every(Input):
    every: Seconds


class Ticking(Flow):
    """Runs a thread that ticks; nothing depends on it."""

    def __init__(self, graph: Graph, search: Search, outlets: Outlets) -> None:
        super().__init__(graph, search, outlets)
        self._starting = threading.RLock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        in_child(self, _renew)

    def start(self, every: float = 300.0) -> None:
        """Start a thread of this process that ticks, until ``stop`` or the end of the memory.

        A failure is logged, and the next tick tries again. A forked child has no such thread.

        Args:
            every: seconds between ticks; for a thread that runs already, from now on.

        Raises:
            ValidationError: it is no number of seconds.
        """
        pause = _Every(every=every).every
        self.stop()
        with self._starting:
            stopping = self._stopping = threading.Event()
            self._thread = threading.Thread(
                target=_run,
                args=(weakref.ref(self), stopping, pause),
                name="graphmem-tick",
                daemon=True,
            )
            self._thread.start()

    def stop(self) -> None:
        """End the thread that ticks, if there is one; a tick that has begun finishes."""
        with self._starting:
            thread, self._thread = self._thread, None
            self._stopping.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _renew(ticking: Ticking) -> None:
    """Give it no thread."""
    ticking._starting = threading.RLock()
    ticking._stopping = threading.Event()
    ticking._thread = None


def _run(ticking: weakref.ref[Ticking], stopping: threading.Event, pause: float) -> None:
    while not stopping.wait(min(pause, threading.TIMEOUT_MAX)):
        alive = ticking()
        if alive is None:
            return
        try:
            alive.tick()
        except Exception as error:  # noqa: BLE001 - the thread goes on, whatever failed
            trace = _log.isEnabledFor(logging.DEBUG)  # it may show contents
            _log.error("the tick failed: %s", type(error).__name__, exc_info=trace)
        del alive
