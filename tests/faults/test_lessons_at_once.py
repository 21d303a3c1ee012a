"""Lessons that many learn at once: nothing twice, every count exact, whoever came first."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem import Episode, Memory
from graphmem.models import MistakeCard
from tests.contract.teaching import LESSONS, answers, checked, day, dump, reference
from tests.faults.test_concurrency import THREADS, in_threads

EPISODES = 64


def lesson(number: int) -> Episode:
    """An episode that adds to lessons that its neighbours add to as well; dated, so that what is
    latest does not depend on who was first."""
    failed = number % 3 == 0
    return Episode(
        task=f"task {number % 2}",
        task_type="x" if number % 4 else "y",
        strategy=[("plan", "guess")[number % 2], "ask"] if number % 5 else ["hope"],
        score=0.1 if failed else 0.9,
        agent=f"agent {number % 2}",
        error=f"timeout after {number} s" if failed else None,
        successes=("read first", f"look at {number % 3}"),
        mistakes=("hurry", "read first") if failed else (),
        mistake_cards=(MistakeCard(type=f"skipped {number % 2}", lesson=f"lesson {number}"),),
        ended_at=day(number),
        source_key=f"lesson/{number}",
    )


def without_clock(memory: Memory) -> dict[str, Any]:
    """What the lessons say, but for when they were recorded."""
    found = dump(memory, LESSONS)
    for held in found.values():
        if isinstance(held, dict):
            held.pop("created_at")
    return found


def check_exactly(memory: Memory) -> None:
    """The lessons are those that one alone learns in order, and there are no others."""
    checked(memory)
    with reference(memory) as alone:
        alone.learn_many(map(lesson, range(EPISODES)))
        assert without_clock(memory) == without_clock(alone)
        assert answers(memory) == answers(alone)
        assert all(answers(alone))


@pytest.mark.timeout(600)
def test_learning_erasing_and_merging_at_once(memory: Memory) -> None:
    """What is merged or erased meanwhile is neither lost nor counted twice."""
    memory.learn_many(map(lesson, range(EPISODES)))
    memory.learn("t", "first", success=True, source_key="first")
    memory.learn("t", "second", success=True, source_key="second")

    def work(thread: int) -> int:
        if thread == 0:
            for _ in range(5):
                memory.lessons.merge("first", "second")
                memory.lessons.unmerge("first")
            return 0
        more = [
            lesson(number).model_copy(update={"source_key": f"more/{thread}/{number}"})
            for number in range(4)
        ]
        memory.learn_many(more)
        rows = memory.query(
            "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key STARTS WITH $mine "
            "RETURN e.id AS id",
            mine=f"more/{thread}/",
        )
        for row in rows:
            memory.upkeep.erase(row["id"])
        return len(rows)

    assert in_threads(work) == (THREADS - 1) * 4
    for row in memory.query(
        "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key IN ['first', 'second'] "
        "RETURN e.id AS id"
    ):
        memory.upkeep.erase(row["id"])
    check_exactly(memory)
