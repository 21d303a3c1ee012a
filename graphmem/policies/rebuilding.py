"""Derives the policies of a stream again from all its events in order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

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
from graphmem.policies.replay import EVIDENCE, FIELDS, Table
from graphmem.policies.streams import lock, store
from graphmem.store.port import Row

PAGE = 1_000
LEARNED = ("q", "updates", "active", "last_updated_at", "created_at", "q_set", "crystallized")
"""Fields that cannot be derived if there were unrecorded updates."""


class Derived(NamedTuple):
    """The stored policies and edges of a stream, what its events say, policies without any."""

    stored: dict[str, Row]
    links: dict[str, Row]
    table: Table
    gone: list[str]


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
        stream = open_stream(tx, page.items)
        if stream is None:
            return Verified((), {})
        stored, links, table, gone = derive(tx, stream)
        left_out = {"state", *(LEARNED if stream["unrecorded"] else ())}
        names = [name for name in FIELDS if name not in left_out]
        expected = {
            key: {"agent": stream["agent"], **{name: getattr(entry, name) for name in names}}
            for key, entry in table.entries.items()
            if key not in gone
        }
        edges = by_key(POLICY_LINKS, table.link_rows(table.links))
        differences = itertools.chain(
            differences_of(POLICIES, stored, expected), differences_of(POLICY_LINKS, links, edges)
        )
        return Verified(differences, dict(zip(self.kinds, map(len, (stored, links)), strict=True)))

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Store what the events of a stream say."""
        return rebuild(tx, stream_id(tx.ns, page.items))


def open_stream(tx: Transaction, agent: str) -> Row | None:
    """Return the row of an agent's stream to read, or None if there is none."""
    if tx.graph.must_lock:  # keep writers off this stream
        stream = stream_id(tx.ns, agent)
        return lock(tx, [stream]).get(stream)
    rows = tx.run("events.streams", agent=agent)
    return next((row for row in rows if row["level"] is None), None)


def rebuild(tx: Transaction, stream: str) -> Rebuilt:
    """Derive and store the policies of a stream; return counts of policies, edges, removed ones."""
    row = lock(tx, [stream]).get(stream)
    if row is None:
        return Rebuilt()
    stored, links, table, gone = derive(tx, row)
    if gone:
        tx.run("maintenance.drop_policies", ids=gone)
        places = sorted({state_id(tx.ns, stored[policy]["state"]) for policy in gone})
        tx.run("maintenance.drop_states", ids=places)
    if foreign := [key for key, policy in stored.items() if policy["agent"] != row["agent"]]:
        tx.run("maintenance.own_policies", ids=foreign, agent=row["agent"])
    table.changed = set(table.entries) - set(gone)
    if row["unrecorded"]:
        for policy, name in itertools.product(table.changed, LEARNED):
            setattr(table.entries[policy], name, stored[policy][name])
    table.changed_links = {(edge["low"], edge["high"]) for edge in links.values()} | {*table.links}
    store(tx, [table])
    written = {POLICIES.name: len(table.changed), POLICY_LINKS.name: len(table.links)}
    return Rebuilt(written, len(gone))


def derive(reader: Reader, stream: Row, left_out: Set[str] = frozenset()) -> Derived:
    """Apply the events of a stream to blank policies, but those with or of ids ``left_out``."""
    rows = reader.read("maintenance.stored_policies", stream=stream["stream"])
    links = reader.read("maintenance.stored_links", stream=stream["stream"])
    table = Table.of(rows)
    if rows:  # else there is nothing to apply them to
        for _ in replay_events(reader, stream, table, left_out):
            pass
    gone = [key for key, entry in table.entries.items() if entry.created_at is None]
    stored = by_key(POLICIES, rows)
    return Derived(stored, by_key(POLICY_LINKS, links), table, [] if stream["unrecorded"] else gone)


def replay_events(
    reader: Reader, stream: Row, table: Table, left_out: Set[str] = frozenset()
) -> Iterator[tuple[Row, float | None]]:
    """Apply the events of a stream in order; yield each then, with the TD error of a transition."""
    for event in _events(reader, stream):
        if event["id"] in left_out or (event["kind"] == "episode" and event["subject"] in left_out):
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
            if row["kind"] != "episode" or row["subject"] in took:
                yield row | took.get(row["subject"], {})


def _apply(table: Table, event: Row, *, unrecorded: bool) -> float | None:
    """Apply an event; return the TD error of a transition."""
    kind = event["kind"]
    if kind == "episode":
        table.episode(event["policies"], event["success"], event["recorded_at"])
    elif kind == "transition":
        fact: dict[str, Any] = {**event, **event["facts"]}
        return table.update(event["subject"], fact, event["created_at"])[1]
    else:
        about = [table.entries.get(key) for key in (event["subject"], event["other"]) if key]
        # A policy is removed with its last evidence. Its other events do not apply to a later
        # policy of the same action.
        evident = kind in EVIDENCE or unrecorded
        if about and all(entry and (evident or entry.created_at is not None) for entry in about):
            table.apply(kind, event)
    return None


def event_ids(stream: str, first: int, last: int) -> Sequence[str]:
    """Return the ids of a range of events, including both ends."""
    return [f"{stream}:{seq}" for seq in range(first, last + 1)]
