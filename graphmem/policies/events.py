"""The event streams: their consumers, and looks without claiming."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Iterable, Mapping

from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_limit, checked_agent, one_or_many
from graphmem.graph.graph import Graph
from graphmem.ids import event_ids, from_millis
from graphmem.models.policies import Event, Pending
from graphmem.notebook.lists import Listed
from graphmem.policies.consumers import Consumer, FindChanges, Interest, read_events
from graphmem.store.port import Row

EVIDENCE = ("episode", "erased", "outcome", "transition")
"""Kinds of events after which crystallizing can give something else."""


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
        after a crash or a restart. Writes of this process wake a consumer at once; it looks for
        those of others every second. It ends with ``stop`` or the memory.

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
        given = Interest(
            group=group,
            consumer=consumer,
            kinds=None if kinds is None else tuple(one_or_many("kinds", kinds)),  # type: ignore[arg-type]
            agent=agent,
            limit=limit,
            idle=idle,
            follow=follow,
        )
        return Consumer(self._graph, given, self._find_changes, self._ended)

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
        how = {"agent": agent, "consumer": consumer, "follow": follow}
        done: dict[str, int] = {}
        for event in self.listen(group, EVIDENCE, **how):  # type: ignore[arg-type]
            if event.seq > done.get(event.agent, 0):  # else it was counted with an earlier one
                streams = self._graph.read("events.streams", agent=event.agent)
                self._crystallize(event.agent)
                done[event.agent] = max((row["last"] for row in streams), default=0)

    def stop(self) -> None:
        """End all consumers of this memory, before their next events."""
        ended, self._ended = self._ended, threading.Event()
        ended.set()
        self._graph.bell.ring()

    def tail(
        self, limit: int = 20, *, agent: str | None = None, after: Mapping[str, int] | None = None
    ) -> Listed[Event]:
        """Return the latest events in order of date, the latest last, without claiming them.

        Args:
            limit: most events; with ``after`` most events of each agent.
            agent: only the stream of this agent.
            after: the first events after these numbers (agent -> number, as of :meth:`positions`;
                other agents: from the start) instead of the latest ones.
        """
        check_limit(limit)
        streams = self._graph.read("events.streams", agent=checked_agent(agent))
        if after is None:
            firsts = {row["agent"]: max(1, row["last"] - limit + 1) for row in streams}
            return Listed(self._ordered(streams, firsts, limit)[-limit:])
        if not isinstance(after, Mapping) or any(
            type(position) is not int or position < 0 for position in after.values()
        ):
            raise ValidationError(
                "after", after, "must be a dict of numbers by agent", "see positions()"
            )
        firsts = {agent: position + 1 for agent, position in after.items()}
        return Listed(self._ordered(streams, firsts, limit))

    def positions(self) -> dict[str, int]:
        """Return the number of the last event of each agent's stream."""
        return {row["agent"]: row["last"] for row in self._graph.read("events.streams")}

    def pending(self, group: str) -> Listed[Pending]:
        """Return the pending events of a group's consumers."""
        rows = self._graph.read("events.claims", group=Interest(group=group).group)
        return Listed(
            [
                Pending(
                    consumer=row["consumer"],
                    agent=row["agent"],
                    count=len(row["pending"]),
                    claimed_at=from_millis(row["claimed_at"]),
                    deliveries=row["deliveries"],
                )
                for row in rows
            ]
        )

    def _ordered(self, streams: list[Row], firsts: Mapping[str, int], limit: int) -> list[Event]:
        """Return events of each stream from a number on, by date; each stream keeps its order."""
        ids: list[str] = []
        for row in streams:
            first = firsts.get(row["agent"], 1)
            ids += event_ids(row["stream"], first, min(row["last"], first + limit - 1))
        agents = {row["stream"]: row["agent"] for row in streams}
        own: dict[str, list[Event]] = {agent: [] for agent in agents.values()}
        for event in sorted(read_events(self._graph, ids, agents), key=lambda event: event.seq):
            own[event.agent].append(event)
        return [*heapq.merge(*own.values(), key=lambda event: event.recorded_at)]
