"""Reads event streams: each event goes to one consumer of a group.

An event that a consumer received is pending until it is acknowledged, also after a crash or a
restart; another consumer of the group can take it over with ``reclaim``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from graphmem.errors import ValidationError
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.events import Event, Pending
from graphmem.models.fields import Input, Name
from graphmem.policies.rebuilding import event_ids
from graphmem.store.port import Row

MAX_LIMIT = 10_000
MAX_READ = 1_000_000


class _Group(Input):
    group: Name
    consumer: Name = "consumer"
    agent: Name | None = None


class Events:
    """The event streams of one namespace: ``memory.events``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

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

    def tail(self, limit: int = 20, *, agent: str | None = None) -> list[Event]:
        """Return the latest events, the latest last, without claiming them."""
        _check_limit(limit)
        streams = _streams(self._graph, checked_agent(agent))
        ids: list[str] = []
        for stream in streams:
            last = stream["last"]
            ids += event_ids(stream["stream"], max(1, last - limit + 1), last)
        events = _read(self._graph, ids, streams)
        return _ordered(events)[-limit:]

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in _streams(self._graph, None)}

    def since(self, positions: Mapping[str, int], limit: int = 1_000) -> list[Event]:
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
        return _ordered(events)

    def pending(self, group: str) -> list[Pending]:
        """Return the pending events of a group's consumers."""
        named = _Group(group=group)
        rows = self._graph.read("events.claims", group=named.group)
        # Read after the claims: a missing event was then erased, and is not just new.
        names = {row["stream"]: row["agent"] for row in _streams(self._graph, None)}
        return [
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
    ) -> None:
        self.group = group
        self.name = name
        self._graph = graph
        self._limit = limit
        self._agent = agent
        self._received: dict[str, tuple[str, int]] = {}

    def __iter__(self) -> Iterator[Event]:
        """Claim at most ``limit`` next events, and yield those that were not erased."""
        streams = {
            row["stream"]: row
            for row in self._graph.read("events.cursors", group=self.group, agent=self._agent)
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
            raise ValidationError(
                "event",
                foreign[0],
                f"is not pending with consumer {self.name!r} of group {self.group!r}",
                "it was acknowledged before, or another consumer re-claimed it",
            )
        return sum(map(len, done.values()))

    def reclaim(self, *, idle: float = 60.0, own: bool = False) -> list[Event]:
        """Take over events that consumers of the group have had for ``idle`` seconds or more.

        This includes the consumer's own events, and recovers those of dead consumers. ``idle`` must
        be longer than a living consumer needs for its events, else both process them. A restarted
        consumer gets back only its own with ``idle=0, own=True``.

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
        known = {row["stream"] for row in streams}
        events: list[Event] = []
        for row in old_claims:
            if row["stream"] not in known:
                continue

            def work(tx: Transaction, claim: str = row["claim"]) -> list[Row]:
                return tx.run("events.reclaim", claim=claim, consumer=self.name, before=before)

            claims = self._graph.transact(work)
            events += self._deliver(claims, streams)
        return events

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
