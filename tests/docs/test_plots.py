"""The pictures of the documentation are drawn from what a memory computes."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
TEXTS = {
    "td-learning.svg": ("alpha 0.1", "Wilson bounds", "crystallized", "threshold 0.6"),
    "late-successes.svg": ("Wilson bounds", "confidence (all trials), at the end 0.04"),
}


def test_the_pictures_are_drawn_and_shown(tmp_path: Path) -> None:
    plots = runpy.run_path(str(DOCS / "plots.py"), run_name="plots")
    assert {file.name for file in plots["main"](tmp_path)} == set(TEXTS)
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    for name, texts in TEXTS.items():
        assert f"]({name})" in pages
        for folder in (tmp_path, DOCS / "explanation"):
            picture = (folder / name).read_text(encoding="utf-8")
            assert all(f">{text}" in picture for text in texts), folder


def test_late_successes_move_the_confidence_little_and_a_window_much() -> None:
    belief = runpy.run_path(str(DOCS / "plots.py"), run_name="plots")["beliefs"]()[-1]
    assert belief.confidence == pytest.approx(4 / 102)
    assert belief.lower < belief.confidence < belief.upper < 0.09
    assert belief.window == 0.75
