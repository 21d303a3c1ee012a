"""The same memory for asyncio: each call runs in a worker thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import (
    Callable,
    Coroutine,
)
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.memory.memory import Memory

if TYPE_CHECKING:
    from graphmem.search.embedding import Embedder

P = ParamSpec("P")
R = TypeVar("R")


def _in_thread(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    """Return an async method that runs ``method`` of the inner memory in a worker thread."""

    @functools.wraps(method)
    async def call(self: AsyncMemory, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call  # type: ignore[return-value]


class Awaited:
    """The same methods as a part of a memory, awaited; each call runs in a worker thread.

    What a call returns is as it is: iterate over a consumer of events in a thread of your own.
    """

    def __init__(self, part: object) -> None:
        self._part = part

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        """Return a method as one to be awaited."""
        method = getattr(self._part, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(name)

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call


class AsyncMemory:
    """The same methods as :class:`Memory`, awaited; each call runs in a worker thread.

    ``async with await AsyncMemory.open(...) as memory:`` closes it at the end.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.policies = Awaited(memory.policies)
        self.events = Awaited(memory.events)
        self.predictions = Awaited(memory.predictions)
        self.cycles = Awaited(memory.cycles)

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

    learn = _in_thread(Memory.learn)
    learn_many = _in_thread(Memory.learn_many)
    record_episode = _in_thread(Memory.record_episode)
    import_sentinel = _in_thread(Memory.import_sentinel)
    export_sentinel = _in_thread(Memory.export_sentinel)
    import_jsonl = _in_thread(Memory.import_jsonl)
    export_jsonl = _in_thread(Memory.export_jsonl)
    strategies = _in_thread(Memory.strategies)
    evidence = _in_thread(Memory.evidence)
    query = _in_thread(Memory.query)
    heuristics = _in_thread(Memory.heuristics)
    anti_patterns = _in_thread(Memory.anti_patterns)
    rules = _in_thread(Memory.rules)
    mistakes = _in_thread(Memory.mistakes)
    scores = _in_thread(Memory.scores)
    memory_summary = _in_thread(Memory.memory_summary)
    merge = _in_thread(Memory.merge)
    unmerge = _in_thread(Memory.unmerge)
    context = _in_thread(Memory.context)
    explain = _in_thread(Memory.explain)
    predict = _in_thread(Memory.predict)
    calibrate = _in_thread(Memory.calibrate)
    consolidate = _in_thread(Memory.consolidate)
    consolidation_due = _in_thread(Memory.consolidation_due)
    similar = _in_thread(Memory.similar)
    relink = _in_thread(Memory.relink)
    pending = _in_thread(Memory.pending)
    embedded_with = _in_thread(Memory.embedded_with)
    recall = _in_thread(Memory.recall)
    stats = _in_thread(Memory.stats)
    verify = _in_thread(Memory.verify)
    rebuild = _in_thread(Memory.rebuild)
    erase = _in_thread(Memory.erase)
    forget = _in_thread(Memory.forget)
    crystallize = _in_thread(Memory.crystallize)
    prefer = _in_thread(Memory.prefer)
    preferences = _in_thread(Memory.preferences)
    know = _in_thread(Memory.know)
    knowledge = _in_thread(Memory.knowledge)
    scope = _in_thread(Memory.scope)
    scopes = _in_thread(Memory.scopes)
    scope_of = _in_thread(Memory.scope_of)
    unscope = _in_thread(Memory.unscope)
    flush = _in_thread(Memory.flush)
    initialize = _in_thread(Memory.initialize)
    close = _in_thread(Memory.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.memory.close)
