"""Entries of levels: adding, reading, removing, and their maintenance."""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from secrets import token_hex
from typing import Any

from pydantic import JsonValue

from graphmem.errors import GraphMemError, NotFoundError, StoreError
from graphmem.graph.arguments import check_text, checked_agent, one_or_many
from graphmem.graph.graph import Transaction
from graphmem.ids import canonical_json, entry_id, from_millis, hashed, level_id, level_stream_id
from graphmem.levels.topology import (
    Topology,
    check_takes_entries,
    existing,
    is_readable,
    lock_levels,
    note,
    to_duration,
)
from graphmem.models.fields import Moment, checked, millis
from graphmem.models.levels import (
    MAX_TAGS,
    Added,
    Entry,
    LevelMaintained,
    LevelName,
    MaintainReport,
    NewEntry,
    Seconds,
    ShortName,
)
from graphmem.notebook import Listed
from graphmem.store.paging import pages
from graphmem.store.port import Row
from graphmem.text.words import words_of

SEARCHED = 4_000  # characters of an entry that a search by meaning sees
LINKED = 500  # edges that are written in one statement
KeyedWork = Callable[[Transaction, str, list[str]], int]  # takes a level, and ids of its entries
Link = tuple[str, str]  # ids: of an entry, and of one that it was made from, or of what it became
_PAUSES = re.compile(r"[.,:-](?!\d)|[;!?\"'()\[\]{}\u2026\u2013\u2014\u2018-\u201f]|\s")
"""Punctuation; not what belongs to a number."""
_CHANGED = ("id", "base", "at", "expires_at", "reads", "last_read_at")
_COMPARED = ("content", "format", "tags", "metadata")
_NUMBERS = re.compile(r"(?<!\w)-\d+|\d+")
_log = logging.getLogger(__name__)


class Entries(Topology):
    """Adds, reads, removes and maintains the entries of one namespace's levels."""

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
        level, metadata = self._writable(name, agent), {} if metadata is None else metadata
        new = self._graph.storable(NewEntry.from_arguments(locals()))
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

    def maintain(
        self, name: str | None = None, *, agent: str | None = None, at: datetime | None = None
    ) -> MaintainReport:
        """Maintain levels as of an instant, and tell what changed. A repeated call changes nothing.

        In each level, expired entries are removed, then those less relevant than its ``prune``.
        Entries without a key that say the same become one: those that differ in case, spaces and
        punctuation alone, and those whose vectors have a cosine of at least ``dedup``, unless their
        numbers differ. The first stored one stays, with the tags, reads, edges and the longest life
        of all. Then the least relevant entries are removed down to the ``capacity``. Texts without
        vectors are embedded to compare them, else where ``reindex`` seconds have passed since the
        last time. Each level that changed has an event ``maintained``. An entry that is removed
        before a level ingested it counts as missed there.

        Without a name all levels are maintained, or all of an agent; with a name ``agent`` is who
        asks. The instant is ``at``; None: now.
        """
        asking = checked_agent(agent)
        instant = millis(checked("at", at, Moment | None))
        now = self._graph.now() if instant is None else instant
        if name is None:
            kind = None if asking is None else "agent"
            rows = self._graph.read("levels.list", owner_kind=kind, owner=asking)
            rows = [row for row in rows if row["holds"] == "entries"]
        else:
            rows = existing(self._graph, [self._writable(name, agent).name])
            check_takes_entries(rows[0])
        levels = [done for row in rows if (done := self._maintain_level(row, now)) is not None]
        if any(one.reindexed for one in levels):
            self._search.tidy()
        return MaintainReport(at=from_millis(now), levels=tuple(levels))

    def remove(self, name: str, keys: str | Sequence[str], *, agent: str | None = None) -> int:
        """Remove entries of a level by one key, or several; return how many were there.

        What other levels made from them stays, and so does what they became. A level that has not
        ingested one yet counts it as missed.
        """

        def work(tx: Transaction, level: str, ids: list[str]) -> int:
            removed = int(tx.run("erasing.drop_entries", ids=ids)[0]["removed"])
            if removed:
                note(tx, level, "maintained", {"removed": removed})
            return removed

        return self._change_keyed(name, keys, agent, work)

    def prolong(
        self, name: str, keys: str | Sequence[str], ttl: float, *, agent: str | None = None
    ) -> int:
        """Let entries of a level, by one key or several, stay ``ttl`` seconds from now on.

        Return how many stay longer. An entry that stays longer anyway, or expired, does not change.
        No level ingests this as a change.
        """
        lasting = round(checked("ttl", ttl, Seconds) * 1_000)

        def work(tx: Transaction, _: str, ids: list[str]) -> int:
            rows = [
                row | {"expires_at": tx.now + lasting}
                for row in tx.run("entries.get", ids=ids)
                if row["expires_at"] is not None and tx.now < row["expires_at"] < tx.now + lasting
            ]
            change(tx, rows)
            return len(rows)

        return self._change_keyed(name, keys, agent, work)

    def _change_keyed(
        self, name: str, keys: str | Sequence[str], agent: str | None, work: KeyedWork
    ) -> int:
        """Do work with a level that an agent may write, locked, and the ids of entries by key."""
        level = self._writable(name, agent).name
        given = (key for key in one_or_many("keys", keys) if key is not None)
        names = {checked("keys", key, ShortName) for key in given}
        ids = sorted(entry_id(self._graph.ns, level, key) for key in names)

        def locked(tx: Transaction) -> int:
            check_takes_entries(lock_levels(tx, level)[0])
            return work(tx, level, ids)

        return self._graph.transact(locked) if ids else 0

    def _maintain_level(self, row: Row, now: int) -> LevelMaintained | None:
        """Maintain a level (a row of ``levels.list``); return what changed, if anything did."""
        look = self._graph.read("upkeep.look", id=row["id"], now=now)[0]
        stream = level_stream_id(self._graph.ns, row["name"])
        staying = look["entries"] - look["going"]
        last = row["created_at"] if row["reindexed_at"] is None else row["reindexed_at"]
        due = staying > 0 and now >= last + row["reindex"] * 1_000
        so_far: dict[str, Any] = {"level": row["name"]}
        if due or (row["dedup"] is not None and staying > 1):
            so_far |= self._reindex(row, stream)
        same: list[Row] = []
        pairs: list[Row] = []
        before = compared = (row["compared"], row["compared_with"] or "")
        if row["dedup"] is not None and look["entries"] > 1:
            same = self._graph.read("upkeep.same", id=row["id"])
            pairs, compared = self._search.twins(row["id"], stream, before, row["dedup"])
        over = row["capacity"] is not None and look["entries"] > row["capacity"]
        if not (look["going"] or over or same or pairs or so_far.get("reindexed")):
            return LevelMaintained(**so_far) if "error" in so_far else None

        def work(tx: Transaction) -> LevelMaintained | None:
            if not tx.run("events.lock_streams", ids=[stream]):
                return None  # it was closed meanwhile
            counts = {**so_far, **tx.run("upkeep.fade", id=row["id"], now=now)[0]}
            if row["dedup"] is not None:
                counts["merged"] = _merge(tx, same, pairs, now)
            if over:
                shrunk = tx.run("upkeep.shrink", id=row["id"], limit=row["capacity"], now=now)
                counts["over_capacity"] = shrunk[0]["removed"]
            if so_far.get("reindexed") or compared != before:
                embedded = now if so_far.get("reindexed") else row["reindexed_at"]
                mark = dict(zip(("compared", "compared_with"), compared, strict=True))
                tx.run("upkeep.mark", id=row["id"], embedded_at=embedded, **mark)
            done = {name: count for name, count in counts.items() if isinstance(count, int)}
            if any(done.values()):
                note(tx, row["name"], "maintained", done)
            elif "error" not in counts:
                return None
            return LevelMaintained(**counts)

        return self._graph.transact(work)

    def _reindex(self, row: Row, stream: str) -> dict[str, Any]:
        """Embed texts without a vector in a level; return how many, or why that is not possible."""
        try:
            return {"reindexed": self._search.embed({row["id"]: stream})}
        except StoreError:
            raise
        except GraphMemError as error:
            _log.warning("%s cannot be embedded: %s", row["name"], type(error).__name__)
            return {"error": str(error)[:1_000]}


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
        "at": now if new.at is None else millis(new.at),
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
    check_takes_entries(lock_levels(tx, level)[0])
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
    for page in pages([{"id": identity, "target": target} for identity, target in links], LINKED):
        run("flow.link", rows=page)


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


