"""The same memory for asyncio: each call runs in a worker thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.lessons import Lessons
from graphmem.memory import Memory
from graphmem.people import People
from graphmem.people.scopes import LearningScopes
from graphmem.policies import Policies
from graphmem.policies.cycles import Cycles
from graphmem.policies.events import Events
from graphmem.policies.ledger import Predictions
from graphmem.upkeep import Upkeep

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Awaited(Generic[T_co]):
    """An object whose methods are awaited."""

    def __init__(self, awaited: T_co) -> None:
        self._awaited = awaited


def _in_thread(
    method: Callable[Concatenate[T, P], R],
) -> Callable[Concatenate[_Awaited[T], P], Coroutine[Any, Any, R]]:
    """Return an async method that runs ``method`` of the object in a worker thread."""

    @functools.wraps(method)
    async def call(self: _Awaited[T], *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self._awaited, *args, **kwargs)

    return call  # type: ignore[return-value]


class AsyncLessons(_Awaited[Lessons]):
    """The methods of :class:`Lessons`, awaited."""

    consolidation_due = _in_thread(Lessons.consolidation_due)
    consolidate = _in_thread(Lessons.consolidate)
    merge = _in_thread(Lessons.merge)
    unmerge = _in_thread(Lessons.unmerge)
    heuristics = _in_thread(Lessons.heuristics)
    anti_patterns = _in_thread(Lessons.anti_patterns)
    rules = _in_thread(Lessons.rules)
    mistakes = _in_thread(Lessons.mistakes)
    scores = _in_thread(Lessons.scores)
    summary = _in_thread(Lessons.summary)


class AsyncPolicies(_Awaited[Policies]):
    """The methods of :class:`Policies`, awaited."""

    update = _in_thread(Policies.update)
    update_many = _in_thread(Policies.update_many)
    observe = _in_thread(Policies.observe)
    observe_many = _in_thread(Policies.observe_many)
    set_q = _in_thread(Policies.set_q)
    set_many = _in_thread(Policies.set_many)
    signal = _in_thread(Policies.signal)
    get = _in_thread(Policies.get)
    by_id = _in_thread(Policies.by_id)
    best = _in_thread(Policies.best)
    values = _in_thread(Policies.values)
    top = _in_thread(Policies.top)
    seen = _in_thread(Policies.seen)
    seen_many = _in_thread(Policies.seen_many)
    history = _in_thread(Policies.history)
    history_many = _in_thread(Policies.history_many)
    link = _in_thread(Policies.link)
    strengthen = _in_thread(Policies.strengthen)
    weaken = _in_thread(Policies.weaken)
    unlink = _in_thread(Policies.unlink)
    linked = _in_thread(Policies.linked)
    propagate = _in_thread(Policies.propagate)
    learn_episodes = _in_thread(Policies.learn_episodes)
    crystallize = _in_thread(Policies.crystallize)


class AsyncPeople(_Awaited[People]):
    """The methods of :class:`People`, awaited."""

    prefer = _in_thread(People.prefer)
    preferences = _in_thread(People.preferences)
    know = _in_thread(People.know)
    knowledge = _in_thread(People.knowledge)


class AsyncScopes(_Awaited[LearningScopes]):
    """The methods of :class:`LearningScopes`, awaited."""

    set = _in_thread(LearningScopes.set)
    list = _in_thread(LearningScopes.list)
    get = _in_thread(LearningScopes.get)
    remove = _in_thread(LearningScopes.remove)


class AsyncEvents(_Awaited[Events]):
    """The methods of :class:`Events`, awaited.

    A consumer is not asynchronous: iterate over it in your own thread.
    """

    consume = _in_thread(Events.consume)
    tail = _in_thread(Events.tail)
    positions = _in_thread(Events.positions)
    since = _in_thread(Events.since)
    pending = _in_thread(Events.pending)


class AsyncPredictions(_Awaited[Predictions]):
    """The methods of :class:`Predictions`, awaited."""

    expect = _in_thread(Predictions.expect)
    resolve = _in_thread(Predictions.resolve)
    feedback = _in_thread(Predictions.feedback)
    expire = _in_thread(Predictions.expire)
    get = _in_thread(Predictions.get)
    open = _in_thread(Predictions.open)
    list = _in_thread(Predictions.list)
    reliability = _in_thread(Predictions.reliability)


class AsyncCycles(_Awaited[Cycles]):
    """The methods of :class:`Cycles`, awaited."""

    discover = _in_thread(Cycles.discover)
    examine = _in_thread(Cycles.examine)
    list = _in_thread(Cycles.list)


class AsyncUpkeep(_Awaited[Upkeep]):
    """The methods of :class:`Upkeep`, awaited."""

    initialize = _in_thread(Upkeep.initialize)
    rebuild = _in_thread(Upkeep.rebuild)
    erase = _in_thread(Upkeep.erase)
    forget = _in_thread(Upkeep.forget)
    relink = _in_thread(Upkeep.relink)
    pending = _in_thread(Upkeep.pending)
    embedded_with = _in_thread(Upkeep.embedded_with)
    export = _in_thread(Upkeep.export)
    import_ = _in_thread(Upkeep.import_)
    flush = _in_thread(Upkeep.flush)


class AsyncMemory(_Awaited[Memory]):
    """The same methods as :class:`Memory`, awaited; each call runs in a worker thread.

    ``async with await AsyncMemory.open(...) as memory:`` closes it at the end.
    """

    def __init__(self, memory: Memory) -> None:
        super().__init__(memory)
        self.memory = memory
        self.lessons = AsyncLessons(memory.lessons)
        self.policies = AsyncPolicies(memory.policies)
        self.people = AsyncPeople(memory.people)
        self.scopes = AsyncScopes(memory.scopes)
        self.events = AsyncEvents(memory.events)
        self.predictions = AsyncPredictions(memory.predictions)
        self.cycles = AsyncCycles(memory.cycles)
        self.upkeep = AsyncUpkeep(memory.upkeep)

    @classmethod
    async def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
        embedder: Embedder | None = None,
    ) -> Self:
        """Open a memory, as :meth:`Memory.open` does."""
        memory = await asyncio.to_thread(
            Memory.open, url, namespace=namespace, settings=settings, embedder=embedder
        )
        return cls(memory)

    close = _in_thread(Memory.close)
    learn = _in_thread(Memory.learn)
    learn_many = _in_thread(Memory.learn_many)
    record_episode = _in_thread(Memory.record_episode)
    context = _in_thread(Memory.context)
    recall = _in_thread(Memory.recall)
    predict = _in_thread(Memory.predict)
    explain = _in_thread(Memory.explain)
    strategies = _in_thread(Memory.strategies)
    evidence = _in_thread(Memory.evidence)
    similar = _in_thread(Memory.similar)
    calibrate = _in_thread(Memory.calibrate)
    query = _in_thread(Memory.query)
    stats = _in_thread(Memory.stats)
    verify = _in_thread(Memory.verify)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
