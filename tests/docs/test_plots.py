"""The pictures of the documentation are drawn from what a memory computes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plots() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "plots.py"), run_name="plots")


def test_the_pictures_are_drawn(plots: dict[str, Any], tmp_path: Path) -> None:
    said = {
        "NAME": ("alpha 0.1", "Wilson bounds", "crystallized", "threshold 0.6"),
        "LATE_NAME": ("Wilson bounds", "confidence (all trials), at the end 0.04", "share in a"),
    }
    files = plots["main"](tmp_path)
    assert [file.name for file in files] == [plots[name] for name in said]
    for file, texts in zip(files, said.values(), strict=True):
        drawn = file.read_text(encoding="utf-8")
        there = (ROOT / "docs" / "explanation" / file.name).read_text(encoding="utf-8")
        for text in texts:
            assert f">{text}" in drawn
            assert f">{text}" in there


@pytest.mark.parametrize("name", ["NAME", "LATE_NAME"])
def test_a_page_shows_it(plots: dict[str, Any], name: str) -> None:
    pages = (ROOT / "docs" / "explanation").glob("*.md")
    assert [page for page in pages if f"]({plots[name]})" in page.read_text(encoding="utf-8")]


def test_late_successes_move_the_confidence_little_and_a_window_much(
    plots: dict[str, Any],
) -> None:
    found = plots["beliefs"]()
    assert len(found) == 100
    assert found[-1].confidence == pytest.approx(4 / 102)
    assert found[-1].lower < found[-1].confidence < found[-1].upper < 0.09
    assert found[-1].window == 0.75
    assert found[96].confidence == pytest.approx(1 / 99)


def test_values_go_to_the_mean_of_the_rewards(plots: dict[str, Any]) -> None:
    for alpha in plots["ALPHAS"]:
        found = plots["values"](alpha)
        assert found[0] == 0.0
        assert found[1] in (0.0, alpha)
        assert sum(found[-50:]) / 50 == pytest.approx(plots["RATE"], abs=0.12)


def test_policies_are_held_while_the_lower_bound_is_over_the_threshold(
    plots: dict[str, Any],
) -> None:
    found, threshold = plots["trials"]()
    assert [trial.crystallized for trial in found] == [trial.lower > threshold for trial in found]
    assert not found[-1].crystallized
