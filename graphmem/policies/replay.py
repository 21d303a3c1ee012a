"""Replays events on policies, in the order of their numbers.

The same code applies a batch of new events to existing policies, and all events of a stream to
blank policies; the latter is how ``verify`` and ``rebuild`` derive policies. A single update uses
``policies.td_update`` in Cypher, with the same operations in the same order. A sequence cannot be
one statement, because a server reads all data of a statement before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

CONFIDENCE_CAP = 20
"""Number of signals after which every further signal has the same weight (1/21)."""
INITIAL_CONFIDENCE = 0.5
STRENGTHEN = 0.05
"""Increment of a co-occurrence weight by one episode or one call of ``strengthen``."""
INITIAL_WEIGHT = 0.1
"""Initial weight of a link."""
DECAY = 0.95
"""Factor of a co-occurrence weight for each trial of one end without the other."""
LEAST_WEIGHT = 0.001
"""A link with a smaller weight is removed."""
EVIDENCE = ("outcome", "set")
"""Kinds of events that keep a policy alive, besides transitions and episodes."""
WINDOW = 10
"""Each policy of an episode is linked with so many next ones; all pairs would be too many."""


@dataclass(slots=True)
class Entry:
    """The changeable properties of one policy."""

    id: str
    state: str
    created_at: int | None = None
    q: float = 0.0
    updates: int = 0
    trials: int = 0
    successes: int = 0
    confidence: float = INITIAL_CONFIDENCE
    signals: int = 0
    active: bool = False
    crystallized: bool = False
    q_set: bool = False
    last_updated_at: int | None = None

    def row(self) -> dict[str, Any]:
        """Return all changeable properties."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(Entry.__slots__)
"""The stored changeable properties of a policy, with its id and state."""


@dataclass(slots=True)
class Link:
    """A co-occurrence edge; ``weight`` is as of a sum of ``held`` trials at both ends."""

    count: int = 0
    weight: float = 0.0
    held: int = 0


_LINK = tuple(Link.__slots__)


