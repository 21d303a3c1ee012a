"""What the tests of general rules share: episodes, and the rules that follow."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from graphmem import Memory

DAY = datetime(2026, 5, 1, tzinfo=UTC)
numbers = count()


def learn(memory: Memory, task: str, score: float, **given: Any) -> str:
    number = next(numbers)
    episode = {
        "task": task,
        "strategy": given.pop("strategy", []),
        "task_type": "work",  # outcomes on tasks without a type make no rule for all tasks
        "score": score,
        "source_key": f"{number}",
        "ended_at": DAY + timedelta(hours=number),
        **given,
    }
    memory.learn_many([episode])
    found = memory.query(
        "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key = $key RETURN e.id AS id",
        key=str(number),
    )
    return str(found[0]["id"])


def general(memory: Memory) -> dict[str, str]:
    """The general rules, by text."""
    return {rule.text: rule.verdict for rule in memory.lessons.rules() if rule.task is None}


def erase(memory: Memory, episode: str) -> None:
    """Erase an episode as maintenance does, and what general rules have of it."""
    memory.upkeep.erase(episode)
