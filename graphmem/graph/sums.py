"""How counts of different episodes become one: the arithmetic of everything that counts outcomes.

A batch of new episodes is summed up before it is written (``episodes/counting.py``), and a node
with very many episodes is derived from ranges of these, one after the other (``derived.py``). Both
merge rows by the rules below: one for each column. A column without a rule is equal in all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from graphmem.store.port import Row

Merge = Callable[[Row, Row, str], Any]
"""Returns a column of two rows about different episodes as one."""


def total(one: Row, other: Row, name: str) -> Any:
    """Add them."""
    return one[name] + other[name]


def earliest(one: Row, other: Row, name: str) -> Any:
    """Return the lesser; either may be null."""
    a, b = one[name], other[name]
    return b if a is None or (b is not None and b < a) else a


def latest(one: Row, other: Row, name: str) -> Any:
    """Return the greater; either may be null."""
    a, b = one[name], other[name]
    return b if a is None or (b is not None and b > a) else a


def both(one: Row, other: Row, name: str) -> list[Any]:
    """Return what either list holds, once."""
    return [*one[name], *(item for item in other[name] if item not in one[name])]


def of_the_latest(*times: str) -> Merge:
    """Return the rule that takes a column from the row with the greater ``times``."""

    def rule(one: Row, other: Row, name: str) -> Any:
        return max(one, other, key=lambda row: [_null_first(row[time]) for time in times])[name]

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


COUNTS: Mapping[str, Merge] = dict.fromkeys(
    ("trials", "successes", "credit_sum", "score_sum"), total
)
"""The counts of outcomes, on whatever node or edge they are."""
SPAN: Mapping[str, Merge] = {"first_at": earliest, "last_at": latest}
"""From when to when the outcomes are."""


def add(sums: dict[Any, Row], key: Hashable, row: Row, rules: Mapping[str, Merge]) -> Row:
    """Add a row to the sum of a key by the rules of its columns; return the sum."""
    held = sums.get(key)
    if held is None:
        held = sums[key] = dict(row)
        return held
    merged_columns = {name: rules[name](held, row, name) for name in rules}
    held.update(merged_columns)
    return held


def merged(rows: Iterable[Row], rules: Mapping[str, Merge]) -> list[Row]:
    """Return rows that are about the same as one; the columns without a rule say what that is."""
    sums: dict[Any, Row] = {}
    for row in rows:
        key = tuple(value for name, value in row.items() if name not in rules)
        add(sums, key, row, {name: rule for name, rule in rules.items() if name in row})
    return list(sums.values())


def _null_first(value: Any) -> tuple[bool, Any]:
    return value is not None, 0 if value is None else value
