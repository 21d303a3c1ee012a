"""How an estimate says what to expect, and what that rests on."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphmem.graph.estimate import Estimate
from graphmem.models.forecasts import Change
from graphmem.numerics import wilson_lower

DAY = datetime(2026, 9, 30, 12, 0, tzinfo=UTC)
NEAREST = {
    "text": "refund a cancelled flight",
    "trials": 10,
    "successes": 9,
    "tasks": 1,
    "others": True,
}
ALIKE = "9 of 10 on 'refund a cancelled flight', like this one"


def estimate(probability: float, worth: float = 10.0, **given: Any) -> Estimate:
    fields: Any = dict.fromkeys(Estimate.__dataclass_fields__, 0)
    fields |= {"change": None, "nearest": None, "lenders": (), "priors": (), "task_type": "travel"}
    fields |= {"probability": probability, "worth": worth}
    fields["lower"] = wilson_lower(probability, worth, 1.0)
    for name, (won, trials) in given.pop("counts", {}).items():
        fields |= {f"{name}successes": won, f"{name}trials": trials}
    return Estimate(**(fields | given))


def change(
    before: tuple[int, int], since: tuple[int, int], hours: float = 24, certainty: float = 0.99
) -> Change:
    return Change(
        strategy="wkhtmltopdf",
        task="make a PDF",
        since=DAY + timedelta(hours=hours),
        until=DAY,
        successes_before=before[0],
        trials_before=before[1],
        successes_since=since[0],
        trials_since=since[1],
        certainty=certainty,
    )


@pytest.mark.parametrize(
    ("here", "near", "typed", "everywhere", "told"),
    [
        ((26, 30), (37, 60), (0, 0), (63, 90), "26 of 30 here"),
        ((2, 3), (9, 10), (0, 0), (11, 13), f"2 of 3 here; {ALIKE}"),
        ((0, 0), (20, 40), (0, 0), (20, 40), f"{ALIKE}; 11 of 30 on less similar tasks"),
        ((0, 0), (0, 0), (4, 5), (9, 20), "4 of 5 on travel tasks; 9 of 20 in all"),
        ((2, 3), (0, 0), (2, 3), (3, 6), "2 of 3 here; 3 of 6 in all"),
        ((0, 0), (0, 0), (0, 0), (9, 20), "9 of 20 on other tasks, none like this one"),
        ((0, 0), (0, 0), (0, 0), (0, 0), "never tried"),
    ],
)
def test_the_counts_are_said_from_the_task_itself_outwards(
    here: Any, near: Any, typed: Any, everywhere: Any, told: str
) -> None:
    """Those that add nothing are left out, and the nearest task is named."""
    counts = {"here_": here, "near_": near, "type_": typed, "": everywhere}
    one = estimate(0.8, counts=counts, nearest=NEAREST if near[1] else None)
    assert one.evidence == told


def test_few_outcomes_on_each_of_several_near_tasks_are_said_together() -> None:
    near = {"text": "refund order 18", "trials": 12, "successes": 6, "tasks": 12, "others": False}
    one = estimate(0.5, counts={"near_": (6, 12), "": (6, 12)}, nearest=near)
    assert one.evidence == "6 of 12 on tasks like this one, nearest 'refund order 18'"


@pytest.mark.parametrize(
    ("probability", "worth", "seen", "told"),
    [
        (0.87, 4.0, (3, 3), "likely"),
        (0.5, 20.0, (10, 20), "about as often as not"),
        (0.2, 4.0, (0, 3), "rarely"),
        (0.74, 2.0, (1, 1), "too little known"),
        (0.26, 2.0, (0, 1), "too little known"),
        (0.9, 20.0, (0, 0), "too little known"),
    ],
)
def test_the_conclusion_is_one_that_the_counts_bear(
    probability: float, worth: float, seen: tuple[int, int], told: str
) -> None:
    assert estimate(probability, worth, counts={"here_": seen}).conclusion == told


def test_what_changed_is_said_with_its_time() -> None:
    counts = {"here_": (30, 60), "": (30, 60)}
    stopped = estimate(0.04, counts=counts, change=change((30, 30), (0, 30)))
    assert stopped.said == "stopped working: 30 of 30 until 30 Sep 2026, 0 of 30 since"
    again = estimate(0.95, counts=counts, change=change((10, 30), (30, 30), hours=1))
    assert again.said == "works again: 10 of 30 until 12:00, 30 Sep 2026, 30 of 30 since"
    less = estimate(0.5, counts=counts, change=change((30, 30), (15, 30)))
    assert less.said == "about as often as not: 30 of 30 until 30 Sep 2026, 15 of 30 since"


@pytest.mark.parametrize(
    ("before", "since", "told"),
    [
        ((16, 16), (0, 8), "0 of the latest 8, 16 of 16 before; 16 of 34 in all"),
        ((20, 20), (0, 1), "the latest failed, 20 of 20 before; 20 of 31 in all"),
    ],
)
def test_an_uncertain_change_is_said_as_the_latest_outcomes(
    before: tuple[int, int], since: tuple[int, int], told: str
) -> None:
    here, everywhere = (before[0], before[1] + since[1]), (before[0], before[1] + since[1] + 10)
    assumed = change(before, since, certainty=0.5)
    one = estimate(0.35, counts={"here_": here, "": everywhere}, change=assumed)
    assert one.said == f"rarely: {told}"


def test_the_order_is_by_what_is_expected_then_by_certainty() -> None:
    many, few = (estimate(0.8, worth, counts={"here_": (4, 5)}) for worth in (30.0, 6.0))
    unknown, bad = estimate(0.9, 2.0), estimate(0.2, counts={"here_": (2, 10)})
    assert sorted([bad, unknown, few, many], key=lambda one: one.order) == [
        *(many, few, unknown, bad)
    ]
