"""``graphmem evaluate``, as a person sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import good, run
from tests.contract.test_evaluating import log


@pytest.fixture
def logged(tmp_path: Path) -> str:
    """A memory of 60 episodes whose strategies were chosen by chance."""
    url = str(tmp_path / "memory.graph")
    with Memory.open(url) as memory:
        memory.learn_many(log(60, seed=1))
        memory.learn("refund", "ask", success=True)
    return url


def test_the_estimates_as_a_table_and_as_a_picture(logged: str, tmp_path: Path) -> None:
    picture = tmp_path / "value.png"
    shown = good("--url", logged, "evaluate", "--explore", "greedy", "--plot", str(picture)).out
    told = good("--url", logged, "--json", "evaluate", "--explore", "greedy").json
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    interval = f"{told['got_low']:.3f} to {told['got_high']:.3f}"
    assert f"what was got {told['got']:.3f} {interval}" in rows
    for name, title in (
        ("inverse_propensity", "inverse propensity"),
        ("self_normalised", "self-normalised"),
        ("doubly_robust", "doubly robust"),
    ):
        one = told[name]
        bounds = f"{one['low']:.3f} to {one['high']:.3f}"
        gain = f"{one['gain']:+.3f} {one['gain_low']:+.3f} to {one['gain_high']:+.3f}"
        assert f"{title} {one['value']:.3f} {bounds} {gain}" in rows
    assert f"60 episodes, worth {told['effective']:.1f} with equal weights" in shown
    assert "left out: 1 episode that do not say how a strategy was chosen" in shown
    assert shown.endswith(f"drawn in {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_options_are_those_of_the_method(logged: str) -> None:
    options = ("--explore", "epsilon", "--strategy", "ask", "--strategy", "wait")
    chances = ("--epsilon", "0.5", "--clip", "2", "--seed", "3", "--resamples", "200")
    told = good("--url", logged, "--json", "evaluate", *options, *chances).json
    with Memory.open(logged) as memory:
        found = memory.evaluate(
            "epsilon", ["ask", "wait"], epsilon=0.5, clip=2.0, seed=3, resamples=200
        )
    assert told == found.model_dump(mode="json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to compare with: --explore greedy, or --strategy TEXT"),
        (("--explore", "random"), "is not one of"),
        (("--strategy", "unheard of"), "name strategies that were among the candidates"),
        (("--explore", "greedy", "--plot", "x.gif"), "give a name that ends in .png or .svg"),
    ],
)
def test_what_cannot_be_estimated(logged: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", logged, "evaluate", *arguments)
    assert done.code == 2
    assert message in done.err
    assert done.out == ""
