"""The event streams: consumers, listeners and handlers of events, and looks without claiming."""

from __future__ import annotations

import asyncio
import contextvars
import fnmatch
import heapq
import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field

from graphmem.errors import StoreError, ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import check_limit, checked_agent
from graphmem.graph.decorating import kind_of
from graphmem.graph.graph import Graph
from graphmem.ids import event_ids, from_millis
from graphmem.models.fields import Input, Name
from graphmem.models.forecasts import Change
from graphmem.models.policies import Event, EventKind, Pending
from graphmem.notebook.frames import Listed
from graphmem.policies.consumers import Consumer, Listening, read_events
from graphmem.store.port import Row

PAGE = 100
"""Events that a listener claims at a time."""
LONGEST_PAUSE = 300.0
"""Most seconds before a handler is called again."""

FindChanges = Callable[[Sequence[str]], Mapping[str, tuple[Change, ...]]]
"""Finds the changes that became certain with episodes (ids)."""
F = TypeVar("F", bound=Callable[[Event], Any])
_log = logging.getLogger(__name__)
_handling: contextvars.ContextVar[bool] = contextvars.ContextVar("handling", default=False)


def _kinds(given: object) -> object:
    if isinstance(given, str):
        return (given,)
    return tuple(given) if isinstance(given, Iterable) else given


Kinds = Annotated[tuple[EventKind, ...], Field(min_length=1), BeforeValidator(_kinds)]


class Interest(Input):
    """Which events are wanted by whom, and how they are handled."""

    group: Name
    consumer: Name = "listener"
    kinds: Kinds | None = None
    agent: Name | None = None
    """A pattern; ``*`` stands for any letters."""
    idle: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 60.0
    follow: bool = True
    attempts: Annotated[int, Field(ge=1, le=1_000)] = 5
    backoff: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0

    def fits(self, agent: str) -> bool:
        """Return whether events of an agent or level are wanted."""
        return self.agent is None or fnmatch.fnmatchcase(agent, self.agent)

    def wants(self, event: Event) -> bool:
        """Return whether an event is wanted."""
        kinds = {event.kind, "changed"} if event.changes else {event.kind}
        return (self.kinds is None or not kinds.isdisjoint(self.kinds)) and self.fits(event.agent)


class Handler(NamedTuple):
    """A function, and the events that it handles."""

    function: Callable[[Event], Any]
    interest: Interest

    async def call(self, event: Event) -> None:
        """Call it. A function that is not asynchronous finishes even if this is cancelled."""
        if kind_of(self.function) == "coroutine function":
            result = self.function(event)
        else:
            task = asyncio.ensure_future(asyncio.to_thread(self.function, event))
            try:
                result = await asyncio.shield(task)
            except asyncio.CancelledError:
                await asyncio.wait([task])
                raise
        if inspect.isawaitable(result):
            await result


@dataclass(eq=False)
class Loop:
    """A loop that runs the handlers of a memory."""

    thread: int = field(default_factory=threading.get_ident)
    stopping: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    handled: int = 0

    async def handle(self, listening: Listening, handlers: Sequence[Handler]) -> None:
        """Handle the events of one group, one after another."""
        _handling.set(True)  # in the task of this group
        failures = 0
        while True:
            try:
                event = await anext(listening, None)
            except StoreError as error:
                if not error.retryable:
                    raise
                failures += 1
                _log.warning("events cannot be read, trying again: %s", error)
                if await self._pause(2.0**failures):
                    continue
                return
            if event is None:
                return
            failures = 0
            for handler in handlers:
                if handler.interest.wants(event):
                    done = await self._try(handler, event)
                    if done is None:  # stopped: the event comes again
                        return
                    if not done:
                        listening.park()
            self.handled += 1

    async def _try(self, handler: Handler, event: Event) -> bool | None:
        """Call a handler until it succeeds; return whether it did, None if the loop was stopped."""
        given = handler.interest
        for attempt in range(1, given.attempts + 1):
            try:
                await handler.call(event)
            except Exception as error:  # noqa: BLE001 - whatever it is, the loop goes on
                _log.warning(
                    "%s failed on event %s, %s: %s",
                    getattr(handler.function, "__qualname__", type(handler.function).__qualname__),
                    event.id,
                    "parked" if attempt == given.attempts else "tried again",
                    type(error).__name__,
                    exc_info=_log.isEnabledFor(logging.DEBUG),  # it may show contents
                )
            else:
                return True
            pause = given.backoff * 2.0 ** (attempt - 1)
            if attempt < given.attempts and not await self._pause(pause):
                return None
        return False

    async def _pause(self, seconds: float) -> bool:
        """Wait; return whether the loop was not stopped meanwhile."""
        end = asyncio.get_running_loop().time() + min(seconds, LONGEST_PAUSE)
        while not self.stopping and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, 0.1))
        return not self.stopping


