"""The levels themselves: who may read and write them, making and closing them, what they hold."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial

from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import checked_agent
from graphmem.graph.derived import Page, Paged, Verified
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.graph.reads import Reads
from graphmem.ids import canonical_json, from_millis, level_id, level_stream_id
from graphmem.models.levels import (
    FLOW,
    PRESETS,
    Level,
    LevelEdge,
    LevelInfo,
    LevelName,
    LevelSettings,
    LevelStatistics,
    LevelUpkeep,
    MemoryMap,
    PullOptions,
    Tags,
    default_name,
)
from graphmem.models.reports import Difference
from graphmem.notebook import Listed
from graphmem.search.entries import EntrySearch
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 10_000  # entries, or events, that are removed in one statement
_OWNER = re.compile(r"(capability|task):[^:]+")
_SETTINGS = ("purpose", "ttl", "capacity", "members", "decay", "prune", "dedup", "reindex")


class Topology:
    """Makes, finds and closes the levels of one namespace."""

    def __init__(self, graph: Graph, search: EntrySearch, reads: Reads) -> None:
        self._graph = graph
        self._search = search
        self._reads = reads

    def _find(
        self, reader: Reader, names: Iterable[LevelName], view: View, field: str = "name"
    ) -> list[Row]:
        """Return existing levels that may be read: rows of ``levels.list``, in order of name."""
        parts = list(names)
        for name in parts:
            check_readable(name, view, field)
        return existing(reader, [name.name for name in parts])

    def _readable(self, reader: Reader, view: View, **which: str | None) -> list[Row]:
        """Return the levels that may be read, of all owners or of one, in order of name."""
        rows = reader.read("levels.list", **which)
        return [row for row in rows if is_readable(LevelName.of(row["name"]), view)]

    def _view(self, agent: str | None) -> View:
        return read_view(self._graph, agent)

    def _writable(self, name: str, agent: str | None, field: str = "name") -> LevelName:
        """Return the parts of the name of a level that an agent, or None, may write."""
        level, writer = LevelName.of(name, field), checked_agent(agent)
        check_writable(level, writer, field)
        if level.owner_kind != "collective" or writer is None:
            return level
        for row in self._graph.read("levels.list", ids=[level_id(self._graph.ns, level.name)]):
            if row["members"] is not None and writer not in row["members"]:
                problem = f"has members that alone may write it, and agent {writer!r} is none"
                remedy = f"let {' or '.join(row['members'][:3]) or 'an administrator'} do it"
                raise ScopeError(field, level.name, problem, remedy)
        return level

    def put(
        self,
        name: str,
        *,
        ttl: float | None = None,
        capacity: int | None = None,
        purpose: str = "",
        members: str | Iterable[str] | None = None,
        upkeep: LevelUpkeep | None = None,
        agent: str | None = None,
    ) -> Level:
        """Make a level, or replace its settings; a repeated call changes nothing.

        Its name says who owns it: ``agent:ada:notes`` (read by the agent, and by those with whom it
        shares), ``capability:search:cache``, ``task:deploy:shared``, ``collective:team``,
        ``system:facts`` (these are for all). A level of a task, named by its text or its key, is
        closed at the end of an attempt at it.

        Args:
            name: the name.
            ttl: seconds that an entry stays; None: until it is removed.
            capacity: most entries that maintenance leaves; None: any number.
            purpose: what it holds and why, for people and models.
            members: the agent, or agents, that alone may write or close a collective level; None:
                everybody. All may read it.
            upkeep: how fast relevance decays, and what maintenance removes.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.

        Raises:
            ValidationError: a field is wrong, or it is the long-term level of an agent, which takes
                no time to live and no capacity.
        """
        given, level = dict(locals()), self._writable(name, agent)
        given["members"] = [members] if isinstance(members, str) else members
        given["upkeep"] = LevelUpkeep() if upkeep is None else upkeep
        settings = LevelSettings.from_arguments(given)
        if settings.members is not None and level.owner_kind != "collective":
            problem = f"does not fit a level of kind {level.owner_kind}"
            raise ValidationError("members", members, problem, "name it collective:...")
        row = level_row(self._graph.ns, level, settings)
        for field, value in (("ttl", ttl), ("capacity", capacity)):
            if row["holds"] != "entries" and value is not None:
                problem = f"does not fit a view of {row['holds']}"
                raise ValidationError(field, value, problem, "leave it out")

        def work(tx: Transaction) -> Row:
            before = tx.run("levels.list", ids=[row["id"]])
            tx.run("levels.put", rows=[row])
            after = tx.run("levels.list", ids=[row["id"]])
            if before and before != after:
                note(tx, level.name, "level", {name: after[0][name] for name in _SETTINGS})
            return after[0]

        return Level(**level_fields(self._graph.transact(work)))

    def default(self, agent: str) -> Listed[Level]:
        """Make the six usual levels of an agent that are missing; they pull from each other.

        Sensory (60 s), working (an hour), short-term (a day, 500 entries), and long-term: episodic,
        semantic and procedural. The long-term ones are views of the episodes, the knowledge and the
        strategies of the memory. Existing levels keep their settings.
        """
        owner = checked_agent(agent)
        if owner is None:
            raise ValidationError("agent", agent, "is missing", "give the name of an agent")
        ns = self._graph.ns
        names = {kind: LevelName.of(default_name(owner, kind), "agent") for kind in PRESETS}
        rows = [
            level_row(ns, names[kind], LevelSettings(ttl=preset.ttl, capacity=preset.capacity))
            for kind, preset in PRESETS.items()
        ]
        ids = sorted(row["id"] for row in rows)
        flow = [
            subscription(ns, names[target].name, names[source].name, transformer, PullOptions())
            for source, target, transformer in FLOW
        ]

        def work(tx: Transaction) -> list[Row]:
            there = {row["id"] for row in tx.run("levels.list", ids=ids)}
            if missing := [row for row in rows if row["id"] not in there]:
                tx.run("levels.put", rows=missing)
            pairs = {(row["id"], row["source_id"]) for row in tx.run("levels.flow", ids=ids)}
            if new := [row for row in flow if (row["id"], row["source"]) not in pairs]:
                tx.run("levels.subscribe", rows=new)
            return tx.run("levels.list", ids=ids)

        by_kind = {row["kind"]: row for row in self._graph.transact(work)}
        return Listed([Level(**level_fields(by_kind[kind])) for kind in PRESETS])

    def close(self, name: str, *, agent: str | None = None) -> int:
        """Erase a level with its entries, events and cursors; return how many entries.

        ``capability:search`` or ``task:deploy`` closes all levels of that owner. What other levels
        made from its entries stays, and so do episodes and knowledge that entries became. Lenses no
        longer look at it; a lens that looks at nothing else is removed.
        """
        if type(name) is str and _OWNER.fullmatch(name):
            if (removed := self._end(*name.split(":"))) is None:
                raise NotFoundError(f"no level of {name!r} in namespace {self._graph.ns!r}")
            return removed
        return self._close(existing(self._graph, [self._writable(name, agent).name]))

    def _end(self, kind: str, owner: str) -> int | None:
        """Close the levels of an owner, if there are any; return how many entries they had."""
        rows = self._graph.read("levels.list", owner_kind=kind, owner=owner)
        return self._close(rows) if rows else None

    def _close(self, rows: Iterable[Row]) -> int:
        removed = sum(self._graph.transact(partial(drop, name=row["name"])) for row in rows)
        self._search.tidy()
        return removed

    def names(self, owner: str | None = None, *, agent: str | None = None) -> list[str]:
        """Return the names of the levels that ``agent`` may read, in order.

        They are those of all owners, or of one: an agent, capability, task or collective.
        """
        rows = self._readable(self._graph, self._view(agent), owner=checked_agent(owner))
        return [row["name"] for row in rows]

    def info(self, name: str, *, agent: str | None = None) -> LevelInfo:
        """Return a level, its settings, and its contents now."""
        level, view = LevelName.of(name), self._view(agent)

        def work(tx: Transaction) -> LevelInfo:
            return _contents(tx, self._find(tx, [level], view), view)[0][0]

        return self._graph.view(work)

    def map(self, agent: str | None = None) -> MemoryMap:
        """Return the levels that ``agent`` may read, what is in them, and which pulls from which.

        It prints as a tree for a prompt.
        """
        reader, view = checked_agent(agent), self._view(agent)

        def work(tx: Transaction) -> MemoryMap:
            rows = self._readable(tx, view)
            rows.sort(key=lambda row: (reader is None or row["owner"] != reader, row["name"]))
            levels, edges = _contents(tx, rows, view)
            at = from_millis(tx.now)
            return MemoryMap(agent=reader, at=at, levels=tuple(levels), edges=tuple(edges))

        return self._graph.view(work)

    def statistics(self, agent: str | None = None) -> LevelStatistics:
        """Return the totals of levels that ``agent`` may read: entries, pending, missed ones."""
        whole = self.map(agent)
        kinds: Counter[str] = Counter()
        for level in whole.levels:
            if not level.view:
                kinds[level.kind] += level.entries
        totals = ("entries", "expired", "missed", "failed", "pending")
        return LevelStatistics(
            at=whole.at,
            levels=len(whole.levels),
            subscriptions=len(whole.edges),
            kinds=dict(sorted(kinds.items())),
            **{name: sum(getattr(level, name) for level in whole.levels) for name in totals},
        )


def _contents(
    tx: Transaction, rows: Sequence[Row], view: View
) -> tuple[list[LevelInfo], list[LevelEdge]]:
    """Return levels with their contents, in their order, and what pulls from readable levels."""
    ids = [row["id"] for row in rows]
    counts, tags = defaultdict[str, Counter[str]](Counter), defaultdict[str, Counter[str]](Counter)
    for row in tx.run("levels.holdings", ids=ids):
        counts[row["id"]].update(entries=row["entries"], expired=row["expired"])
        if row["entries"]:
            tags[row["id"]].update(dict.fromkeys(json.loads(row["tagset"]), row["entries"]))
    waiting = defaultdict[tuple[str, str], list[tuple[Sequence[str], int]]](list)
    for row in tx.run("levels.waiting", ids=ids):
        waiting[row["id"], row["source_id"]].append((json.loads(row["tagset"]), row["entries"]))
    edges = []
    for row in tx.run("levels.flow", ids=ids):
        if is_readable(LevelName.of(row["source"]), view):
            where = condition_of(row)
            entries = waiting[row["id"], row["source_id"]]
            pending = sum(n for held, n in entries if where is None or where.fits(held))
            edge = LevelEdge(**row, target=row["level"], pending=pending)
            edges.append(edge)
            counts[row["id"]]["pending"] += edge.pending
    levels = [
        LevelInfo(
            **level_fields(row),
            **{name: counts[row["id"]][name] for name in ("entries", "expired", "pending")},
            subscribed_to=tuple(edge.source for edge in edges if edge.target == row["name"]),
            tags=dict(sorted(tags[row["id"]].items(), key=lambda each: (-each[1], each[0]))),
        )
        for row in rows
    ]
    return levels, edges


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
        "members": None if settings.members is None else list(settings.members),
        **settings.upkeep.model_dump(),
    }


def subscription(
    ns: str, level: str, source: str, transformer: str | None, options: PullOptions
) -> Row:
    """Return the row of ``levels.subscribe`` for two levels by name."""
    ids = {"id": level_id(ns, level), "source": level_id(ns, source)}
    terms = canonical_json(options.model_dump(mode="json", exclude_defaults=True))
    return ids | {"transformer": transformer, "arguments": terms}


def condition_of(row: Row) -> Tags | None:
    """Return the condition on tags in a row of ``levels.flow``."""
    return PullOptions.model_validate_json(row["arguments"]).where


def note(tx: Transaction, name: str, kind: str, data: object) -> None:
    """Append an event to the stream of a level; it stores no entry."""
    tx.run("levels.note", stream=level_stream_id(tx.ns, name), kind=kind, data=canonical_json(data))


def drop(tx: Transaction, name: str) -> int:
    """Erase a level, its contents, and lenses of nothing else; return the number of entries."""
    identity, stream = level_id(tx.ns, name), level_stream_id(tx.ns, name)
    streams = tx.run("events.lock_streams", ids=[stream])
    if not streams:  # somebody else closed it
        return 0
    entries = tx.run("entries.fitting", levels=[identity])
    for page in pages([row["id"] for row in entries], PAGE):
        tx.run("erasing.drop_entries", ids=page)
    lenses = tx.run("lenses.forget", id=identity)
    tx.run("erasing.drop_lenses", ids=[row["id"] for row in lenses if not row["levels"]])
    for seqs in pages(range(1, streams[0]["last"] + 1), PAGE):
        tx.run("erasing.drop_noted", ids=[f"{stream}:{seq}" for seq in seqs])
    tx.run("levels.drop", id=identity, stream=stream)
    return len(entries)


def lock_levels(tx: Transaction, *names: str) -> list[Row]:
    """Lock levels, which must be there, against writers, in order; return their rows."""
    tx.run("events.lock_streams", ids=sorted(level_stream_id(tx.ns, name) for name in names))
    return existing(tx, names)


def existing(reader: Reader, names: Iterable[str]) -> list[Row]:
    """Return rows of ``levels.list``, in order of name; one that is missing is an error."""
    ids = {level_id(reader.ns, name): name for name in names}
    rows = reader.read("levels.list", ids=sorted(ids)) if ids else []
    for missing in sorted({*ids.values()} - {row["name"] for row in rows}):
        raise NotFoundError(
            f"no level {missing!r} in namespace {reader.ns!r}: it was never put, or it was closed; "
            "levels.put makes one, and levels.names() lists them"
        )
    return rows


def is_readable(name: LevelName, view: View) -> bool:
    """Return whether a reader may read a level: those of agents are private, or shared."""
    return name.owner_kind != "agent" or view.agents is None or name.owner in view.agents


def check_readable(name: LevelName, view: View, field: str, kind: str = "level") -> None:
    """Check that a reader may read a level or lens."""
    if not is_readable(name, view):
        owner, reader = repr(name.owner), repr(view.reader)
        problem = f"is a private {kind} of agent {owner}, which agent {reader} may not read"
        remedy = f"let {owner} share with {reader} (share_with), which inherits from it"
        raise ScopeError(field, name.name, problem, f"{remedy} (inherit_from)")


def check_writable(
    name: LevelName, agent: str | None, field: str = "name", kind: str = "level"
) -> None:
    """Check that an agent may write a level or lens; None is an administrator."""
    if name.owner_kind == "agent" and agent not in (None, name.owner):
        whose = f"is a private {kind} of agent {name.owner!r}"
        problem = f"{whose}, which agent {agent!r} may not write"
        raise ScopeError(field, name.name, problem, f"use a {kind} of {agent!r}, or one for all")


def check_takes_entries(row: Row, field: str = "name") -> None:
    """Check that a level (a row of ``levels.list``) has entries of its own."""
    if row["holds"] != "entries":
        problem = f"shows the {row['holds']} of its owner, and takes no entries"
        raise ValidationError(field, row["name"], problem, "learn, know or pull instead")


def to_seconds(millis: int | None) -> float | None:
    """Return milliseconds as seconds."""
    return None if millis is None else millis / 1_000


def to_duration(seconds: float | None) -> int | None:
    """Return seconds as milliseconds, at least one."""
    return None if seconds is None else max(1, round(seconds * 1_000))


def level_fields(row: Row) -> Row:
    """Return the fields of a :class:`Level` from a row of ``levels.list``."""
    return row | {"ttl": to_seconds(row["ttl"]), "created_at": from_millis(row["created_at"])}


class LevelCheck(Paged):
    """Verifies levels, entries and lenses. These are no facts, so that rebuilding leaves them."""

    kinds = ("levels", "entries", "lenses")

    def compare(self, tx: Transaction, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare edges and events with what the nodes say."""
        levels = tx.run("levels.list")
        if tx.graph.must_lock:
            ids = [level_stream_id(tx.ns, row["name"]) for row in levels]
            tx.run("events.lock_streams", ids=ids)
        holdings = tx.run("levels.holdings", ids=[row["id"] for row in levels])
        entries = sum(row["entries"] + row["expired"] for row in holdings)
        counts = {"levels": len(levels), "entries": entries, "lenses": len(tx.run("lenses.list"))}
        return Verified([Difference(**row) for row in tx.run("upkeep.astray")], counts)
