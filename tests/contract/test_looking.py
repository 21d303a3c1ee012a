"""Lists of episodes and tasks, and anything that has an id."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from tests.conftest import Opener

DAY = datetime(2026, 5, 1, tzinfo=UTC)


def learned(memory: Memory) -> None:
    """Thirty episodes on three tasks, in no order of time, five of them without a time."""
    memory.learn_many(
        Episode(
            task=f"task {number % 3}",
            strategy=["ask", "look"] if number % 2 else ["look"],
            success=number % 3 != 0,
            agent="ada" if number % 5 else "ben",
            task_type="type a" if number % 3 else "type b",
            steps=[Step(action="go", observation="it went")],
            ended_at=None if number % 6 == 5 else DAY + timedelta(hours=number * 7 % 30),
            source_key=str(number),
        )
        for number in range(30)
    )


def test_episodes_tasks_and_what_they_show(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    assert memory.episodes() == []
    assert memory.tasks() == []
    learned(memory)

    everything = memory.episodes(limit=100)
    assert len(everything) == 30
    times = [row.at or row.recorded_at for row in everything]
    assert times == sorted(times, reverse=True)
    assert memory.episodes(limit=7) == everything[:7]
    for given, fits in (
        ({"task": "task 1"}, lambda row: row.task == "task 1"),
        ({"task_type": " type b"}, lambda row: row.task_type == "type b"),
        ({"strategy": "ask"}, lambda row: "ask" in row.strategies),
        ({"agent": "ben"}, lambda row: row.agent == "ben"),
        ({"success": False}, lambda row: not row.success),
        ({"since": times[4].isoformat()}, lambda row: (row.at or row.recorded_at) >= times[4]),
        (
            {"task": "task 1", "strategy": "ask", "agent": "ada", "success": True},
            lambda row: (row.task, row.agent) == ("task 1", "ada") and "ask" in row.strategies,
        ),
        ({"strategy": "look", "agent": "ben"}, lambda row: row.agent == "ben"),
    ):
        assert memory.episodes(**given, limit=100) == list(filter(fits, everything)), given
    assert memory.episodes("no such task") == []

    tasks = memory.tasks()
    assert {(row.text, row.trials, row.successes) for row in tasks} == {
        ("task 0", 10, 0),
        ("task 1", 10, 10),
        ("task 2", 10, 10),
    }
    assert {(row.strategies, row.best) for row in tasks if row.successes} == {(2, "look")}
    assert {(row.strategies, row.best, row.best_trials) for row in tasks if not row.successes} == {
        (2, None, 0)  # what never worked there is not the best
    }
    assert memory.tasks(sort="worst", limit=1)[0].text == "task 0"
    assert memory.tasks(sort="latest", limit=1)[0].last_at == max(times)
    assert [row.text for row in memory.tasks("type b")] == ["task 0"]
    mine = {row.text: row.trials for row in memory.tasks(agent="ben", sort="best")}
    assert mine == {"task 0": 2, "task 1": 2, "task 2": 2}

    shown = memory.show(everything[0])
    assert shown.kind == "episode"
    assert [step.observation for step in shown.steps] == ["it went"]
    assert {link.kind for link in shown.links} == {"agent", "task", "strategy"}
    assert memory.show(everything[0].id[:12]) == shown
    for row, kind in ((memory.strategies()[0], "strategy"), (tasks[0], "task")):
        assert memory.show(row).kind == kind
        assert memory.show(row.id).links
    for wrong in ("0" * 32, "zzzzzz", everything[0].id[:3]):
        with pytest.raises(NotFoundError):
            memory.show(wrong)
    with pytest.raises(ValidationError):
        memory.episodes(since=datetime(2026, 1, 1))
