"""What takes long: it runs beside the page, tells how far it is, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from graphmem.errors import GraphMemError, NotFoundError
from graphmem.memory import Memory
from graphmem.view.answers import Given, Work

_PATIENCE = 5
"""Seconds in which work has to end when the page ends."""


class _StoppedError(Exception):
    """The work is not wanted any more."""


class Works:
    """Runs each kind of work once at a time, in a thread of its own."""

    def __init__(self, memory: Memory, kinds: Mapping[str, Work]) -> None:
        self._memory = memory
        self._kinds = kinds
        self._running: dict[str, _Run] = {}
        self._lock = threading.Lock()

    def start(self, name: str, given: Given) -> dict[str, Any]:
        """Begin the work, unless it runs already; return how far it is."""
        with self._lock:
            run = self._running.get(name)
            if run is None or run.state != "running":
                run = _Run(lambda tell: self._kinds[name](self._memory, given, tell))
                self._running[name] = run
        return run.told()

    def told(self, name: str) -> dict[str, Any]:
        """Return how far the work is, and its answer once it has ended.

        Raises:
            NotFoundError: there is no such work.
        """
        run = self._run(name)
        return {"state": "idle"} if run is None else run.told()

    def stop(self, name: str) -> dict[str, Any]:
        """Have the work end soon.

        Raises:
            NotFoundError: there is no such work.
        """
        if run := self._run(name):
            run.unwanted.set()
        return self.told(name)

    def _run(self, name: str) -> _Run | None:
        if name not in self._kinds:
            raise NotFoundError(f"{name[:100]!r} is none of {', '.join(self._kinds)}")
        return self._running.get(name)

    def close(self) -> None:
        """Stop all, and wait for them a while."""
        for run in self._running.values():
            run.unwanted.set()
        for run in self._running.values():
            run.thread.join(_PATIENCE)


class _Run:
    """Work that was begun."""

    def __init__(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        self.state = "running"
        self.unwanted = threading.Event()
        self._progress = (0, 0)
        self._ended: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._work, args=(work,), daemon=True)
        self.thread.start()

    def told(self) -> dict[str, Any]:
        """Return how far it is."""
        done, total = self._progress
        return {"state": self.state, "done": done, "total": total, **self._ended}

    def _work(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        try:
            self._ended = {"answer": work(self._tell)}
            self.state = "done"
        except _StoppedError:
            self.state = "stopped"
        except GraphMemError as error:
            self._ended = {"message": str(error)}
            self.state = "failed"
        finally:
            if self.state == "running":
                self._ended = {"message": "it failed; the terminal of the server says why"}
                self.state = "failed"

    def _tell(self, done: int, total: int) -> None:
        self._progress = done, total
        if self.unwanted.is_set():
            raise _StoppedError
