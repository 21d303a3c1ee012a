"""Looking at the levels: their map, their totals, their tags."""

from __future__ import annotations

import json
from collections import Counter

from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.ids import from_millis
from graphmem.levels.base import Base, readable
from graphmem.levels.topology import infos
from graphmem.models.levels import EVENTS, LevelName
from graphmem.models.maps import LevelEdge, LevelStatistics, MemoryMap


class Looking(Base):
    """Shows the levels of one namespace, and what is in them."""

    def map(self, agent: str | None = None) -> MemoryMap:
        """Return the levels, what is in them, and which pulls from which.

        It prints as a tree for a prompt, and can be drawn (``plot``, ``mermaid``).

        Args:
            agent: who reads; levels that it may not read are left out. None: anybody.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        reader, view = checked_agent(agent), self._view(agent)

        def work(tx: Transaction) -> MemoryMap:
            there = tx.run("levels.list", owner=None)
            rows = [row for row in there if readable(LevelName.of(row["name"]), view)]
            rows.sort(key=lambda row: (reader is None or row["owner"] != reader, row["name"]))
            levels, flow = infos(tx, rows, view)
            edges = tuple(
                LevelEdge(
                    source=row["source"],
                    target=row["level"],
                    transformer=row["transformer"],
                    pending=row["last"] - row["position"],
                )
                for row in flow
                if not row["source"].startswith(EVENTS)
            )
            at = from_millis(tx.now)
            return MemoryMap(agent=reader, at=at, levels=tuple(levels), edges=edges)

        return self._graph.view(work)

    def statistics(self, agent: str | None = None) -> LevelStatistics:
        """Return the totals of the levels: entries, pending ones, missed ones.

        Args:
            agent: who reads; levels that it may not read are left out. None: anybody.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        shown = self.map(agent)
        kinds: Counter[str] = Counter()
        for level in shown.levels:
            if not level.view:
                kinds[level.kind] += level.entries
        times = [level for level in shown.levels if level.oldest_at is not None]
        return LevelStatistics(
            at=shown.at,
            levels=len(shown.levels),
            subscriptions=len(shown.edges),
            entries=shown.entries,
            expired=sum(level.expired for level in shown.levels),
            missed=sum(level.missed for level in shown.levels),
            failed=sum(level.failed for level in shown.levels),
            pending=shown.pending,
            kinds=dict(sorted(kinds.items())),
            over_capacity=tuple(
                level.name
                for level in shown.levels
                if level.capacity is not None and level.entries > level.capacity
            ),
            oldest_at=min((level.oldest_at for level in times if level.oldest_at), default=None),
            newest_at=max((level.newest_at for level in times if level.newest_at), default=None),
        )

    def tags(self, name: str, *, agent: str | None = None) -> dict[str, int]:
        """Return the tags in a level, with the number of living entries of each, most first.

        Args:
            name: its name.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ScopeError: it belongs to an agent that does not share with the reader.
        """
        level, view = LevelName.of(name), self._view(agent)

        def work(tx: Transaction) -> Counter[str]:
            row = self._find(tx, [level], view)[0]
            counts: Counter[str] = Counter()
            for held in tx.run("levels.holdings", ids=[row["id"]]):
                if held["entries"]:
                    counts.update(dict.fromkeys(json.loads(held["tagset"]), held["entries"]))
            return counts

        counts = self._graph.view(work)
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
