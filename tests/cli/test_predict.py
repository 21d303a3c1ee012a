"""``graphmem predict`` and ``graphmem calibrate``, as a person sees them."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.printable import percent
from tests.cli.running import good, run


@pytest.fixture
def learned(tmp_path: Path) -> str:
    """A memory of twelve episodes."""
    url = str(tmp_path / "memory.graph")
    outcomes = {("refund", "ask"): "wwwf", ("refund", "wait"): "ff", ("rebook", "ask"): "wwwwww"}
    with Memory.open(url) as memory:
        for (task, strategy), letters in outcomes.items():
            for number, letter in enumerate(letters):
                key = f"{task}/{strategy}/{number}"
                memory.learn(task, strategy, success=letter == "w", source_key=key)
    return url


def test_a_prediction_says_what_it_rests_on(learned: str) -> None:
    shown = good("--url", learned, "predict", "refund", "ask").out.splitlines()
    told = good("--url", learned, "--json", "predict", "refund", "ask").json
    expected, low, high = (percent(told[name]) for name in ("probability", "low", "high"))
    bounds = f"{low} to {high}, 95% credible"
    assert shown[0] == f"expected {expected} ({bounds}), tried 4 times on this task"
    assert shown[1] == "  all: 9 of 12 uses of a strategy worked, a rate of 71.4%"
    assert shown[2].startswith("  task: 3 of 6 worked; ")
    assert shown[3].startswith("  strategy 'ask' elsewhere: 6 of 6 worked; ")
    assert shown[4].startswith("  strategy 'ask' on this task: 3 of 4 worked, ")
    assert shown[-1].endswith("(the defaults)")
    assert told["basis"]["strategies"][0]["here_trials"] == 4


def test_what_was_not_tried_on_the_task_has_no_counts_there(learned: str) -> None:
    shown = good("--url", learned, "predict", "rebook", "wait").out.splitlines()
    assert shown[4].startswith("  strategy 'wait' on this task: not tried, so it stays at ")
    assert "0 of 0" not in "\n".join(shown)


def test_several_strategies_are_predicted_together(learned: str) -> None:
    told = good("--url", learned, "--json", "predict", "refund", "ask", "wait").json
    assert [part["text"] for part in told["basis"]["strategies"]] == ["ask", "wait"]
    with Memory.open(learned) as memory:
        assert told["probability"] == memory.predict("refund", ["ask", "wait"]).probability


def test_the_calibration_as_a_table_and_as_a_picture(learned: str, tmp_path: Path) -> None:
    picture = tmp_path / "reliability.png"
    shown = good("--url", learned, "calibrate", "--plot", str(picture)).out
    told = good("--url", learned, "--json", "calibrate").json
    rows = [line.split() for line in shown.splitlines()]
    assert ["this", "memory", *(f"{told[name]:.4f}" for name in SCORES)] in rows
    [task] = [one for one in told["baselines"] if one["name"] == "task"]
    assert ["rate", "of", "the", "task", *(f"{task[name]:.4f}" for name in SCORES)] in rows
    assert "9 of 12 episodes succeeded" in shown
    assert shown.endswith(f"drawn in {picture}\n")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert good("--url", learned, "--json", "calibrate", "--folds", "3").json["folds"] == 3


SCORES = ("brier", "log_loss", "auc", "ece")


def test_an_empty_memory_has_nothing_to_measure(tmp_path: Path) -> None:
    url = str(tmp_path / "memory.graph")
    good("--url", url, "init")
    assert good("--url", url, "calibrate").out == "no episodes yet\n"
    picture = str(tmp_path / "empty.svg")
    assert good("--url", url, "--json", "calibrate", "--plot", picture).json["brier"] is None
    assert Path(picture).exists()
    assert good("--url", url, "predict", "x", "y").out.startswith("expected 50% (")


@pytest.mark.parametrize(
    "arguments",
    [
        *(("predict", "refund"), ("predict", "", "ask"), ("predict", "refund", " ")),
        *(("calibrate", "--by", "date"), ("calibrate", "--folds", "1")),
        ("calibrate", "--plot", "picture.gif"),
    ],
    ids=" ".join,
)
def test_wrong_usage(learned: str, arguments: tuple[str, ...]) -> None:
    done = run("--url", learned, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err
