"""Reads event streams: each event goes to one consumer of a group.

An event that a consumer received is pending until it is acknowledged, also after a crash or a
restart; another consumer of the group can take it over with ``reclaim``.
"""

from __future__ import annotations

import asyncio
import fnmatch
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar, get_args

from pydantic import Field

from graphmem.errors import ValidationError
from graphmem.forks import in_child
from graphmem.graph.arguments import (
    check_choice,
    check_flag,
    checked_agent,
    checked_items,
    checked_text,
)
from graphmem.graph.decorating import kind_of
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.events import Event, EventKind, Pending
from graphmem.models.fields import Input, Name
from graphmem.notebook.frames import Listed
from graphmem.policies.handling import Handler, Running, handle
from graphmem.policies.listening import Listening
from graphmem.policies.rebuilding import event_ids
from graphmem.store.port import Row

MAX_LIMIT = 10_000
MAX_READ = 1_000_000
PAGE = 100
"""Events that a listener claims at a time."""
LISTEN_SECONDS = 1.0
"""Seconds between checks for writes of other processes."""
PARKED = "parked"
"""The consumer of a group that keeps what its handlers gave up; nobody takes that over."""


class _Group(Input):
    group: Name
    consumer: Name = "consumer"
    agent: Name | None = None


class _Patience(Input):
    idle: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 60.0
    attempts: Annotated[int, Field(ge=1, le=1_000)] = 5
    backoff: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] = 1.0


F = TypeVar("F", bound=Callable[[Event], Any])


