"""The agent of the demo: a database decides, no way is right for all, and a memory finds out."""

from __future__ import annotations

import runpy
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory

SEEDS = Path(__file__).resolve().parents[2] / "seeds"


@pytest.fixture(scope="module")
def agent() -> dict[str, Any]:
    sys.path.insert(0, str(SEEDS))
    try:
        return runpy.run_path(str(SEEDS / "choosing_agent.py"), run_name="choosing_agent")
    finally:
        sys.path.remove(str(SEEDS))


def test_a_seed_gives_the_same_questions_and_answers(agent: dict[str, Any]) -> None:
    one, same, other = agent["world"](1, 50), agent["world"](1, 50), agent["world"](2, 50)
    assert one.questions == same.questions != other.questions
    assert agent["in_hindsight"](one) == agent["in_hindsight"](same)
    assert agent["at_random"](one, 1) == agent["at_random"](same, 1) != agent["at_random"](one, 2)


def test_no_way_is_right_for_all_and_each_is_for_some(agent: dict[str, Any]) -> None:
    found = agent["world"](0, 400)
    right = Counter(
        way
        for question in found.questions
        for way in agent["WAYS"]
        if found.answer(question, way) is None
    )
    assert set(right) == set(agent["WAYS"])
    best, fixed, ceiling = agent["in_hindsight"](found)
    assert right[best] == sum(fixed) < 0.5 * len(fixed)
    assert sum(ceiling) > 0.9 * len(ceiling)


def test_what_was_wrong_is_said(agent: dict[str, Any]) -> None:
    found = agent["world"](0, 400)
    said = {found.answer(one, way) for one in found.questions for way in agent["WAYS"]}
    assert {"wrong answer: other values", "wrong answer: nothing is found"} < said
    assert "no date in 'Seefeld'" in said


def test_a_memory_becomes_better_than_the_best_single_way(agent: dict[str, Any]) -> None:
    found = agent["world"](0, 160)
    _, fixed, _ = agent["in_hindsight"](found)
    with Memory.open("memory:") as memory:
        right = agent["with_memory"](found, memory)
        assert memory.verify().checked["episodes"] == 160
    assert sum(right[-60:]) > sum(fixed[-60:]) + 6
    assert sum(right[-60:]) > sum(right[:60])
