"""The streams of agents' changes, and the policies that follow from them.

A stream belongs to one agent. It is locked before its policies are read or written, so that the
numbers of events give the order in which they were applied, and agents do not wait for each other.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from graphmem.errors import ValidationError
from graphmem.graph.derived import POLICIES, POLICY_LINKS, Page, Paged, Rebuilt, Verified
from graphmem.graph.graph import Reader, Transaction
from graphmem.ids import (
    canonical_json,
    event_ids,
    features_json,
    hashed,
    policy_id,
    state_id,
    stream_id,
)
from graphmem.models.fields import MAX_KEY, MAX_VALUE
from graphmem.policies.replay import EVIDENCE, FIELDS, Entry, Link, Table
from graphmem.store.paging import pages
from graphmem.store.port import ChangedError, Row

PAGE = 1_000
LEARNED = ("q", "updates", "active", "last_updated_at", "created_at", "q_set", "crystallized")
"""Fields that cannot be derived if there were unrecorded updates."""
UNTYPED = "action"  # the type of steps that say none
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class StateKey(NamedTuple):
    """A state: its fingerprint, and its features as JSON if they are known."""

    id: str
    fingerprint: str
    features: str | None

    @classmethod
    def of(cls, namespace: str, state: Mapping[str, Any] | str, name: str = "state") -> StateKey:
        """Return the key of a state given as features or as a fingerprint."""
        if isinstance(state, str):
            if not _FINGERPRINT.fullmatch(state):
                problem = "is not a fingerprint (16 hex digits)"
                raise ValidationError(name, state, problem, "or give a dict of features")
            return cls(state_id(namespace, state), state, None)
        if not isinstance(state, Mapping):
            raise ValidationError(name, state, "must be a dict of features or a fingerprint")
        features = features_json(state, name)
        fingerprint = hashed(features)
        return cls(state_id(namespace, fingerprint), fingerprint, features)


class PolicyKey(NamedTuple):
    """A policy: an action of an agent in a state."""

    id: str
    stream: str
    agent: str
    state: StateKey
    action_type: str
    action_spec: str | None

    @classmethod
    def of(cls, namespace: str, agent: str, state: Any, action: str, spec: Any) -> PolicyKey:
        """Return the key of an action (a type, and a spec as JSON) in a state.

        A text without a type of its own, as ``Step(action="wait")`` has it, is the type.
        """
        place = StateKey.of(namespace, state)
        if action == UNTYPED and isinstance(spec, str) and spec.strip() and len(spec) <= MAX_KEY:
            action, spec = unicodedata.normalize("NFC", spec).strip(), None
        spec_json = None if spec is None else canonical_json(spec)
        identity = policy_id(namespace, agent, place.fingerprint, action, spec_json)
        return cls(identity, stream_id(namespace, agent), agent, place, action, spec_json)


def took(
    namespace: str, agent: str, steps: Iterable[tuple[Any, str, Any]]
) -> list[tuple[PolicyKey, int, int]]:
    """Return the policies that steps take: (key, number of steps, index of the first), in order."""
    places: dict[PolicyKey, list[int]] = {}
    for index, (state, action_type, action) in enumerate(steps):
        if state is not None:
            key = PolicyKey.of(namespace, agent, state, action_type, action)
            places.setdefault(key, []).append(index)
    return [(key, len(indexes), indexes[0]) for key, indexes in places.items()]


class Change(NamedTuple):
    """A new event in the stream of an agent, and the nodes that it creates if they are missing."""

    agent: str
    kind: str
    fact: dict[str, Any]
    policy: PolicyKey | None = None
    after: StateKey | None = None


def open_nodes(
    tx: Transaction, policies: Iterable[PolicyKey], changes: Sequence[Change] = ()
) -> None:
    """Create missing streams, states and policies: given ones, and those of changes."""
    keys = {key.id: key for key in (*policies, *(one.policy for one in changes)) if key}
    # Of two keys of a state that with features.
    found = [*(key.state for key in keys.values()), *(one.after for one in changes if one.after)]
    places = {place.id: place for place in sorted(found, key=lambda place: bool(place.features))}
    names = sorted({*(one.agent for one in changes), *(key.agent for key in keys.values())})
    streams = [{"stream": stream_id(tx.ns, agent), "agent": agent} for agent in names]
    if streams:
        tx.run("events.open_streams", rows=streams)
    if places:
        tx.run("policies.open_states", rows=[place._asdict() for place in places.values()])
    if keys:
        rows = [
            {**key._asdict(), "state_id": key.state.id, "state": key.state.fingerprint}
            for key in keys.values()
        ]
        tx.run("policies.open", rows=rows)


def lock(tx: Transaction, streams: Iterable[str]) -> dict[str, Row]:
    """Lock streams; return their rows by id."""
    rows = tx.run("events.lock_streams", ids=sorted(set(streams)))
    return {row["stream"]: row for row in rows}


def load(
    tx: Transaction,
    policies: Mapping[str, Sequence[str]],
    states: Iterable[str] = (),
    *,
    links: bool = False,
) -> dict[str, Table]:
    """Return the tables of locked streams with policies (stream -> ids) and all those in states.

    Raises:
        ChangedError: a policy or a state does not exist.
    """
    tables = {stream: Table() for stream in policies}
    stream_of = {policy: stream for stream, ids in policies.items() for policy in ids}
    places = sorted(set(states))
    rows = tx.run("policies.load", ids=sorted(stream_of), states=places)
    absent = stream_of.keys() - {row["id"] for row in rows}
    if absent or len({row.pop("state_id") for row in rows} - {None}) < len(places):
        raise ChangedError("a policy was erased while this was written")
    for row in rows:
        table = tables.get(row.pop("stream"))
        if table is not None and row["id"] not in table.entries:
            table.add(Entry(**row))
    if links:
        for row in tx.run("policies.load_links", ids=sorted(stream_of)):
            table = tables[stream_of[row["low"]]]
            table.links[row["low"], row["high"]] = Link(row["count"], row["weight"], row["held"])
    return tables


def store(tx: Transaction, tables: Iterable[Table]) -> None:
    """Write the changes of tables."""
    tables = list(tables)
    rows = [table.entries[policy].row() for table in tables for policy in sorted(table.changed)]
    if rows and tx.run("policies.put", rows=rows)[0]["written"] != len(rows):
        raise ChangedError("a policy was erased while this was written")
    if links := [row for table in tables for row in table.link_rows(table.changed_links)]:
        tx.run("policies.put_links", rows=links)


def apply(
    tx: Transaction, changes: Sequence[Change], *, record: bool = True
) -> list[tuple[int, Any]]:
    """Apply new events in order, and append them to the streams; create missing nodes.

    Return for each event its number and what it gave (see ``Table``). Without ``record``
    transitions are not stored; the stream counts them as unrecorded.
    """
    streams = {change.agent: stream_id(tx.ns, change.agent) for change in changes}
    locked, tables = _open(tx, streams, changes)
    answers: list[tuple[int, Any]] = []
    transitions: list[Row] = []
    events: list[Row] = []
    for change in changes:
        stream, fact = streams[change.agent], change.fact
        head, table, answer = locked[stream], tables[stream], None
        head["last" if record else "unrecorded"] += 1
        place = {"id": f"{stream}:{head['last']}", "stream": stream, "seq": head["last"]}
        if "subject" in fact:
            answer = table.apply(change.kind, {**fact, "created_at": tx.now})
        if change.kind == "transition":
            transitions.append({**fact, **place})
        else:
            events.append({**fact, "kind": change.kind, **place})
        answers.append((head["last"], answer))
    store(tx, tables.values())
    if record and transitions:
        tx.run("events.append_transitions", rows=transitions)
    if events:
        tx.run("events.append", rows=events)
    tx.run("events.advance", rows=list(locked.values()))
    return answers


def _open(
    tx: Transaction, streams: Mapping[str, str], changes: Sequence[Change]
) -> tuple[dict[str, Row], dict[str, Table]]:
    """Lock the streams (by agent) and load the policies of new events; create missing nodes."""
    wanted: dict[str, list[str]] = {stream: [] for stream in streams.values()}
    for agent, _, fact, *_ in changes:
        wanted[streams[agent]] += [fact[name] for name in ("subject", "other") if name in fact]
    places = [key for change in changes if (key := change.fact.get("next_id"))]
    links = any("other" in change.fact for change in changes)
    locked = lock(tx, wanted)
    if len(locked) == len(wanted):
        with suppress(ChangedError):  # some are new
            return locked, load(tx, wanted, places, links=links)
    open_nodes(tx, (), changes)
    return lock(tx, wanted), load(tx, wanted, places, links=links)


class StreamPolicies(Paged):
    """The policies of one namespace and the edges between them, stream by stream."""

    kinds = (POLICIES.name, POLICY_LINKS.name)

    def work(self) -> tuple[Iterable[Page], int]:
        """Return the streams of agents; those of levels have no policies."""
        rows = self._graph.read("events.streams")
        streams = [Page(row["agent"], row["last"]) for row in rows if row["level"] is None]
        return streams, sum(page.size for page in streams)

    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare the policies and edges of a stream with what its events say."""
        stream = open_stream(tx, page.items)
        if stream is None:
            return Verified((), {})
        stored, links, table, gone = derive(tx, stream)
        names = [name for name in FIELDS if name not in LEARNED or not stream["unrecorded"]]
        expected = {
            key: {"agent": stream["agent"], **{name: getattr(entry, name) for name in names}}
            for key, entry in table.entries.items()
            if key not in gone
        }
        edges = POLICY_LINKS.by_key(table.link_rows(table.links))
        differences = itertools.chain(
            POLICIES.differences(stored, expected), POLICY_LINKS.differences(links, edges)
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
    for page in pages(table.wrong):
        tx.run("erasing.drop_transitions", ids=page)
        tx.run("erasing.drop_noted", ids=page)
    if gone:
        tx.run("maintenance.drop_policies", ids=gone)
        places = sorted({state_id(tx.ns, stored[policy]["state"]) for policy in gone})
        tx.run("maintenance.drop_states", ids=places)
    if foreign := [key for key, policy in stored.items() if policy["agent"] != row["agent"]]:
        tx.run("maintenance.own_policies", ids=foreign, agent=row["agent"])
    table.changed = set(table.entries) - set(gone)
    if row["unrecorded"]:
        for policy, name in itertools.product(table.changed, LEARNED):
            if name != "q" or math.isfinite(stored[policy][name]):
                setattr(table.entries[policy], name, stored[policy][name])
    table.changed_links = {(edge["low"], edge["high"]) for edge in links.values()} | {*table.links}
    store(tx, [table])
    written = {POLICIES.name: len(table.changed), POLICY_LINKS.name: len(table.links)}
    return Rebuilt({**written, "invalid": len(table.wrong)}, len(gone))


def derive(reader: Reader, stream: Row) -> tuple[dict[str, Row], dict[str, Row], Table, list[str]]:
    """Apply the events of a stream to blank policies.

    Return the stored policies and edges, what the events say, and policies without any.
    """
    rows = reader.read("maintenance.stored_policies", stream=stream["stream"])
    links = reader.read("maintenance.stored_links", stream=stream["stream"])
    table, gone = Table.of(rows), list[str]()
    if rows:  # else there is nothing to apply them to
        for _ in replay_events(reader, stream, table):
            pass
    if not stream["unrecorded"]:
        gone = [key for key, entry in table.entries.items() if entry.created_at is None]
    return POLICIES.by_key(rows), POLICY_LINKS.by_key(links), table, gone


def replay_events(reader: Reader, stream: Row, table: Table) -> Iterator[tuple[Row, float | None]]:
    """Apply the events of a stream in order; yield each then, with the TD error of a transition.

    Those with invalid numbers are left out, and their ids added to ``table.wrong``.
    """
    for event in _events(reader, stream):
        if _has_valid_numbers(event):
            yield event, _apply(table, event, unrecorded=bool(stream["unrecorded"]))
        else:
            table.wrong.append(event["id"])


def _has_valid_numbers(event: Row) -> bool:
    """Return whether the numbers of an event are those that Python would take."""
    facts, value = event["facts"] or {"reward": 0, "alpha": 1, "gamma": 0}, event["value"]
    numbers = (facts["reward"], *(one for one in (value, facts.get("next_max")) if one is not None))
    in_range = value is None or event["kind"] != "signal" or 0 <= value <= 1
    return (
        in_range
        and all(one is not None and abs(one) <= MAX_VALUE for one in numbers)
        and 0 < (facts["alpha"] or 0) <= 1
        and 0 <= (-1 if facts["gamma"] is None else facts["gamma"]) <= 1
    )


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
        return float(table.apply(kind, {**event, **event["facts"]})[1])
    else:
        about = [table.entries.get(key) for key in (event["subject"], event["other"]) if key]
        # A policy is removed with its last evidence. Its other events do not apply to a later
        # policy of the same action.
        evident = kind in EVIDENCE or unrecorded
        if about and all(entry and (evident or entry.created_at is not None) for entry in about):
            table.apply(kind, event)
    return None
