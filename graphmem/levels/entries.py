"""Entries: adding them to levels, and reading them by id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from secrets import token_hex
from typing import Any

from pydantic import JsonValue

from graphmem.errors import NotFoundError
from graphmem.graph.arguments import check_text, checked_agent, checked_items, listed
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, entry_id, from_millis, level_id, level_stream_id, to_millis
from graphmem.levels.base import (
    Base,
    check_takes_entries,
    check_writable,
    is_readable,
    lock_levels,
    to_duration,
)
from graphmem.models.levels import Added, Entry, LevelName, NewEntry, words_of
from graphmem.notebook.frames import Listed
from graphmem.store.port import Row

SEARCHED = 4_000
"""Characters of an entry that a search by meaning sees."""
LINKS = {
    "entries": "flow.link_entries",
    "episodes": "flow.link_episodes",
    "knowledge": "flow.link_knowledge",
}
"""The statements that link entries to what they were made from, and to what they became."""
_COMPARED = ("content", "format", "tags", "metadata")


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

        Raises:
            NotFoundError: there is no such level, or it was closed.
            ValidationError: a field is wrong, or the level is a view.
            ScopeError: it is the level of another agent.
            StoreError: the engine failed; nothing was written.
        """
        level = LevelName.of(name)
        check_writable(level, checked_agent(agent))
        more = {"key": key, "metadata": metadata, "ttl": ttl, "at": at}
        more = {field: value for field, value in more.items() if value is not None}
        new = NewEntry(content=content, tags=listed(tags), relevance=relevance, **more)  # type: ignore[arg-type] # it checks them
        row = row_of(self._graph.ns, level.name, new, self._graph.now())
        options = ["keyed"] if new.key is not None else []
        options += ["locked"] if self._graph.must_lock else []
        where = _place_of(self._graph.ns, level.name)
        if self._graph.write("entries.add", *options, id=row["id"], rows=[row], **where):
            return Added(id=row["id"], level=level.name, key=new.key, created=True)
        return self._graph.transact(lambda tx: store(tx, level.name, [row])[0])

    def entries(self, ids: str | Sequence[str], *, agent: str | None = None) -> Listed[Entry]:
        """Return entries by id, in order of time, with their relevance now; also expired ones.

        Args:
            ids: one id, or several.
            agent: who reads; None: anybody.

        Raises:
            NotFoundError: an entry is not there (any more), or the reader may not read its level.
        """
        identities = [ids] if isinstance(ids, str) else list(checked_items("ids", ids))
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


def row_of(namespace: str, level: str, new: NewEntry, now: int) -> Row:
    """Return the row of ``entries.add`` for an entry of a level."""
    plain = isinstance(new.content, str)
    return {
        "id": token_hex(16) if new.key is None else entry_id(namespace, level, new.key),
        "place": 1,
        "key": new.key,
        "content": new.content if plain else canonical_json(new.content),
        "format": "text" if plain else "json",
        "text": words_of(new.content)[:SEARCHED],
        "at": now if new.at is None else to_millis(new.at),
        "metadata": canonical_json(new.metadata),
        "base": new.relevance,
        "ttl": to_duration(new.ttl),
        **tag_columns(new.tags),
    }


def tag_columns(tags: Iterable[str]) -> Row:
    """Return the columns with the tags of an entry, which are in order."""
    return {"tags": [*tags], "tagset": canonical_json([*tags])}


def store(tx: Transaction, level: str, rows: Sequence[Row]) -> list[Added]:
    """Store entries (rows of :func:`row_of`) in a level; return what was done, a row each."""
    [target] = lock_levels(tx, level)
    check_takes_entries(target)
    last = {row["id"]: row for row in rows}  # of several with one key, the last counts
    keyed = [row["id"] for row in last.values() if row["key"] is not None]
    old = {row["id"]: row for row in tx.run("entries.get", ids=keyed)} if keyed else {}
    changed = {
        key
        for key, row in old.items()
        if not lives(row, tx.now) or any(row[name] != last[key][name] for name in _COMPARED)
    }
    new = [row for key, row in last.items() if key not in old]
    replaced = {key: row for key, row in last.items() if key in changed}
    for name, chosen in (("entries.add", new), ("entries.replace", [*replaced.values()])):
        if chosen:  # their places give the numbers of their events
            placed = [row | {"place": n} for n, row in enumerate(chosen, 1)]
            tx.run(name, rows=placed, **_place_of(tx.ns, level))
    return [
        Added(
            id=row["id"],
            level=level,
            key=row["key"],
            created=row["id"] not in old or row["id"] in replaced,
            replaced=row["id"] in replaced,
        )
        for row in rows
    ]


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
