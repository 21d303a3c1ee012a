"""Questions that take long: each runs beside the page, reports its progress, and can be stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
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
            job = self._jobs.get(name)
            if job is None or job.status != "running":
                ask = self._kinds[name]
                job = self._jobs[name] = _Job(lambda report: ask(self._memory, given, report))
        return job.state()

    def state(self, name: str) -> dict[str, Any]:
        """Return the progress of a job, and its answer once it has ended.

        Raises:
            NotFoundError: there is no such job.
        """
        if name not in self._kinds:
            raise NotFoundError(f"{name[:100]!r} is none of {', '.join(self._kinds)}")
        job = self._jobs.get(name)
        return {"state": "idle"} if job is None else job.state()

    def stop(self, name: str) -> dict[str, Any]:
        """Have a job end soon; return its state.

        Raises:
            NotFoundError: there is no such job.
        """
        if name in self._jobs:
            self._jobs[name].unwanted.set()
        return self.state(name)

    def close(self) -> None:
        """Stop all jobs, and wait for them a while."""
        for job in self._jobs.values():
            job.unwanted.set()
        for job in self._jobs.values():
            job.thread.join(_PATIENCE)


class _Job:
    def __init__(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        self.status = "running"
        self.unwanted = threading.Event()
        self._work = work
        self._progress = (0, 0)
        self._result: dict[str, Any] = {}
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def state(self) -> dict[str, Any]:
        done, total = self._progress
        return {"state": self.status, "done": done, "total": total, **self._result}

    def _run(self) -> None:
        status = "failed"
        result: dict[str, Any] = {"message": "it failed; the terminal of the server says why"}
        try:
            result = {"answer": self._work(self._report)}
            status = "done"
        except _StoppedError:
            result, status = {}, "stopped"
        except GraphMemError as error:
            result = {"message": str(error)}
        finally:
            self._result, self.status = result, status

    def _report(self, done: int, total: int) -> None:
        self._progress = done, total
        if self.unwanted.is_set():
            raise _StoppedError
