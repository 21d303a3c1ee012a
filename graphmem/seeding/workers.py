"""Workers read logs and make rows of them. One process writes the rows, in the order of the logs.

The graph is the same as without workers, because a batch does not depend on who read it. A worker
puts its rows into a file in a temporary folder. The writer follows that file while it grows, so
memory stays bounded and the writer need not wait until a log is read to its end.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import shutil
import signal
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import BinaryIO, NamedTuple

from graphmem.episodes.rows import Prepared
from graphmem.errors import GraphMemError, SeedingError, StorageError, ValidationError
from graphmem.forks import Scratch
from graphmem.seeding.formats import GZIP, HEAD
from graphmem.seeding.parts import Item, Part, Read, Terms, format_of, read
from graphmem.seeding.sources import Source

Workers = int | Executor
MOST = 1_000
RANGE = 8_000_000
"""A worker reads so many bytes of a large file at once, if each line of it is a record."""
FIRST = 2_000_000
"""The first range of a large file is only so long: the writer reads it while the workers start."""
TOGETHER = 1_000_000
"""A worker reads small files together until they have so many bytes."""
UNPACKED = 8
"""A packed file becomes about so many times as large."""
AHEAD = 2
"""Each worker has so many jobs before their turn to be written comes."""
MANY = 64
"""So many jobs are given to an executor that does not say how many workers it has."""
ITEMS = 100
SIZE = 4_000_000
"""A worker hands over so many records at once, or fewer if they have so many characters."""
LOOK = 0.005
"""Seconds between two looks whether a worker has handed over more."""
_LENGTH = struct.Struct("<Q")


class Job(NamedTuple):
    """Parts of logs that one worker reads."""

    parts: Sequence[Part]
    size: int
    """About how many bytes they have."""

    @property
    def shared(self) -> bool:
        """Whether a worker can read it: standard input and pipes belong to this process."""
        source = self.parts[0].source
        return source.is_regular and source.path != "-"


class _Failed:
    """The error that ended the reading of a job."""

    def __init__(self, error: GraphMemError) -> None:
        self.text = str(error)


@contextmanager
def reading(workers: Workers, logs: Sequence[Source], terms: Terms) -> Iterator[Iterator[Item]]:
    """Yield what workers find in logs, in the order of the logs.

    ``workers`` is a number of processes, which end with the block, or an executor. This process
    reads the first part itself if that is small, because the workers need a moment to start.

    Raises:
        ValidationError: ``workers`` is neither.
        SeedingError: a log cannot be opened, its format is unknown, or a worker died.
        StorageError: there is no room for what was read.
    """
    if not isinstance(workers, Executor) and not (type(workers) is int and 1 <= workers <= MOST):
        raise ValidationError("workers", workers, f"must be from 1 to {MOST}, or an executor")
    with ExitStack() as stack:
        if isinstance(workers, Executor):
            given = workers, None
            known = getattr(workers, "_max_workers", None)
            ahead = AHEAD * known if isinstance(known, int) else MANY
            pool = _Pool(lambda: given, terms, ahead)
        else:
            pool = _Pool(cache(partial(_processes, workers, stack)), terms, AHEAD * workers)
        stack.callback(pool.cancel)
        yield pool.results(_jobs(logs, terms))


def _processes(number: int, stack: ExitStack) -> tuple[Executor, Scratch]:
    """Return processes that end with a stack, and the folder that they write to.

    They are the ones who remove it if this process is killed: without them there is no folder.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    scratch = Scratch()
    executor = ProcessPoolExecutor(
        number, get_context("spawn"), initializer=_begin, initargs=(scratch.name,)
    )
    stack.callback(executor.shutdown, cancel_futures=True)
    stack.callback(scratch.cleanup)  # before: a worker that finds it gone stops reading
    return executor, scratch


class _Pool:
    """Gives jobs to workers, and takes what they read in the order of the jobs."""

    def __init__(
        self, workers: Callable[[], tuple[Executor, Scratch | None]], terms: Terms, ahead: int
    ) -> None:
        self._workers = workers
        self._terms = terms
        self._ahead = ahead
        self._names = count()
        self._waiting: deque[tuple[Job, str | None, Future[bytes | None] | None]] = deque()

    def results(self, jobs: Iterator[Job]) -> Iterator[Item]:
        """Yield what jobs find; begin some of them before their turn comes."""
        first = True
        while True:
            while len(self._waiting) < self._ahead and (job := next(jobs, None)) is not None:
                here = not job.shared or (first and job.size <= FIRST)
                self._waiting.append((job, None, None) if here else self._given(job))
                first = False
            if not self._waiting:
                return
            job, path, future = self._waiting.popleft()
            if future is None:
                for part in job.parts:
                    yield from read(part, self._terms)
            elif path is None:
                with _told(job):
                    found = future.result() or b""
                yield from _unpacked(io.BytesIO(found), job, future)
            else:
                yield from _followed(Path(path), job, future)

    def cancel(self) -> None:
        """Take back the jobs that no worker has begun."""
        for _, _, future in self._waiting:
            if future:
                future.cancel()

    def _given(self, job: Job) -> tuple[Job, str | None, Future[bytes | None]]:
        executor, scratch = self._workers()
        path = str(Path(scratch.name, str(next(self._names)))) if scratch else None
        with _told(job), _spared():
            return job, path, executor.submit(work, job, self._terms, path)


