"""Questions that take long: each runs beside the page, reports its progress, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from graphmem.errors import GraphMemError, NotFoundError
from graphmem.memory import Memory
from graphmem.view.answers import Given, LongQuestion

_PATIENCE = 5
"""Seconds in which a job has to end when the page ends."""


class _StoppedError(Exception):
    """The job is not wanted any more."""


class Jobs:
    """Runs each kind of job once at a time, in a thread of its own."""

    def __init__(self, memory: Memory, kinds: Mapping[str, LongQuestion]) -> None:
        self._memory = memory
        self._kinds = kinds
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()

    def start(self, name: str, given: Given) -> dict[str, Any]:
        """Begin a job, unless it runs already; return its state."""
        with self._lock:
            if self.state(name)["state"] != "running":
                self._jobs[name] = _Job(partial(self._kinds[name], self._memory, given))
        return self.state(name)

    def state(self, name: str) -> dict[str, Any]:
        """Return the progress of a job, and its answer once it has ended.

        Raises:
            NotFoundError: there is no such job.
        """
        if name not in self._kinds:
            raise NotFoundError(f"{name[:100]!r} is none of {', '.join(self._kinds)}")
        return self._jobs[name].state if name in self._jobs else {"state": "idle"}

    def stop(self, name: str) -> dict[str, Any]:
        """Have a job end soon; return its state."""
        if name in self._jobs:
            self._jobs[name].unwanted.set()
        return self.state(name)

    def close(self) -> None:
        """Stop all jobs, and wait for them a while."""
        for job in self._jobs.values():
            job.unwanted.set()
        for job in self._jobs.values():
            job.join(_PATIENCE)


class _Job(threading.Thread):
    def __init__(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        super().__init__(daemon=True)
        self.state: dict[str, Any] = {"state": "running", "done": 0, "total": 0}
        self.unwanted = threading.Event()
        self._work = work
        self.start()

    def run(self) -> None:
        """Do the work."""
        end: dict[str, Any] = {
            "state": "failed",
            "message": "it failed; the terminal of the server says why",
        }
        try:
            end = {"state": "done", "answer": self._work(self._report)}
        except _StoppedError:
            end = {"state": "stopped"}
        except GraphMemError as error:
            end["message"] = str(error)
        finally:
            self.state = {**self.state, **end}

    def _report(self, done: int, total: int) -> None:
        self.state = {**self.state, "done": done, "total": total}
        if self.unwanted.is_set():
            raise _StoppedError
