"""Tables: words stay whole, in any width."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from graphmem.cli.printing import lay_out

HEADS = ("task", "worked", "95 % bounds", "tried", "best strategy", "last used")
TASKS = [
    ("You are yara_garcia_1905 and want to change a flight", "4 of 4", "0.51 to 1.00", "8",
     "update_reservation_passengers", ""),
    ("You are Sophia Silva", "91 of 94", "0.91 to 0.99", "3", "none worked", ""),
]  # fmt: skip


def test_names_are_broken_after_an_underscore_and_no_other_word_is() -> None:
    pieces = {"reservation_", "passengers", "garcia_", "Sophia", "91 of 94", "change"}
    for width in range(30, 160):
        lines = lay_out(HEADS, TASKS, width)
        assert max(map(len, lines)) <= width
        assert {piece for piece in pieces if piece not in "\n".join(lines)} == set(), width


def test_ids_give_way_before_rows_become_blocks() -> None:
    heads = ("episode", "strategy", "worked")
    row = ("0123456789abcdef" * 2, "sample the stored values before filtering", "91 of 94")
    assert lay_out(heads, [row], 80)[3:5] == [
        f" {row[0]}   sample the stored values before     91 of 94",
        f"{'':36}filtering",
    ]
    # `explain` finds it by that
    assert lay_out(heads, [row], 60)[3].startswith(" 0123456789ab   sample the stored")
    assert lay_out(heads, [row], 30) == [
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
    lines = lay_out(("one", "another", "last"), rows, width)
    assert not [line for line in lines if line != line.rstrip()]
    said = sorted(re.sub(r"[ ─]", "", "".join(lines)))
    for row in rows:
        for char in "".join(row).replace(" ", "").replace("─", ""):
            assert char in said
