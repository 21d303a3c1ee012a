"""Memory: the one object that a user needs. It delegates and holds no logic."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import (
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pydantic import JsonValue

from graphmem import queries
from graphmem.config import DEFAULT_NAMESPACE, Settings
from graphmem.crystallization import Crystallizer
from graphmem.cycles import Cycles
from graphmem.events import Events
from graphmem.learning import Learner, OnError
from graphmem.maintenance import Maintainer
from graphmem.models import (
    CrystallizeReport,
    Episode,
    EraseReport,
    Learned,
    LearnReport,
    RebuildReport,
    Rejection,
    Stats,
    Step,
    StrategyRow,
    StrategyUse,
    VerifyReport,
)
from graphmem.policies import Policies
from graphmem.predictions import Predictions
from graphmem.reads import Reads
from graphmem.store import Row, Store, open_store

P = ParamSpec("P")
R = TypeVar("R")
Uses = str | StrategyUse | Sequence[str | StrategyUse]


class Memory:
    """A memory of what works: one namespace of one store.

    Safe to use from several threads. Close it, or use it in a ``with`` block.
    """

    def __init__(self, store: Store, namespace: str, settings: Settings) -> None:
        self.namespace = namespace
        self.settings = settings
        self._store = store
        self._reads = Reads(store, namespace, enabled=settings.count_reads)
        self._learner = Learner(store, namespace, settings)
        self._crystallizer = Crystallizer(store, namespace, settings)
        self.policies = Policies(store, namespace, settings, self._reads)
        """What to do in a state: see :class:`graphmem.policies.Policies`."""
        self.events = Events(store, namespace)
        """Every change, as a stream: see :class:`graphmem.events.Events`."""
        self.predictions = Predictions(store, namespace, settings)
        """What was expected, and what came: see :class:`graphmem.predictions.Predictions`."""
        self.cycles = Cycles(store, namespace, settings)
        """When things happen: see :class:`graphmem.cycles.Cycles`."""
        self._maintainer = Maintainer(store, namespace, settings)

    @classmethod
    def open(
        cls,
        url: str | Path | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        settings: Settings | None = None,
    ) -> Self:
        """Open a memory; a folder that is not there is created at the first write.

        Args:
            url: a folder, ``file:``, ``memory:``, ``neo4j://`` or ``bolt://``; None takes
                ``GRAPHMEM_URL``, else a folder in the user's data directory.
            namespace: what is read and written; others in the same store stay untouched.
                "default" means that of the settings (``GRAPHMEM_NAMESPACE``).
            settings: default: from the environment.

        Raises:
            SettingsError: a setting, the url or the namespace is wrong.
            StoreError: the engine cannot be opened; see :mod:`graphmem.errors`.
        """
        settings = settings or Settings()
        if namespace == DEFAULT_NAMESPACE:
            namespace = settings.namespace
        else:
            Settings(namespace=namespace)
        return cls(open_store(url, settings), namespace, settings)

    def learn(
        self,
        task: str,
        strategy: Uses,
        *,
        success: bool | None = None,
        score: float | None = None,
        reward: float | None = None,
        agent: str = "default",
        task_type: str | None = None,
        task_key: str | None = None,
        steps: Iterable[Step] = (),
        error: str | None = None,
        feedback: str | None = None,
        summary: str | None = None,
        started_at: datetime | None = None,
        ended_at: datetime | None = None,
        duration: float | None = None,
        source_key: str | None = None,
        source: str | None = None,
        extra: Mapping[str, JsonValue] | None = None,
    ) -> Learned:
        """Learn what came of one attempt, in one durable transaction.

        The same ``source_key`` again (or, without one, the same content) changes nothing and
        answers ``created=False``; so give a key or a time where one thing happens repeatedly.

        Args:
            task: what was attempted.
            strategy: a text, a StrategyUse, or a list of them, the main one first.
            success: whether it worked. Give this or ``score``.
            score: how well it worked, in [0, 1].
            reward: any finite number; default: the score.
            agent: who did it.
            task_type: a class of tasks; default: what is known of the task, else "general".
            task_key: a stable key of the task where its wording varies; default: the wording.
            steps: what was done, in order.
            error: the error that ended it.
            feedback: what a person or a judge said of it.
            summary: what happened, in short.
            started_at: with time zone.
            ended_at: with time zone.
            duration: seconds.
            source_key: what it is known by, unique in the namespace.
            source: where it came from, for people; no part of the content.
            extra: anything else, as JSON.

        Raises:
            ValidationError: a field is wrong; it names the field, the value and the remedy.
            ConflictError: the source key was learned with other content.
            StoreError: the engine failed; nothing was written.
        """
        episode = Episode(
            task=task,
            strategy=strategy,
            success=success,
            score=score,
            reward=reward,
            agent=agent,
            task_type=task_type,
            task_key=task_key,
            steps=tuple(steps) if isinstance(steps, Iterator) else steps,
            error=error,
            feedback=feedback,
            summary=summary,
            started_at=started_at,
            ended_at=ended_at,
            duration=duration,
            source_key=source_key,
            source=source,
            extra=dict(extra or {}),
        )
        return self._learner.learn(episode)

    def learn_many(
        self,
        episodes: Iterable[Episode | Mapping[str, Any]],
        *,
        batch_size: int = 500,
        on_error: OnError = "raise",
        on_progress: Callable[[int], None] | None = None,
        on_reject: Callable[[Rejection], None] | None = None,
    ) -> LearnReport:
        """Learn many episodes, ``batch_size`` in a transaction.

        Args:
            episodes: any iterable; it is read lazily, a batch at a time.
            batch_size: from 1 to 100000.
            on_error: "raise" stops at the first bad record (its batch is not written, those
                before it stay); "collect" reports bad records and learns the others.
            on_progress: called with the number of records that became durable.
            on_reject: called for each refused record, as it is found.

        Raises:
            ValidationError, ConflictError: with ``on_error="raise"``.
            StoreError: the engine failed; the batches before stay.
        """
        return self._learner.learn_many(
            episodes,
            batch_size=batch_size,
            on_error=on_error,
            on_progress=on_progress,
            on_reject=on_reject,
        )

    def strategies(
        self,
        task: str | None = None,
        *,
        task_type: str | None = None,
        agent: str | None = None,
        limit: int = 10,
    ) -> list[StrategyRow]:
        """Return what works, best lower bound of the success rate first.

        Args:
            task: the key or the wording of a task; None: over all tasks.
            task_type: only tasks of this type.
            agent: only what this agent did.
            limit: rows at most.
        """
        rows = self._learner.best(task, task_type, agent, limit)
        self._reads.note_all("Strategy", [row.id for row in rows])
        return rows

    def evidence(self, strategy: str, *, limit: int = 5) -> list[Row]:
        """Return the latest episodes in which a strategy (its text or id) was applied."""
        return self._learner.evidence(strategy, limit)

    def crystallize(
        self,
        agent: str | None = None,
        *,
        min_events: int | None = None,
        threshold: float | None = None,
        z: float | None = None,
    ) -> CrystallizeReport:
        """Make policies of actions that worked often enough, and take back those that no longer do.

        Counted are episodes with steps that have a state (each once for every action that it
        took in a state), outcomes given to ``policies.observe``, and updates with ``success``.
        A policy that was never updated nor set gets its lower bound as its value.

        Args:
            agent: only this agent's; default: all agents, each by itself.
            min_events: trials that it needs; default: the setting (3).
            threshold: its Wilson lower bound must be over this; default: the setting (0.6).
            z: normal quantile of the bound; default: the setting (1.96). 3 successes of 3 have a
                lower bound of .438 at 1.96; the report says how many trials a threshold needs.

        Raises:
            ValidationError: a threshold is out of range.
        """
        return self._crystallizer.crystallize(agent, min_events, threshold, z)

    def query(
        self, cypher: str, params: Mapping[str, JsonValue] | None = None, /, **named: JsonValue
    ) -> list[Row]:
        """Run Cypher that only reads, or a procedure by name, and return its rows.

        ``$ns`` is always there: filter by it, for a plain query sees the whole store.

        Raises:
            ReadOnlyError: it writes.
            QueryError: the engine does not understand it.
        """
        given = {**(params or {}), **named}
        if cypher in (known := queries.catalog()):
            query = known[cypher]
            if query.mode != "read":
                raise queries.refuse_writing(query)
            if "ns" in query.params:
                given.setdefault("ns", self.namespace)
        else:
            query = queries.adhoc(cypher)
            given.setdefault("ns", self.namespace)
        return self._store.read(query, **given)

    def stats(self) -> Stats:
        """Return the counts of the namespace, and the engine that holds it."""
        return self._maintainer.stats()

    def verify(self, *, on_progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute every derived number from the facts and compare; also check the facts."""
        return self._maintainer.verify(on_progress)

    def rebuild(self, *, on_progress: Callable[[int, int], None] | None = None) -> RebuildReport:
        """Recompute every derived number from the facts and store it."""
        return self._maintainer.rebuild(on_progress)

    def erase(self, episode_id: str) -> EraseReport:
        """Remove an episode and its exact share of every derived number.

        Raises:
            NotFoundError: there is no such episode in this namespace.
        """
        return self._maintainer.erase(episode_id)

    def initialize(self) -> int:
        """Create the memory, its constraints and indexes where missing; return the schema version.

        Other writing methods do this by themselves at their first call.
        """
        return self._store.apply_schema(repair=True)

    @property
    def store(self) -> Store:
        """The engine below, for what this class does not offer."""
        return self._store

    def flush(self) -> int:
        """Write the counts of reads to the graph; return for how many items.

        This happens by itself every few seconds and when the memory is closed; a crash before
        that loses these counts, and nothing else.
        """
        return self._reads.flush()

    def close(self) -> None:
        """Let go of the engine; what was learned is kept."""
        self._reads.close()
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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
    ) -> Self:
        """Open a memory, as :meth:`Memory.open` does."""
        memory = await asyncio.to_thread(Memory.open, url, namespace=namespace, settings=settings)
        return cls(memory)

    learn = _in_thread(Memory.learn)
    learn_many = _in_thread(Memory.learn_many)
    strategies = _in_thread(Memory.strategies)
    evidence = _in_thread(Memory.evidence)
    query = _in_thread(Memory.query)
    stats = _in_thread(Memory.stats)
    verify = _in_thread(Memory.verify)
    rebuild = _in_thread(Memory.rebuild)
    erase = _in_thread(Memory.erase)
    crystallize = _in_thread(Memory.crystallize)
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
