"""What the levels hold: their names, contents, map, totals and tags."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from graphmem.graph.access import View
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.ids import from_millis
from graphmem.levels.base import Base, is_readable, level_fields
from graphmem.models.levels import EVENTS, LevelInfo, LevelName, source_name
from graphmem.models.maps import LevelEdge, LevelStatistics, MemoryMap
from graphmem.store.port import Row


class Inspection(Base):
    """Shows the levels of one namespace, and what is in them."""

    def names(self, owner: str | None = None, *, agent: str | None = None) -> list[str]:
        """Return the names of the levels, in order; of all owners, or of one.

        Args:
            owner: only the levels of this agent, capability, task or collective.
            agent: who asks; levels that it may not read are left out. None: anybody.

        Raises:
            ValidationError: an argument is wrong.
        """
        view = self._view(agent)
        rows = self._graph.read("levels.list", owner=checked_agent(owner))
        return [row["name"] for row in rows if is_readable(LevelName.of(row["name"]), view)]

    def info(self, name: str, *, agent: str | None = None) -> LevelInfo:
        """Return a level, its settings, and its contents now.

        Args:
            name: its name.
            agent: who asks; None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ScopeError: it belongs to an agent that does not share with the one who asks.
        """
        level, view = LevelName.of(name), self._view(agent)

        def work(tx: Transaction) -> LevelInfo:
            return _contents(tx, self._find(tx, [level], view), view)[0][0]

        return self._graph.view(work)

    def map(self, agent: str | None = None) -> MemoryMap:
        """Return the levels, what is in them, and which pulls from which.

        It prints as a tree for a prompt; ``mermaid`` draws it, and so does a notebook.

        Args:
            agent: who reads; levels that it may not read are left out. None: anybody.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        reader, view = checked_agent(agent), self._view(agent)

        def work(tx: Transaction) -> MemoryMap:
            rows = [
                row for row in tx.run("levels.list") if is_readable(LevelName.of(row["name"]), view)
            ]
            rows.sort(key=lambda row: (reader is None or row["owner"] != reader, row["name"]))
            levels, flow = _contents(tx, rows, view)
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
        seen = self.map(agent)
        kinds: Counter[str] = Counter()
        for level in seen.levels:
            if not level.view:
                kinds[level.kind] += level.entries
        totals = {
            name: sum(getattr(level, name) for level in seen.levels)
            for name in ("entries", "expired", "missed", "failed", "pending")
        }
        return LevelStatistics(
            at=seen.at,
            levels=len(seen.levels),
            subscriptions=len(seen.edges),
            **totals,
            kinds=dict(sorted(kinds.items())),
            over_capacity=tuple(
                level.name
                for level in seen.levels
                if level.capacity is not None and level.entries > level.capacity
            ),
            oldest_at=min((one.oldest_at for one in seen.levels if one.oldest_at), default=None),
            newest_at=max((one.newest_at for one in seen.levels if one.newest_at), default=None),
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
            return _tags(tx.run("levels.holdings", ids=[row["id"]]))

        counts = self._graph.view(work)
        return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _contents(
    tx: Transaction, rows: Sequence[Row], view: View
) -> tuple[list[LevelInfo], list[Row]]:
    """Return the contents of levels (rows of ``levels.get``), in their order, and their sources.

    Sources that a reader may not read are left out.
    """
    ids = [row["id"] for row in rows]
    parts: dict[str, list[Row]] = {identity: [] for identity in ids}
    for row in tx.run("levels.holdings", ids=ids):
        parts[row["id"]].append(row)
    flow = tx.run("levels.flow", ids=ids)
    flow = [row for row in flow if is_readable(source_name(row["source"]), view)]
    sources: dict[str, list[Row]] = {identity: [] for identity in ids}
    for row in flow:
        sources[row["id"]].append(row)
    return [_info(row, parts[row["id"]], sources[row["id"]]) for row in rows], flow


def _info(row: Row, parts: list[Row], sources: list[Row]) -> LevelInfo:
    return LevelInfo(
        **level_fields(row),
        entries=sum(part["entries"] for part in parts),
        expired=sum(part["expired"] for part in parts),
        missed=row["missed"],
        failed=row["failed"],
        pending=sum(source["last"] - source["position"] for source in sources),
        subscribed_to=tuple(source["source"] for source in sources),
        tags=tuple(sorted(_tags(parts))),
        oldest_at=from_millis(min((part["oldest_at"] for part in parts), default=None)),
        newest_at=from_millis(max((part["newest_at"] for part in parts), default=None)),
    )


def _tags(parts: Iterable[Row]) -> Counter[str]:
    """Return the number of living entries of each tag."""
    counts: Counter[str] = Counter()
    for part in parts:
        if part["entries"]:
            counts.update(dict.fromkeys(json.loads(part["tagset"]), part["entries"]))
    return counts
