"""Consumers of event streams: each event goes to one consumer of a group.

An event that a consumer received is pending until it is acknowledged, also after a crash or a
restart; another consumer of the group can take it over with ``reclaim``. A listener is a consumer
that waits for events, and acknowledges each when the next one is asked for.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Self

from graphmem.errors import StoreError, ValidationError
from graphmem.graph.arguments import checked_number
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.policies import Event
from graphmem.store.port import Row

PARKED = "parked"
"""The consumer of a group that keeps what its handlers gave up; nobody takes that over."""
LISTEN_SECONDS = 1.0
"""Seconds between checks for writes of other processes."""

_log = logging.getLogger(__name__)


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
        fits: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self.group = group
        self.name = name
        self._graph = graph
        self._limit = limit
        self._fits = fits
        self._received: dict[str, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[Event]:
        """Claim at most ``limit`` next events, and yield those that were not erased."""
        streams = self._streams(self.group)
        left = self._limit
        for row in streams:
            erased = 1
            while left > 0 and erased:  # erased events do not end the iteration
                claims = self._claim(row["stream"], left)
                erased = sum(len(claim["pending"]) for claim in claims)
                for event in self._deliver(claims, streams):
                    left, erased = left - 1, erased - 1
                    yield event

    def ack(self, *events: Event) -> int:
        """Acknowledge events, by default all of this consumer; return their number.

        Raises:
            ValidationError: an event is not pending with this consumer: it was acknowledged
                before, or another consumer re-claimed it. The others are acknowledged.
        """
        ids = dict.fromkeys([event.id for event in events] or self._received)
        received = {identity: self._received.get(identity) for identity in ids}
        done = self._acknowledge(filter(None, received.values()))
        for identity in ids:
            self._received.pop(identity, None)
        for identity, place in received.items():
            if place not in done:
                raise self._not_pending(identity)
        return len(done)

    def reclaim(self, *, idle: float = 60.0, own: bool = False) -> list[Event]:
        """Take over events that consumers of the group have had for ``idle`` seconds or more.

        The time counts from the moment when a consumer last claimed or acknowledged some of them.
        ``idle`` must be longer than a living consumer needs between these, else both process them.
        With ``idle=0, own=True`` a restarted consumer gets back only its own. Parked events stay
        with the consumer "parked".
        """
        now = self._graph.now()
        before = now - int(checked_number("idle", idle, 0, 1e9) * 1_000)
        old_claims = self._graph.read(
            "events.claims", group=self.group, consumer=self.name if own else None, before=before
        )
        streams = self._streams()
        own_streams = {row["stream"] for row in streams}
        events: list[Event] = []
        for row in old_claims:
            parked = row["consumer"] == PARKED != self.name
            if row["stream"] in own_streams and not parked:
                params = {"claim": row["claim"], "consumer": self.name, "before": before}
                events += self._deliver(self._graph.write("events.reclaim", **params), streams)
        return events

    def park(self, event: Event) -> None:
        """Give an event that is pending with this consumer to the consumer "parked".

        Raises:
            ValidationError: it is not pending with this consumer.
        """
        claim, seq = self._received.pop(event.id, ("", 0))

        def work(tx: Transaction) -> bool:
            who: Row = {"claim": claim, "consumer": self.name}
            parked = tx.run("events.park", seq=seq, keeper=PARKED, **who)
            return bool(parked and tx.run("events.acknowledge", done=[seq], **who))

        if not self._graph.transact(work):
            raise self._not_pending(event.id)

    def _not_pending(self, identity: str) -> ValidationError:
        return ValidationError(
            "event",
            identity,
            f"is not pending with consumer {self.name!r} of group {self.group!r}",
            "it was acknowledged before, or another consumer re-claimed it",
        )

    def _streams(self, group: str | None = None) -> list[Row]:
        """Return the streams to read; with a group those with unread events."""
        rows = self._graph.read("events.streams", group=group)
        return [row for row in rows if self._fits(row["agent"])]

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
            events = read_events(self._graph, list(ids), streams)
            erased = ids.keys() - {event.id for event in events}
            self._acknowledge((claim["claim"], ids[identity]) for identity in erased)
            for event in sorted(events, key=lambda event: event.seq):
                self._received[event.id] = (claim["claim"], event.seq)  # only yielded ones
                yield event.model_copy(update={"deliveries": claim["deliveries"]})

    def _acknowledge(self, places: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
        """Remove numbers from claims: (claim, number); return those that were this consumer's."""
        by_claim: dict[str, list[int]] = {}
        for claim, seq in places:
            by_claim.setdefault(claim, []).append(seq)

        def work(tx: Transaction) -> set[tuple[str, int]]:
            done: set[tuple[str, int]] = set()
            for claim, numbers in sorted(by_claim.items()):
                who: Row = {"claim": claim, "consumer": self.name}
                rows = tx.run("events.acknowledge", done=numbers, **who)
                done |= {(claim, seq) for row in rows for seq in row["acknowledged"]}
            return done

        return self._graph.transact(work) if by_claim else set()


