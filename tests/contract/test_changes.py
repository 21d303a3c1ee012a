"""What changed: since when, where, and how sure; and what was believed at a time."""

from __future__ import annotations

import random
from datetime import datetime
from functools import partial
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Settings
from graphmem.errors import NotFoundError, ValidationError
from graphmem.ids import to_millis
from graphmem.models.forecasts import Change
from tests.conftest import Clock
from tests.contract.teaching import day, learn_runs, runs, some

learn = partial(learn_runs, task="print a page")


def told(changes: list[Change]) -> list[tuple[str, str | None, str]]:
    return [
        (
            one.strategy,
            one.task,
            f"{one.successes_before}/{one.trials_before} {one.successes_since}/{one.trials_since}",
        )
        for one in changes
    ]


def test_a_listener_hears_of_a_change_when_it_becomes_certain(memory: Memory) -> None:
    """Once, with the counts of that moment, and again when it works again."""
    learn(memory, "printer", "+" * 20 + "-" * 8 + "+" * 10)
    learn(memory, "scanner", "+" * 40 + "-" * 10, task="scan page {}")
    learn(memory, "steady", "+-++" * 12)
    heard = [
        change
        for event in memory.events.listen("alerts", "changed", follow=False)
        for change in event.changes
    ]
    assert told(heard) == [
        ("printer", "print a page", "20/20 0/4"),
        ("printer", "print a page", "20/28 7/7"),
        ("scanner", None, "40/40 0/8"),
    ]
    assert not any(event.changes for event in memory.events.listen("all", follow=False))
    learn(memory, "printer", "-" * 4, first=40)
    [event] = memory.events.listen("alerts", "changed", follow=False)
    assert event.kind == "episode"
    assert told(list(event.changes)) == [("printer", "print a page", "30/38 0/4")]


def test_what_changed_is_told_with_its_dates_the_most_certain_first(memory: Memory) -> None:
    learn(memory, "old printer", "+" * 40 + "-" * 20)
    learn(memory, "new printer", "-" * 15 + "+" * 8)
    learn(memory, "steady printer", "+-++" * 15)
    learn(memory, "never worked", "-" * 60)
    changes = memory.changes()
    assert told(changes) == [
        ("old printer", "print a page", "40/40 0/20"),
        ("new printer", "print a page", "0/15 8/8"),
    ]
    assert (changes[0].until, changes[0].since) == (day(39), day(40))
    assert 1.0 >= changes[0].certainty >= changes[1].certainty >= 0.95
    assert memory.changes(after=day(40)) == changes[:1]
    assert memory.changes(after=day(40.5)) == []
    assert memory.changes("print a page") == changes
    assert memory.changes("sing") == []


def test_what_changed_on_all_tasks_is_told_once(memory: Memory) -> None:
    learn(memory, "smtp", "+" * 40 + "-" * 30, task="mail {}")
    learn(memory, "api", "++-" * 20, task="mail {}")
    learn(memory, "fax", "+" * 20, task="mail {}")
    learn(memory, "fax", "+" * 20 + "-" * 12, task="mail 2", first=20)
    found = [("fax", "mail 2", "23/23 0/12"), ("smtp", None, "40/40 0/30")]
    assert sorted(told(memory.changes()), key=str) == found
    assert told(memory.changes("mail 1")) == found[1:]


def test_a_change_on_tasks_of_one_kind_is_told_there_alone(memory: Memory) -> None:
    """Also if no two tasks have the same words, as those with the numbers of orders."""
    for kind, letters in (("refund order", "+" * 24 + "-" * 8), ("translate page", "+" * 32)):
        learn(memory, "the api", letters, task=f"{kind} 10{{}}", of=99)
        learn(memory, "by hand", "+-" * 8, task=f"{kind} 20{{}}", first=20, of=99)
    ways = ["the api", "by hand"]
    broken, other = (
        {one.text: one for one in (choice, *choice.others)}["the api"]
        for choice in (
            memory.choose(f"{task} 7", ways) for task in ("refund order", "translate page")
        )
    )
    assert broken.probability < 0.35
    assert other.probability > 0.8
    assert broken.change
    assert broken.change.counts_since == (8, 0)
    assert other.change is None
    told = str(memory.predict("refund order 7", "the api"))
    assert "'the api' changed on tasks like this one: 24 of 24 until" in told
    text = memory.context("refund order 7")
    assert "stopped working: 24 of 24 until" in text
    assert "0 of 8 since, on tasks like this one: the api" in text
    assert memory.choose("refund order 7", ways, explore="greedy").text == "by hand"
    assert memory.recall("refund order 7").items[0].text == "by hand"
    learn(memory, "the api", "+" * 8, task="refund order 30{}", first=40, of=99)
    assert memory.predict("refund order 7", "the api").probability > 0.6