def _merge(tx: Transaction, same: list[Row], near: list[Row], now: int) -> int:
    """Merge entries of a locked level that say the same, or are near; return how many went."""
    twins_of: dict[str, set[str]] = defaultdict(set)
    seqs: dict[str, int] = {}
    for pair in (*same, *near):
        twins_of[pair["id"]].add(pair["twin"])
        seqs |= {pair["id"]: pair["seq"], pair["twin"]: pair["twin_seq"]}
    rows = tx.run("entries.get", ids=sorted(seqs), now=now) if seqs else []
    rows = [row for row in rows if row["key"] is None and seqs[row["id"]] == row["seq"]]
    entries = {row["id"]: row for row in sorted(rows, key=lambda row: int(row["seq"]))}
    firsts = {pair["id"]: pair["twin"] for pair in same}
    goes: dict[str, str] = {}
    for key, row in entries.items():  # each goes to the first near one that stays
        homes = (twins_of[key] - goes.keys()) & entries.keys()
        if (first := firsts.get(key)) in goes:  # it follows one that says the same
            homes.add(goes[first])
        for home in sorted(homes, key=lambda home: int(entries[home]["seq"])):
            if _fit(entries[home], row):
                entries[home] = _unite(entries[home], row)
                goes[key] = home
                break
    if goes:
        change(tx, [entries[home] for home in sorted({*goes.values()})])
        link(tx.run, _edges_of(tx, goes))
        tx.run("erasing.drop_entries", ids=sorted(goes))
    return len(goes)


def _edges_of(tx: Transaction, goes: Mapping[str, str]) -> Iterator[Link]:
    """Yield the edges of entries that go, as those of the ones that stay in their place."""
    for row in tx.run("entries.evidence", ids=sorted(goes)):
        home = goes[row["id"]]
        yield from ((home, source) for source in row["made_from"])
        yield from ((made, home) for made in row["makes"])
        yield from ((home, target["id"]) for target in row["became"])


def _fit(*pair: Row) -> bool:
    """Return whether near entries are one. If numbers differ, they speak of different things."""
    one, other = (_NUMBERS.findall(each["content"]) for each in pair)
    return one == other and len({tag for each in pair for tag in each["tags"]}) <= MAX_TAGS


def _unite(home: Row, gone: Row) -> Row:
    """Return an entry with the marks of its twin, as relevant as either."""
    later = home if home["relevance"] >= gone["relevance"] else gone
    ends = (home["expires_at"], gone["expires_at"])
    reads = [each["last_read_at"] for each in (home, gone) if each["last_read_at"] is not None]
    return home | {
        **{name: later[name] for name in ("base", "at", "relevance")},
        "tags": sorted({*home["tags"], *gone["tags"]}),
        "expires_at": None if None in ends else max(ends),
        "reads": home["reads"] + gone["reads"],
        "last_read_at": max(reads, default=None),
    }
