"""Queries for people on lessons: what gets worse, costs most, has no remedy, and divides agents.

Numbers are worked out by hand. Most bounds are those of all or nothing, which are short:
the lower one of n successes in n trials is n / (n + z²), the upper one of none is z² / (n + z²).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphmem import Episode, Memory, StrategyUse
from tests.conftest import Opener

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)
Z2 = 1.96**2


def days(number: float) -> datetime:
    return MONDAY + timedelta(days=number)


def attempts(strategy: str | list[StrategyUse], outcomes: str, **more: Any) -> Iterable[Episode]:
    """One episode a letter, a day apart: ``+`` worked, ``-`` did not."""
    name = strategy if isinstance(strategy, str) else strategy[0].text
    dated, first = more.pop("dated", True), more.pop("first", 0)
    given = {"task": "t", "agent": "ada", **more}
    for number, outcome in enumerate(outcomes):
        yield Episode(
            strategy=strategy,
            success=outcome == "+",
            ended_at=days(first + number) if dated else None,
            source_key=f"{given['agent']}/{given['task']}/{name}/{first + number}/{dated}",
            **given,
        )


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


class TestGettingWorse:
    def test_the_later_half_of_dated_trials_is_held_against_the_earlier(
        self, memory: Memory
    ) -> None:
        known = [
            *attempts("worked once", "++++++------"),
            *attempts("wavers", "+++--+-+-"),
            *attempts("steady", "+-+-+-+-+-+-"),
            *attempts("improves", "----++++"),
            *attempts("rare", "+-"),
            *attempts("hopeless", "-" * 9),  # 0 of 5 has a lower mean than 0 of 4, and is no worse
        ]
        # Dates decide, not the order in which episodes are learned.
        memory.learn_many(reversed(known))
        assert memory.query("analysis.getting_worse") == [
            {
                "strategy": "worked once",
                "earlier_trials": 6,
                "earlier_successes": 6,
                "later_trials": 6,
                "later_successes": 0,
                "fall": pytest.approx(7 / 8 - 1 / 8),
                "certain": True,  # 0 of 6 reaches up to .390, 6 of 6 down to .610
                "later_from": millis(days(6)),
            },
            {
                "strategy": "wavers",
                "earlier_trials": 4,
                "earlier_successes": 3,
                "later_trials": 5,  # with the middle one
                "later_successes": 2,
                "fall": pytest.approx(4 / 6 - 3 / 7),
                "certain": False,
                "later_from": millis(days(4)),
            },
        ]
        rows = memory.query("analysis.getting_worse", at_least=2)
        assert [row["strategy"] for row in rows] == ["worked once", "rare", "wavers"]
        assert rows[1]["fall"] == pytest.approx(2 / 3 - 1 / 3)
        assert len(memory.query("analysis.getting_worse", at_least=2, limit=1)) == 1

    def test_trials_without_a_date_and_uses_that_were_not_applied_do_not_count(
        self, memory: Memory
    ) -> None:
        memory.learn_many(
            [
                *attempts("steady", "++++++++"),
                *attempts("steady", "--------", dated=False),
                *attempts(
                    [StrategyUse("other"), StrategyUse("steady", applied=False)],
                    "--------",
                    first=20,
                ),
            ]
        )
        assert memory.query("analysis.getting_worse") == []
        for number in range(8):  # the start dates an episode that has no end
            memory.learn("t", "s", success=number < 4, started_at=days(number))
        [row] = memory.query("analysis.getting_worse")
        assert (row["earlier_successes"], row["later_successes"]) == (4, 0)


@pytest.mark.parametrize(
    ("name", "one", "other", "wanted"),
    [
        (
            "getting_worse",
            [*attempts("look it up", "++++")],
            [*attempts("search for it", "----", first=4)],
            {"fall": pytest.approx(5 / 6 - 1 / 6)},
        ),
        (
            "no_alternative",
            [*attempts("walk", "-", error="too far")],
            [*attempts("go on foot", "-", error="too far")],
            {"occurrences": 2, "trials": 2, "others": 0},
        ),
        (
            "disputed_strategies",
            [*attempts("ask", "+" * 6, agent="ada")],
            [*attempts("inquire", "-" * 6, agent="grace")],
            {"works_for": "ada", "fails_for": "grace"},
        ),
    ],
)
def test_merged_strategies_are_one(
    memory: Memory, name: str, one: list[Episode], other: list[Episode], wanted: dict[str, Any]
) -> None:
    memory.learn_many([*one, *other])
    assert memory.query(f"analysis.{name}") == []
    kept, merged = one[0].strategy[0].text, other[0].strategy[0].text
    memory.lessons.merge(kept, merged)
    [row] = memory.query(f"analysis.{name}")
    assert {column: row[column] for column in ("strategy", *wanted)} == {"strategy": kept, **wanted}
    memory.lessons.unmerge(kept)
    assert memory.query(f"analysis.{name}") == []


class TestCostlyErrors:
    def test_failures_are_counted_by_class_over_strategies_and_agents(self, memory: Memory) -> None:
        def fail(strategy: list[str], error: str | None, agent: str, score: float = 0.0) -> None:
            memory.learn("t", strategy, score=score, error=error, agent=agent)

        fail(["a", "b"], "no row 17", "ada", 0.25)
        fail(["a"], "no row 4", "grace")
        fail(["c"], "no row 99", "grace", 0.4)
        fail(["a"], "timeout", "ada")
        fail([], None, "ada", 0.1)
        memory.learn("t", "a", success=True, error="no row 3")  # got over it
        rows = memory.query("analysis.costly_errors")
        assert rows == [
            {
                "error_class": "no row <number>",
                "failures": 3,
                "share": pytest.approx(3 / 5),
                "lost_score": pytest.approx(0.75 + 1 + 0.6),
                "strategies": 3,
                "agents": 2,
            },
            {
                "error_class": "timeout",
                "failures": 1,
                "share": pytest.approx(1 / 5),
                "lost_score": pytest.approx(1.0),
                "strategies": 1,
                "agents": 1,
            },
            {
                "error_class": None,
                "failures": 1,
                "share": pytest.approx(1 / 5),
                "lost_score": pytest.approx(0.9),
                "strategies": 0,
                "agents": 1,
            },
        ]
        # What is left out by a limit still counts in the shares.
        assert memory.query("analysis.costly_errors", limit=1) == rows[:1]
        memory.lessons.merge("a", "b")
        assert memory.query("analysis.costly_errors")[0]["strategies"] == 2

    def test_the_last_error_of_the_steps_stands_for_one_of_the_episode(
        self, memory: Memory
    ) -> None:
        memory.learn_many(
            [{"task": "t", "strategy": "s", "success": False, "steps": [{"error": "no row 1"}]}]
        )
        [row] = memory.query("analysis.costly_errors")
        assert (row["error_class"], row["share"]) == ("no row <number>", 1.0)


class TestNoAlternative:
    def test_what_fails_although_nothing_is_better_on_the_type(self, memory: Memory) -> None:
        trips = {"task": "go", "task_type": "trip"}
        meals = {"task": "eat", "task_type": "meal"}
        memory.learn_many(
            [
                *attempts("walk", "---", **trips, error="too far"),
                *attempts("ride", "++", **trips),
                *attempts("walk", "--", **meals, error="too far", agent="grace"),
                *attempts("walk", "++++", **meals, agent="grace", dated=False),
                *attempts("ride", "-", **meals, error="too far"),
            ]
        )
        # On trips walking fails, but riding is better. On meals walking is the best that is known,
        # over both agents together, and fails now and then.
        assert memory.query("analysis.no_alternative", z=1.0) == [
            {
                "agent": "grace",
                "strategy": "walk",
                "error_class": "too far",
                "task_type": "meal",
                "occurrences": 2,
                "trials": 6,
                "successes": 4,
                # 4 of 6 with z = 1: (2/3 + 1/12 - sqrt(1/27 + 1/144)) / (1 + 1/6)
                "lower": pytest.approx((2 / 3 + 1 / 12 - (1 / 27 + 1 / 144) ** 0.5) / (7 / 6)),
                "others": 1,
            }
        ]
        assert memory.query("analysis.no_alternative", at_least=3) == []

    def test_equally_bad_is_not_better(self, memory: Memory) -> None:
        memory.learn_many(attempts("walk", "--", error="too far"))
        memory.learn_many(attempts("swim", "--", error="too cold"))
        rows = memory.query("analysis.no_alternative")
        assert [(row["strategy"], row["lower"], row["others"]) for row in rows] == [
            ("swim", 0.0, 1),
            ("walk", 0.0, 1),
        ]


class TestDisputedStrategies:
    def test_a_lower_bound_over_the_upper_bound_of_another_agent(self, memory: Memory) -> None:
        memory.learn_many(
            [
                *attempts("ask", "+" * 6, agent="ada"),
                *attempts("ask", "-" * 6, agent="grace"),
                *attempts("ask", "+++-", agent="joan"),  # knows too little to disagree
                *attempts("ask", "------", agent="ada", task="u", task_type="another"),
                *attempts("guess", "+" * 4, agent="ada"),
                *attempts("guess", "-" * 3, agent="grace"),
            ]
        )
        [row] = memory.query("analysis.disputed_strategies")
        assert row == {
            "strategy": "ask",
            "task_type": "general",
            "works_for": "ada",
            "successes": 6,
            "trials": 6,
            "lower": pytest.approx(6 / (6 + Z2)),
            "fails_for": "grace",
            "other_successes": 0,
            "other_trials": 6,
            "other_upper": pytest.approx(Z2 / (6 + Z2)),
        }
        # At z = 1 the bounds are narrower: 3 of 4 is from 0.5 to 0.9.
        rows = memory.query("analysis.disputed_strategies", z=1.0)
        assert [(row["strategy"], row["works_for"], row["fails_for"]) for row in rows] == [
            ("ask", "ada", "grace"),
            ("guess", "ada", "grace"),
            ("ask", "joan", "grace"),
        ]
        gaps = [row["lower"] - row["other_upper"] for row in rows]
        assert gaps == pytest.approx([6 / 7 - 1 / 7, 4 / 5 - 1 / 4, 1 / 2 - 1 / 7])


def test_another_namespace_of_the_same_store_counts_for_nothing(opened: Opener) -> None:
    ours = opened()
    theirs = opened(f"{ours.namespace}-other")
    history = [
        *attempts("ask", "++++++------", error="no row 1"),
        *attempts("ask", "-" * 6, agent="grace", error="no row 2"),
        *attempts("ask", "+" * 12, agent="joan"),
    ]
    ours.learn_many(history)
    names = ("getting_worse", "costly_errors", "no_alternative", "disputed_strategies")
    before = {name: ours.query(f"analysis.{name}") for name in names}
    assert all(before.values())
    assert not any(theirs.query(f"analysis.{name}") for name in names)
    theirs.learn_many(history[:20])
    assert {name: ours.query(f"analysis.{name}") for name in names} == before
