"""The streams of agents' changes, and the policies that follow from them.

A stream belongs to one agent. It is locked before its policies are read or written, so that the
numbers of events give the order in which they were applied, and agents do not wait for each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.graph import Transaction
from graphmem.ids import (
    canonical_json,
    features_json,
    hashed,
    policy_id,
    state_id,
    stream_id,
)
from graphmem.policies.replay import Entry, Link, Table
from graphmem.store.port import ChangedError, Row

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


class StateKey(NamedTuple):
    """A state: its fingerprint, and its features as JSON if they are known."""

    id: str
    fingerprint: str
    features: str | None

    @classmethod
    def of(cls, namespace: str, state: Mapping[str, Any] | str, name: str = "state") -> StateKey:
        """Return the key of a state given as features or as a fingerprint.

        Raises:
            ValidationError: it is neither.
        """
        if isinstance(state, str):
            if not _FINGERPRINT.fullmatch(state):
                raise ValidationError(
                    name,
                    state,
                    "is not a fingerprint (16 hex digits)",
                    "or give a dict of features",
                )
            return cls(state_id(namespace, state), state, None)
        if not isinstance(state, Mapping):
            raise ValidationError(name, state, "must be a dict of features or a fingerprint")
        return _state_key(namespace, features_json(state, name))


@lru_cache(maxsize=65_536)
def _state_key(namespace: str, features: str) -> StateKey:
    mark = hashed(features)
    return StateKey(state_id(namespace, mark), mark, features)


class PolicyKey(NamedTuple):
    """A policy: an action of an agent in a state."""

    id: str
    stream: str
    agent: str
    state: StateKey
    action: str
    spec: str | None

    @classmethod
    def of(cls, namespace: str, agent: str, state: StateKey, action: str, spec: Any) -> PolicyKey:
        """Return the key of an action (a type, and a spec as JSON)."""
        spec_json = None if spec is None else canonical_json(spec)
        return cls(
            policy_id(namespace, agent, state.fingerprint, action, spec_json),
            stream_id(namespace, agent),
            agent,
            state,
            action,
            spec_json,
        )

    def row(self) -> Row:
        """Return the row for ``policies.open``."""
        return {
            "id": self.id,
            "state_id": self.state.id,
            "state": self.state.fingerprint,
            "stream": self.stream,
            "agent": self.agent,
            "action_type": self.action,
            "action_spec": self.spec,
        }


Took = tuple[PolicyKey, int, int]
"""A policy that an episode took: its key, the number of steps, and the first step's index."""


def took(namespace: str, agent: str, steps: Iterable[tuple[Any, str, Any]]) -> list[Took]:
    """Return the policies that steps (state, action type, action) take, in order of first use.

    Steps without a state take no policy.
    """
    places: dict[str, list[int]] = {}
    keys: dict[str, PolicyKey] = {}
    for index, (state, action_type, action) in enumerate(steps):
        if state is not None:
            place = StateKey.of(namespace, state)
            key = PolicyKey.of(namespace, agent, place, action_type, action)
            keys[key.id] = key
            places.setdefault(key.id, []).append(index)
    return [(keys[policy], len(indexes), indexes[0]) for policy, indexes in places.items()]


@dataclass
class Draft:
    """New events of one agent, in order: (kind, fact)."""

    agent: str
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


def open_nodes(
    tx: Transaction,
    policies: Iterable[PolicyKey],
    states: Iterable[StateKey] = (),
    agents: Iterable[str] = (),
) -> None:
    """Create missing streams, states and policies."""
    wanted = {key.id: key for key in policies}
    names = {key.agent for key in wanted.values()} | set(agents)
    places: dict[str, StateKey] = {}
    for place in [*(key.state for key in wanted.values()), *states]:
        if place.id not in places or places[place.id].features is None:
            places[place.id] = place
    rows: list[Row] = [{"stream": stream_id(tx.ns, name), "agent": name} for name in names]
    if rows:
        tx.run("events.open_streams", rows=rows)
    rows = [
        {"id": place.id, "fingerprint": place.fingerprint, "features": place.features}
        for place in places.values()
    ]
    if rows:
        tx.run("policies.open_states", rows=rows)
        described = [row for row in rows if row["features"] is not None]
        if described:
            tx.run("policies.describe_states", rows=described)
    rows = [key.row() for key in wanted.values()]
    if rows:
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
    """Return the tables of locked streams with these policies (stream -> ids).

    With ``states`` (ids), the tables include all policies of the streams in these states.
    """
    tables = {stream: Table() for stream in policies}
    home = {policy: stream for stream, ids in policies.items() for policy in ids}
    rows = tx.run("policies.load", ids=sorted(home))
    if len(rows) != len(home):
        raise _MissingError
    for row in rows:
        tables[home[row["id"]]].add(Entry(**row))
    places = sorted(set(states))
    if places:
        rows = tx.run("policies.load_states", states=places)
        if len({row["state_id"] for row in rows}) != len(places):
            raise _MissingError
        for row in rows:
            table = tables.get(row.pop("stream"))
            del row["state_id"]
            if table is not None and row["id"] not in table.entries:
                table.add(Entry(**row))
    if links:
        for row in tx.run("policies.load_links", ids=sorted(home)):
            table = tables[home[row["low"]]]
            table.links[row["low"], row["high"]] = Link(row["count"], row["weight"], row["held"])
    return tables