@contextmanager
def _spared() -> Iterator[None]:
    """Start processes that hear no Ctrl-C: it is for the writer."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _told(job: Job) -> Iterator[None]:
    """Name the logs of a job if its worker fails."""
    try:
        yield
    except GraphMemError:
        raise
    except Exception as error:
        name, more = job.parts[0].source.name, len(job.parts) - 1
        names = f"{name} and {more} more" if more else name
        raise SeedingError(
            f"a worker failed while logs were read ({names}): {type(error).__name__}: {error}; "
            "what was learned before it stays, and seeding again goes on from there"
        ) from error


def _followed(path: Path, job: Job, future: Future[bytes | None]) -> Iterator[Item]:
    """Yield what a worker writes to a file, while it writes; then remove the file."""
    while not (path.exists() or future.done()):
        wait([future], LOOK)
    with _told(job):
        if not path.exists():
            future.result()
        file = path.open("rb", buffering=0)
    with file:
        yield from _unpacked(file, job, future)
    path.unlink()


def _unpacked(
    file: BinaryIO | io.RawIOBase, job: Job, future: Future[bytes | None]
) -> Iterator[Item]:
    """Yield the items of a file until the job is done and all was read.

    Raises:
        SeedingError: the worker died, or could not read a log.
    """
    held = bytearray()
    while True:
        done = future.done()
        more = file.read(1_000_000)
        if more:
            held += more
        elif done:
            with _told(job):
                future.result()
            return
        else:
            wait([future], LOOK)
        at = 0
        while len(held) - at >= _LENGTH.size:
            end = at + _LENGTH.size + _LENGTH.unpack_from(held, at)[0]
            if len(held) < end:
                break
            items = pickle.loads(memoryview(held)[at + _LENGTH.size : end])  # noqa: S301 - of our own workers
            at = end
            for item in items:
                if isinstance(item, _Failed):
                    raise SeedingError(item.text)
                yield item
        del held[:at]


def _jobs(logs: Iterable[Source], terms: Terms) -> Iterator[Job]:
    """Yield jobs: a file, several small files together, or a range of a large one."""
    small: list[Part] = []
    size = 0
    for source in logs:
        parts = list(_parts(source, terms))
        about = (source.size or 0) * (UNPACKED if source.path.endswith(".gz") else 1)
        shared = Job(parts, about).shared
        alone = len(parts) > 1 or not shared
        if small and (alone or size + about > TOGETHER):
            yield Job(small, size)
            small, size = [], 0
        if alone:
            yield from (Job([part], (part.stop or about) - part.start) for part in parts)
        else:
            small.append(parts[0])
            size += about
    if small:
        yield Job(small, size)


def _parts(source: Source, terms: Terms) -> Iterator[Part]:
    size = source.size or 0
    whole = terms.limit is not None or not RANGE < size <= terms.limits.file
    format_ = None
    if not whole and source.is_regular and source.path != "-":
        with contextlib.suppress(GraphMemError, OSError):  # who reads it tells
            with Path(source.path).open("rb") as file:
                head = file.read(HEAD)
            if not head.startswith(GZIP):
                format_ = format_of(source, head, terms)
    if format_ is None or not format_.lines:
        yield Part(source)
        return
    places = [0, *range(min(FIRST, RANGE), size, RANGE)]
    for start, stop in zip(places, [*places[1:], None], strict=True):
        yield Part(source, format_.name, start, stop)


def work(job: Job, terms: Terms, path: str | None) -> bytes | None:
    """Read a job in a worker. Write the items to the file ``path``, or return them if it is None.

    Each hundred of them is the length of a pickle, and the pickle.
    """
    if terms.outcomes is not None:  # the writer decides which record has which outcome
        terms = replace(terms, outcomes=terms.outcomes.fresh())
    if path is None:
        memory = io.BytesIO()
        _write(job, terms, memory)
        return memory.getvalue()
    try:
        with Path(path).open("xb", buffering=0) as file:
            _write(job, terms, file, path)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error
    return None


def _write(job: Job, terms: Terms, file: BinaryIO | io.RawIOBase, path: str | None = None) -> None:
    batch: list[Item | _Failed] = []
    size = 0
    try:
        for part in job.parts:
            for item in read(part, terms):
                batch.append(item)
                if isinstance(item, Read):
                    size += item.size
                    if isinstance(item.record, Prepared):
                        item.record.pack()
                if len(batch) >= ITEMS or size >= SIZE:
                    _hand_over(batch, file)
                    batch, size = [], 0
                    if path and not Path(path).exists():  # nobody waits for it any more
                        return
    except GraphMemError as error:
        batch.append(_Failed(error))
    _hand_over(batch, file)


def _hand_over(batch: list[Item | _Failed], file: BinaryIO | io.RawIOBase) -> None:
    data = pickle.dumps(batch, pickle.HIGHEST_PROTOCOL)
    rest = memoryview(_LENGTH.pack(len(data)) + data)
    while rest:
        rest = rest[file.write(rest) or 0 :]


def _begin(folder: str) -> None:
    """Prepare a worker process: it ends when the writer ends, and gives way to it."""
    gc.set_threshold(100_000)  # most of what it makes stays until it is handed over
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it is not blocked
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(5)
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()


def _end_with_parent(folder: str) -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)
