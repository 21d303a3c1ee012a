"""Queries of others, run by another process on a copy of the graph.

The engine's own limits do not hold everywhere: it looks at the clock neither within an expression
nor in a search for shortest paths, and a text that doubles itself takes what memory there is, which
ends the process. So such a query gets a process of its own, whose limits the system holds
(``query_child``). The process stays for the next query; it gets the graph anew where that has
changed since.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kglite

from graphmem.errors import QueryError, StoreError
from graphmem.forks import in_child
from graphmem.store import query_child
from graphmem.store.embedded_columns import remove_columns
from graphmem.store.port import Limits, Rows
from graphmem.store.query_child import LENGTH

_IDLE = query_child.IDLE / 2
"""Seconds after which a process without work is not trusted to be there."""
_KEPT = 2
"""Processes without work that are kept."""

_ENGINE = {"MIMALLOC_ARENA_RESERVE": "16MiB", "RUST_BACKTRACE": "0"}
"""The engine's allocator reserves a gigabyte at once otherwise, which the limit would not count."""

Key = tuple[int, int]
"""Which graph: a number for the session, and its version."""


class _Worker:
    """A process that runs one query at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", query_child.__file__]
        try:
            self.process = subprocess.Popen(
                [*command, str(Path(kglite.__file__).parent.parent)],
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, **_ENGINE},
            )
        except OSError as error:
            raise StoreError(f"cannot start a process for the query: {error}") from error
        self.graph: Key | None = None
        self.used = time.monotonic()

    def run(self, text: str, params: dict[str, Any], limits: Limits) -> tuple[Any, ...]:
        """Return what it answers; it is dead afterwards if it did not."""
        message = b"Q" + pickle.dumps((text, params, limits.seconds, limits.rows, limits.megabytes))
        began = time.monotonic()
        timer = threading.Timer(limits.seconds + 2 * query_child.GRACE, self.process.kill)
        timer.daemon = True
        timer.start()
        try:
            self.send(message)
            answer = self._received()
        finally:
            timer.cancel()
        self.used = time.monotonic()
        if answer is None:
            self.process.kill()
            self.process.wait()
            late = self.used - began >= limits.seconds
            return "error", "CypherTimeoutError" if late else "MemoryError", ""
        if answer.startswith(b"S"):
            self.process.kill()
            self.process.wait()
        reply: tuple[Any, ...] = pickle.loads(answer[1:])  # noqa: S301 - of a process of ours
        return reply

    def send(self, message: bytes) -> None:
        assert self.process.stdin  # noqa: S101 - for the type
        view = memoryview(LENGTH.pack(len(message)) + message)
        while view:
            view = view[self.process.stdin.write(view) or 0 :]

    def _received(self) -> bytes | None:
        head = self._exactly(LENGTH.size)
        return None if head is None else self._exactly(LENGTH.unpack(head)[0])

    def _exactly(self, size: int) -> bytes | None:
        assert self.process.stdout  # noqa: S101 - for the type
        parts = bytearray()
        while len(parts) < size:
            part = self.process.stdout.read(size - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)

    def end(self) -> None:
        self.process.kill()
        self.forget()
        self.process.wait()
        remove_columns(self.process.pid)

    def forget(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


class _Pool:
    """The processes of this one, for all of its memories."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()

    @contextlib.contextmanager
    def worker(self, graph: Key) -> Iterator[_Worker]:
        """Lend a process, at best one that has the graph."""
        worker = self._take(graph)
        try:
            yield worker
        except BaseException:
            self._end(worker)
            raise
        with self._lock:
            kept = worker.process.poll() is None and len(self._idle) < _KEPT
            if kept:
                self._idle.append(worker)
        if not kept:
            self._end(worker)

    def _take(self, graph: Key) -> _Worker:
        with self._lock:
            recent = time.monotonic() - _IDLE
            old = [worker for worker in self._idle if worker.used < recent]
            self._idle = [worker for worker in self._idle if worker.used >= recent]
            self._idle.sort(key=lambda worker: worker.graph == graph)
            found = self._idle.pop() if self._idle else None
        for worker in old:
            self._end(worker)
        if found is None:
            found = _Worker()
            with self._lock:
                self._all.add(found)
        return found

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.end()

    def drop(self, session: int) -> None:
        """End the processes without work that have a graph of this session."""
        with self._lock:
            old = [worker for worker in self._idle if worker.graph and worker.graph[0] == session]
            self._idle = [worker for worker in self._idle if worker not in old]
        for worker in old:
            self._end(worker)

    def close(self) -> None:
        with self._lock:
            workers, self._all, self._idle = self._all, set(), []
        for worker in workers:
            worker.end()

    def forget(self) -> None:
        """In a forked child: leave the processes to the parent."""
        workers = self._all
        self.__init__()  # type: ignore[misc]  # a lock may be held by a thread that is not here
        for worker in workers:
            worker.process.returncode = 0
            worker.forget()


_pool = _Pool()
atexit.register(_pool.close)
in_child(_pool, _Pool.forget)

_numbers = itertools.count()


class Asker:
    """Asks for one store, and knows which of its sessions it asked last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: kglite.Session | None = None
        self._number = next(_numbers)

    def ask(
        self, session: kglite.Session, text: str, params: dict[str, Any], limits: Limits
    ) -> Rows:
        """Run a query on what the session now has.

        Raises:
            QueryError: it reached a limit.
            kglite.KgError: the engine refused it.
        """
        graph = self._graph(session), session.version()
        for attempt in (1, 2):
            try:
                with _pool.worker(graph) as worker:
                    if worker.graph != graph:
                        worker.graph = None
                        worker.send(b"G" + session.cursor().to_bytes())
                        worker.graph = graph
                    kind, *rest = worker.run(text, params, limits)
                break
            except OSError as error:  # it was ended from outside, or was about to end
                if attempt == 2:
                    raise StoreError(f"the process for the query ended: {error}") from error
        if kind == "rows":
            return Rows(rest[0], truncated=rest[1])
        name, message = rest
        if name == "CypherTimeoutError":
            raise limits.too_long()
        if name == "MemoryError":
            raise limits.too_large()
        known = getattr(kglite, name, None)
        if isinstance(known, type) and issubclass(known, Exception):
            raise known(message)
        raise QueryError(f"{name}: {message}")

    def _graph(self, session: kglite.Session) -> int:
        with self._lock:
            if session is not self._session:
                _pool.drop(self._number)
                self._session, self._number = session, next(_numbers)
            return self._number

    def forget(self, session: kglite.Session | None = None) -> None:
        """Let go of the session that was asked last, or of this one, and end what has a copy."""
        with self._lock:
            if session is None or session is self._session:
                self._session = None
                _pool.drop(self._number)
