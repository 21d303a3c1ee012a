"""Tables: words stay whole, in any width."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from graphmem.cli.tables import Table

TASKS = Table(
    ("task", "worked", "95 % bounds", "tried", "best strategy", "last used"),
    (False, True, True, True, False, False),
    [
        ("You are yara_garcia_1905 and want to change a flight", "4 of 4", "0.51 to 1.00", "8",
         "update_reservation_passengers", ""),
        ("You are Sophia Silva", "91 of 94", "0.91 to 0.99", "3", "none worked", ""),
    ],
)  # fmt: skip


def test_names_are_broken_after_an_underscore_and_no_other_word_is() -> None:
    for width in range(30, 160):
        lines = TASKS.lines(width)
        assert max(map(len, lines)) <= width
        text = "\n".join(lines)
        pieces = {
            "reservation_",
            "passengers",
            "garcia_",
            "Sophia",
            "91 of 94",
            "0.91 to",
            "change",
        }
        assert {piece for piece in pieces if piece not in text} == set(), width


def test_what_gives_way_first() -> None:
    row = ["0123456789abcdef" * 2, "", "sample the stored values before filtering", "91 of 94"]
    table = Table(("episode", "time", "strategy", "worked"), (False, False, False, True), [row])
    lines = table.lines(80)
    assert lines[3:5] == [
        f" {row[0]}          sample the stored values     91 of 94",
        f"{'':43}before filtering",
    ]
    assert table.lines(60)[3].startswith(
        " 0123456789ab          sample"
    )  # `explain` finds it by that
    assert table.lines(50)[1].split() == ["episode", "strategy", "worked"]  # times have no value
    assert table.lines(30) == [
        "",
        " episode   0123456789ab",
        " strategy  sample the stored",
        "           values before",
        "           filtering",
        " worked    91 of 94",
        "",
    ]


CELLS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" _"), max_size=60)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4), width=st.integers(1, 200))
def test_nothing_is_lost_in_any_width(rows: list[tuple[str, ...]], width: int) -> None:
    lines = Table(("one", "another", "last"), (False, True, False), rows).lines(width)
    assert not [line for line in lines if line != line.rstrip()]
    said = sorted(re.sub(r"[ ─]", "", "".join(lines)))
    for row in rows:
        for char in "".join(row).replace(" ", "").replace("─", ""):
            assert char in said
