"""The event streams: looks without claiming, and consumers. Each event goes to one of a group."""

from __future__ import annotations

import asyncio
import fnmatch
import heapq
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated

from pydantic import Field

from graphmem.errors import StoreError
from graphmem.graph.arguments import MOST, check_limit, checked_agent, one_or_many
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import event_ids, from_millis, node_id
from graphmem.models.fields import Input, Name, checked
from graphmem.models.forecasts import Change
from graphmem.models.policies import Event, EventKind, Pending
from graphmem.notebook import Listed
from graphmem.store.port import Row, check_wanted

EVIDENCE = ("episode", "erased", "outcome", "transition")
"""Kinds of events after which crystallizing can give something else."""
LISTEN_SECONDS = 0.2  # seconds between two looks for new events

FindChanges = Callable[[Sequence[str]], Mapping[str, tuple[Change, ...]]]
"""Finds the changes that became certain with episodes (ids)."""
_Positions = Mapping[str, Annotated[int, Field(ge=0)]]
_log = logging.getLogger(__name__)


class Interest(Input):
    """Which events are wanted by whom."""

    group: Name
    consumer: Name = "listener"
    kinds: Annotated[tuple[EventKind, ...], Field(min_length=1)] | None = None
    agent: Name | None = None  # a pattern; ``*`` stands for any letters
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
        self._page: deque[tuple[str, Event]] = deque()  # what to give next, each with its claim
        self._latest: tuple[str, Event] | None = None
        self._began = False
        self._look_after = 0.0  # when to look for what idle consumers left, by the process's clock
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
        while self._look():
            self._ended.wait(LISTEN_SECONDS)
            check_wanted()
        if (event := self._next()) is None:
            raise StopIteration
        return event

    async def __anext__(self) -> Event:
        while await asyncio.to_thread(self._look):
            await asyncio.sleep(LISTEN_SECONDS)
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
        who = {"consumer": self._given.consumer, "before": before}
        return [
            claim
            for row in self._graph.read("events.claims", **which)
            if self._given.fits(row["agent"])
            for claim in self._graph.write("events.reclaim", claim=row["claim"], **who)
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
            given = event.model_copy(update={"deliveries": claim["deliveries"], "changes": changes})
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


class Events:
    """The event streams of one namespace: ``memory.events``."""

    def __init__(
        self, graph: Graph, crystallize: Callable[[str], object], find_changes: FindChanges
    ) -> None:
        self._graph = graph
        self._crystallize = crystallize
        self._find_changes = find_changes
        self._ended = threading.Event()

    def listen(
        self,
        group: str,
        kinds: str | Iterable[str] | None = None,
        *,
        agent: str | None = None,
        consumer: str = "listener",
        limit: int = 100,
        idle: float = 60.0,
        follow: bool = True,
    ) -> Consumer:
        """Return the events of a group as they come: iterate with ``for`` or ``async for``.

        An event is acknowledged when you ask for the next one. So each comes at least once, also
        after a crash or a restart. A consumer that waits looks five times a second. It ends with
        ``stop`` or the memory.

        Args:
            group: each event goes to one consumer of a group; groups are independent. A new group
                begins with the first event.
            kinds: the kinds of events to give, one or several; None: all. Others are acknowledged.
                "changed": episodes with which it became certain that a strategy works better or
                worse than it did (``event.changes``).
            agent: only streams of agents and levels whose names match; ``*`` stands for any
                letters.
            consumer: the unique name of this consumer in its group, the same after a restart.
            limit: most events that it claims at a time; others of the group don't get these.
            idle: seconds without a sign of life after which it takes over the events of another
                consumer; longer than any consumer needs for one event.
            follow: wait for more events; False: end after those that are there.
        """
        kinds = None if kinds is None else tuple(one_or_many("kinds", kinds))
        interest = Interest.from_arguments(locals())
        return Consumer(self._graph, interest, self._find_changes, self._ended)

    def crystallize(
        self,
        *,
        agent: str | None = None,
        group: str = "crystallize",
        consumer: str = "listener",
        follow: bool = True,
    ) -> None:
        """Crystallize policies as evidence comes, by ``policies.crystallize``, until ``stop``.

        The arguments are those of :meth:`listen`.
        """
        done: dict[str, int] = {}
        for event in self.listen(group, EVIDENCE, agent=agent, consumer=consumer, follow=follow):
            if event.seq > done.get(event.agent, 0):  # else it was counted with an earlier one
                streams = self._graph.read("events.streams", agent=event.agent)
                self._crystallize(event.agent)
                done[event.agent] = max((row["last"] for row in streams), default=0)

    def stop(self) -> None:
        """End all consumers of this memory, before their next events."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()

    def tail(
        self, limit: int = 20, *, agent: str | None = None, after: Mapping[str, int] | None = None
    ) -> Listed[Event]:
        """Return the latest events, of all streams or an agent's, by date, without claiming them.

        The latest of at most ``limit`` events comes last. With ``after`` (agent -> number, as of
        :meth:`positions`; other agents: from the start) they are the first events after these
        numbers, at most ``limit`` of each agent.
        """
        check_limit(limit)
        streams = self._graph.read("events.streams", agent=checked_agent(agent))
        if after is None:
            firsts = {row["agent"]: max(1, row["last"] - limit + 1) for row in streams}
        else:
            places = checked("after", after, _Positions)
            firsts = {agent: position + 1 for agent, position in places.items()}
        ids: list[str] = []
        for row in streams:
            first = firsts.get(row["agent"], 1)
            ids += event_ids(row["stream"], first, min(row["last"], first + limit - 1))
        agents = {row["stream"]: row["agent"] for row in streams}
        own: dict[str, list[Event]] = {agent: [] for agent in agents.values()}
        for event in sorted(read_events(self._graph, ids, agents), key=lambda event: event.seq):
            own[event.agent].append(event)  # each stream keeps its order
        events = [*heapq.merge(*own.values(), key=lambda event: event.recorded_at)]
        return Listed(events[-limit:] if after is None else events)

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in self._graph.read("events.streams")}

    def pending(self, group: str) -> Listed[Pending]:
        """Return the pending events of a group's consumers."""
        rows = self._graph.read("events.claims", group=Interest(group=group).group)
        for row in rows:
            row |= {"count": len(row["pending"]), "claimed_at": from_millis(row["claimed_at"])}
        return Listed(Pending(**row) for row in rows)
