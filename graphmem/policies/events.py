"""The event streams: consumers, listeners and handlers of events, and looks without claiming."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from graphmem.errors import ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import check_limit, checked_agent
from graphmem.graph.decorating import kind_of
from graphmem.graph.graph import Graph
from graphmem.ids import from_millis
from graphmem.models.events import Event, Pending
from graphmem.notebook.frames import Listed
from graphmem.policies.consumers import Consumer, Listening, read_events
from graphmem.policies.handling import Handler, Interest, Loop
from graphmem.policies.rebuilding import event_ids
from graphmem.store.port import Row

PAGE = 100
"""Events that a listener claims at a time."""

F = TypeVar("F", bound=Callable[[Event], Any])


class Events:
    """The event streams of one namespace: ``memory.events``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._handlers: list[Handler] = []
        self._loops: list[Loop] = []
        self._listening: weakref.WeakSet[Listening] = weakref.WeakSet()
        self._lock = threading.RLock()
        in_child(self, _renew)

    def consume(
        self, group: str, consumer: str, *, limit: int = 100, agent: str | None = None
    ) -> Consumer:
        """Return a consumer of a group; it can be iterated, and can acknowledge and re-claim.

        Each event goes to one consumer of the group. A new group begins with the first event.

        Args:
            group: consumers of one group share the events; groups are independent.
            consumer: the unique name of this consumer, the same after a restart.
            limit: most events that one iteration claims.
            agent: only the stream of this agent.

        Raises:
            ValidationError: an argument is wrong.
        """
        given = Interest(group=group, consumer=consumer, agent=agent)
        check_limit(limit)
        return Consumer(self._graph, given.group, given.consumer, limit, given.agent)

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
        after a crash or a restart; if you leave the loop at an event, it comes again. The position
        of the group is in the graph; a new group begins with the first event. Writes of this
        process wake a listener at once; it looks for those of others every second. It ends with
        ``stop`` or the memory.

        Args:
            group: listeners of one group share the events; groups are independent.
            kinds: the kinds of events to give, one or several; None: all. Others are acknowledged.
            agent: only streams of agents and levels whose names match; ``*`` stands for any
                letters.
            consumer: the unique name of this listener in its group, the same after a restart.
            idle: seconds without a sign of life after which it takes over the events of another
                consumer; longer than any consumer needs for one event.
            follow: wait for more events; False: end after those that are there.

        Raises:
            ValidationError: an argument is wrong.
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
        listening = Listening(
            self._graph,
            consumer,
            lambda event: any(one.wants(event) for one in wanted),
            idle=given.idle,
            follow=given.follow,
        )
        with self._lock:
            self._listening.add(listening)
        return listening

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
            kinds: the kinds of events to handle, one or several; None: all.
            group: handlers of one group are one consumer: an event is acknowledged when all of them
                succeeded.
            agent: only for agents and levels whose names match; ``*`` stands for any letters.
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
            ValidationError: an argument is wrong, there are no handlers, or the caller runs in an
                event loop (there, await ``run`` of an AsyncMemory).
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
        loop = Loop()
        for group, handlers in groups.items():
            given = Interest(group=group, consumer=consumer, idle=idle, follow=follow)
            loop.listening.append(self._listen(given, *(one.interest for one in handlers)))
        with self._lock:
            self._loops.append(loop)
        try:
            async with asyncio.TaskGroup() as tasks:
                for listening, handlers in zip(loop.listening, groups.values(), strict=True):
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
            loop.stop()
        self._graph.bell.ring()
        for loop in loops:
            loop.wait()

    def tail(self, limit: int = 20, *, agent: str | None = None) -> Listed[Event]:
        """Return the latest events, the latest last, without claiming them."""
        check_limit(limit)
        streams = self._streams(checked_agent(agent))
        firsts = {row["agent"]: max(1, row["last"] - limit + 1) for row in streams}
        return Listed(self._ordered(streams, firsts, limit)[-limit:])

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in self._streams()}

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
        return Listed(self._ordered(self._streams(), firsts, limit))

    def pending(self, group: str) -> Listed[Pending]:
        """Return the pending events of a group's consumers."""
        rows = self._graph.read("events.claims", group=Interest(group=group).group)
        # Read after the claims: a stream that is missing was then erased, and is not just new.
        agents = {row["stream"]: row["agent"] for row in self._streams()}
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

    def _streams(self, agent: str | None = None) -> list[Row]:
        return self._graph.read("events.streams", agent=agent)

    def _ordered(self, streams: list[Row], firsts: Mapping[str, int], limit: int) -> list[Event]:
        """Return at most ``limit`` events of each stream from a number on, by date.

        The date is read before the stream is locked, so it can decrease from one number to the
        next. Events of one agent stay in the order of their numbers.
        """
        ids: list[str] = []
        for row in streams:
            first = firsts.get(row["agent"], 1)
            ids += event_ids(row["stream"], first, min(row["last"], first + limit - 1))
        latest: dict[str, datetime] = {}
        dated = []
        for event in sorted(read_events(self._graph, ids, streams), key=lambda event: event.seq):
            at = max(event.recorded_at, latest.get(event.agent, event.recorded_at))
            latest[event.agent] = at
            dated.append((at, event.agent, event.seq, event))
        return [event for *_, event in sorted(dated, key=lambda item: item[:3])]


def _renew(events: Events) -> None:
    """Have no loops and listeners in a forked child."""
    events._lock = threading.RLock()
    events._loops = []
    events._listening = weakref.WeakSet()