class Listening:
    """The events of a group as they come: iterate over it, with ``for`` or ``async for``.

    Each event is acknowledged when you ask for the next one. If you leave a loop at an event, it
    comes again. Events that a consumer of this name did not acknowledge come first.
    """

    def __init__(
        self,
        graph: Graph,
        consumer: Consumer,
        completed: Callable[[list[Event]], list[Event]],
        wants: Callable[[Event], bool],
        *,
        idle: float,
        follow: bool,
    ) -> None:
        self._bell = graph.bell
        self._consumer = consumer
        self._completed = completed
        self._wants = wants
        self._idle = idle
        self._follow = follow
        self._stopped = self._failed = False
        self._page: deque[Event] = deque()
        self._latest: Event | None = None
        self._looked: float | None = None
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Let the iteration end before the next event."""
        self._stopped = True

    def park(self) -> None:
        """Have the latest event given to the consumer "parked", instead of acknowledging it."""
        self._failed = True

    def ack(self) -> None:
        """Acknowledge the latest event; else asking for the next one does."""
        if self._latest is None:
            return
        try:
            (self._consumer.park if self._failed else self._consumer.ack)(self._latest)
        except ValidationError:
            _log.warning("event %s was re-claimed while it was handled", self._latest.id)
        except StoreError:
            if not self._stopped:  # else the memory was closed, and the event comes again
                raise
        self._latest, self._failed = None, False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        woken = threading.Event()
        with self._bell.heard(woken.set):
            while self._look():
                woken.wait(LISTEN_SECONDS)
                woken.clear()
        if (event := self._next()) is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._bell.heard(lambda: loop.call_soon_threadsafe(woken.set)):
            while await asyncio.to_thread(self._look):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LISTEN_SECONDS):
                        await woken.wait()
                woken.clear()
        if (event := self._next()) is None:
            raise StopAsyncIteration
        return event

    def _next(self) -> Event | None:
        if not self._stopped and self._page:
            self._latest = self._page.popleft()
            return self._latest
        return None

    def _look(self) -> bool:
        """Acknowledge the latest event, get what is new; return whether to wait for more."""
        with self._lock:  # a cancelled call goes on while another one begins
            self.ack()
            try:
                while not self._stopped and not self._page and (read := self._new()):
                    new = self._completed(read)
                    self._page += filter(self._wants, new)
                    if unwanted := [event for event in new if not self._wants(event)]:
                        self._consumer.ack(*unwanted)
            except StoreError:
                if not self._stopped:  # else the memory was closed
                    raise
            return self._follow and not self._page and not self._stopped

    def _new(self) -> list[Event]:
        """Return a page of events: what this consumer had, what is new, what dead ones left."""
        now = time.monotonic()
        if self._looked is None:
            self._looked = now
            if own := self._consumer.reclaim(idle=0, own=True):
                return own
        if new := list(self._consumer):
            return new
        if now - self._looked >= self._idle:
            self._looked = now
            return self._consumer.reclaim(idle=self._idle)
        return []


def read_events(graph: Graph, ids: Sequence[str], streams: Iterable[Row]) -> list[Event]:
    """Return the events of some ids in the given streams, but for erased ones."""
    agents = {row["stream"]: row["agent"] for row in streams}
    rows = graph.read("events.read", ids=list(ids)) if ids else []
    events = []
    for row in rows:
        times = {"at": from_millis(row["at"]), "recorded_at": from_millis(row["created_at"])}
        agent, facts = agents[row["stream"]], row["facts"] or {}
        events.append(Event(**{**row, **times, "agent": agent, "facts": facts}))
    return events
