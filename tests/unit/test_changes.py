"""Where the rate of outcomes changed."""

from __future__ import annotations

import random

import pytest

from graphmem.advice.formula import HAZARD, split_course


@pytest.mark.parametrize(
    ("outcomes", "places"),
    [
        ("", []),
        ("+", []),
        ("+" * 40, []),
        ("+-" * 40, []),
        ("+" * 30 + "-" * 30, [30]),
        ("+" * 10 + "-" * 10 + "+" * 10, [10, 20]),
        ("+" * 1_000 + "-" * 1_000, [1_000]),
    ],
)
def test_changes_are_found_where_they_were(outcomes: str, places: list[int]) -> None:
    told = split_course([outcome == "+" for outcome in outcomes], HAZARD, 1.0)
    assert [place for place, _ in told] == places
    assert all(0.95 <= certainty <= 1.0 for _, certainty in told)


def test_steady_rates_raise_hardly_any_alarm() -> None:
    drawn = random.Random(7)
    rates = (0.2, 0.5, 0.8, 0.95)
    steady = [[drawn.random() < rate for _ in range(200)] for rate in rates for _ in range(50)]
    assert sum(bool(split_course(one, HAZARD, 1.0)) for one in steady) <= 2
