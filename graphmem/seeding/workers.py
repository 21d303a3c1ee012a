"""Workers, which read logs and make rows of them, while one process writes these in their order.

The rows, and what is written of them, are the same as without workers: a batch does not depend on
who read it. What workers read ahead lies in files, so that memory stays bounded.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import shutil
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, cast

from graphmem.episodes.rows import Prepared
from graphmem.errors import GraphMemError, SeedingError, StorageError, ValidationError
from graphmem.forks import Scratch
from graphmem.seeding.formats import HEAD
from graphmem.seeding.parts import Item, Part, Read, Terms, format_of, read
from graphmem.seeding.sources import GZIP, Source

Workers = int | Executor
MOST = 1_000
RANGE = 8_000_000
"""Bytes of a large file that a worker reads at once, where each line is a record."""
TOGETHER = 1_000_000
"""A worker reads small files together until they have so many bytes."""
UNPACKED = 8
"""About how many times as large a packed file becomes."""
AHEAD = 2
"""For each worker, so much work is begun before its turn to be written comes."""
MANY = 64
"""Work that is begun where it is not known how many workers there are."""
ITEMS = 100
SIZE = 4_000_000
"""A worker hands over so many records at once, or such with so many characters."""

Job = Sequence[Part]


class _Failed:
    """What a log could not be read for."""

    def __init__(self, error: GraphMemError) -> None:
        self.text = str(error)


@contextmanager
def reading(workers: Workers, logs: Sequence[Source], terms: Terms) -> Iterator[Iterator[Item]]:
    """Yield what workers find in logs, in the order of the logs.

    ``workers`` is their number, for as many processes that end with the block, or an executor.

    Raises:
        ValidationError: it is neither.
        SeedingError: a log cannot be opened, its format is unknown, or a worker died.
        StorageError: there is no room for what was read.
    """
    if not isinstance(workers, Executor) and not (type(workers) is int and 1 <= workers <= MOST):
        raise ValidationError("workers", workers, f"must be from 1 to {MOST}, or an executor")
    with ExitStack() as stack:
        folder: str | None = None
        if isinstance(workers, Executor):
            executor: Executor = workers
            count = getattr(workers, "_max_workers", None)
            ahead = AHEAD * count if isinstance(count, int) else MANY
        else:
            from concurrent.futures import ProcessPoolExecutor
            from multiprocessing import get_context

            scratch = Scratch()
            folder = scratch.name
            executor = ProcessPoolExecutor(
                workers, get_context("spawn"), initializer=_begin, initargs=(folder,)
            )
            stack.callback(executor.shutdown, cancel_futures=True)
            stack.callback(scratch.cleanup)  # before: who finds it gone stops reading
            ahead = AHEAD * workers
        waiting: deque[tuple[Job, Future[bytes | str] | None]] = deque()
        stack.callback(lambda: [future.cancel() for _, future in waiting if future])
        yield _results(executor, _jobs(logs, terms), terms, folder, ahead, waiting)


def _results(
    executor: Executor,
    jobs: Iterator[Job],
    terms: Terms,
    folder: str | None,
    ahead: int,
    waiting: deque[tuple[Job, Future[bytes | str] | None]],
) -> Iterator[Item]:
    while True:
        while len(waiting) < ahead and (job := next(jobs, None)) is not None:
            future = None
            if job[0].source.is_regular and job[0].source.path != "-":
                with _told(job), _spared():
                    future = executor.submit(work, job, terms, folder)
            waiting.append((job, future))
        if not waiting:
            return
        job, future = waiting.popleft()
        if future is None:  # nobody else can read it
            yield from read(job[0], terms)
            continue
        with _told(job):
            found = future.result()
        with _opened(found) as file:
            yield from _unpacked(file)


@contextmanager
def _spared() -> Iterator[None]:
    """Have processes that start within hear no Ctrl-C: it is for the one that writes."""
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
    """Say which logs were read when a worker failed."""
    try:
        yield
    except GraphMemError:
        raise
    except Exception as error:
        name = job[0].source.name
        names = name if len(job) == 1 else f"{name} and {len(job) - 1} more"
        raise SeedingError(
            f"a worker failed while logs were read ({names}): {type(error).__name__}: {error}; "
            "what was learned before it stays, and seeding again goes on from there"
        ) from error


@contextmanager
def _opened(found: bytes | str) -> Iterator[BinaryIO]:
    if isinstance(found, bytes):
        yield io.BytesIO(found)
        return
    path = Path(found)
    with path.open("rb") as file:
        yield file
    path.unlink()


def _unpacked(file: BinaryIO) -> Iterator[Item]:
    while True:
        try:
            items = pickle.load(file)  # noqa: S301 - of our own workers
        except EOFError:
            return
        for item in items:
            if isinstance(item, _Failed):
                raise SeedingError(item.text)
            yield item


def _jobs(logs: Iterable[Source], terms: Terms) -> Iterator[Job]:
    """Yield what a worker reads at once: a file, small ones together, or a range of a large one."""
    small: list[Part] = []
    size = 0
    for source in logs:
        parts = list(_parts(source, terms))
        about = (source.size or 0) * (UNPACKED if source.path.endswith(".gz") else 1)
        alone = len(parts) > 1 or not source.is_regular or source.path == "-"
        if small and (alone or size + about > TOGETHER):
            yield small
            small, size = [], 0
        if alone:
            yield from ([part] for part in parts)
        else:
            small.append(parts[0])
            size += about
    if small:
        yield small


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
    places = [*range(0, size, RANGE)]
    for start, stop in zip(places, [*places[1:], None], strict=True):
        yield Part(source, format_.name, start, stop)


def work(job: Job, terms: Terms, folder: str | None) -> bytes | str:
    """Read parts of logs; return what they say, pickled, or the file in ``folder`` that has it.

    This is what a worker runs, in whatever process or thread.
    """
    if terms.outcomes is not None:  # which record has which is decided where they are written
        terms = replace(terms, outcomes=terms.outcomes.fresh())
    if folder is None:
        memory = io.BytesIO()
        _write(job, terms, memory)
        return memory.getvalue()
    number, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(number, "wb") as file:
            _write(job, terms, cast(BinaryIO, file), name)
    except OSError as error:
        raise StorageError(f"{name}: {error.strerror or error}") from error
    return name


def _write(job: Job, terms: Terms, file: BinaryIO, name: str | None = None) -> None:
    batch: list[Item | _Failed] = []
    size = 0
    try:
        for part in job:
            for item in read(part, terms):
                batch.append(item)
                if isinstance(item, Read):
                    size += item.size
                    if isinstance(item.record, Prepared):
                        item.record.pack()
                if len(batch) >= ITEMS or size >= SIZE:
                    pickle.dump(batch, file, pickle.HIGHEST_PROTOCOL)
                    batch, size = [], 0
                    if name and not Path(name).exists():  # nobody waits for it any more
                        return
    except GraphMemError as error:
        batch.append(_Failed(error))
    pickle.dump(batch, file, pickle.HIGHEST_PROTOCOL)


def _begin(folder: str) -> None:
    """Prepare a process: it ends with the one that writes, and gives way to it."""
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
