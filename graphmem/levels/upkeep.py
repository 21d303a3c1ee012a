"""Maintenance of levels: removes what expired or faded, merges twins, embeds new words.

Callers can remove entries by key, or let them stay longer.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from graphmem.errors import GraphMemError, StoreError
from graphmem.graph.arguments import checked_agent, one_or_many
from graphmem.graph.graph import Transaction
from graphmem.ids import entry_id, from_millis, level_stream_id, to_millis
from graphmem.levels.entries import (
    Base,
    Link,
    change,
    check_takes_entries,
    existing,
    link,
    lock_levels,
)
from graphmem.levels.topology import note
from graphmem.models.levels import MAX_TAGS, LevelMaintained, MaintainReport, NewEntry, Timing
from graphmem.store.port import Row

_NUMBERS = re.compile(r"(?<!\w)-\d+|\d+")
_log = logging.getLogger(__name__)


class Maintenance(Base):
    """Maintains the levels of one namespace."""

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

        Args:
            name: only this level; None: all.
            agent: with a name: who asks; an agent may maintain its own levels and those for all.
                Without a name: maintain only the levels of this agent.
            at: the instant; None: now. What expired or faded until then is removed.
        """
        asking = checked_agent(agent)
        instant = Timing(at=at).at
        now = self._graph.now() if instant is None else to_millis(instant)
        return self._maintain(name, asking, now)

    def _maintain(self, name: str | None, agent: str | None, now: int) -> MaintainReport:
        if name is None:
            kind = None if agent is None else "agent"
            rows = self._graph.read("levels.list", owner_kind=kind, owner=agent)
            rows = [row for row in rows if row["holds"] == "entries"]
        else:
            rows = existing(self._graph, [self._writable(name, agent).name])
            check_takes_entries(rows[0])
        levels = [done for row in rows if (done := self._maintain_level(row, now)) is not None]
        if any(one.reindexed for one in levels):
            self._search.tidy()
        return MaintainReport(at=from_millis(now), levels=tuple(levels))

    def remove(self, name: str, keys: str | Sequence[str], *, agent: str | None = None) -> int:
        """Remove entries of a level by key; return how many were there.

        What other levels made from them stays, and so does what they became. A level that has not
        ingested one yet counts it as missed.

        Args:
            name: name of the level.
            keys: one key, or several.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.
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
        """Let entries of a level stay some seconds from now on; return how many stay longer.

        An entry that stays longer anyway, or expired, does not change. No level ingests this as a
        change.

        Args:
            name: name of the level.
            keys: one key, or several.
            ttl: seconds.
            agent: who asks; an agent may change its own levels and those for all. None: anybody.
        """
        lasting = round(Timing(ttl=ttl).ttl * 1_000)

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
        self,
        name: str,
        keys: str | Sequence[str],
        agent: str | None,
        work: Callable[[Transaction, str, list[str]], int],
    ) -> int:
        """Do work with a level that an agent may write, locked, and the ids of entries by key."""
        level = self._writable(name, agent).name
        given = (key for key in one_or_many("keys", keys) if key is not None)
        names = {str(NewEntry(content="-", key=key).key) for key in given}
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
                counts["merged"] = _merge(tx, row["id"], pairs, now)
            if over:
                shrunk = tx.run("upkeep.shrink", id=row["id"], limit=row["capacity"], now=now)
                counts["over_capacity"] = shrunk[0]["removed"]
            if so_far.get("reindexed") or compared != before:
                tx.run(
                    "upkeep.mark",
                    id=row["id"],
                    embedded_at=now if so_far.get("reindexed") else row["reindexed_at"],
                    compared=compared[0],
                    compared_with=compared[1],
                )
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


def _merge(tx: Transaction, level: str, pairs: list[Row], now: int) -> int:
    """Merge entries that are the same or near (pairs) in a locked level; return how many went."""
    twins_of: dict[str, list[str]] = defaultdict(list)
    alike = [row["ids"] for row in tx.run("upkeep.same", id=level)]
    said = {identity: ids[0] for ids in alike for identity in ids}
    for first, *others in alike:
        for identity in others:
            twins_of[identity].append(first)
    for pair in pairs:
        twins_of[pair["id"]].append(pair["twin"])
    identities = sorted({*twins_of, *(twin for twins in twins_of.values() for twin in twins)})
    if not identities:
        return 0
    seqs = {pair["id"]: pair["seq"] for pair in pairs}
    seqs |= {pair["twin"]: pair["twin_seq"] for pair in pairs}
    rows = [
        row
        for row in tx.run("entries.get", ids=identities, now=now)
        if row["key"] is None and seqs.get(row["id"], row["seq"]) == row["seq"]
    ]
    rows.sort(key=lambda row: int(row["seq"]))
    entries = {row["id"]: row for row in rows}
    goes: dict[str, str] = {}
    for row in rows:  # each goes to the first near one that stays: no two near ones stay
        homes = {
            # An entry that says the same as one that was removed follows it.
            goes.get(twin, twin) if said.get(twin) == said.get(row["id"], "") else twin
            for twin in twins_of[row["id"]]
            if twin in entries
        }
        for home in sorted(homes - goes.keys(), key=lambda home: int(entries[home]["seq"])):
            if _fit(entries[home], row):
                entries[home] = _unite(entries[home], row)
                goes[row["id"]] = home
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
        yield from (("entries", home, source) for source in row["made_from"])
        yield from (("entries", made, home) for made in row["makes"])
        for target in row["became"]:
            yield "episodes" if target["fact"] is None else "knowledge", home, target["id"]


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
        "tags": sorted({*home["tags"], *gone["tags"]}),
        "base": later["base"],
        "at": later["at"],
        "relevance": later["relevance"],
        "expires_at": None if None in ends else max(ends),
        "reads": home["reads"] + gone["reads"],
        "last_read_at": max(reads, default=None),
    }
