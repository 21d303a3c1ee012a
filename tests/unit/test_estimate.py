"""How an estimate says which counts moved it."""

from __future__ import annotations

from graphmem.advice.estimate import said


def test_the_counts_are_said_from_the_task_itself_outwards() -> None:
    assert said((26, 30), (37, 60), (0, 0), (63, 90)) == "26 of 30 here; 37 of 60 on tasks like it"
    assert said((0, 0), (0, 0), (4, 5), (9, 20)) == "4 of 5 on its type; 9 of 20 in all"


def test_counts_that_add_nothing_are_left_out() -> None:
    assert said((2, 3), (0, 0), (2, 3), (2, 3)) == "2 of 3 here"
    assert said((2, 3), (1, 2), (3, 5), (3, 6)) == (
        "2 of 3 here; 1 of 2 on tasks like it; 3 of 6 in all"
    )
    assert said((0, 0), (0, 0), (0, 0), (0, 0)) == "never tried"
