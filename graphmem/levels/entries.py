"""Levels by name, who may read and write them, and their entries: adding, reading by id."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import datetime
from secrets import token_hex
from typing import Any

from pydantic import JsonValue

from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import check_text, checked_agent, one_or_many
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.graph.reads import Reads
from graphmem.ids import (
    canonical_json,
    entry_id,
    from_millis,
    hashed,
    level_id,
    level_stream_id,
    to_millis,
)
from graphmem.models.levels import Added, Entry, Level, LevelName, NewEntry
from graphmem.notebook.lists import Listed
from graphmem.search.entries import EntrySearch
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text.words import words_of

SEARCHED = 4_000
"""Characters of an entry that a search by meaning sees."""
LINKED = 500
"""Edges that are written in one statement."""
Link = tuple[str, str, str]
"""An edge of an entry: what it leads to (a key of :data:`_LINKING`), from, to."""
_LINKING = {
    "entries": "flow.link_entries",
    "episodes": "flow.link_episodes",
    "knowledge": "flow.link_knowledge",
}
_PAUSES = re.compile(r"[.,:-](?!\d)|[;!?\"'()\[\]{}\u2026\u2013\u2014\u2018-\u201f]|\s")
"""Punctuation; not what belongs to a number."""
_CHANGED = ("id", "base", "at", "expires_at", "reads", "last_read_at")
_COMPARED = ("content", "format", "tags", "metadata")


class Base:
    """Finds the levels of one namespace."""

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
    fields = {name: row[name] for name in Level.model_fields}
    return fields | {"ttl": to_seconds(row["ttl"]), "created_at": from_millis(row["created_at"])}


class Entries(Base):
    """Adds and reads the entries of one namespace's levels."""

    def add(
        self,
        name: str,
        content: JsonValue,
        *,
        tags: Iterable[str] = (),
        key: str | None = None,
        metadata: Mapping[str, JsonValue] | None = None,
        ttl: float | None = None,
        at: datetime | None = None,
        relevance: float = 1.0,
        agent: str | None = None,
    ) -> Added:
        """Add an entry to a level, durably.

        Without a key, every call adds an entry. A level has one entry for a key. The same content,
        tags and metadata again change nothing (``created=False``). Anything else replaces the entry
        (``replaced=True``) and restarts its life; levels that pull from this one ingest that as a
        change.

        Args:
            name: name of the level.
            content: a text, or anything that JSON can hold.
            tags: what a search finds it by, for instance ``kind:plan``.
            key: its subject, for instance ``order/17``.
            metadata: any other data, as JSON; not searched.
            ttl: seconds that it stays; default: the level's.
            at: when it happened, with time zone; default: now. Its life begins then.
            relevance: how much it counts at first, in (0, 1].
            agent: who writes; an agent may write its own levels and those for all. None: anybody.
        """
        given = {**locals(), "metadata": {} if metadata is None else metadata}
        level = self._writable(name, agent)
        new = NewEntry(**{field: given[field] for field in NewEntry.model_fields})
        new = self._graph.storable(new)
        row = row_of(self._graph.ns, level.name, new, self._graph.now())
        options = ["keyed"] if new.key is not None else []
        options += ["locked"] if self._graph.must_lock else []
        where = _place_of(self._graph.ns, level.name)
        created, replaced = True, False
        if not self._graph.write("entries.add", *options, id=row["id"], rows=[row], **where):
            stored = self._graph.transact(lambda tx: store(tx, level.name, [row]))
            created, replaced = any(stored), bool(stored[1])
        return Added(
            id=row["id"], level=level.name, key=new.key, created=created, replaced=replaced
        )

    def entries(self, ids: str | Sequence[str], *, agent: str | None = None) -> Listed[Entry]:
        """Return entries by id, in order of time, with their relevance now; also expired ones.

        Args:
            ids: one id, or several.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: an entry is not there (any more), or the reader may not read its level.
        """
        identities = one_or_many("ids", ids)
        for identity in identities:
            check_text("ids", identity)
        view = self._view(agent)
        rows = self._graph.read("entries.get", ids=identities)
        rows = [row for row in rows if is_readable(LevelName.of(row["level"]), view)]
        who = "" if view.reader is None else f" that agent {view.reader!r} may read"
        for missing in sorted({*identities} - {row["id"] for row in rows}):
            raise NotFoundError(
                f"no entry {missing!r:.100}{who} in namespace {self._graph.ns!r}: it expired and "
                "was removed, or was never there"
            )
        return Listed([Entry(**entry_fields(row)) for row in rows])


