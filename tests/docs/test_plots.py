"""The picture of the documentation is drawn from what a memory computes."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def plots() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "plots.py"), run_name="plots")


def test_the_picture_is_drawn(plots: dict[str, Any], tmp_path: Path) -> None:
    drawn = plots["main"](tmp_path).read_text(encoding="utf-8")
    there = (ROOT / "docs" / "explanation" / plots["NAME"]).read_text(encoding="utf-8")
    for text in ("alpha 0.1", "Wilson bounds", "crystallized", "threshold 0.6"):
        assert f">{text}" in drawn
        assert f">{text}" in there


def test_a_page_shows_it(plots: dict[str, Any]) -> None:
    pages = (ROOT / "docs" / "explanation").glob("*.md")
    assert [page for page in pages if f"]({plots['NAME']})" in page.read_text(encoding="utf-8")]


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