def test_words_follow_a_change_that_is_not_certain(memory: Memory) -> None:
    """What is expected rests on the latest outcomes, so that they are what is told."""
    learn(memory, "api v1", "+" * 16 + "-" * 8, task="refund order 18{}", of=99)
    for kind in ("ship parcel", "update address"):
        learn(memory, "api v1", "+" * 24, task=f"{kind} 18{{}}", of=99)
    told = "rarely: 0 of the latest 8, 16 of 16 before, on tasks like this one; 64 of 72 in all"
    assert memory.recall("refund order 9991").items[0].said == told
    assert f"- {told}: api v1" in memory.context("refund order 9991")
    change = memory.choose("refund order 9991", ["api v1"]).change
    assert change
    assert not change.certain
    lines = str(memory.predict("refund order 9991", "api v1"))
    assert "'api v1' may have changed on tasks like this one: 0 of the latest 8" in lines
    parcel = memory.recall("ship parcel 9991").items[0].said
    assert parcel.startswith("likely: ")
    assert "on tasks like this one, nearest 'ship parcel" in parcel
    assert memory.changes() == []
    learn(memory, "api v1", "-", task="refund order 9991", first=24)
    told = (
        "0 of the latest 9, 16 of 16 before, on tasks like this one; 0 of 1 here; 64 of 73 in all"
    )
    assert memory.recall("refund order 9991").items[0].said == f"rarely: {told}"


def test_a_hard_task_is_no_change(memory: Memory) -> None:
    """Everything fails on it; so that a strategy fails there too says little of the strategy."""
    for way in ("ask", "look"):
        learn(memory, way, "+" * 30, task="easy {}")
    learn(memory, "ask", "-" * 10, task="hard {}", first=30)
    for way in "abcdef":
        learn(memory, way, "-" * 12, task="hard {}")
    assert memory.changes() == []


def test_lists_follow_the_present_run_and_keep_the_whole_history(memory: Memory) -> None:
    """What broke is no heuristic any more, what recovered is one again, and no anti-pattern."""
    broke, mended = "+" * 24 + "-" * 9, "-" * 20 + "+" * 9
    learn(memory, "printer", broke, error="no paper")
    learn(memory, "scanner", mended, error="no light")
    learn(memory, "copier", "+-+++-" * 5)
    learn(memory, "fax", "+" * 24, task="fax page {}")
    learn(memory, "fax", "-" * 9, task="fax page {}", first=24)
    rows = memory.strategies(limit=2)
    assert [(row.text, row.successes, row.trials) for row in rows] == [
        ("scanner", 9, 29),
        ("copier", 20, 30),
    ]
    [printer] = [row for row in memory.strategies() if row.text == "printer"]
    assert some(printer.change).counts_since == (9, 0)
    assert (printer.status, round(printer.mean, 3), printer.trials) == ("refuted", 0.091, 33)
    heuristics = memory.lessons.heuristics()
    assert [row.strategy for row in heuristics] == ["scanner", "copier"]
    assert memory.lessons.heuristics(min_confidence=0.7) == heuristics[:1]
    assert memory.lessons.summary().heuristics == 2
    patterns = {row.strategy: row for row in memory.lessons.anti_patterns()}
    assert {key: one.occurrences for key, one in patterns.items()} == {"printer": 9, "scanner": 20}
    assert (patterns["printer"].status, patterns["scanner"].status) == ("established", "refuted")
    assert [row.strategy for row in memory.lessons.anti_patterns(min_confidence=0.5)] == ["printer"]
    [page] = [row for row in memory.tasks() if row.text == "print a page"]
    assert (page.best, page.best_successes, page.strategies) == ("scanner", 9, 3)


@pytest.mark.parametrize("task", ["print a page", "print page {}"])
def test_a_change_holds_until_another_one_is_certain(memory: Memory, task: str) -> None:
    learn_runs(memory, "printer", "+" * 60 + "-" * 24, task=task)
    learn_runs(memory, "scanner", "-++" * 30, task=task)
    for since in range(1, 4):
        learn_runs(memory, "printer", "+", task=task, first=83 + since)
        [row] = [row for row in memory.strategies() if row.text == "printer"]
        assert (some(row.change).counts_since, row.status) == ((24 + since, since), "refuted")
        assert memory.explain("printer").why.status == "refuted"
        assert [one.counts_since for one in memory.changes()] == [(24 + since, since)]