class Events:
    """The event streams of one namespace: ``memory.events``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._handlers: list[Handler] = []
        self._running: list[Running] = []
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
        named = _Group(group=group, consumer=consumer, agent=agent)
        _check_limit(limit)
        return Consumer(self._graph, named.group, named.consumer, limit, named.agent)

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
        wanted, fits = _kinds(kinds), _names(agent)
        named = _Group(group=group, consumer=consumer)
        check_flag("follow", follow)
        seconds = _Patience(idle=idle).idle
        return self._listen(
            Consumer(self._graph, named.group, named.consumer, PAGE, None, fits),
            lambda event: not wanted or event.kind in wanted,
            seconds,
            follow,
        )

    def _listen(
        self, consumer: Consumer, wants: Callable[[Event], bool], idle: float, follow: bool
    ) -> Listening:
        listening = Listening(
            consumer,
            wants,
            self._graph.bell.heard,
            every=LISTEN_SECONDS,
            idle=idle,
            follow=follow,
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
        wanted, fits = _kinds(kinds), _names(agent)
        named = _Group(group=group)
        patience = _Patience(attempts=attempts, backoff=backoff)

        def decorate(function: F) -> F:
            if not callable(function) or kind_of(function).endswith("generator"):
                raise ValidationError("function", function, "is not a function of an event")
            with self._lock:
                self._handlers.append(
                    Handler(
                        function,
                        named.group,
                        fits,
                        frozenset(wanted),
                        patience.attempts,
                        patience.backoff,
                    )
                )
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
        if _in_loop():
            raise ValidationError(
                "run", consumer, "is called in an event loop", "await the run of an AsyncMemory"
            )
        return asyncio.run(self._run(consumer=consumer, idle=idle, follow=follow))

    async def _run(
        self, *, consumer: str = "listener", idle: float = 60.0, follow: bool = True
    ) -> int:
        check_flag("follow", follow)
        seconds = _Patience(idle=idle).idle
        groups: dict[str, list[Handler]] = {}
        for handler in self._handlers:
            groups.setdefault(handler.group, []).append(handler)
        if not groups:
            raise ValidationError("run", None, "has no handlers", "decorate some with events.on")
        running = Running()
        for group, handlers in groups.items():
            named = _Group(group=group, consumer=consumer)
            listening = self._listen(
                Consumer(self._graph, named.group, named.consumer, PAGE, None, _any_fits(handlers)),
                _any_wants(handlers),
                seconds,
                follow,
            )
            running.listening.append(listening)
        with self._lock:
            self._running.append(running)
        try:
            async with asyncio.TaskGroup() as tasks:
                for listening, handlers in zip(running.listening, groups.values(), strict=True):
                    tasks.create_task(handle(running, listening, handlers))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            with self._lock:
                self._running.remove(running)
            running.ended.set()
        return running.handled

    def stop(self) -> None:
        """End all listeners and loops of this memory, after the events under way."""
        with self._lock:
            running, listening = [*self._running], [*self._listening]
        for one in listening:
            one.stop()
        for loop in running:
            loop.stop()
        self._graph.bell.ring()
        for loop in running:
            loop.wait()

    def tail(self, limit: int = 20, *, agent: str | None = None) -> Listed[Event]:
        """Return the latest events, the latest last, without claiming them."""
        _check_limit(limit)
        streams = _streams(self._graph, checked_agent(agent))
        ids: list[str] = []
        for stream in streams:
            last = stream["last"]
            ids += event_ids(stream["stream"], max(1, last - limit + 1), last)
        events = _read(self._graph, ids, streams)
        return Listed(_ordered(events)[-limit:])

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in _streams(self._graph, None)}

    def since(self, positions: Mapping[str, int], limit: int = 1_000) -> Listed[Event]:
        """Return events after the given numbers (agent -> number; other agents: from the start).

        At most ``limit`` for each agent, in order of date.
        """
        _check_limit(limit, MAX_READ)
        if not isinstance(positions, Mapping) or any(
            type(position) is not int or position < 0 for position in positions.values()
        ):
            raise ValidationError(
                "positions", positions, "must be a dict of numbers by agent", "see positions()"
            )
        streams = _streams(self._graph, None)
        ids: list[str] = []
        for stream in streams:
            first = positions.get(stream["agent"], 0) + 1
            ids += event_ids(stream["stream"], first, min(stream["last"], first + limit - 1))
        events = _read(self._graph, ids, streams)
        return Listed(_ordered(events))

    def pending(self, group: str) -> Listed[Pending]:
        """Return the pending events of a group's consumers."""
        named = _Group(group=group)
        rows = self._graph.read("events.claims", group=named.group)
        # Read after the claims: a missing event was then erased, and is not just new.
        names = {row["stream"]: row["agent"] for row in _streams(self._graph, None)}
        return Listed(
            [
                Pending(
                    consumer=row["consumer"],
                    agent=names[row["stream"]],
                    count=len(row["pending"]),
                    claimed_at=from_millis(row["claimed_at"]),
                    deliveries=row["deliveries"],
                )
                for row in rows
                if row["stream"] in names
            ]
        )


def _renew(events: Events) -> None:
    """Have no loops and listeners in a forked child."""
    events._lock = threading.RLock()
    events._running = []
    events._listening = weakref.WeakSet()


