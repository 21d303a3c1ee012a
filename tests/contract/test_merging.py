"""Strategies that a person says are one: they count as one, and that can be undone exactly."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, ValidationError
from tests.conftest import Clock, Opener
from tests.contract.teaching import attempts, checked, day, dump, fail, tamper


def teach(memory: Memory) -> None:
    """Two ways to say "plan", one of which fails with the same error, and something else."""
    ops = {"task_type": "ops", "agent": "anna"}
    attempts(memory, "plan", 3, 1, **ops)
    attempts(memory, "make a plan", 2, 0, **ops)
    attempts(memory, "make a plan", 3, 0, task_type="ops", agent="ben")
    for number in range(2):
        fail(memory, "make a plan", f"timeout after {number} s", **ops, ended_at=day(number))
    fail(memory, "plan", "timeout after 9 s", **ops, ended_at=day(9))
    attempts(memory, "ask", 4, 0, **ops)


def counted(memory: Memory) -> dict[str, tuple[int, int]]:
    return {row.text: (row.trials, row.successes) for row in memory.strategies(limit=100)}


def test_two_strategies_count_as_one(memory: Memory) -> None:
    teach(memory)
    assert counted(memory) == {"plan": (5, 3), "make a plan": (7, 5), "ask": (4, 4)}
    whole = memory.lessons.merge("plan", "make a plan")
    assert counted(memory) == {"plan": (12, 8), "ask": (4, 4)}
    [row] = [row for row in memory.strategies() if row.text == "plan"]
    assert (row.id, row.agents) == (whole, ("anna", "ben"))
    assert row.mean == pytest.approx(9 / 14)
    heuristics = {
        (row.strategy, row.agent): (row.trials, row.successes)
        for row in memory.lessons.heuristics(task_type="ops")
    }
    assert heuristics == {
        ("plan", "anna"): (9, 5),
        ("plan", "ben"): (3, 3),
        ("ask", "anna"): (4, 4),
    }
    [pattern] = memory.lessons.anti_patterns()
    assert (pattern.strategy, pattern.occurrences, pattern.successes) == ("plan", 3, 5)
    assert pattern.example == "timeout after 9 s"
    assert pattern.confidence == pytest.approx(4 / 10)
    assert len(pattern.evidence) == 3
    checked(memory)


def test_alternatives_follow_a_merge_after_consolidation(memory: Memory) -> None:
    attempts(memory, "ask", 8)
    attempts(memory, "look", 3)
    fail(memory, "hope", "timeout after 1 s")
    fail(memory, "hope", "timeout after 2 s")
    memory.lessons.consolidate(force=True)
    before = dump(memory)
    memory.lessons.merge("look", "ask")  # the alternative is now "look", with 11 successes
    checked(memory)
    memory.lessons.unmerge("ask")
    assert dump(memory) == before
    memory.lessons.merge("ask", "hope")  # what was better is the same now
    checked(memory)


@pytest.mark.parametrize("asked", [{"task": "deploy"}, {"task_type": "ops"}, {"agent": "anna"}])
def test_they_count_as_one_where_strategies_are_read(memory: Memory, asked: dict[str, str]) -> None:
    teach(memory)
    apart = {row.text: row for row in memory.strategies(**asked)}  # type: ignore[arg-type]
    memory.lessons.merge("plan", "make a plan")
    together = {row.text: row for row in memory.strategies(**asked)}  # type: ignore[arg-type]
    assert set(together) == {"plan", "ask"}
    assert together["ask"] == apart["ask"]
    for name in ("trials", "successes"):
        assert getattr(together["plan"], name) == sum(
            getattr(apart[text], name) for text in ("plan", "make a plan")
        )


def test_every_answer_takes_them_for_one(opened: Opener, clock: Clock) -> None:
    clock.now = int(day(9).timestamp() * 1000)
    memory = opened(embedder="hashing")
    for number, (text, outcomes) in enumerate((("plan", (2, 1)), ("make a plan", (2, 0)))):
        attempts(memory, text, *outcomes, task_type="ops")
        attempts(memory, text, 1, task=f"another {number}", task_type="ops")
        for _ in range(2):
            fail(memory, text, f"timeout after {number} s", task="restart", task_type="ops")

    def read() -> list[Any]:
        told = memory.predict("deploy", "plan")
        context = memory.context("deploy", max_tokens=500)
        return [told.basis.strategies, memory.recall("deploy it").items, context]

    apart = read()
    whole = memory.lessons.merge("plan", "make a plan")
    for name in ("plan", "make a plan", whole):
        found = memory.explain(name)
        assert (found.text, found.why.successes, found.why.trials) == ("plan", 6, 9)
        assert [near.text for near in found.neighbours if near.relation == "merged"] == [
            "make a plan"
        ]
        [told] = memory.predict("deploy", name).basis.strategies
        assert (told.trials, told.here_trials) == (9, 5)
    [[part], items, context] = read()
    assert (part.trials, part.here_trials, part.here_successes) == (9, 5, 4)
    [item] = [item for item in items if item.kind == "strategy"]
    assert (item.text, item.trials, item.near_trials) == ("plan", 9, 5)
    assert "- likely: 4 of 5 here: plan" in context.splitlines()
    [heuristic] = memory.recall("deploy", kinds=["heuristic"]).items
    assert (heuristic.trials, heuristic.successes) == (9, 6)
    for agent in (None, "default"):
        assert memory.choose("sing a song", seed=1, agent=agent).candidates.keys() == {"plan"}
    memory.lessons.unmerge("plan")
    assert read() == apart


def test_what_neither_reaches_alone_both_reach_together(memory: Memory) -> None:
    attempts(memory, "plan", 2)
    attempts(memory, "make a plan", 1)
    assert memory.lessons.heuristics() == []
    fail(memory, "plan", "timeout after 1 s", task="restart")
    fail(memory, "make a plan", "timeout after 2 s", task="restart")
    assert memory.lessons.anti_patterns() == []
    memory.lessons.merge("plan", "make a plan")
    assert [(row.strategy, row.trials) for row in memory.lessons.heuristics()] == [("plan", 5)]
    assert [row.occurrences for row in memory.lessons.anti_patterns()] == [2]


def test_ids_are_taken_as_texts_are(memory: Memory) -> None:
    teach(memory)
    ids = {row.text: row.id for row in memory.strategies()}
    assert memory.lessons.merge(ids["plan"], ids["make a plan"]) == ids["plan"]
    assert memory.lessons.unmerge(ids["make a plan"]) == 1
    assert memory.lessons.merge(" plan ", "make a plan") == ids["plan"]


class TestRefusals:
    def test_what_is_one_already(self, memory: Memory) -> None:
        teach(memory)
        before = dump(memory)
        with pytest.raises(ValidationError, match=r"^other: is the same strategy .*name two"):
            memory.lessons.merge("plan", "plan")
        assert dump(memory) == before
        memory.lessons.merge("plan", "make a plan")
        before = dump(memory)
        for one, other, field in (
            ("plan", "make a plan", "other"),
            ("ask", "make a plan", "other"),
            ("make a plan", "ask", "strategy"),
            ("make a plan", "plan", "strategy"),
        ):
            with pytest.raises(ValidationError, match="unmerge") as caught:
                memory.lessons.merge(one, other)
            assert caught.value.field == field
        assert dump(memory) == before

    def test_what_is_not_known(self, memory: Memory) -> None:
        teach(memory)
        for call in (
            lambda: memory.lessons.merge("plan", "dance"),
            lambda: memory.lessons.merge("dance", "plan"),
            lambda: memory.lessons.unmerge("dance"),
        ):
            with pytest.raises(NotFoundError, match="no strategy 'dance' in namespace"):
                call()


def test_erasing_the_last_of_the_whole_releases_its_parts(memory: Memory) -> None:
    attempts(memory, "make a plan", 3)
    attempts(memory, "ask", 3)
    before = dump(memory)
    [only] = attempts(memory, "plan", 1, agent="ben")
    memory.lessons.merge("plan", "make a plan")
    memory.lessons.merge("plan", "ask")
    assert "Strategy" in memory.upkeep.erase(only).removed
    assert dump(memory) == before
    assert counted(memory) == {"make a plan": (3, 3), "ask": (3, 3)}
    checked(memory)


def test_verify_finds_a_merge_that_was_tampered_with(memory: Memory) -> None:
    teach(memory)
    memory.lessons.merge("plan", "make a plan")
    tamper(
        memory, "MATCH (s:Strategy) WHERE s.ns = $ns AND s.text = 'plan' SET s.merged_into = null"
    )
    [difference] = memory.verify().differences
    assert (difference.kind, difference.field) == ("strategies", "merged_into")
