"""The same memory for asyncio: each call runs in a worker thread."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Self, TypeVar

from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.episodes.attempts import AsyncAttempt
from graphmem.errors import ForkedError, StoreError
from graphmem.facade import P, R, T, delegate, like
from graphmem.lessons import Lessons
from graphmem.levels import Levels
from graphmem.levels.producers import Producers
from graphmem.memory import Memory
from graphmem.models.levels import TickReport
from graphmem.people import LearningScopes, People
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.skills import Skills
from graphmem.store.port import CLOSED, check_wanted, given_up
from graphmem.upkeep import Upkeep

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

T_co = TypeVar("T_co", covariant=True)

THREADS = 8  # most calls of one memory that read at the same time, and most that write


class Threads:
    """The worker threads of one memory; see :class:`AsyncMemory`."""

    def __init__(self) -> None:
        self._reading = ThreadPoolExecutor(THREADS, "graphmem-read")
        self._writing = ThreadPoolExecutor(THREADS, "graphmem-write")
        self._closed = False
        self._pid = os.getpid()

    async def run(self, call: Callable[[], R], *, writes: bool = False) -> R:
        """Return what a call returns in a thread; if cancelled, it stops waiting for the lease."""
        cancelled, context = Event(), copy_context()
        context.run(given_up.set, cancelled)
        threads = self._writing if writes else self._reading
        try:
            return await self._start(threads, lambda: context.run(call))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def finish(self, call: Callable[[], R]) -> R:
        """Return what ``call``, which writes, returns in a thread; it ends even if cancelled."""
        future = self._start(self._writing, functools.partial(copy_context().run, call))
        cancelled: asyncio.CancelledError | None = None
        while not future.done():
            try:
                await asyncio.wait([future])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled from future.exception()
        return future.result()

    def _start(self, threads: ThreadPoolExecutor, call: Callable[[], R]) -> asyncio.Future[R]:
        if self._pid != os.getpid():
            raise ForkedError(
                f"the memory was opened in process {self._pid}, this is its child {os.getpid()}; "
                "open it in the child with AsyncMemory.open"
            )
        if self._closed:
            raise StoreError(CLOSED)
        return asyncio.wrap_future(threads.submit(call))

    def close(self) -> None:
        """Start no more calls. Threads end when their calls are done."""
        self._closed = True
        self._reading.shutdown(wait=False)
        self._writing.shutdown(wait=False)


class _Awaited(Generic[T_co]):
    def __init__(self, awaited: T_co, threads: Threads) -> None:
        self._awaited = awaited
        self.threads = threads


def _in_thread(
    method: Callable[Concatenate[T, P], R], *, writes: bool = False
) -> Callable[Concatenate[_Awaited[T], P], Coroutine[Any, Any, R]]:
    """Return an async method that runs the method of the object in a worker thread."""

    @functools.wraps(method)
    async def call(self: _Awaited[T], *args: P.args, **kwargs: P.kwargs) -> R:
        bound = getattr(self._awaited, method.__name__)
        return await self.threads.run(lambda: bound(*args, **kwargs), writes=writes)

    call.writes = writes  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


class AsyncLessons(_Awaited[Lessons]):
    consolidation_due = _in_thread(Lessons.consolidation_due)
    consolidate = _in_thread(Lessons.consolidate, writes=True)
    merge = _in_thread(Lessons.merge, writes=True)
    unmerge = _in_thread(Lessons.unmerge, writes=True)
    heuristics = _in_thread(Lessons.heuristics)
    anti_patterns = _in_thread(Lessons.anti_patterns)
    rules = _in_thread(Lessons.rules)
    mistakes = _in_thread(Lessons.mistakes)
    summary = _in_thread(Lessons.summary)


class AsyncPolicies(_Awaited[Policies]):
    update = _in_thread(Policies.update, writes=True)
    update_many = _in_thread(Policies.update_many, writes=True)
    set_q = _in_thread(Policies.set_q, writes=True)
    signal = _in_thread(Policies.signal, writes=True)
    get = _in_thread(Policies.get)
    best = _in_thread(Policies.best)
    list = _in_thread(Policies.list)
    seen = _in_thread(Policies.seen)
    history = _in_thread(Policies.history)
    link = _in_thread(Policies.link, writes=True)
    strengthen = _in_thread(Policies.strengthen, writes=True)
    weaken = _in_thread(Policies.weaken, writes=True)
    unlink = _in_thread(Policies.unlink, writes=True)
    linked = _in_thread(Policies.linked)
    propagate = _in_thread(Policies.propagate, writes=True)
    learn_episodes = _in_thread(Policies.learn_episodes, writes=True)
    crystallize = _in_thread(Policies.crystallize, writes=True)


class AsyncLevels(_Awaited[Levels]):
    put = _in_thread(Levels.put, writes=True)
    default = _in_thread(Levels.default, writes=True)
    names = _in_thread(Levels.names)
    info = _in_thread(Levels.info)
    close = _in_thread(Levels.close, writes=True)
    add = _in_thread(Levels.add, writes=True)
    pull = _in_thread(Levels.pull, writes=True)
    unpull = _in_thread(Levels.unpull, writes=True)
    maintain = _in_thread(Levels.maintain, writes=True)
    remove = _in_thread(Levels.remove, writes=True)
    prolong = _in_thread(Levels.prolong, writes=True)
    start = _in_thread(Levels.start)
    stop = _in_thread(Levels.stop, writes=True)
    entries = _in_thread(Levels.entries)
    recall = _in_thread(Levels.recall)
    map = _in_thread(Levels.map)
    statistics = _in_thread(Levels.statistics)
    put_lens = _in_thread(Levels.put_lens, writes=True)
    lenses = _in_thread(Levels.lenses)
    remove_lens = _in_thread(Levels.remove_lens, writes=True)

    @like(Levels.tick)
    async def tick(self, agent: str | None = None) -> TickReport:
        loop = asyncio.get_running_loop()

        def wait(made: Coroutine[Any, Any, list[Any]]) -> list[Any]:
            return asyncio.run_coroutine_threadsafe(made, loop).result()

        return await self.threads.run(lambda: self._awaited._tick(agent, wait), writes=True)

    tick.writes = True  # type: ignore[attr-defined]


class AsyncPeople(_Awaited[People]):
    prefer = _in_thread(People.prefer, writes=True)
    preferences = _in_thread(People.preferences)
    know = _in_thread(People.know, writes=True)
    knowledge = _in_thread(People.knowledge)


class AsyncScopes(_Awaited[LearningScopes]):
    set = _in_thread(LearningScopes.set, writes=True)
    list = _in_thread(LearningScopes.list)
    get = _in_thread(LearningScopes.get)
    remove = _in_thread(LearningScopes.remove, writes=True)


class AsyncEvents(_Awaited[Events]):
    listen = delegate("_awaited", Events.listen)
    crystallize = _in_thread(Events.crystallize, writes=True)
    stop = _in_thread(Events.stop, writes=True)
    tail = _in_thread(Events.tail)
    positions = _in_thread(Events.positions)
    pending = _in_thread(Events.pending)


class AsyncPredictions(_Awaited[Predictions]):
    expect = _in_thread(Predictions.expect, writes=True)
    resolve = _in_thread(Predictions.resolve, writes=True)
    feedback = _in_thread(Predictions.feedback, writes=True)
    expire = _in_thread(Predictions.expire, writes=True)
    get = _in_thread(Predictions.get)
    list = _in_thread(Predictions.list)
    reliability = _in_thread(Predictions.reliability)


class AsyncCycles(_Awaited[Cycles]):
    examine = _in_thread(Cycles.examine, writes=True)
    list = _in_thread(Cycles.list)


class AsyncUpkeep(_Awaited[Upkeep]):
    initialize = _in_thread(Upkeep.initialize, writes=True)
    rebuild = _in_thread(Upkeep.rebuild, writes=True)
    erase = _in_thread(Upkeep.erase, writes=True)
    forget = _in_thread(Upkeep.forget, writes=True)
    relink = _in_thread(Upkeep.relink, writes=True)
    pending = _in_thread(Upkeep.pending)
    embedded_with = _in_thread(Upkeep.embedded_with)
    export = _in_thread(Upkeep.export)
    import_ = _in_thread(Upkeep.import_, writes=True)
    flush = _in_thread(Upkeep.flush, writes=True)
    backup = _in_thread(Upkeep.backup)
    restore = _in_thread(Upkeep.restore, writes=True)
    accept_loss = _in_thread(Upkeep.accept_loss, writes=True)


class AsyncSkills(_Awaited[Skills]):
    export = _in_thread(Skills.export)
    import_ = _in_thread(Skills.import_, writes=True)


class AsyncMemory(_Awaited[Memory]):
    """The same methods as :class:`Memory`, awaited; each call runs in a worker thread.

    ``async with await AsyncMemory.open(...) as memory:`` closes it at the end.

    A memory has at most eight threads for calls that read, and eight for calls that write, so that
    writers that wait for another process keep no reader waiting. A call runs in a copy of the
    caller's context. A call that is cancelled before it began does nothing, and stops waiting for
    another process. Once it writes, it finishes.
    """

    def __init__(self, memory: Memory) -> None:
        if not isinstance(memory, Memory):
            name = type(self).__name__
            raise TypeError(f'{name} is opened by await {name}.open("path/to/folder")')
        threads = Threads()
        super().__init__(memory, threads)
        self.memory = memory
        self.lessons = AsyncLessons(memory.lessons, threads)
        self.policies = AsyncPolicies(memory.policies, threads)
        self.levels = AsyncLevels(memory.levels, threads)
        self._producers = Producers(memory.levels, threads)
        self.people = AsyncPeople(memory.people, threads)
        self.scopes = AsyncScopes(memory.scopes, threads)
        self.events = AsyncEvents(memory.events, threads)
        self.predictions = AsyncPredictions(memory.predictions, threads)
        self.cycles = AsyncCycles(memory.cycles, threads)
        self.upkeep = AsyncUpkeep(memory.upkeep, threads)
        self.skills = AsyncSkills(memory.skills, threads)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "memory":  # it is not open
                raise AttributeError(name)
            getattr(self.memory, name)  # says where it is
            raise AttributeError(f"{type(self).__name__} has no {name!r}; its `memory` has")

    def __repr__(self) -> str:
        memory = self.memory
        return f"<{type(self).__name__} of namespace {memory.namespace!r} at {memory.store.url!r}>"

    @classmethod
    async def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
        create: bool = True,
    ) -> Self:
        """Open a memory, as :meth:`Memory.open` does."""

        def opened() -> Memory:
            given: Any = {"namespace": namespace, "settings": settings, "embedder": embedder}
            memory = Memory.open(url, **given, create=create)
            try:
                check_wanted()
            except StoreError:
                memory.close()
                raise
            return memory

        threads = Threads()
        try:
            return cls(await threads.run(opened))
        finally:
            threads.close()

    async def close(self) -> None:
        """Close the engine. Everything learned is stored."""
        # In a thread of its own: all others may be waiting, and closing ends that.
        closing = ThreadPoolExecutor(1, "graphmem-close").submit(self.memory.close)
        try:
            await asyncio.wrap_future(closing)
        finally:
            self.threads.close()

    @like(Memory.attempt)
    def attempt(self, *args: Any, **kwargs: Any) -> AsyncAttempt:
        return AsyncAttempt.of(self.memory.attempt(*args, **kwargs), self.threads)

    @like(Memory.current_attempt)
    def current_attempt(self) -> AsyncAttempt:
        return AsyncAttempt.of(self.memory.current_attempt(), self.threads)

    learn = _in_thread(Memory.learn, writes=True)
    remember = delegate("_producers", Producers.remember)
    watch = delegate("_producers", Producers.watch)
    learn_many = _in_thread(Memory.learn_many, writes=True)
    settle = _in_thread(Memory.settle, writes=True)
    seed = _in_thread(Memory.seed, writes=True)
    record_episode = _in_thread(Memory.record_episode, writes=True)
    context = _in_thread(Memory.context)
    recall = _in_thread(Memory.recall)
    choose = _in_thread(Memory.choose)
    changes = _in_thread(Memory.changes)
    predict = _in_thread(Memory.predict)
    explain = _in_thread(Memory.explain)
    strategies = _in_thread(Memory.strategies)
    episodes = _in_thread(Memory.episodes)
    tasks = _in_thread(Memory.tasks)
    show = _in_thread(Memory.show)
    similar = _in_thread(Memory.similar)
    to_networkx = _in_thread(Memory.to_networkx)
    calibrate = _in_thread(Memory.calibrate, writes=True)
    evaluate = _in_thread(Memory.evaluate)
    query = _in_thread(Memory.query)
    stats = _in_thread(Memory.stats)
    verify = _in_thread(Memory.verify)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        await self.close()