class Consumer:
    """One consumer of a group. Iterating claims the next events and yields them.

    Not thread-safe; create one with its own name for each thread.
    """

    def __init__(
        self,
        graph: Graph,
        group: str,
        name: str,
        limit: int,
        agent: str | None,
        fits: Callable[[str], bool] | None = None,
    ) -> None:
        self.group = group
        self.name = name
        self._graph = graph
        self._limit = limit
        self._agent = agent
        self._fits = fits or (lambda _: True)
        self._received: dict[str, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[Event]:
        """Claim at most ``limit`` next events, and yield those that were not erased."""
        streams = {
            row["stream"]: row
            for row in self._graph.read("events.cursors", group=self.group, agent=self._agent)
            if self._fits(row["agent"])
        }
        left = self._limit
        for stream in streams:
            erased = 1
            while left > 0 and erased:  # erased events do not end the iteration
                claims = self._claim(stream, left)
                erased = sum(len(claim["pending"]) for claim in claims)
                for event in self._deliver(claims, list(streams.values())):
                    left, erased = left - 1, erased - 1
                    yield event

    def ack(self, *events: Event) -> int:
        """Acknowledge events, by default all of this consumer; return their number.

        Raises:
            ValidationError: an event is not pending with this consumer: it was acknowledged
                before, or another consumer re-claimed it. The others are acknowledged.
        """
        wanted = [event.id for event in events] if events else list(self._received)
        foreign = [identity for identity in wanted if identity not in self._received]
        by_claim: dict[str, list[int]] = {}
        for identity in wanted:
            if identity in self._received:
                claim, seq = self._received[identity]
                by_claim.setdefault(claim, []).append(seq)
        done = self._acknowledge(by_claim)
        for identity in wanted:
            claimed = self._received.pop(identity, None)
            if claimed is not None and claimed[1] not in done[claimed[0]]:
                foreign.append(identity)
        if foreign:
            raise self._not_pending(foreign[0])
        return sum(map(len, done.values()))

    def reclaim(self, *, idle: float = 60.0, own: bool = False) -> list[Event]:
        """Take over events that consumers of the group have had for ``idle`` seconds or more.

        These include the consumer's own events, and those of dead consumers. The time counts from
        the moment when a consumer last claimed or acknowledged some of them. ``idle`` must be
        longer than a living consumer needs between these, else both process them. With ``idle=0,
        own=True`` a restarted consumer gets back only its own. Parked events stay with the consumer
        "parked".

        Raises:
            ValidationError: ``idle`` is negative.
        """
        if isinstance(idle, bool) or not isinstance(idle, int | float) or not idle >= 0:
            raise ValidationError("idle", idle, "must be seconds, not negative")
        now = self._graph.now()
        before = now - int(min(idle, now) * 1_000)  # idle may be infinite
        old_claims = self._graph.read(
            "events.claims", group=self.group, consumer=self.name if own else None, before=before
        )
        streams = _streams(self._graph, self._agent)
        known = {row["stream"] for row in streams if self._fits(row["agent"])}
        events: list[Event] = []
        for row in old_claims:
            kept = row["consumer"] == PARKED != self.name
            if row["stream"] not in known or kept:
                continue

            def work(tx: Transaction, claim: str = row["claim"]) -> list[Row]:
                return tx.run("events.reclaim", claim=claim, consumer=self.name, before=before)

            claims = self._graph.transact(work)
            events += self._deliver(claims, streams)
        return events

    def park(self, event: Event) -> None:
        """Give an event that is pending with this consumer to the consumer "parked".

        Raises:
            ValidationError: it is not pending with this consumer.
        """
        claim, seq = self._received.pop(event.id, ("", 0))

        def work(tx: Transaction) -> bool:
            who: Row = {"claim": claim, "consumer": self.name}
            if not tx.run("events.park", seq=seq, keeper=PARKED, **who):
                return False
            return bool(tx.run("events.acknowledge", done=[seq], **who))

        if not self._graph.transact(work):
            raise self._not_pending(event.id)

    def _not_pending(self, identity: str) -> ValidationError:
        return ValidationError(
            "event",
            identity,
            f"is not pending with consumer {self.name!r} of group {self.group!r}",
            "it was acknowledged before, or another consumer re-claimed it",
        )

    def _claim(self, stream: str, limit: int) -> list[Row]:
        cursor = node_id(self._graph.ns, "Cursor", self.group, stream)

        def work(tx: Transaction) -> list[Row]:
            tx.run("events.open_cursor", id=cursor, group=self.group, stream=stream)
            return tx.run("events.claim", id=cursor, consumer=self.name, limit=limit)

        return self._graph.transact(work)

    def _deliver(self, claims: Iterable[Row], streams: Sequence[Row]) -> Iterator[Event]:
        """Yield the events of claims; acknowledge erased ones at once."""
        for claim in claims:
            ids = {f"{claim['stream']}:{seq}": seq for seq in claim["pending"]}
            events = _read(self._graph, list(ids), streams)
            existing = {event.id for event in events}
            erased = [seq for identity, seq in ids.items() if identity not in existing]
            if erased:
                self._acknowledge({claim["claim"]: erased})
            for event in sorted(events, key=lambda event: event.seq):
                self._received[event.id] = (claim["claim"], event.seq)  # only yielded ones
                yield event.model_copy(update={"deliveries": claim["deliveries"]})

    def _acknowledge(self, by_claim: Mapping[str, list[int]]) -> dict[str, list[int]]:
        """Remove numbers from claims; return for each claim the numbers of this consumer."""

        def work(tx: Transaction) -> dict[str, list[int]]:
            done: dict[str, list[int]] = {}
            for claim in sorted(by_claim):
                rows = tx.run(
                    "events.acknowledge", claim=claim, consumer=self.name, done=by_claim[claim]
                )
                done[claim] = rows[0]["acknowledged"] if rows else []
            return done

        return self._graph.transact(work) if by_claim else {}


def _check_limit(limit: int, most: int = MAX_LIMIT) -> None:
    if type(limit) is not int or not 1 <= limit <= most:
        raise ValidationError("limit", limit, f"must be from 1 to {most}")


def _in_loop() -> bool:
    """Return whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _kinds(kinds: str | Iterable[str] | None) -> frozenset[str]:
    """Return checked kinds of events; none: all."""
    given = (
        ()
        if kinds is None
        else (kinds,)
        if isinstance(kinds, str)
        else checked_items("kinds", kinds)
    )
    found = tuple(given)
    for kind in found:
        check_choice("kinds", kind, get_args(EventKind))
    if kinds is not None and not found:
        raise ValidationError("kinds", kinds, "is empty", "name some, or give None for all")
    return frozenset(found)


def _names(pattern: str | None) -> Callable[[str], bool]:
    """Return whether names of agents and levels fit a pattern."""
    checked = checked_text("agent", pattern)
    return lambda name: checked is None or fnmatch.fnmatchcase(name, checked)


def _any_fits(handlers: Sequence[Handler]) -> Callable[[str], bool]:
    return lambda name: any(handler.fits(name) for handler in handlers)


def _any_wants(handlers: Sequence[Handler]) -> Callable[[Event], bool]:
    return lambda event: any(handler.wants(event) for handler in handlers)


def _ordered(events: Iterable[Event]) -> list[Event]:
    """Return events by date, those of one agent in the order of their numbers.

    The date is read before the stream is locked, so it can decrease from one number to the next.
    """
    latest: dict[str, datetime] = {}
    dated = []
    for event in sorted(events, key=lambda event: event.seq):
        latest[event.agent] = max(event.recorded_at, latest.get(event.agent, event.recorded_at))
        dated.append((latest[event.agent], event.agent, event.seq, event))
    return [event for _, _, _, event in sorted(dated, key=lambda item: item[:3])]


def _streams(graph: Graph, agent: str | None) -> list[Row]:
    return graph.read("events.streams", agent=agent)


def _read(graph: Graph, ids: Sequence[str], streams: Iterable[Row]) -> list[Event]:
    if not ids:
        return []
    names = {row["stream"]: row["agent"] for row in streams}
    return [event_of(row, names[row["stream"]]) for row in graph.read("events.read", ids=list(ids))]


def event_of(row: Row, agent: str) -> Event:
    """Return the event of a row of ``events.read``."""
    recorded = from_millis(row["created_at"])
    assert recorded is not None  # noqa: S101 - every event has one
    moment: datetime | None = from_millis(row["at"])
    return Event(
        id=row["id"],
        agent=agent,
        seq=row["seq"],
        kind=row["kind"],
        subject=row["subject"],
        other=row["other"],
        value=row["value"],
        success=row["success"],
        recorded_at=recorded,
        at=moment,
        facts=row["facts"] or {},
    )