def test_merged_strategies_change_as_one(memory: Memory) -> None:
    learn(memory, "ask", "+" * 20)
    learn(memory, "inquire", "-" * 12, first=20)
    assert memory.changes() == []
    memory.lessons.merge("inquire", "ask")
    [one] = memory.changes()
    assert (one.successes_before, one.trials_since) == (20, 12)


@hypothesis.settings(max_examples=10, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32))
def test_the_order_of_arrival_does_not_matter(seed: int) -> None:
    chance = random.Random(seed)
    episodes = [
        *runs("ask", "+" * 45 + "-" * 20),
        *runs("look", "-" * 20 + "+" * 45, "mail {}"),
        *runs("sing", "+-" * 10),
        *runs("sing", "-" * 30, first=1_000, ended_at=None),
    ]

    def found() -> list[Change]:
        with Memory.open("memory:", settings=Settings(embedder="hashing")) as memory:
            while episodes_left:
                size = chance.choice([1, 3, 30])
                memory.learn_many(episodes_left[:size])
                del episodes_left[:size]
            return list(memory.changes())

    episodes_left = list(episodes)
    straight = found()
    assert len(straight) == 2
    episodes_left = chance.sample(episodes, len(episodes))
    assert found() == straight


# What was believed


def stands_at(clock: Clock, number: float) -> datetime:
    clock.now = to_millis(day(number))
    return day(number)


def believed(memory: Memory, as_of: datetime | None = None) -> list[Any]:
    asked: dict[str, Any] = {"agent": "ada", "as_of": as_of}
    prediction = memory.predict("print a page", "old printer", **asked)
    strategies = memory.strategies(as_of=as_of)
    recalled = memory.recall("print a page", at=day(100), **asked)
    return [
        pytest.approx(prediction.probability),
        strategies,
        [
            (item.text, item.trials, item.successes, pytest.approx(item.mean))
            for item in recalled.items
        ],
        memory.explain("old printer", **asked),
        memory.explain("old printer", as_of=as_of).why,
    ]


def test_what_was_believed_follows_from_what_was_recorded_by_then(
    memory: Memory, clock: Clock
) -> None:
    first = stands_at(clock, 10)
    learn(memory, "old printer", "+" * 9, agent="ada")
    learn(memory, "fax", "+-+", agent="ada")
    memory.learn("print a page", "old printer", success=True, error="slow", agent="bob")
    learn(memory, "fax", "+", task="print a leaf", agent="ada", ended_at=None)
    then = stands_at(clock, 20)
    before = believed(memory)
    stands_at(clock, 30)
    learn(memory, "old printer", "-" * 9, agent="ada", first=3)  # dated before, told later
    memory.learn("print a page", "scanner", success=True, agent="ada")
    assert believed(memory) != before
    assert believed(memory, then) == before
    assert memory.strategies(as_of=day(30)) == memory.strategies()
    with pytest.raises(NotFoundError, match="scanner"):
        memory.explain("scanner", as_of=then)
    with pytest.raises(NotFoundError, match=f"first episode was recorded at {first:%Y-%m-%d}"):
        memory.strategies(as_of=day(9))
    with pytest.raises(ValidationError, match="future"):
        memory.strategies(as_of=day(31))


def test_what_is_erased_was_never_known_and_rights_are_those_of_today(
    memory: Memory, clock: Clock
) -> None:
    then = stands_at(clock, 10)
    learn(memory, "ask", "+++", agent="ada")
    learn(memory, "look", "++", agent="bob")
    stands_at(clock, 20)
    assert len(memory.strategies(as_of=then)) == 2
    memory.upkeep.erase(memory.episodes(strategy="look")[0].id)
    assert [row.trials for row in memory.strategies(as_of=then)] == [3, 1]
    assert memory.recall("print a page", agent="bob", as_of=then).items[0].trials == 1
    memory.scopes.set("ada", share_with=["bob"])
    memory.scopes.set("bob", inherit_from=["ada"])
    assert len(memory.recall("print a page", agent="bob", as_of=then).items) == 2
    memory.lessons.merge("ask", "look")
    assert [row.trials for row in memory.strategies(as_of=then)] == [4]
