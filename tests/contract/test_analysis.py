"""Queries for people: what gets worse, costs most, has no remedy, divides agents; levels.

Numbers are worked out by hand. Most bounds are those of all or nothing, which are short:
the lower one of n successes in n trials is n / (n + z²), the upper one of none is z² / (n + z²).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from graphmem import Memory
from graphmem.models.levels import LevelUpkeep
from tests.conftest import Clock
from tests.contract.teaching import learn_runs, runs

Z2 = 1.96**2
NOW = 1_780_000_000_000
Rows = list[dict[str, Any]]
attempts = partial(runs, task="t", agent="ada")
learn = partial(learn_runs, task="t", agent="ada")


def asked(memory: Memory, name: str, columns: str, **given: Any) -> list[tuple[Any, ...]]:
    """Some columns of the rows of a query, in order."""
    rows = memory.query(f"analysis.{name}", **given)
    return [tuple(row[column] for column in columns.split()) for row in rows]


@pytest.mark.parametrize(
    ("name", "one", "other", "wanted"),
    [
        (
            "no_alternative",
            attempts("walk", "-", error="too far"),
            attempts("go on foot", "-", error="too far"),
            {"occurrences": 2, "trials": 2, "others": 0},
        ),
        (
            "disputed_strategies",
            attempts("ask", "+" * 6, agent="ada"),
            attempts("inquire", "-" * 6, agent="grace"),
            {"works_for": "ada", "fails_for": "grace"},
        ),
    ],
)
def test_merged_strategies_are_one(
    memory: Memory, name: str, one: Rows, other: Rows, wanted: dict[str, Any]
) -> None:
    memory.learn_many([*one, *other])
    assert memory.query(f"analysis.{name}") == []
    kept, merged = one[0]["strategy"], other[0]["strategy"]
    memory.lessons.merge(kept, merged)
    [row] = memory.query(f"analysis.{name}")
    assert {column: row[column] for column in ("strategy", *wanted)} == {"strategy": kept, **wanted}
    memory.lessons.unmerge(kept)
    assert memory.query(f"analysis.{name}") == []


def test_failures_are_counted_by_class_over_strategies_and_agents(memory: Memory) -> None:
    def fail(strategy: list[str], error: str | None, agent: str, score: float = 0.0) -> None:
        memory.learn("t", strategy, score=score, error=error, agent=agent)

    fail(["a", "b"], "no row 17", "ada", 0.25)
    fail(["a"], "no row 4", "grace")
    fail(["c"], "no row 99", "grace", 0.4)
    fail(["a"], "timeout", "ada")
    fail([], None, "ada", 0.1)
    memory.learn("t", "a", success=True, error="no row 3")  # got over it
    columns = "error_class failures share lost_score strategies agents"
    rows = asked(memory, "costly_errors", columns)
    assert rows == [
        ("no row <number>", 3, pytest.approx(3 / 5), pytest.approx(0.75 + 1 + 0.6), 3, 2),
        ("timeout", 1, pytest.approx(1 / 5), pytest.approx(1.0), 1, 1),
        (None, 1, pytest.approx(1 / 5), pytest.approx(0.9), 0, 1),
    ]
    # What is left out by a limit still counts in the shares.
    assert asked(memory, "costly_errors", columns, limit=1) == rows[:1]
    memory.lessons.merge("a", "b")
    assert memory.query("analysis.costly_errors")[0]["strategies"] == 2


def test_what_fails_although_nothing_is_better_on_the_type(memory: Memory) -> None:
    trips: dict[str, Any] = {"task": "go", "task_type": "trip"}
    meals: dict[str, Any] = {"task": "eat", "task_type": "meal"}
    learn(memory, "walk", "---", **trips, error="too far")
    learn(memory, "ride", "++", **trips)
    learn(memory, "walk", "--", **meals, error="too far", agent="grace")
    learn(memory, "walk", "++++", **meals, agent="grace", ended_at=None)
    learn(memory, "ride", "-", **meals, error="too far")
    # On trips walking fails, but riding is better. On meals walking is the best that is known,
    # over both agents together, and fails now and then.
    columns = "agent strategy error_class task_type occurrences trials successes others lower"
    [(*row, lower)] = asked(memory, "no_alternative", columns, z=1.0)
    assert row == ["grace", "walk", "too far", "meal", 2, 6, 4, 1]
    # 4 of 6 with z = 1
    assert lower == pytest.approx((2 / 3 + 1 / 12 - (1 / 27 + 1 / 144) ** 0.5) / (7 / 6))
    assert memory.query("analysis.no_alternative", at_least=3) == []


def test_disputed_is_a_lower_bound_over_the_upper_bound_of_another_agent(memory: Memory) -> None:
    learn(memory, "ask", "+" * 6, agent="ada")
    learn(memory, "ask", "-" * 6, agent="grace")
    learn(memory, "ask", "+++-", agent="joan")  # knows too little to disagree
    learn(memory, "ask", "------", agent="ada", task="u", task_type="another")
    learn(memory, "guess", "+" * 4, agent="ada")
    learn(memory, "guess", "-" * 3, agent="grace")
    columns = (
        "strategy task_type works_for successes trials lower fails_for other_successes "
        "other_trials other_upper"
    )
    high, low = pytest.approx(6 / (6 + Z2)), pytest.approx(Z2 / (6 + Z2))
    assert asked(memory, "disputed_strategies", columns) == [
        ("ask", "general", "ada", 6, 6, high, "grace", 0, 6, low)
    ]
    # At z = 1 the bounds are narrower: 3 of 4 is from 0.5 to 0.9.
    rows = memory.query("analysis.disputed_strategies", z=1.0)
    assert [(row["strategy"], row["works_for"], row["fails_for"]) for row in rows] == [
        ("ask", "ada", "grace"),
        ("guess", "ada", "grace"),
        ("ask", "joan", "grace"),
    ]
    gaps = [row["lower"] - row["other_upper"] for row in rows]
    assert gaps == pytest.approx([6 / 7 - 1 / 7, 4 / 5 - 1 / 4, 1 / 2 - 1 / 7])


def test_what_levels_hold_and_what_flows_between_them(memory: Memory, clock: Clock) -> None:
    clock.now = NOW
    levels = memory.levels
    levels.default("ada")
    levels.put("task:deploy:shared", upkeep=LevelUpkeep(decay=0.5, prune=0.25))
    levels.add("agent:ada:working", {"fact": "order 17 is late", "domain": "orders"}, tags=["a"])
    levels.add("agent:ada:working", "a bell rings", tags=["a", "b"], ttl=10)
    levels.add("task:deploy:shared", "fades in two minutes", key="k", tags=["b"])
    levels.tick("ada")
    levels.add("agent:ada:sensory", "not pulled yet")
    levels.put_lens("collective:seen", ["agent:ada:working", "task:deploy:shared"], max_age=60)

    contents = asked(memory, "level_contents", "level entries capacity reads", limit=3)
    assert contents == [
        ("agent:ada:stm", 2, 500, 4),  # two long-term levels pull from it
        ("agent:ada:working", 2, None, 2),
        ("agent:ada:sensory", 1, None, 0),
    ]
    later = asked(memory, "level_contents", "level entries", at=NOW + 10_000, limit=2)
    assert later == [("agent:ada:stm", 2), ("agent:ada:sensory", 1)]
    assert asked(memory, "dataflow", "source target pending made")[:1] == [
        ("agent:ada:sensory", "agent:ada:working", 1, 0)
    ]
    assert ("agent:ada:working", "agent:ada:stm", "summarise", 2) in asked(
        memory, "dataflow", "source target transformer made"
    )
    assert asked(memory, "level_tags", "tag entries levels", limit=1) == [("a", 4, 2)]
    assert asked(memory, "became", "level episodes knowledge") == [("agent:ada:stm", 0, 1)]
    assert asked(memory, "going", "level key text goes_at why")[:3] == [
        ("agent:ada:working", None, "a bell rings", NOW + 10_000, "expires"),
        ("agent:ada:sensory", None, "not pulled yet", NOW + 60_000, "expires"),
        ("task:deploy:shared", "k", "fades in two minutes", pytest.approx(NOW + 120_000), "fades"),
    ]
    assert asked(memory, "lens_views", "lens level entries most", at=NOW + 10_000) == [
        ("collective:seen", "agent:ada:working", 1, 10),
        ("collective:seen", "task:deploy:shared", 1, 10),
    ]
