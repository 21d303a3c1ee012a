"""Whatever is wrong with what comes in: one clear error, and the memory stays as it was."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from graphmem import Episode, Memory, Step, StrategyUse
from graphmem.errors import ConflictError, ValidationError
from tests.faults.test_hostile_arguments import nested

NOW = datetime(2026, 5, 1, tzinfo=UTC)
LONE = "half of \ud83d"
HUGE = "x" * 50_000_000
LONG = "x" * 2_000_000
HUGE_NUMBER = 10**400
UNPRINTABLE_NUMBER = 10**5_000  # Python refuses to write out more than 4,300 digits


NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}

# name: (the field that the error must name, what is given besides a good task and strategy)
BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "score over 1": ("score", {"score": 1.01}),
    "score as text": ("score", {"score": "0.5"}),
    "score as bool": ("score", {"score": True}),
    **{
        f"{field} {name}": (field, {field: value})
        for field in ("score", "reward", "duration")
        for name, value in {**NOT_FINITE, "huge": HUGE_NUMBER, "huger": UNPRINTABLE_NUMBER}.items()
    },
    **{
        f"credit {name}": ("strategy.0.credit", {"strategy": [{"text": "s", "credit": value}]})
        for name, value in {**NOT_FINITE, "over 1": 1.5, "under 0": -1, "text": "1"}.items()
    },
    **{
        f"step reward {name}": ("steps.1.reward", {"steps": [{}, {"reward": value}]})
        for name, value in {**NOT_FINITE, "huge": HUGE_NUMBER, "text": "1"}.items()
    },
    **{
        f"extra {name}": ("extra", {"extra": {"deep": [{"down": value}]}})
        for name, value in {**NOT_FINITE, "huge text": LONG, "huger": UNPRINTABLE_NUMBER}.items()
    },
    **{
        f"action {name}": ("steps.0.action", {"steps": [{"action": {"deep": [value]}}]})
        for name, value in {**NOT_FINITE, "huge text": LONG, "surrogate": LONE}.items()
    },
    "state nan": ("steps.0.state", {"steps": [{"state": {"x": math.nan}}]}),
    "extra too deep": ("extra", {"extra": {"deep": nested()}}),
    "extra with objects": ("extra", {"extra": {"o": object()}}),
    "extra with number as key": ("extra", {"extra": {1: 1}}),
    "extra with huge key of nothing": ("extra", {"extra": {HUGE: object()}}),
    "success as text": ("success", {"success": "Success"}),
    "success as 1": ("success", {"success": 1}),
    "no outcome": ("success", {"success": None}),
    "success against score": ("success", {"success": True, "score": 0.2}),
    "failure against score": ("success", {"success": False, "score": 0.9}),
    "empty task": ("task", {"task": ""}),
    "blank task": ("task", {"task": " \n\t\u00a0"}),
    "task of bytes": ("task", {"task": b"refund"}),
    "huge task": ("task", {"task": HUGE}),
    "empty strategy": ("strategy.0.text", {"strategy": ""}),
    "blank strategy": ("strategy.1.text", {"strategy": ["s", "  "]}),
    "strategy is a number": ("strategy.0", {"strategy": 7}),
    "huge strategy": ("strategy.0.text", {"strategy": HUGE}),
    "ten thousand strategies": ("strategy", {"strategy": [f"s{n}" for n in range(10_000)]}),
    "strategy twice": ("strategy", {"strategy": ["s", "t", "s"]}),
    "strategy twice in other form": ("strategy", {"strategy": ["caf\u00e9", "cafe\u0301"]}),
    "unknown field of a strategy": (
        "strategy.0.weight",
        {"strategy": [{"text": "s", "weight": 1}]},
    ),
    "naive start": ("started_at", {"started_at": datetime(2026, 5, 1)}),
    "start as any text": ("started_at", {"started_at": "yesterday"}),
    "start as text without zone": ("started_at", {"started_at": "2026-05-01T00:00:00"}),
    "ended before started": ("ended_at", {"started_at": NOW, "ended_at": NOW - timedelta(0, 1)}),
    "start before the year 1 in UTC": (
        "started_at",
        {"started_at": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))},
    ),
    "end after the year 9999 in UTC": (
        "ended_at",
        {"ended_at": datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14)))},
    ),
    "negative duration": ("duration", {"duration": -1.0}),
    **{
        f"surrogate in {field}": (field, {field: LONE})
        for field in ("task", "agent", "task_type", "task_key", "error", "feedback", "summary")
    },
    "surrogate in strategy": ("strategy.0.text", {"strategy": LONE}),
    "surrogate in observation": ("steps.0.observation", {"steps": [{"observation": LONE}]}),
    "surrogate in extra": ("extra", {"extra": {"a": {"b": LONE}}}),
    "surrogate in a key of extra": ("extra", {"extra": {LONE: 1}}),
    "surrogate in a state": ("steps.0.state", {"steps": [{"state": {LONE: 1}}]}),
    "huge observation": ("steps.0.observation", {"steps": [{"observation": HUGE}]}),
    "steps is a text": ("steps", {"steps": "press enter"}),
    "step with an unknown field": ("steps.0.tool", {"steps": [{"tool": "sql"}]}),
    **{
        f"{field} {name}": (f"{field}{place}", {field: value})
        for field in ("successes", "mistakes")
        for name, (place, value) in {
            "as a text": ("", "read first"),
            "of a million characters": (".1", ["read first", "x" * 1_000_000]),
            "of a number": (".0", [5]),
            "that are blank": (".0", ["  "]),
            "with a surrogate": (".0", [LONE]),
            "in thousands": ("", [f"rule {n}" for n in range(1_000)]),
        }.items()
    },
    **{
        f"card {name}": (f"mistake_cards{place}", {"mistake_cards": value})
        for name, (place, value) in {
            "without a type": (".1.type", [{"type": "t"}, {"lesson": "look"}]),
            "with an unknown field": (".0.severity", [{"type": "t", "severity": 3}]),
            "with a number as lesson": (".0.lesson", [{"type": "t", "lesson": 3}]),
            "with huge evidence": (".0.evidence", [{"type": "t", "evidence": LONG}]),
            "with nan": (".0.extra", [{"type": "t", "extra": {"x": math.nan}}]),
            "alone": ("", {"type": "t"}),
            "in thousands": ("", [{"type": "t"}] * 1_000),
        }.items()
    },
    "occurrence beside a key": ("occurrence", {"source_key": "k", "occurrence": "2"}),
    "unknown field": ("outcome", {"outcome": "Success"}),
    "unknown field named self": ("self", {"self": 1}),
}


def given(values: dict[str, Any]) -> dict[str, Any]:
    outcome = {} if values.keys() & {"success", "score"} else {"success": True}
    return {"task": "a task", "strategy": "a strategy", **outcome, **values}


def check(error: ValidationError, field: str) -> None:
    """It names the field and shows the value, briefly and printably."""
    text = str(error)
    assert error.field == field or error.field.startswith(f"{field}.")
    assert text.startswith(field)
    assert len(text) < 1_000
    text.encode()  # can be printed
    assert not error.retryable


OF_RECORDS = {"extra", "occurrence", "outcome", "self"}
"""What ``learn`` does not take."""


@pytest.mark.parametrize(("field", "values"), BAD.values(), ids=BAD)
def test_it_is_refused_and_a_batch_learns_the_others(
    unstored: Memory, field: str, values: dict[str, Any]
) -> None:
    good = [{**given({}), "source_key": f"good/{number}"} for number in range(3)]
    if not values.keys() & OF_RECORDS:
        with pytest.raises(ValidationError) as caught:
            unstored.learn(**given(values))
        check(caught.value, field)
    report = unstored.learn_many([*good[:2], given(values), good[2]], on_error="collect")

    assert (report.created, report.skipped) == (3, 0)
    [rejected] = report.rejected
    assert rejected.index == 2
    assert rejected.field == field or rejected.field.startswith(f"{field}.")
    assert len(rejected.reason) < 1_000
    report.model_dump_json().encode()
    assert unstored.stats().episodes == 3
    assert unstored.verify().ok


@pytest.mark.parametrize(
    ("field", "build"),
    [
        ("text", StrategyUse),
        ("wait", lambda: StrategyUse("s", wait=1)),
        ("tool", lambda: Step(tool="sql")),  # type: ignore[call-arg]
        ("observation", lambda: Step(observation=5)),  # type: ignore[arg-type]
    ],
)
def test_a_part_of_an_episode_is_refused_when_it_is_built(field: str, build: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        build()
    check(caught.value, field)


def test_the_name_of_an_unknown_field_is_shown_briefly() -> None:
    with pytest.raises(ValidationError) as caught:
        Episode(**given({HUGE: 1}))
    assert len(str(caught.value)) < 1_000
    with pytest.raises(ValidationError) as caught:
        Episode(**given({LONE: 1}))
    str(caught.value).encode()


def test_a_value_that_cannot_be_shown_does_not_hide_the_error() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    with pytest.raises(ValidationError) as caught:
        Episode(**given({"reward": Broken()}))
    assert caught.value.field == "reward"


@pytest.mark.parametrize("thing", [None, 5, "an episode", ["task"], {1: 2}, {"task": "t"}, Step()])
def test_what_is_no_episode_is_refused(unstored: Memory, thing: Any) -> None:
    unstored.learn("a task", "a strategy", success=True, source_key="first")
    before = unstored.stats(), unstored.strategies()
    with pytest.raises(ValidationError):
        unstored.learn_many([thing])
    report = unstored.learn_many([thing], on_error="collect")
    assert (report.created, len(report.rejected)) == (0, 1)
    assert (unstored.stats(), unstored.strategies()) == before


def test_with_raise_the_batches_before_the_bad_record_stay(memory: Memory) -> None:
    records = [{**given({}), "source_key": str(number)} for number in range(10)]
    records[7]["score"] = 3.0
    durable: list[int] = []

    with pytest.raises(ValidationError, match="score"):
        memory.learn_many(records, batch_size=3, on_progress=durable.append)

    assert (sum(durable), memory.stats().episodes) == (6, 6)
    assert memory.verify().ok


def test_a_conflict_shows_both_contents_briefly(memory: Memory) -> None:
    big = "long story " * 50_000
    memory.learn("a task", "a strategy", success=True, summary=big, source_key="run/1")
    with pytest.raises(ConflictError) as caught:
        memory.learn("a task", "another way", score=0.25, feedback="no", source_key="run/1")

    error = caught.value
    assert (error.field, error.stored["summary"]) == ("source_key", big)
    assert (error.given["feedback"], error.differences["success"]) == ("no", (True, False))
    assert error.differences["score"] == (1.0, 0.25)
    for part in ("run/1", "another way", "a strategy", "was true, now false"):
        assert part in str(error)
    assert len(str(error)) < 1_000
    assert memory.stats().episodes == 1
    assert [row.text for row in memory.strategies()] == ["a strategy"]  # nothing of it was written
    assert memory.verify().ok


def test_conflicts_are_collected_with_the_key(memory: Memory) -> None:
    memory.learn("a task", "a strategy", success=True, source_key="1")
    report = memory.learn_many(
        [
            Episode(**given({"source_key": "1", "success": False})),
            Episode(**given({"source_key": "2"})),
            Episode(**given({"source_key": "2", "success": False})),
            Episode(**given({"source_key": "2"})),
            given({"source_key": "3", "score": 7.0}),
        ],
        on_error="collect",
    )
    assert (report.created, report.skipped) == (1, 1)
    assert [(bad.index, bad.field, bad.source_key) for bad in report.rejected] == [
        (0, "source_key", "1"), (2, "source_key", "2"), (4, "score", "3"),
    ]  # fmt: skip
    assert memory.strategies()[0].trials == 2
    assert memory.verify().ok


def test_odd_but_good_values_are_learned_as_they_are(memory: Memory) -> None:
    memory.learn(
        "T\u00e2che \U0001f4a1 \x00 \u202e",
        ["\u7b56\u7565", StrategyUse("s" * 10_000, credit=0.0)],
        score=0,
        reward=-1.7e308,
        duration=0,
        started_at=datetime(1, 1, 2, tzinfo=UTC),
        ended_at=datetime(9999, 12, 30, tzinfo=UTC),
        steps=[Step(action={"big": 10**400, "": [None, True, 1e-320]}, observation="")],
    )
    stats = memory.stats()
    assert (stats.first_at, len(memory.strategies())) == (datetime(1, 1, 2, tzinfo=UTC), 2)
    assert memory.verify().ok
