"""The levels themselves: making, listing and closing them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from graphmem.errors import ValidationError
from graphmem.graph.access import View
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, from_millis, level_id, level_stream_id, node_id
from graphmem.levels.base import (
    Base,
    blind,
    check_writable,
    level_fields,
    readable,
)
from graphmem.models.levels import (
    FLOW,
    PRESETS,
    Level,
    LevelInfo,
    LevelName,
    LevelSettings,
    LevelUpkeep,
    default_name,
    source_name,
)
from graphmem.notebook.frames import Listed
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 10_000
"""Entries, or events, that are removed in one transaction."""
PULL = "pull:"
"""The name of a pulling level's group begins with this; the name of the level follows."""
_DEFAULT_TRANSFORMERS = {"working": "dedup", "stm": "summarise"}


class Topology(Base):
    """Makes, lists and closes the levels of one namespace."""

    def put(
        self,
        name: str,
        *,
        ttl: float | None = None,
        capacity: int | None = None,
        purpose: str = "",
        upkeep: LevelUpkeep | None = None,
        agent: str | None = None,
    ) -> Level:
        """Make a level, or replace its settings; a repeated call changes nothing.

        Its name says who owns it: ``agent:ada:notes`` (read by the agent, and by those with whom it
        shares), ``capability:search:cache``, ``task:deploy:shared``, ``collective:team``,
        ``system:facts`` (these are for all).

        Args:
            name: the name.
            ttl: seconds that an entry stays; None: until it is removed.
            capacity: most entries that maintenance leaves; None: any number.
            purpose: what it holds and why, for people and models.
            upkeep: how fast relevance decays, and what maintenance removes.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.

        Raises:
            ValidationError: a field is wrong, or it is the long-term level of an agent, which takes
                no time to live and no capacity.
            ScopeError: it is the level of another agent.
        """
        level, asking = LevelName.of(name), checked_agent(agent)
        check_writable(level, asking, "name")
        settings = LevelSettings(
            ttl=ttl,
            capacity=capacity,
            purpose=purpose,
            upkeep=LevelUpkeep() if upkeep is None else upkeep,
        )
        row = level_row(self._graph.ns, level, settings)
        if row["holds"] != "entries":
            for field, value in (("ttl", ttl), ("capacity", capacity)):
                if value is not None:
                    raise ValidationError(
                        field,
                        value,
                        f"does not fit a view of {row['holds']}",
                        "leave it out",
                    )

        def work(tx: Transaction) -> Row:
            before = tx.run("levels.get", ids=[row["id"]])
            tx.run("levels.put", rows=[row])
            after = tx.run("levels.get", ids=[row["id"]])
            if before and before != after:
                note(tx, level.name, "level", {name: after[0][name] for name in _SETTINGS})
            return after[0]

        return Level(**level_fields(self._graph.transact(work)))

    def default(self, agent: str) -> Listed[Level]:
        """Make the six usual levels of an agent that are missing; they pull from each other.

        Sensory (60 s), working (an hour), short-term (a day, 500 entries), and long-term: episodic,
        semantic and procedural. The long-term ones are views of the episodes, the knowledge and the
        strategies of the memory. Existing levels keep their settings.

        Raises:
            ValidationError: it is not the name of an agent.
        """
        owner = checked_agent(agent)
        if owner is None:
            raise ValidationError("agent", agent, "is missing", "give the name of an agent")
        ns = self._graph.ns
        names = {kind: LevelName.of(default_name(owner, kind), "agent") for kind in PRESETS}
        rows = {
            level_id(ns, names[kind].name): level_row(
                ns,
                names[kind],
                LevelSettings(ttl=preset.ttl, capacity=preset.capacity, purpose=preset.purpose),
            )
            for kind, preset in PRESETS.items()
        }
        flow = [
            {
                "id": level_id(ns, names[target].name),
                "source": level_id(ns, names[source].name),
                "transformer": _DEFAULT_TRANSFORMERS.get(target),
                "arguments": canonical_json({}),
            }
            for source, target in FLOW
        ]

        def work(tx: Transaction) -> list[Row]:
            there = {row["id"] for row in tx.run("levels.get", ids=sorted(rows))}
            missing = [row for key, row in rows.items() if key not in there]
            if missing:
                tx.run("levels.put", rows=missing)
            known = {(row["id"], row["source_id"]) for row in tx.run("levels.flow", ids=[*rows])}
            new = [row for row in flow if (row["id"], row["source"]) not in known]
            if new:
                tx.run("levels.subscribe", rows=new)
            return tx.run("levels.get", ids=sorted(rows))

        found = {row["kind"]: row for row in self._graph.transact(work)}
        return Listed([Level(**level_fields(found[kind])) for kind in PRESETS])

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
        return [row["name"] for row in rows if readable(LevelName.of(row["name"]), view)]

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
            row = self._find(tx, [level], view)[0]
            return infos(tx, [row], view)[0][0]

        return self._graph.view(work)

    def close(self, name: str, *, agent: str | None = None) -> int:
        """Erase a level with its entries, events and cursors; return how many entries.

        What other levels made from its entries stays, and so do episodes and knowledge that entries
        became. Lenses no longer look at it; a lens that looks at nothing else is removed.

        Args:
            name: its name.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.

        Raises:
            NotFoundError: there is no such level.
            ScopeError: it is the level of another agent.
        """
        level = LevelName.of(name)
        check_writable(level, checked_agent(agent), "name")
        row = self._find(self._graph, [level], self._view(None))[0]
        removed = 0
        while (gone := self._clear(row["id"])) == PAGE:
            removed += gone
        removed += gone + self._graph.transact(lambda tx: drop(tx, level.name))
        self._search.tidy()
        return removed

    def _clear(self, identity: str) -> int:
        return int(self._graph.write("levels.clear", id=identity, limit=PAGE)[0]["removed"])


