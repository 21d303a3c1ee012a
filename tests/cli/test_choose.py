"""``graphmem choose``, as a person sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import good, run


@pytest.fixture
def learned(tmp_path: Path) -> str:
    """A memory of ten episodes."""
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        for strategy, letters in {"ask": "wwwwf", "wait": "fffff"}.items():
            for number, letter in enumerate(letters):
                key, won = f"{strategy}/{number}", letter == "w"
                error = None if won else "timeout after 3 s"
                memory.learn("refund", strategy, success=won, error=error, source_key=key)
    return url


def test_a_choice_says_why_and_shows_all_candidates(learned: str) -> None:
    asked = ("choose", "refund", "ask", "wait", "sing", "--explore", "greedy")
    shown = good("--url", learned, *asked).out.splitlines()
    told = good("--url", learned, "--json", *asked).json
    assert shown[0] == told["text"] == "ask"
    assert shown[1] == f"  {told['why']}"
    assert told["why"].startswith("4 of 5 here: ")
    rows = [line for line in shown if line.split()[:1] in (["ask"], ["wait"], ["sing"])][1:]
    assert [row.split()[0] for row in rows] == ["ask", *(one["text"] for one in told["others"])]
    assert "100.0%" in rows[0]
    [warned] = [row for row in rows if row.split()[0] == "wait"]
    assert "timeout" in warned
    assert {one["propensity"] for one in told["others"]} == {0.0}


def test_an_error_that_several_agents_had_is_named_once(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        for number in range(20):
            agent, key = f"agent {number % 2}", str(number)
            memory.learn(
                "refund", "wait", success=False, agent=agent, error="halted", source_key=key
            )
            memory.learn("refund", "ask", success=True, agent=agent, source_key=f"ask {key}")
        warnings = memory.choose("refund", ["wait"]).warnings
    assert [one.error_class for one in warnings] == ["halted", "halted"]
    assert good("--url", url, "choose", "refund", "wait").out.count("halted") == 1


def test_without_candidates_it_takes_those_of_the_memory(learned: str) -> None:
    asked = ("--url", learned, "--json", "choose", "refund", "--seed", "3")
    told = good(*asked).json
    assert {told["text"], *(one["text"] for one in told["others"])} == {"ask", "wait"}
    assert good(*asked).json == told
    with Memory.open(learned) as memory:
        assert memory.choose("refund", seed=3).model_dump(mode="json") == told


@pytest.mark.parametrize(
    "arguments",
    [
        *(("choose",), ("choose", ""), ("choose", "refund", " ")),
        *(("choose", "refund", "ask", "--explore", "luck"), ("choose", "refund", "--seed", "-1")),
        *(("choose", "refund", "--epsilon", "2"), ("choose", "refund", "--width", "-1")),
    ],
    ids=" ".join,
)
def test_wrong_usage(learned: str, arguments: tuple[str, ...]) -> None:
    done = run("--url", learned, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err


def test_an_empty_memory_needs_candidates(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    good("--url", url, "init")
    done = run("--url", url, "choose", "refund")
    assert (done.code, done.out) == (2, "")
    assert "give candidates" in done.err
    assert good("--url", url, "choose", "refund", "ask").out.startswith("ask\n")
