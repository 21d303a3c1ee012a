"""Consumers of event streams: each event goes to one consumer of a group.

An event that a consumer received is pending until it is acknowledged, also after a crash or a
restart; another consumer of the group can take it over with ``reclaim``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphmem.errors import ValidationError
from graphmem.graph.graph import Graph, Transaction
from graphmem.ids import from_millis, node_id
from graphmem.models.events import Event
from graphmem.store.port import Row

PARKED = "parked"
"""The consumer of a group that keeps what its handlers gave up; nobody takes that over."""


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
        rows = self._graph.read("events.cursors", group=self.group, agent=self._agent)
        streams = [row for row in rows if self._fits(row["agent"])]
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
        ids = [event.id for event in events] if events else list(self._received)
        received = {identity: self._received.get(identity) for identity in ids}
        by_claim: dict[str, list[int]] = {}
        for claim, seq in filter(None, received.values()):
            by_claim.setdefault(claim, []).append(seq)
        done = self._acknowledge(by_claim)
        for identity in ids:
            self._received.pop(identity, None)
        for identity, claimed in received.items():
            if claimed is None or claimed[1] not in done[claimed[0]]:
                raise self._not_pending(identity)
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
        streams = self._graph.read("events.streams", agent=self._agent)
        own_streams = {row["stream"] for row in streams if self._fits(row["agent"])}
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
            events = read_events(self._graph, list(ids), streams)
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
