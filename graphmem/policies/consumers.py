"""Consumers of event streams: each event goes to one consumer of a group.

An event that a consumer received is pending until it is acknowledged, also after a crash or a
restart; another consumer of the group takes it over when the first one was idle for too long.
"""

from __future__ import annotations

import asyncio
import fnmatch
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated

from pydantic import Field

from graphmem.errors import StoreError
from graphmem.graph.arguments import MOST
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.fields import Input, Name
from graphmem.models.forecasts import Change
from graphmem.models.policies import Event, EventKind
from graphmem.store.port import Row, check_wanted

LISTEN_SECONDS = 1.0
"""Seconds between checks for writes of other processes."""

FindChanges = Callable[[Sequence[str]], Mapping[str, tuple[Change, ...]]]
"""Finds the changes that became certain with episodes (ids)."""
_log = logging.getLogger(__name__)


class Interest(Input):
    """Which events are wanted by whom."""

    group: Name
    consumer: Name = "listener"
    kinds: Annotated[tuple[EventKind, ...], Field(min_length=1)] | None = None
    agent: Name | None = None
    """A pattern; ``*`` stands for any letters."""
    limit: Annotated[int, Field(ge=1, le=MOST)] = 100
    idle: Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] = 60.0
    follow: bool = True

    def fits(self, agent: str) -> bool:
        """Return whether events of an agent or level are wanted."""
        return self.agent is None or fnmatch.fnmatchcase(agent, self.agent)

    def wants(self, event: Event) -> bool:
        """Return whether an event is of a wanted kind."""
        kinds = {event.kind, "changed"} if event.changes else {event.kind}
        return self.kinds is None or not kinds.isdisjoint(self.kinds)


