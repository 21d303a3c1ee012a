"""Levels, entries and lenses in exports and imports: one line each."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import (
    canonical_json,
    entry_id,
    from_millis,
    level_id,
    level_stream_id,
    node_id,
    to_millis,
)
from graphmem.levels.entries import row_of, store
from graphmem.levels.flow import BECAME, begin, check_no_circle, flow_edges, source_id
from graphmem.levels.lenses import info, lens_row, put
from graphmem.levels.topology import PULL, level_row
from graphmem.models.held import EntryRecord, HeldRecord, LensRecord, LevelRecord, PullRecord
from graphmem.models.lenses import LensSettings, lens_name
from graphmem.models.levels import EVENTS, MAX_SECONDS, LevelName, source_name
from graphmem.store.paging import pages
from graphmem.store.port import Row

PAGE = 500


def records(tx: Transaction) -> Iterator[dict[str, Any]]:
    """Yield the lines of all levels, then those of their entries, and of lenses."""
    levels = tx.run("levels.list")
    pulls: dict[str, list[Row]] = {}
    seqs: dict[str, list[int]] = {}
    for row in tx.run("levels.flow", ids=[row["id"] for row in levels]):
        source = row["source_id"]
        if source not in seqs:
            seqs[source] = sorted(one["seq"] for one in tx.run("entries.held", id=source))
        pulls.setdefault(row["id"], []).append(
            {
                "source": row["source"],
                "transformer": row["transformer"],
                "arguments": json.loads(row["arguments"]),
                "pulled": bisect_right(seqs[source], row["position"]),
            }
        )
    for row in levels:
        upkeep = {name: row[name] for name in ("decay", "prune", "dedup", "reindex")}
        ttl = None if row["ttl"] is None else row["ttl"] / 1_000
        settings = {"ttl": ttl, "capacity": row["capacity"], "purpose": row["purpose"]}
        yield {
            "held": "level",
            "name": row["name"],
            "settings": {**settings, "upkeep": upkeep},
            "pulls": pulls.get(row["id"], []),
        }
    for level in levels:
        for row in tx.run("entries.all", id=level["id"]):
            json_held = row["format"] == "json"
            line = {
                "held": "entry",
                "id": row["id"],
                "level": level["name"],
                "key": row["key"],
                "content": json.loads(row["content"]) if json_held else row["content"],
                "tags": row["tags"],
                "metadata": json.loads(row["metadata"]),
                "relevance": row["base"],
                **{name: _moment(row[name]) for name in ("at", "expires_at", "last_read_at")},
                "reads": row["reads"],
                "made_from": row["made_from"],
                "became": [_given(one) for one in row["became"] if _given(one)],
            }
            yield {name: value for name, value in line.items() if value not in (None, [], {})}
    for row in tx.run("lenses.list"):
        lens = info(row)
        names = ("tags", "max_age", "limit", "purpose")
        settings = {name: getattr(lens, name) for name in names}
        yield {
            "held": "lens",
            "name": lens.name,
            "levels": list(lens.levels),
            "settings": LensSettings(**settings).model_dump(mode="json", exclude_defaults=True),
        }


def check(reader: Reader, levels: Iterable[LevelRecord]) -> None:
    """Check that no imported level would feed itself.

    Raises:
        ValidationError: one would; the error names the circle.
    """
    named = {level.name: level for level in levels}
    there = {row["name"] for row in reader.read("levels.list")}
    new = [
        (pull.source, name)
        for name, level in named.items()
        if name not in there
        for pull in level.pulls
    ]
    if new:
        check_no_circle([*flow_edges(reader.read("flow.subscriptions")), *new])


def take(graph: Graph, lines: Iterable[HeldRecord]) -> tuple[int, int, int]:
    """Store levels, entries and lenses that are missing; return how many of each are new.

    Existing levels and lenses keep their settings, and existing entries stay as they are.
    """
    levels: list[LevelRecord] = []
    entries: list[EntryRecord] = []
    lenses: list[LensRecord] = []
    for line in lines:
        if isinstance(line, LevelRecord):
            levels.append(line)
        elif isinstance(line, EntryRecord):
            entries.append(line)
        else:
            lenses.append(line)
    made = graph.transact(lambda tx: _make(tx, levels)) if levels else 0
    known = _known(graph, entries)
    created = 0
    for name, held in groupby(sorted(entries, key=lambda one: one.level), lambda one: one.level):
        for page in pages(list(held), PAGE):

            def work(tx: Transaction, name: str = name, page: Sequence[EntryRecord] = page) -> int:
                return _fill(tx, name, page, known)

            created += graph.transact(work)
    made_from = [
        {"id": known[entry.id], "source": known.get(source, source)}
        for entry in entries
        for source in entry.made_from
    ]
    for rows in pages(made_from, PAGE):
        graph.write("entries.derive", rows=rows)
    _note_became(graph, entries, known)
    looking = graph.transact(lambda tx: _look(tx, lenses)) if lenses else 0
    return made, created, looking


def _look(tx: Transaction, lenses: Sequence[LensRecord]) -> int:
    """Put missing lenses on those of their levels that are there; return how many."""
    levels = {row["name"] for row in tx.run("levels.list")}
    rows = [
        lens_row(tx.ns, lens_name(lens.name), there, lens.settings)
        for lens in lenses
        if (there := levels.intersection(lens.levels))
    ]
    known = {row["id"] for row in tx.run("lenses.get", ids=[row["id"] for row in rows])}
    new = {row["id"]: row for row in rows if row["id"] not in known}
    put(tx, list(new.values()))
    return len(new)


def _note_became(graph: Graph, entries: Sequence[EntryRecord], known: Mapping[str, str]) -> None:
    """Note what entries became, if that is there."""
    episodes: list[Row] = []
    facts: list[Row] = []
    for entry in entries:
        for one in entry.became:
            if one.episode is not None:
                target = node_id(graph.ns, "Episode", "key", one.episode)
                episodes.append({"id": known[entry.id], "target": target})
            elif one.domain is not None and one.fact is not None:
                target = node_id(graph.ns, "Knowledge", one.domain, one.fact)
                facts.append({"id": known[entry.id], "target": target})
    for kind, became in (("episodes", episodes), ("knowledge", facts)):
        for rows in pages(became, PAGE):
            graph.write(BECAME[kind], rows=rows)


def _make(tx: Transaction, levels: Sequence[LevelRecord]) -> int:
    """Make missing levels, and say from which they pull."""
    check(tx, levels)
    rows = {
        row["id"]: row
        for level in levels
        for row in [level_row(tx.ns, LevelName.of(level.name), level.settings)]
    }
    there = {row["id"] for row in tx.run("levels.get", ids=sorted(rows))}
    missing = [row for key, row in rows.items() if key not in there]
    if missing:
        tx.run("levels.put", rows=missing)
    pulls: list[Row] = [
        {
            "id": level_id(tx.ns, level.name),
            "level": level.name,
            "source": source_id(tx.ns, source_name(pull.source)),
            "agent": pull.source.removeprefix(EVENTS) if pull.source.startswith(EVENTS) else None,
            "transformer": pull.transformer,
            "arguments": canonical_json(pull.arguments),
        }
        for level in levels
        for pull in level.pulls
        if level_id(tx.ns, level.name) not in there
    ]
    if pulls:
        tx.run("levels.subscribe", rows=[row for row in pulls if not row["agent"]])
    followed = [row for row in pulls if row["agent"]]
    if followed:
        streams = {row["source"]: row["agent"] for row in followed}
        opened = [{"stream": stream, "agent": agent} for stream, agent in streams.items()]
        tx.run("events.open_streams", rows=opened)
        tx.run("levels.follow", rows=followed)
        for row in followed:
            begin(tx, row["level"], row["source"])
    for level in levels:
        for pull in level.pulls:
            if pull.pulled:
                _skip(tx, level.name, pull, there)
    return len(missing)


def _skip(tx: Transaction, level: str, pull: PullRecord, there: set[str]) -> None:
    """Let a new level go on after what it pulled before, from a level that is new, too."""
    if {level_id(tx.ns, level), level_id(tx.ns, pull.source)} & there:
        return
    stream = level_stream_id(tx.ns, pull.source)
    cursor = node_id(tx.ns, "Cursor", PULL + level, stream)
    tx.run("events.open_cursor", id=cursor, group=PULL + level, stream=stream)
    tx.run("events.move_cursor", id=cursor, position=pull.pulled)


def _known(graph: Graph, entries: Sequence[EntryRecord]) -> dict[str, str]:
    """Return the ids of entries here, by the ids that they had."""
    there: set[str] = set()
    for page in pages([entry.id for entry in entries], PAGE):
        there |= {row["id"] for row in graph.read("entries.stored", ids=page)}
    ns = graph.ns
    return {
        entry.id: entry_id(ns, entry.level, entry.key)
        if entry.key is not None
        else entry.id
        if entry.id in there
        else node_id(ns, "Entry", entry.level, "", entry.id)
        for entry in entries
    }


def _fill(tx: Transaction, level: str, page: Sequence[EntryRecord], known: dict[str, str]) -> int:
    """Store the missing entries of a level; return how many."""
    ids = [known[entry.id] for entry in page]
    there = {row["id"] for row in tx.run("entries.stored", ids=ids)}
    new = [entry for entry in page if known[entry.id] not in there]
    levels = tx.run("levels.get", ids=[level_id(tx.ns, level)])
    for_good = None if not levels or levels[0]["ttl"] is None else int(MAX_SECONDS) * 1_000
    rows = []
    for entry in new:
        at = to_millis(entry.at)
        end = for_good
        if entry.expires_at is not None:
            end = max(1, to_millis(entry.expires_at) - at)
        row = row_of(tx.ns, level, entry.new(), at)
        rows.append({**row, "id": known[entry.id], "ttl": end})
    if rows:
        store(tx, level, rows)
    read = [
        {
            "id": known[entry.id],
            "reads": entry.reads,
            "at": None if entry.last_read_at is None else to_millis(entry.last_read_at),
        }
        for entry in new
        if entry.reads
    ]
    if read:
        tx.run("entries.touch", rows=read)
    return len(rows)


def _given(row: Row) -> Row:
    return {name: row[name] for name in sorted(row) if row[name] is not None}


def _moment(millis: int | None) -> str | None:
    moment = from_millis(millis)
    return None if moment is None else moment.isoformat()