_SETTINGS = ("purpose", "ttl", "capacity", "decay", "prune", "dedup", "reindex")


def level_row(namespace: str, level: LevelName, settings: LevelSettings) -> Row:
    """Return the row of ``levels.put`` for a level."""
    preset = PRESETS.get(level.kind) if level.owner_kind == "agent" else None
    return {
        "id": level_id(namespace, level.name),
        "stream": level_stream_id(namespace, level.name),
        "name": level.name,
        "kind": level.kind,
        "owner_kind": level.owner_kind,
        "owner": level.owner,
        "purpose": settings.purpose or (preset.purpose if preset else ""),
        "holds": preset.holds if preset else "entries",
        "ttl": None if settings.ttl is None else max(1, round(settings.ttl * 1_000)),
        "capacity": settings.capacity,
        **settings.upkeep.model_dump(),
    }


def note(tx: Transaction, name: str, kind: str, data: object, subject: str | None = None) -> None:
    """Append an event to the stream of a level."""
    row = {
        "stream": level_stream_id(tx.ns, name),
        "kind": kind,
        "subject": subject,
        "value": None,
        "at": tx.now,
        "data": canonical_json(data),
    }
    tx.run("levels.note", rows=[row])


def drop(tx: Transaction, name: str) -> int:
    """Erase a level with everything in it; return the number of entries."""
    ns, identity, stream = tx.ns, level_id(tx.ns, name), level_stream_id(tx.ns, name)
    removed = 0
    for ending in tx.run("levels.ending", id=identity, stream=stream):
        gone = ending["entries"]  # at most: another call may clear the level at the same time
        while gone:
            gone = int(tx.run("levels.clear", id=identity, limit=PAGE)[0]["removed"])
            removed += gone
        blind(tx, identity, name)
        flow = tx.run("levels.flow", ids=[identity]) if ending["pulls"] else []
        own = [node_id(ns, "Cursor", PULL + name, row["stream"]) for row in flow]
        if cursors := [*own, *ending["readers"]]:
            tx.run("levels.drop_cursors", ids=cursors)
        for page in pages(range(1, ending["last"] + 1), PAGE):
            tx.run("levels.drop_events", ids=[f"{stream}:{seq}" for seq in page])
        tx.run("levels.drop", id=identity, stream=stream)
    return removed


def owned(tx: Transaction, agent: str) -> tuple[list[str], list[str]]:
    """Return the names of the levels of an agent, and the ids of its lenses."""
    levels = tx.run("levels.list", owner_kind="agent", owner=agent)
    lenses = tx.run("lenses.list", owner_kind="agent", owner=agent)
    return [row["name"] for row in levels], [row["id"] for row in lenses]


def infos(tx: Transaction, rows: Sequence[Row], view: View) -> tuple[list[LevelInfo], list[Row]]:
    """Return the contents of levels (rows of ``levels.get``), in their order, and their sources.

    Sources that a reader may not read are left out.
    """
    ids = [row["id"] for row in rows]
    held: dict[str, list[Row]] = {identity: [] for identity in ids}
    for row in tx.run("levels.holdings", ids=ids):
        held[row["id"]].append(row)
    found = tx.run("levels.flow", ids=ids)
    flow = [row for row in found if readable(source_name(row["source"]), view)]
    sources: dict[str, list[Row]] = {identity: [] for identity in ids}
    for row in flow:
        sources[row["id"]].append(row)
    return [_info(row, held[row["id"]], sources[row["id"]]) for row in rows], flow


def _info(row: Row, held: list[Row], sources: list[Row]) -> LevelInfo:
    living = [part for part in held if part["entries"]]
    tags = {tag for part in living for tag in json.loads(part["tagset"])}
    return LevelInfo(
        **level_fields(row),
        entries=sum(part["entries"] for part in held),
        expired=sum(part["expired"] for part in held),
        missed=row["missed"],
        failed=row["failed"],
        pending=sum(source["last"] - source["position"] for source in sources),
        subscribed_to=tuple(source["source"] for source in sources),
        tags=tuple(sorted(tags)),
        oldest_at=from_millis(min((part["oldest_at"] for part in held), default=None)),
        newest_at=from_millis(max((part["newest_at"] for part in held), default=None)),
    )