def store(tx: Transaction, tables: Iterable[Table]) -> None:
    """Write the changes of tables."""
    tables = list(tables)
    changed = [table.entries[policy] for table in tables for policy in sorted(table.changed)]
    valued = [entry.value_row() for entry in changed if entry.only_value]
    rows = [entry.row() for entry in changed if not entry.only_value]
    for name, changed_rows in (("policies.put_values", valued), ("policies.put", rows)):
        if changed_rows:
            written = tx.run(name, rows=changed_rows)
            if written[0]["written"] != len(changed_rows):
                raise ChangedError("a policy was erased while this was written")
    links = [row for table in tables for row in table.link_rows(table.changed_links)]
    if links:
        tx.run("policies.put_links", rows=links)
    dropped = [{"low": a, "high": b} for table in tables for a, b in sorted(table.dropped_links)]
    if dropped:
        tx.run("policies.drop_links", rows=dropped)


def apply(
    tx: Transaction,
    drafts: Iterable[Draft],
    keys: Mapping[str, PolicyKey] = MappingProxyType({}),
    states: Mapping[str, StateKey] = MappingProxyType({}),
) -> list[list[tuple[int, Any]]]:
    """Apply new events in order, and append them to the streams.

    Missing policies and next states are created from ``keys`` and ``states``. Return for each draft
    and event its number and, for a transition, ``(q, TD error)``.

    Raises:
        ChangedError: a policy without a key does not exist.
    """
    by_stream = {stream_id(tx.ns, draft.agent): draft for draft in drafts}
    locked, tables = _opened(tx, by_stream, keys, states)
    answers: list[list[tuple[int, Any]]] = []
    transitions: list[Row] = []
    events: list[Row] = []
    for stream, draft in by_stream.items():
        table, seq = tables[stream], int(locked[stream]["last"])
        numbered: list[tuple[int, Any]] = []
        for kind, fact in draft.events:
            seq += 1
            answer = None
            if kind == "transition":
                answer = table.update(fact["subject"], fact, tx.now)
                transitions.append({**fact, "id": f"{stream}:{seq}", "stream": stream, "seq": seq})
            else:
                table.apply(kind, {**fact, "created_at": tx.now})
                row = {**_EMPTY, **fact, "id": f"{stream}:{seq}", "kind": kind}
                events.append({**row, "stream": stream, "seq": seq})
            numbered.append((seq, answer))
        answers.append(numbered)
        locked[stream]["last"] = seq
    store(tx, tables.values())
    if transitions:
        led = [row for row in transitions if row["next_id"] is not None]
        last = [row for row in transitions if row["next_id"] is None]
        for name, rows in (
            ("events.append_transitions", led),
            ("events.append_last_transitions", last),
        ):
            if rows:
                tx.run(name, rows=rows)
        tied = [row for row in transitions if row.get("episode")]
        if tied:
            tx.run("events.of_episodes", rows=tied)
    if events:
        tx.run("events.append", rows=events)
    ahead = [{"stream": stream, "last": row["last"]} for stream, row in locked.items()]
    tx.run("events.advance", rows=ahead)
    return answers


def _opened(
    tx: Transaction,
    by_stream: Mapping[str, Draft],
    keys: Mapping[str, PolicyKey],
    states: Mapping[str, StateKey],
) -> tuple[dict[str, Row], dict[str, Table]]:
    """Lock streams and load the policies of their new events; create missing ones."""
    policies: dict[str, list[str]] = {}
    places: set[str] = set()
    links = False
    for stream, draft in by_stream.items():
        touched: dict[str, None] = {}
        for _, fact in draft.events:
            touched[fact["subject"]] = None
            if fact.get("other") is not None:
                touched[fact["other"]] = None
                links = True
            if fact.get("next_id") is not None:
                places.add(fact["next_id"])
        policies[stream] = list(touched)
    locked = lock(tx, by_stream)
    if len(locked) == len(by_stream):
        try:
            return locked, load(tx, policies, places, links=links)
        except _MissingError:
            pass
    agents = [draft.agent for draft in by_stream.values()]
    open_nodes(tx, keys.values(), states.values(), agents)
    locked = lock(tx, by_stream)
    try:
        return locked, load(tx, policies, places, links=links)
    except _MissingError:
        raise ChangedError("a policy was erased while this was written") from None


class _MissingError(Exception):
    """A policy or a state does not exist (yet)."""


_EMPTY = {"subject": None, "other": None, "value": None, "success": None, "at": None, "data": None}


def missing(policy: str, namespace: str) -> NotFoundError:
    """Return the error for a missing policy."""
    return NotFoundError(f"no policy {policy!r} in namespace {namespace!r}")
