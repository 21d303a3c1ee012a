"""Levels, entries and lenses in exports and imports: one line each."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import entry_id, from_millis, level_stream_id, node_id, to_millis
from graphmem.levels import edge_of, open_cursor, order_of
from graphmem.levels.entries import Link, change, entry_fields, link, row_of, store
from graphmem.levels.queries import lens_info, lens_row
from graphmem.levels.topology import level_row, subscription, to_seconds
from graphmem.models.fields import AS_TUPLE, Input, Moment, Name, millis
from graphmem.models.levels import (
    LensSettings,
    LevelName,
    LevelSettings,
    LevelUpkeep,
    NewEntry,
    PullOptions,
    ShortName,
    lens_name,
)
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 500


LevelText = Annotated[Name, AfterValidator(lambda name: LevelName.of(name, "level").name)]


class PullRecord(Input):
    """What a level pulls from another."""

    source: LevelText
    transformer: ShortName | None = None
    arguments: PullOptions = PullOptions()
    pulled: Annotated[int, Field(ge=0)] = 0  # how many of the entries of the source, in order


class LevelRecord(Input):
    """The line of a level."""

    held: Literal["level"]
    name: LevelText
    settings: LevelSettings
    pulls: Annotated[tuple[PullRecord, ...], AS_TUPLE] = ()


class BecameRecord(Input):
    """What an entry became: an episode, by its source key, or a fact."""

    episode: Name | None = None
    domain: Name | None = None
    fact: str | None = None


class EntryRecord(NewEntry):
    """The line of an entry; ``id`` is its id in the memory that was exported."""

    held: Literal["entry"]
    id: Name
    level: LevelText
    at: Moment
    expires_at: Moment | None = None
    reads: Annotated[int, Field(ge=0)] = 0
    last_read_at: Moment | None = None
    made_from: Annotated[tuple[Name, ...], AS_TUPLE] = ()
    became: Annotated[tuple[BecameRecord, ...], AS_TUPLE] = ()


class LensRecord(Input):
    """The line of a lens."""

    held: Literal["lens"]
    name: Annotated[Name, AfterValidator(lambda name: lens_name(name).name)]
    levels: Annotated[tuple[LevelText, ...], AS_TUPLE, Field(min_length=1)]
    settings: LensSettings


LevelsRecord = LevelRecord | EntryRecord | LensRecord
LEVELS_RECORDS: Mapping[str, type[LevelsRecord]] = {
    "level": LevelRecord,
    "entry": EntryRecord,
    "lens": LensRecord,
}
"""The models of lines, by what they hold."""


def records(tx: Transaction) -> Iterator[dict[str, Any]]:
    """Yield the lines of all levels, then those of their entries, and of lenses."""
    levels = tx.run("levels.list")
    entries = {
        row["id"]: sorted(tx.run("entries.held", id=row["id"]), key=lambda one: int(one["seq"]))
        for row in levels
    }
    pulls = defaultdict[str, list[Row]](list)
    for row in tx.run("levels.flow"):
        pull = {name: row[name] for name in ("source", "transformer")}
        pull["arguments"] = json.loads(row["arguments"])
        seqs = [one["seq"] for one in entries[row["source_id"]]]
        pulls[row["id"]].append(pull | {"pulled": bisect_right(seqs, row["position"])})
    for row in levels:
        settings = {name: row[name] for name in ("capacity", "purpose", "members")}
        settings["ttl"] = to_seconds(row["ttl"])
        settings["upkeep"] = {name: row[name] for name in LevelUpkeep.model_fields}
        line = {"name": row["name"], "settings": settings, "pulls": pulls[row["id"]]}
        yield {"held": "level", **line}
    for held in entries.values():
        for page in pages([row["id"] for row in held], PAGE):
            evidence = {row["id"]: row for row in tx.run("entries.evidence", ids=page)}
            rows = {row["id"]: row for row in tx.run("entries.get", ids=page)}
            for identity in page:
                yield _entry_line(rows[identity], evidence[identity])
    for row in tx.run("lenses.list"):
        settings = lens_info(row).model_dump(mode="json", exclude_defaults=True)
        lens = {name: settings.pop(name) for name in ("name", "levels")}
        del settings["created_at"]
        yield {"held": "lens", **lens, "settings": settings}


def _entry_line(row: Row, evidence: Row) -> dict[str, Any]:
    targets = [{n: one[n] for n in ("domain", "episode", "fact")} for one in evidence["became"]]
    times = {name: from_millis(row[name]) for name in ("at", "expires_at", "last_read_at")}
    line = {"held": "entry", **entry_fields(row), "relevance": row["base"]}
    del line["base"]
    line |= {name: None if at is None else at.isoformat() for name, at in times.items()}
    line["made_from"] = evidence["made_from"]
    line["became"] = [key for one in targets if (key := _without_empty(one))]
    return _without_empty(line)


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def check(reader: Reader, levels: Iterable[LevelRecord]) -> dict[str, LevelRecord]:
    """Return the levels that are missing, by name, of which none may feed itself."""
    there = {row["name"] for row in reader.read("levels.list")}
    new = {level.name: level for level in levels if level.name not in there}
    if edges := [(pull.source, name) for name, level in new.items() for pull in level.pulls]:
        order_of([*map(edge_of, reader.read("levels.flow")), *edges])
    return new


def take(graph: Graph, lines: Iterable[LevelsRecord]) -> tuple[int, int, int]:
    """Store levels, entries and lenses that are missing; return how many of each are new."""
    every = list(lines)
    levels = [line for line in every if isinstance(line, LevelRecord)]
    entries = [line for line in every if isinstance(line, EntryRecord)]
    lenses = [line for line in every if isinstance(line, LensRecord)]
    new_levels = graph.transact(lambda tx: _put_levels(tx, levels)) if levels else 0
    ids = _new_ids(graph, entries)
    new_entries = 0
    for name, group in groupby(sorted(entries, key=lambda one: one.level), lambda one: one.level):
        for page in pages(list(group), PAGE):
            new_entries += graph.transact(partial(_store_entries, name, page, ids))
    link(graph.write, _links(graph.ns, entries, ids))
    new_lenses = graph.transact(lambda tx: _put_lenses(tx, lenses)) if lenses else 0
    return new_levels, new_entries, new_lenses


def _put_levels(tx: Transaction, levels: Sequence[LevelRecord]) -> int:
    new = check(tx, levels)
    if new:
        parts = [(LevelName.of(name), level.settings) for name, level in new.items()]
        tx.run("levels.put", rows=[level_row(tx.ns, *part) for part in parts])
    for name, level in new.items():
        for pull in level.pulls:
            row = subscription(tx.ns, name, pull.source, pull.transformer, pull.arguments)
            tx.run("levels.subscribe", rows=[row])
            if pull.pulled and pull.source in new:
                cursor = open_cursor(tx, name, level_stream_id(tx.ns, pull.source))
                tx.run("events.move_cursor", id=cursor, position=pull.pulled)
    return len(new)


def _new_ids(graph: Graph, entries: Sequence[EntryRecord]) -> dict[str, str]:
    """Return the ids of entries here, by the ids that they had."""
    there: set[str] = set()
    for page in pages([entry.id for entry in entries], PAGE):
        there |= {row["id"] for row in graph.read("entries.get", ids=page)}

    def new_id(entry: EntryRecord) -> str:
        if entry.key is not None:
            return entry_id(graph.ns, entry.level, entry.key)
        if entry.id in there:
            return entry.id
        return node_id(graph.ns, "Entry", entry.level, "", entry.id)

    return {entry.id: new_id(entry) for entry in entries}


def _store_entries(
    level: str, page: Sequence[EntryRecord], ids: Mapping[str, str], tx: Transaction
) -> int:
    there = {row["id"] for row in tx.run("entries.get", ids=[ids[entry.id] for entry in page])}
    rows = []
    for entry in page:
        if ids[entry.id] not in there:
            row = row_of(tx.ns, level, tx.graph.storable(entry), to_millis(entry.at))
            life = {name: millis(getattr(entry, name)) for name in ("expires_at", "last_read_at")}
            rows.append(row | life | {"id": ids[entry.id], "reads": entry.reads})
    if rows:
        store(tx, level, rows)
        change(tx, rows)
    return len(rows)


def _links(
    namespace: str, entries: Sequence[EntryRecord], ids: Mapping[str, str]
) -> Iterator[Link]:
    """Yield the edges of entries to what they were made from, and to what they became."""
    for entry in entries:
        own = ids[entry.id]
        yield from ((own, ids.get(one, one)) for one in entry.made_from)
        for one in entry.became:
            if one.episode is not None:
                yield own, node_id(namespace, "Episode", "key", one.episode)
            elif one.domain is not None and one.fact is not None:
                yield own, node_id(namespace, "Knowledge", one.domain, one.fact)


def _put_lenses(tx: Transaction, lenses: Sequence[LensRecord]) -> int:
    levels = {row["name"] for row in tx.run("levels.list")}
    known = {row["name"] for row in tx.run("lenses.list")}
    rows = [
        lens_row(tx.ns, lens_name(lens.name), there, lens.settings)
        for lens in {lens.name: lens for lens in lenses}.values()
        if lens.name not in known and (there := levels.intersection(lens.levels))
    ]
    tx.run("lenses.put", rows=rows)
    return len(rows)
