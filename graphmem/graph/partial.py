"""Merges items that were derived from one range of the episodes after the other.

An engine holds a row for each episode that a statement adds up. A node can have any number of
episodes, so those of a node with many are added up range by range. How the columns of two ranges
become one is said here; a column without a rule is equal in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphmem.store.port import Row

Merge = Callable[[Row, Row, str], Any]
"""Returns a column of two rows about different episodes as one."""


def total(one: Row, other: Row, name: str) -> Any:
    """Add them."""
    return one[name] + other[name]


def earliest(one: Row, other: Row, name: str) -> Any:
    """Return the lesser; either may be null."""
    return min((row[name] for row in (one, other) if row[name] is not None), default=None)


def latest(one: Row, other: Row, name: str) -> Any:
    """Return the greater; either may be null."""
    return max((row[name] for row in (one, other) if row[name] is not None), default=None)


def both(one: Row, other: Row, name: str) -> list[Any]:
    """Return what either list holds, once."""
    return [*one[name], *(item for item in other[name] if item not in one[name])]


def of_the_latest(*times: str) -> Merge:
    """Return the rule that takes a column from the row with the greater ``times``."""

    def rule(one: Row, other: Row, name: str) -> Any:
        return max(one, other, key=lambda row: [_known(row[time]) for time in times])[name]

    return rule


def of_the_earliest(*times: str) -> Merge:
    """Return the rule that takes a column from the row with the lesser ``times``."""

    def rule(one: Row, other: Row, name: str) -> Any:
        return min(one, other, key=lambda row: [row[time] for time in times])[name]

    return rule


def left_out(one: Row, other: Row, name: str) -> Any:  # noqa: ARG001
    """Leave it out: it follows from the others."""
    return None


def latest_cards(one: Row, other: Row, name: str) -> list[Any]:
    """Return the later card of each pair; either may be null."""

    def at(card: Mapping[str, Any] | None) -> tuple[Any, ...]:
        return (True, card["at"], card["episode"], card["rank"]) if card else (False,)

    return [max(cards, key=at) for cards in zip(one[name], other[name], strict=True)]


def decayed(half_life: float) -> Merge:
    """Return the rule for weights that decay until the row's ``last_at``.

    What has no time, as many as ``undated`` says, weighs 1 each and does not decay.
    """

    def rule(one: Row, other: Row, name: str) -> float:
        until = latest(one, other, "last_at")
        weight = 0.0
        for row in (one, other):
            dated = row[name] - row["undated"]
            weight += row["undated"]
            if row["last_at"] is not None:
                weight += dated * 0.5 ** ((until - row["last_at"]) / half_life)
        return weight

    return rule


def merged(rows: Iterable[Row], rules: Mapping[str, Merge]) -> list[Row]:
    """Return rows that are about the same as one; the columns without a rule say what that is."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name not in rules)
        before = found.get(key)
        if before is not None:
            row = {  # noqa: PLW2901
                name: rules[name](before, row, name) if name in rules else value
                for name, value in row.items()
            }
        found[key] = row
    return list(found.values())


def _known(value: Any) -> tuple[bool, Any]:
    """Return a key by which null is less than anything."""
    return value is not None, 0 if value is None else value