class Consumer(Iterator[Event], AsyncIterator[Event]):
    """The events that one consumer of a group gets: iterate, with ``for`` or ``async for``.

    Each event is acknowledged when you ask for the next one. If you leave a loop at an event, it
    comes again. Events that a consumer of this name did not acknowledge come first.
    """

    def __init__(
        self, graph: Graph, given: Interest, find_changes: FindChanges, ended: threading.Event
    ) -> None:
        self._graph = graph
        self._given = given
        self._find_changes = find_changes
        self._ended = ended
        self._page: deque[tuple[str, Event]] = deque()
        """The events to give next, each with its claim."""
        self._latest: tuple[str, Event] | None = None
        self._began = False
        self._look_after = 0.0
        """When to look for what idle consumers left, by the clock of the process."""
        self._lock = threading.Lock()

    def ack(self) -> None:
        """Acknowledge the latest event; else asking for the next one does."""
        if self._latest is None:
            return
        claim, event = self._latest
        try:
            if event.seq not in self._acknowledge(claim, [event.seq]):
                _log.warning("event %s was re-claimed while it was handled", event.id)
        except StoreError:
            if not self._ended.is_set():  # else the memory was closed, and the event comes again
                raise
        self._latest = None

    def __next__(self) -> Event:
        woken = threading.Event()
        with self._graph.bell.heard(woken.set):
            while self._look():
                woken.wait(LISTEN_SECONDS)
                woken.clear()
                check_wanted()
        if (event := self._next()) is None:
            raise StopIteration
        return event

    async def __anext__(self) -> Event:
        woken, loop = asyncio.Event(), asyncio.get_running_loop()
        with self._graph.bell.heard(lambda: loop.call_soon_threadsafe(woken.set)):
            while await asyncio.to_thread(self._look):
                with suppress(TimeoutError):
                    async with asyncio.timeout(LISTEN_SECONDS):
                        await woken.wait()
                woken.clear()
        if (event := self._next()) is None:
            raise StopAsyncIteration
        return event

    def _next(self) -> Event | None:
        if self._ended.is_set() or not self._page:
            return None
        self._latest = self._page.popleft()
        return self._latest[1]

    def _look(self) -> bool:
        """Acknowledge the latest event, get what is new; return whether to wait for more."""
        with self._lock:  # a cancelled call goes on while another one begins
            self.ack()
            try:
                while not (self._page or self._ended.is_set()) and (claims := self._claims()):
                    for claim in claims:
                        self._open(claim)
            except StoreError:
                if not self._ended.is_set():  # else the memory was closed
                    raise
            return self._given.follow and not self._page and not self._ended.is_set()

    def _claims(self) -> list[Row]:
        """Return claims: what this consumer had, else what is new, else what idle ones left."""
        if not self._began:
            self._began = True
            if own := self._reclaim(self._given.consumer, 0):
                return own
        if new := self._claim():
            return new
        if time.monotonic() >= self._look_after:
            self._look_after = time.monotonic() + self._given.idle
            return self._reclaim(None, self._given.idle)
        return []

    def _claim(self) -> list[Row]:
        """Claim the next events of the streams that fit, up to the limit."""
        group, claims, left = self._given.group, list[Row](), self._given.limit
        for row in self._graph.read("events.streams", group=group):
            if left > 0 and self._given.fits(row["agent"]):
                claims += self._graph.transact(partial(self._claim_next, row["stream"], left))
                left = self._given.limit - sum(len(claim["pending"]) for claim in claims)
        return claims

    def _claim_next(self, stream: str, limit: int, tx: Transaction) -> list[Row]:
        cursor = node_id(tx.ns, "Cursor", self._given.group, stream)
        tx.run("events.open_cursor", id=cursor, group=self._given.group, stream=stream)
        return tx.run("events.claim", id=cursor, consumer=self._given.consumer, limit=limit)

    def _reclaim(self, consumer: str | None, idle: float) -> list[Row]:
        """Take over the claims of a consumer, or of all, that were idle for so many seconds."""
        before = self._graph.now() - int(idle * 1_000)
        which = {"group": self._given.group, "consumer": consumer, "before": before}
        return [
            claim
            for row in self._graph.read("events.claims", **which)
            if self._given.fits(row["agent"])
            for claim in self._graph.write(
                "events.reclaim", claim=row["claim"], consumer=self._given.consumer, before=before
            )
        ]

    def _open(self, claim: Row) -> None:
        """Get the wanted events of a claim; acknowledge the others, and those that were erased."""
        ids = [f"{claim['stream']}:{seq}" for seq in claim["pending"]]
        events = read_events(self._graph, ids, {claim["stream"]: claim["agent"]})
        found: Mapping[str, tuple[Change, ...]] = {}
        if "changed" in (self._given.kinds or ()):
            episodes = [event for event in events if event.kind == "episode"]
            found = self._find_changes([event.subject for event in episodes if event.subject])
        left = set(claim["pending"])
        for event in sorted(events, key=lambda event: event.seq):
            changes = found.get(event.subject or "", ()) if event.kind == "episode" else ()
            more = {"deliveries": claim["deliveries"], "changes": changes}
            given = event.model_copy(update=more)
            if self._given.wants(given):
                self._page.append((claim["claim"], given))
                left.remove(event.seq)
        if left:
            self._acknowledge(claim["claim"], sorted(left))

    def _acknowledge(self, claim: str, numbers: Sequence[int]) -> set[int]:
        """Remove numbers from a claim; return those that were this consumer's."""
        who = {"claim": claim, "consumer": self._given.consumer}
        rows = self._graph.write("events.acknowledge", done=list(numbers), **who)
        return {seq for row in rows for seq in row["acknowledged"]}


def read_events(graph: Graph, ids: Sequence[str], agents: Mapping[str, str]) -> list[Event]:
    """Return the events of some ids, but for erased ones; ``agents``: their streams' agents."""
    events = []
    for row in graph.read("events.read", ids=list(ids)) if ids else ():
        times = {"at": from_millis(row["at"]), "recorded_at": from_millis(row["created_at"])}
        agent, facts = agents[row["stream"]], row["facts"] or {}
        events.append(Event(**{**row, **times, "agent": agent, "facts": facts}))
    return events
