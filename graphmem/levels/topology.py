"""The levels themselves: making and closing them."""

from __future__ import annotations

from graphmem.errors import ValidationError
from graphmem.graph.arguments import checked_agent
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, level_id, level_stream_id
from graphmem.levels.base import Base, check_writable, level_fields, to_duration
from graphmem.models.levels import (
    FLOW,
    PRESETS,
    Level,
    LevelName,
    LevelSettings,
    LevelUpkeep,
    default_name,
)
from graphmem.notebook.frames import Listed
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 10_000
"""Entries, or events, that are removed in one statement."""
PULL = "pull:"
"""The name of a pulling level's group begins with this; the name of the level follows."""
_DEFAULT_TRANSFORMERS = {"working": "dedup", "stm": "summarise"}
_SETTINGS = ("purpose", "ttl", "capacity", "decay", "prune", "dedup", "reindex")


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
        level = LevelName.of(name)
        check_writable(level, checked_agent(agent))
        settings = LevelSettings(
            ttl=ttl,
            capacity=capacity,
            purpose=purpose,
            upkeep=LevelUpkeep() if upkeep is None else upkeep,
        )
        row = level_row(self._graph.ns, level, settings)
        for field, value in (("ttl", ttl), ("capacity", capacity)):
            if row["holds"] != "entries" and value is not None:
                problem = f"does not fit a view of {row['holds']}"
                raise ValidationError(field, value, problem, "leave it out")

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
        ns, rows, ids = self._graph.ns, {}, {}
        for kind, preset in PRESETS.items():
            level = LevelName.of(default_name(owner, kind), "agent")
            row = level_row(ns, level, LevelSettings(ttl=preset.ttl, capacity=preset.capacity))
            rows[row["id"]], ids[kind] = row, row["id"]
        flow = [
            {
                "id": ids[target],
                "source": ids[source],
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
        check_writable(level, checked_agent(agent))
        [row] = self._find(self._graph, [level], self._view(None))
        removed = 0
        while page := self._graph.write("levels.clear", id=row["id"], limit=PAGE)[0]["removed"]:
            removed += page
        removed += self._graph.transact(lambda tx: drop(tx, level.name))
        self._search.tidy()
        return int(removed)


def level_row(namespace: str, level: LevelName, settings: LevelSettings) -> Row:
    """Return the row of ``levels.put`` for a level."""
    preset = PRESETS.get(level.kind) if level.owner_kind == "agent" else None
    return {
        "id": level_id(namespace, level.name),
        "stream": level_stream_id(namespace, level.name),
        **level._asdict(),
        "purpose": settings.purpose or (preset.purpose if preset else ""),
        "holds": preset.holds if preset else "entries",
        "ttl": to_duration(settings.ttl),
        "capacity": settings.capacity,
        **settings.upkeep.model_dump(),
    }


def note(tx: Transaction, name: str, kind: str, data: object) -> None:
    """Append an event to the stream of a level; it stores no entry."""
    tx.run("levels.note", stream=level_stream_id(tx.ns, name), kind=kind, data=canonical_json(data))


def drop(tx: Transaction, name: str) -> int:
    """Erase a level with everything in it; return the number of entries.

    Lenses that look at nothing else are removed, too.
    """
    identity, stream = level_id(tx.ns, name), level_stream_id(tx.ns, name)
    removed = 0
    locked = tx.run("levels.lock", ids=[stream])
    if not locked:
        return removed
    while page := tx.run("levels.clear", id=identity, limit=PAGE)[0]["removed"]:
        removed += page
    lenses = tx.run("lenses.forget", id=identity)
    if empty := [row["id"] for row in lenses if not row["levels"]]:
        tx.run("lenses.drop", ids=empty)
    for seqs in pages(range(1, locked[0]["last"] + 1), PAGE):
        tx.run("levels.drop_events", ids=[f"{stream}:{seq}" for seq in seqs])
    tx.run("levels.drop", id=identity, stream=stream)
    return removed


def owned_by(tx: Transaction, agent: str) -> tuple[list[str], list[str]]:
    """Return the names of the levels of an agent, and the ids of its lenses."""
    levels = tx.run("levels.list", owner_kind="agent", owner=agent)
    lenses = tx.run("lenses.list", owner_kind="agent", owner=agent)
    return [row["name"] for row in levels], [row["id"] for row in lenses]