def new_id(namespace: str, level: str, key: str | None) -> str:
    """Return the id of an entry of a level: that of its key, else one of its own."""
    return token_hex(16) if key is None else entry_id(namespace, level, key)


def row_of(namespace: str, level: str, new: NewEntry, now: int) -> Row:
    """Return the row of ``entries.add`` for an entry of a level."""
    plain = isinstance(new.content, str)
    return {
        "id": new_id(namespace, level, new.key),
        "place": 1,
        "key": new.key,
        "content": new.content if plain else canonical_json(new.content),
        "format": "text" if plain else "json",
        "text": words_of(new.content)[:SEARCHED],
        "said": hashed(canonical_json(_folded(new.content))),
        "at": now if new.at is None else to_millis(new.at),
        "metadata": canonical_json(new.metadata),
        "base": new.relevance,
        "ttl": to_duration(new.ttl),
        **tag_columns(new.tags),
    }


def _folded(content: JsonValue) -> JsonValue:
    """Return a content without case, punctuation and spaces that change nothing of what it says."""
    if isinstance(content, str):
        return " ".join(_PAUSES.sub(" ", content.casefold()).split()) or content
    if isinstance(content, list):
        return [_folded(item) for item in content]
    if isinstance(content, dict):
        return {name: _folded(value) for name, value in content.items()}
    return content


def tag_columns(tags: Iterable[str]) -> Row:
    """Return the columns with the tags of an entry, which are in order."""
    return {"tags": [*tags], "tagset": canonical_json([*tags])}


def store(tx: Transaction, level: str, rows: Sequence[Row]) -> tuple[Set[str], Set[str]]:
    """Store entries (rows of :func:`row_of`) in a level; return the ids of new, replaced ones."""
    [target] = lock_levels(tx, level)
    check_takes_entries(target)
    last = {row["id"]: row for row in rows}  # of several with one key, the last counts
    keyed = [row["id"] for row in last.values() if row["key"] is not None]
    old = {row["id"]: row for row in tx.run("entries.get", ids=keyed)} if keyed else {}
    new = last.keys() - old.keys()
    replaced = {
        key
        for key, row in old.items()
        if not lives(row, tx.now) or any(row[name] != last[key][name] for name in _COMPARED)
    }
    for name, keys in (("entries.add", new), ("entries.replace", replaced)):
        chosen = [row for key, row in last.items() if key in keys]
        if chosen:  # their places give the numbers of their events
            placed = [row | {"place": n} for n, row in enumerate(chosen, 1)]
            tx.run(name, rows=placed, **_place_of(tx.ns, level))
    return new, replaced


def change(tx: Transaction, rows: Sequence[Row]) -> None:
    """Give stored entries other tags, another life and other reads."""
    parts = [{name: row[name] for name in _CHANGED} | tag_columns(row["tags"]) for row in rows]
    tx.run("upkeep.absorb", rows=parts)


def link(run: Callable[..., object], links: Iterable[Link]) -> None:
    """Link entries to what they were made from, and to what they became."""
    rows = defaultdict[str, list[Row]](list)
    for kind, identity, target in links:
        rows[kind].append({"id": identity, "target": target})
    for kind in sorted(rows):
        for page in pages(rows[kind], LINKED):
            run(_LINKING[kind], rows=page)


def _place_of(namespace: str, level: str) -> Row:
    return {"level": level_id(namespace, level), "stream": level_stream_id(namespace, level)}


def lives(row: Row, now: int) -> bool:
    """Return whether an entry has not expired."""
    return row["expires_at"] is None or bool(row["expires_at"] > now)


def entry_fields(row: Row) -> dict[str, Any]:
    """Return the fields of an :class:`Entry` from a row with ``entry_columns``."""
    fields: dict[str, Any] = {name: row[name] for name in Entry.model_fields}
    if row["format"] == "json":
        fields["content"] = json.loads(row["content"])
    fields["metadata"] = json.loads(row["metadata"])
    return fields | {name: from_millis(row[name]) for name in ("at", "expires_at")}
