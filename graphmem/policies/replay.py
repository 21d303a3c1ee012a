"""Replays events on policies, in the order of their numbers.

The same code applies a batch of new events to existing policies, and all events of a stream to
blank policies; the latter is how ``verify`` and ``rebuild`` derive policies. A single update uses
``policies.td_update`` in Cypher, with the same operations in the same order. A sequence cannot be
one statement, because a server reads all data of a statement before it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CONFIDENCE_CAP = 20  # number of signals after which every further signal has the same weight (1/21)
INITIAL_CONFIDENCE = 0.5
STRENGTHEN = 0.05  # increment of a co-occurrence weight by an episode, or a call of ``strengthen``
INITIAL_WEIGHT = 0.1  # initial weight of a link
DECAY = 0.95  # factor of a co-occurrence weight for each trial of one end without the other
LEAST_WEIGHT = 0.001  # a link with a smaller weight is removed
EVIDENCE = ("outcome", "set")  # events that keep a policy alive, besides transitions and episodes
WINDOW = 10  # each policy of an episode is linked with so many next ones; all would be too many


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


FIELDS = tuple(Entry.__slots__)  # the stored changeable properties, with id and state


@dataclass(slots=True)
class Link:
    """A co-occurrence edge; ``weight`` is as of a sum of ``held`` trials at both ends."""

    count: int = 0
    weight: float = 0.0
    held: int = 0


@dataclass
class Table:
    """Policies of one agent, by id and by state, and their co-occurrence edges."""

    entries: dict[str, Entry] = field(default_factory=dict)
    links: dict[tuple[str, str], Link] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    changed_links: set[tuple[str, str]] = field(default_factory=set)  # written or removed edges
    wrong: list[str] = field(default_factory=list)  # events (ids) with invalid numbers, such as NaN
    _by_state: dict[str, list[Entry]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Table:
        """Return policies in their initial state."""
        table = cls()
        for row in rows:
            table.add(Entry(row["id"], row["state"]))
        return table

    def add(self, entry: Entry) -> None:
        """Add a policy."""
        self.entries[entry.id] = entry
        self._by_state.setdefault(entry.state, []).append(entry)

    def _best_next(self, fact: Mapping[str, Any]) -> float:
        if fact["terminal"]:
            return 0.0
        if fact.get("next_max") is not None:
            return float(fact["next_max"])
        values = [e.q for e in self._by_state.get(fact["next_state"], ()) if e.active]
        actions = fact.get("next_actions")
        if actions is not None and len(values) < actions:
            values.append(0.0)
        return max(values, default=0.0)

    def episode(self, policies: Sequence[str], success: bool, created_at: int) -> None:
        """Apply an episode that took these policies, in the order of first use."""
        for policy in policies:
            self._count(self._touch(policy, created_at), success)
        for index, first in enumerate(policies):
            for second in policies[index + 1 : index + 1 + WINDOW]:
                self._join("strengthened", first, second, STRENGTHEN, together=True)

    def apply(self, kind: str, fact: Mapping[str, Any]) -> Any:
        """Apply an event of another kind about one policy.

        Return the value and the TD error (0 if no reward came), or the confidence after a signal,
        or the weight of an edge.
        """
        value: Any = fact.get("value")
        evident = kind == "transition" or kind in EVIDENCE
        entry = self._touch(fact["subject"], fact["created_at"] if evident else None)
        dated = fact["created_at"] if fact.get("at") is None else fact["at"]
        learned, error = entry.updates > 0 or entry.q_set, 0.0
        match kind:
            case "transition":
                error = fact["reward"] + fact["gamma"] * self._best_next(fact) - entry.q
                entry.q += fact["alpha"] * error
                entry.updates += 1
                entry.active, entry.last_updated_at = True, dated
                self._count(entry, fact.get("success"))
            case "outcome":
                self._count(entry, fact["success"])
            case "set":
                entry.q, entry.q_set, entry.active = value, True, True
                entry.last_updated_at = dated
            case "signal":
                divisor = min(entry.signals + 2, CONFIDENCE_CAP + 1)
                entry.confidence += (value - entry.confidence) / divisor
                entry.signals += 1
                return entry.confidence
            case "crystallized":
                entry.crystallized = entry.active = True
                if not learned:
                    entry.q, entry.last_updated_at = value, dated
            case "taken_back":
                entry.crystallized = False
                if not learned:
                    entry.q, entry.active = 0.0, False
            case _:
                return self._join(kind, entry.id, fact["other"], value)
        return entry.q, error

    def _join(
        self, kind: str, first: str, second: str, value: Any, *, together: bool = False
    ) -> float:
        """Change the edge between two policies; return its weight, 0 without one.

        Where an episode took both, its trial is counted at both ends already, but it is no trial of
        one without the other.
        """
        pair = (first, second) if first < second else (second, first)
        trials = self.entries[first].trials + self.entries[second].trials
        link, before = self.links.get(pair), 0.0
        if link is not None:
            before = link.weight * DECAY ** (trials - 2 * together - link.held)
            before = before if before >= LEAST_WEIGHT else 0.0
        if (kind == "linked" and before) or (kind == "weakened" and not before):
            return before
        match kind:
            case "strengthened":
                weight = min(1.0, before + value)
            case "linked":
                weight = value
            case _:
                weight = before * value if kind == "weakened" else 0.0
        self.changed_links.add(pair)
        if kind in ("weakened", "unlinked") and weight < LEAST_WEIGHT:
            self.links.pop(pair, None)
            return 0.0
        link = self.links.setdefault(pair, Link())
        link.count += together
        link.weight, link.held = weight, trials
        return weight if weight >= LEAST_WEIGHT else 0.0

    def _touch(self, policy: str, created_at: int | None) -> Entry:
        """Return a policy for a change; evidence, which has a date, keeps the policy alive."""
        entry = self.entries[policy]
        if entry.created_at is None:
            entry.created_at = created_at
        self.changed.add(policy)
        return entry

    @staticmethod
    def _count(entry: Entry, success: bool | None) -> None:
        if success is not None:
            entry.trials += 1
            entry.successes += success

    def link_rows(self, pairs: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
        """Yield edges as rows for the procedures; those that were removed have no weight."""
        for low, high in sorted(pairs):
            link = self.links.get((low, high))
            values = {name: getattr(link, name, None) for name in Link.__slots__}
            yield {"low": low, "high": high, **values}
