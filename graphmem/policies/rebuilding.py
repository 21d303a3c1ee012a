"""Derives the policies of a stream again from all its events in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

from graphmem.graph.derived import (
    POLICIES,
    POLICY_LINKS,
    Page,
    Paged,
    Rebuilt,
    Verified,
    Work,
    by_key,
    differences_of,
)
from graphmem.graph.graph import Reader, Transaction
from graphmem.ids import state_id, stream_id
from graphmem.policies.replay import EVIDENCE, FIELDS, Entry, Table
from graphmem.policies.streams import lock, store
from graphmem.store.port import Row

PAGE = 1_000
LEARNED = ("q", "updates", "active", "last_updated_at", "created_at", "q_set", "crystallized")
"""Fields that cannot be derived if there were unrecorded updates."""


@dataclass
class Derived:
    """The stored policies of a stream, and the policies derived from its events."""

    stored: dict[str, Row]
    stored_links: dict[str, Row]
    table: Table
    unrecorded: bool
    agent: str

    def without_evidence(self) -> list[str]:
        """Return the policies without any event."""
        if self.unrecorded:
            return []
        return [key for key, entry in self.table.entries.items() if entry.created_at is None]

    def policies(self) -> dict[str, Row]:
        """Return the derived policies by id, with the fields that must be equal."""
        left_out = {"state", *(LEARNED if self.unrecorded else ())}
        names = [name for name in FIELDS if name not in left_out]
        rows = {
            key: {"agent": self.agent, **{name: getattr(entry, name) for name in names}}
            for key, entry in self.table.entries.items()
        }
        for policy in self.without_evidence():
            del rows[policy]
        return rows

    def links(self) -> dict[str, Row]:
        """Return the derived co-occurrence edges."""
        return by_key(POLICY_LINKS, self.table.link_rows(self.table.links))


class StreamPolicies(Paged):
    """The policies of one namespace and the edges between them, stream by stream."""

    kinds = (POLICIES.name, POLICY_LINKS.name)

    def work(self) -> Work:
        """Return the streams of agents; those of levels have no policies."""
        rows = self._graph.read("events.streams")
        streams = [Page(row["agent"], row["last"]) for row in rows if row["level"] is None]
        return Work(streams, sum(page.size for page in streams))

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the policies and edges of a stream with what its events say."""
        stream = opened(tx, page.items)
        if stream is None:
            return Verified((), {})
        derived = derive(tx, stream)
        differences = itertools.chain(
            differences_of(POLICIES, derived.stored, derived.policies()),
            differences_of(POLICY_LINKS, derived.stored_links, derived.links()),
        )
        counts = (len(derived.stored), len(derived.stored_links))
        return Verified(differences, dict(zip(self.kinds, counts, strict=True)))

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Store what the events of a stream say."""
        return rebuild(tx, stream_id(tx.ns, page.items))


def opened(tx: Transaction, agent: str) -> Row | None:
    """Return the row of an agent's stream to read, or None if there is none."""
    if tx.graph.must_lock:  # keep writers off this stream
        return lock(tx, [stream_id(tx.ns, agent)]).get(stream_id(tx.ns, agent))
    rows = [row for row in tx.run("events.streams", agent=agent) if row["level"] is None]
    return rows[0] if rows else None


def rebuild(tx: Transaction, stream: str) -> Rebuilt:
    """Derive and store the policies of a stream; return counts of policies, edges, removed ones."""
    row = lock(tx, [stream]).get(stream)
    if row is None:
        return Rebuilt()
    derived = derive(tx, row)
    table, gone = derived.table, derived.without_evidence()
    if gone:
        tx.run("maintenance.drop_policies", ids=gone)
        places = sorted({state_id(tx.ns, derived.stored[policy]["state"]) for policy in gone})
        tx.run("maintenance.drop_states", ids=places)
    foreign = [key for key, row in derived.stored.items() if row["agent"] != derived.agent]
    if foreign:
        tx.run("maintenance.own_policies", ids=foreign, agent=derived.agent)
    table.changed = set(table.entries) - set(gone)
    if derived.unrecorded:
        for policy in table.changed:
            for name in LEARNED:
                setattr(table.entries[policy], name, derived.stored[policy][name])
    stored = {(row["low"], row["high"]) for row in derived.stored_links.values()}
    table.changed_links = stored | table.links.keys()
    store(tx, [table])
    written = {POLICIES.name: len(table.changed), POLICY_LINKS.name: len(table.links)}
    return Rebuilt(written, len(gone))


def derive(reader: Reader, stream: Row, gone: Set[str] = frozenset()) -> Derived:
    """Apply all events of a stream to blank policies, but for those that are gone.

    ``gone`` are ids of episodes, and of transitions taken from them.
    """
    rows = reader.read("maintenance.stored_policies", stream=stream["stream"])
    links = reader.read("maintenance.stored_links", stream=stream["stream"])
    table = blank(rows)
    if rows:  # else there is nothing to apply them to
        for _ in replayed(reader, stream, table, gone):
            pass
    unrecorded = bool(stream["unrecorded"])
    stored = by_key(POLICIES, rows)
    return Derived(stored, by_key(POLICY_LINKS, links), table, unrecorded, stream["agent"])


def blank(rows: Iterable[Row]) -> Table:
    """Return the policies of a stream in their initial state."""
    table = Table()
    for row in rows:
        table.add(Entry(row["id"], row["state"]))
    return table


def replayed(
    reader: Reader, stream: Row, table: Table, gone: Set[str] = frozenset()
) -> Iterator[tuple[Row, float | None]]:
    """Apply the events of a stream to a table, in order.

    Yield each event after applying it, with the TD error of a transition.
    """
    for event in _events(reader, stream):
        if event["id"] in gone or (event["kind"] == "episode" and event["subject"] in gone):
            continue
        yield event, _apply(table, event, unrecorded=bool(stream["unrecorded"]))


def _events(reader: Reader, stream: Row) -> Iterator[Row]:
    """Yield the events of a stream in order, those of episodes with the policies they took."""
    for start in range(1, int(stream["last"]) + 1, PAGE):
        ids = event_ids(stream["stream"], start, min(start + PAGE - 1, int(stream["last"])))
        rows = reader.read("events.read", ids=ids)
        episodes = [row["subject"] for row in rows if row["kind"] == "episode"]
        decisions = reader.read("events.decisions", ids=episodes) if episodes else []
        took = {row["episode"]: row for row in decisions}
        for row in sorted(rows, key=lambda row: int(row["seq"])):
            if row["kind"] != "episode":
                yield row
            elif row["subject"] in took:
                yield {**row, **took[row["subject"]]}


def _apply(table: Table, event: Row, *, unrecorded: bool) -> float | None:
    """Apply an event; return the TD error of a transition."""
    kind = event["kind"]
    if kind == "episode":
        table.episode(event["policies"], event["success"], event["recorded_at"])
    elif kind == "transition":
        fact: dict[str, Any] = {**event, **event["facts"]}
        return table.update(event["subject"], fact, event["created_at"])[1]
    else:
        keys = [key for key in (event["subject"], event["other"]) if key is not None]
        about = [table.entries.get(key) for key in keys]
        # A policy is removed with its last evidence. Its other events do not apply to a later
        # policy of the same action.
        evident = kind in EVIDENCE or unrecorded
        if about and all(entry and (evident or entry.created_at is not None) for entry in about):
            table.apply(kind, event)
    return None


def event_ids(stream: str, first: int, last: int) -> Sequence[str]:
    """Return the ids of a range of events, including both ends."""
    return [f"{stream}:{seq}" for seq in range(first, last + 1)]