@dataclass
class Table:
    """Policies of one agent, by id and by state, and their co-occurrence edges."""

    entries: dict[str, Entry] = field(default_factory=dict)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    changed_links: set[tuple[str, str]] = field(default_factory=set)
    """Written or removed edges."""
    _by_state: dict[str, list[Entry]] = field(default_factory=dict)

    def add(self, entry: Entry) -> Entry:
        """Add a policy."""
        self.entries[entry.id] = entry
        self._by_state.setdefault(entry.state, []).append(entry)
        return entry

    def update(self, policy: str, fact: Mapping[str, Any], created_at: int) -> tuple[float, float]:
        """Apply a transition; return the new value and the TD error."""
        entry = self.entries[policy]
        self.changed.add(policy)
        if entry.created_at is None:
            entry.created_at = created_at
        best = self._best_next(fact)
        error: float = fact["reward"] + fact["gamma"] * best - entry.q
        entry.q = entry.q + fact["alpha"] * error
        entry.updates += 1
        entry.active = True
        self._count(entry, fact.get("success"))
        at = fact["at"]
        entry.last_updated_at = created_at if at is None else at
        return entry.q, error

    def _best_next(self, fact: Mapping[str, Any]) -> float:
        if fact["terminal"]:
            return 0.0
        given = fact.get("next_max")
        if given is not None:
            return float(given)
        values = [e.q for e in self._by_state.get(fact["next_state"], ()) if e.active]
        actions = fact.get("next_actions")
        if not values:
            return 0.0
        best = max(values)
        return 0.0 if actions is not None and len(values) < actions and best < 0.0 else best

    def episode(self, policies: Sequence[str], success: bool, created_at: int) -> None:
        """Apply an episode that took these policies, in the order of first use."""
        for policy in policies:
            entry = self._touch(policy, {"created_at": created_at})
            self._count(entry, success)
        for index, first in enumerate(policies):
            for second in policies[index + 1 : index + 1 + WINDOW]:
                # The shared trial is counted at both ends, but it is no trial without the other.
                self._strengthen(first, second, STRENGTHEN, shared=2).count += 1

    def apply(self, kind: str, fact: Mapping[str, Any]) -> None:
        """Apply an event of another kind about one policy."""
        entry = self._touch(fact["subject"], fact if kind in EVIDENCE else {})
        getattr(self, f"_{kind}")(entry, fact)

    def _outcome(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        self._count(entry, fact["success"])

    def _set(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        entry.q, entry.q_set, entry.active = fact["value"], True, True
        self._date(entry, fact)

    @staticmethod
    def _signal(entry: Entry, fact: Mapping[str, Any]) -> None:
        n, cap = entry.signals, CONFIDENCE_CAP
        divisor = n + 2 if n < cap else cap + 1
        entry.confidence = entry.confidence + (fact["value"] - entry.confidence) / divisor
        entry.signals += 1

    def _crystallized(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        entry.crystallized = entry.active = True
        if entry.updates == 0 and not entry.q_set:
            entry.q = fact["value"]
            self._date(entry, fact)

    @staticmethod
    def _taken_back(entry: Entry, _: Mapping[str, Any]) -> None:
        entry.crystallized = False
        if entry.updates == 0 and not entry.q_set:
            entry.q, entry.active = 0.0, False

    def _linked(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        if self._current(entry.id, fact["other"]) is None:
            self._put(entry.id, fact["other"], fact["value"])

    def _strengthened(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        self._strengthen(entry.id, fact["other"], fact["value"])

    def _weakened(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        weight = self._current(entry.id, fact["other"])
        if weight is None:
            return
        if weight * fact["value"] < LEAST_WEIGHT:
            self._unlinked(entry, fact)
        else:
            self._put(entry.id, fact["other"], weight * fact["value"])

    def _unlinked(self, entry: Entry, fact: Mapping[str, Any]) -> None:
        pair = _pair(entry.id, fact["other"])
        if self.links.pop(pair, None):
            self.changed_links.add(pair)

    def _touch(self, policy: str, fact: Mapping[str, Any]) -> Entry:
        """Return a policy for a change; evidence (a dated fact) keeps the policy alive."""
        entry = self.entries[policy]
        if entry.created_at is None:
            entry.created_at = fact.get("created_at")
        self.changed.add(policy)
        return entry

    @staticmethod
    def _count(entry: Entry, success: bool | None) -> None:
        if success is not None:
            entry.trials += 1
            entry.successes += 1 if success else 0

    @staticmethod
    def _date(entry: Entry, fact: Mapping[str, Any]) -> None:
        at = fact.get("at")
        entry.last_updated_at = fact["created_at"] if at is None else at

    def _trials(self, first: str, second: str) -> int:
        return self.entries[first].trials + self.entries[second].trials

    def _current(self, first: str, second: str, shared: int = 0) -> float | None:
        link = self.links.get(_pair(first, second))
        if link is None:
            return None
        weight: float = link.weight * DECAY ** (self._trials(first, second) - shared - link.held)
        return weight if weight >= LEAST_WEIGHT else None

    def _strengthen(self, first: str, second: str, delta: float, shared: int = 0) -> Link:
        weight = self._current(first, second, shared) or 0.0
        return self._put(first, second, min(1.0, weight + delta))

    def _put(self, first: str, second: str, weight: float) -> Link:
        pair = _pair(first, second)
        link = self.links.setdefault(pair, Link())
        link.weight, link.held = weight, self._trials(first, second)
        self.changed_links.add(pair)
        return link

    def link_rows(self, pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
        """Return edges as rows for the procedures; those that were removed have no weight."""
        rows = []
        for low, high in sorted(pairs):
            link = self.links.get((low, high))
            values = dict.fromkeys(_LINK) if link is None else asdict(link)
            rows.append({"low": low, "high": high, **values})
        return rows


def _pair(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)