class Events:
    """The event streams of one namespace: ``memory.events``."""

    def __init__(
        self, graph: Graph, crystallize: Callable[[str], object], find_changes: FindChanges
    ) -> None:
        self._graph = graph
        self._crystallize = crystallize
        self._find_changes = find_changes
        self._handlers: list[Handler] = []
        self._loops: list[Loop] = []
        self._listening: weakref.WeakSet[Listening] = weakref.WeakSet()
        self._lock = threading.RLock()
        in_child(self, _renew)

    def consume(
        self, group: str, consumer: str, *, limit: int = 100, agent: str | None = None
    ) -> Consumer:
        """Return a consumer of a group; a new group begins with the first event.

        Args:
            group: each event goes to one consumer of a group; groups are independent.
            consumer: the unique name of this consumer, the same after a restart.
            limit: most events that one iteration claims.
            agent: only the stream of this agent.
        """
        given = Interest(group=group, consumer=consumer, agent=agent)
        check_limit(limit)
        return Consumer(
            self._graph,
            given.group,
            given.consumer,
            limit,
            lambda name: given.agent in (None, name),
        )

    def listen(
        self,
        group: str,
        kinds: str | Iterable[str] | None = None,
        *,
        agent: str | None = None,
        consumer: str = "listener",
        idle: float = 60.0,
        follow: bool = True,
    ) -> Listening:
        """Return the events of a group as they come: iterate with ``for`` or ``async for``.

        An event is acknowledged when you ask for the next one. So each comes at least once, also
        after a crash or a restart. Writes of this process wake a listener at once; it looks for
        those of others every second. It ends with ``stop`` or the memory.

        Args:
            group: as in :meth:`consume`.
            kinds: the kinds of events to give, one or several; None: all. Others are acknowledged.
                "changed": episodes with which it became certain that a strategy works better or
                worse than it did (``event.changes``).
            agent: only streams of agents and levels whose names match; ``*`` stands for any
                letters.
            consumer: the unique name of this listener in its group, the same after a restart.
            idle: seconds without a sign of life after which it takes over the events of another
                consumer; longer than any consumer needs for one event.
            follow: wait for more events; False: end after those that are there.
        """
        return self._listen(
            Interest(
                group=group,
                consumer=consumer,
                kinds=kinds,  # type: ignore[arg-type]
                agent=agent,
                idle=idle,
                follow=follow,
            )
        )

    def _listen(self, given: Interest, *interests: Interest) -> Listening:
        """Listen to the events that fit one of several interests."""
        wanted = interests or (given,)
        consumer = Consumer(
            self._graph,
            given.group,
            given.consumer,
            PAGE,
            fits=lambda name: any(one.fits(name) for one in wanted),
        )
        asked = any("changed" in (one.kinds or ()) for one in wanted)
        listening = Listening(
            self._graph,
            consumer,
            self._with_changes if asked else list,
            lambda event: any(one.wants(event) for one in wanted),
            idle=given.idle,
            follow=given.follow,
        )
        with self._lock:
            self._listening.add(listening)
        return listening

    def _with_changes(self, events: Sequence[Event]) -> list[Event]:
        """Return events, those of episodes with the changes that became certain with them."""
        ids = [event.subject for event in events if event.kind == "episode" and event.subject]
        found = self._find_changes(ids)
        return [
            event.model_copy(update={"changes": found.get(event.subject or "", ())})
            for event in events
        ]

    def on(
        self,
        kinds: str | Iterable[str] | None = None,
        *,
        group: str,
        agent: str | None = None,
        attempts: int = 5,
        backoff: float = 1.0,
    ) -> Callable[[F], F]:
        """Return a decorator of handlers: :meth:`run` calls them with each event of a group.

        A handler is a function, or a coroutine function, of an event. The handlers of a group are
        called one after another, event by event, in the order of each stream; groups run in
        parallel. A handler that raises is called again after ``backoff`` seconds, then after twice
        as many, and so on. After the last attempt the event is parked: it stays pending with the
        consumer "parked" of the group (see :meth:`pending`), and the next one follows.

        Args:
            kinds: as in :meth:`listen`.
            group: handlers of one group are one consumer: an event is acknowledged when all of them
                succeeded.
            agent: as in :meth:`listen`.
            attempts: how often it is called with one event, at most.
            backoff: seconds before the second attempt.

        Raises:
            ValidationError: an argument is wrong, or the decorated object is no such function.
        """
        interest = Interest(
            group=group,
            kinds=kinds,  # type: ignore[arg-type]
            agent=agent,
            attempts=attempts,
            backoff=backoff,
        )

        def decorate(function: F) -> F:
            if not callable(function) or kind_of(function).endswith("generator"):
                raise ValidationError("function", function, "is not a function of an event")
            with self._lock:
                self._handlers.append(Handler(function, interest))
            return function

        return decorate

    def crystallize(self, *, agent: str | None = None, group: str = "crystallize") -> None:
        """Let :meth:`run` crystallize policies as evidence comes, by ``policies.crystallize``.

        Args:
            agent: as in :meth:`listen`.
            group: as in :meth:`listen`.
        """
        done: dict[str, int] = {}

        def handle(event: Event) -> None:
            if event.seq > done.get(event.agent, 0):  # else it was counted with an earlier one
                streams = self._graph.read("events.streams", agent=event.agent)
                self._crystallize(event.agent)
                done[event.agent] = max((row["last"] for row in streams), default=0)

        kinds = ("episode", "erased", "outcome", "transition")
        self.on(kinds, group=group, agent=agent)(handle)

    def run(self, *, consumer: str = "listener", idle: float = 60.0, follow: bool = True) -> int:
        """Call the handlers with events as they come; return how many were handled, or parked.

        It runs until :meth:`stop`, Ctrl-C, or the end of the memory; a running handler finishes
        first. An event is acknowledged after its handlers succeeded: after a kill, at most one
        event is handled again, and none is lost.

        Args:
            consumer: the unique name of this process in its groups, the same after a restart.
            idle: as in :meth:`listen`; longer than any handler takes, with its attempts.
            follow: wait for more events; False: end after those that are there.

        Raises:
            ValidationError: there are no handlers, or the caller runs in an event loop (there,
                await ``run`` of an AsyncMemory).
            StoreError: the engine failed, and trying again does not help.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self._run(consumer=consumer, idle=idle, follow=follow))
        raise ValidationError(
            "run", consumer, "is called in an event loop", "await the run of an AsyncMemory"
        )

    async def _run(
        self, *, consumer: str = "listener", idle: float = 60.0, follow: bool = True
    ) -> int:
        groups: dict[str, list[Handler]] = {}
        for handler in self._handlers:
            groups.setdefault(handler.interest.group, []).append(handler)
        if not groups:
            raise ValidationError("run", None, "has no handlers", "decorate some with events.on")
        loop, listeners = Loop(), []
        for group, handlers in groups.items():
            given = Interest(group=group, consumer=consumer, idle=idle, follow=follow)
            listeners.append(self._listen(given, *(one.interest for one in handlers)))
        with self._lock:
            self._loops.append(loop)
        try:
            async with asyncio.TaskGroup() as tasks:
                for listening, handlers in zip(listeners, groups.values(), strict=True):
                    tasks.create_task(loop.handle(listening, handlers))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            with self._lock:
                self._loops.remove(loop)
            loop.ended.set()
        return loop.handled

    def stop(self) -> None:
        """End all listeners and loops of this memory, after the events under way."""
        with self._lock:
            loops, listeners = [*self._loops], [*self._listening]
        for listening in listeners:
            listening.stop()
        for loop in loops:
            loop.stopping = True
        self._graph.bell.ring()
        for loop in loops:
            if loop.thread != threading.get_ident() and not _handling.get():  # else it waits for us
                loop.ended.wait()

    def tail(self, limit: int = 20, *, agent: str | None = None) -> Listed[Event]:
        """Return the latest events, the latest last, without claiming them."""
        check_limit(limit)
        streams = self._graph.read("events.streams", agent=checked_agent(agent))
        firsts = {row["agent"]: max(1, row["last"] - limit + 1) for row in streams}
        return Listed(self._ordered(streams, firsts, limit)[-limit:])

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in self._graph.read("events.streams")}

    def since(self, positions: Mapping[str, int], limit: int = 1_000) -> Listed[Event]:
        """Return events after the given numbers (agent -> number; other agents: from the start).

        At most ``limit`` for each agent, in order of date.
        """
        check_limit(limit)
        if not isinstance(positions, Mapping) or any(
            type(position) is not int or position < 0 for position in positions.values()
        ):
            raise ValidationError(
                "positions", positions, "must be a dict of numbers by agent", "see positions()"
            )
        firsts = {agent: position + 1 for agent, position in positions.items()}
        return Listed(self._ordered(self._graph.read("events.streams"), firsts, limit))

    def pending(self, group: str) -> Listed[Pending]:
        """Return the pending events of a group's consumers."""
        rows = self._graph.read("events.claims", group=Interest(group=group).group)
        # Read after the claims: a stream that is missing was then erased, and is not just new.
        streams = self._graph.read("events.streams")
        agents = {row["stream"]: row["agent"] for row in streams}
        return Listed(
            [
                Pending(
                    consumer=row["consumer"],
                    agent=agents[row["stream"]],
                    count=len(row["pending"]),
                    claimed_at=from_millis(row["claimed_at"]),
                    deliveries=row["deliveries"],
                )
                for row in rows
                if row["stream"] in agents
            ]
        )

    def _ordered(self, streams: list[Row], firsts: Mapping[str, int], limit: int) -> list[Event]:
        """Return events of each stream from a number on, by date; each stream keeps its order."""
        ids: list[str] = []
        for row in streams:
            first = firsts.get(row["agent"], 1)
            ids += event_ids(row["stream"], first, min(row["last"], first + limit - 1))
        own: dict[str, list[Event]] = {row["agent"]: [] for row in streams}
        for event in sorted(read_events(self._graph, ids, streams), key=lambda event: event.seq):
            own[event.agent].append(event)
        return [*heapq.merge(*own.values(), key=lambda event: event.recorded_at)]


def _renew(events: Events) -> None:
    """Have no loops and listeners in a forked child."""
    events._lock = threading.RLock()
    events._loops = []
    events._listening = weakref.WeakSet()
