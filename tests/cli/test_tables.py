"""Tables: nothing is cut in any width, and names stay whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmem.cli.printing import print_table

HEADS = ("episode", "task", "worked", "95 % bounds", "best strategy", "last used")
ROWS = [
    ("0123456789abcdef" * 2, "You are yara_garcia_1905 and want to [b]change[/b] a flight",
     "4 of 4", "0.51 to 1.00", "update_reservation_passengers", ""),
    ("fedcba9876543210" * 2, "You are Sophia Silva", "91 of 94", "0.91 to 0.99", "none", ""),
]  # fmt: skip


@pytest.mark.parametrize("width", range(40, 200, 8))
def test_names_and_numbers_stay_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(HEADS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for piece in ("0123456789ab", "91 of 94", "0.51 to 1.00", "[b]change[/b]", "none"):
        assert piece in "\n".join(lines)
    assert ("update_reservation_passengers" in "\n".join(lines)) is (width > 44)
    assert ("─" in "".join(lines)) is (width >= 100)
    assert ("0123456789abcdef" * 2 in "\n".join(lines)) is (width >= 120)


CELLS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" _"), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4), width=st.integers(16, 200))
def test_nothing_is_lost_in_any_width(
    rows: list[tuple[str, ...]],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(("one", "another", "last"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    shown = re.sub(r"[ ─]", "", "".join(lines))
    for char in "".join(map("".join, rows)).replace(" ", "").replace("─", ""):
        assert char in shown
