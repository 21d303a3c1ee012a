"""The nearest rows are those of the whole product, whatever is left out before it."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from graphmem.arrays import dots
from graphmem.store.vectors import Asked, Matrix, Places, Rounded

WIDE = 24


pytestmark = pytest.mark.usefixtures("few_are_many")


def rows_of(seed: int, count: int, kinds: int) -> Matrix:
    """Return rows of unit length, of so many kinds, with equal ones and nearly equal ones."""
    chance = np.random.default_rng(seed)
    rows = chance.standard_normal((kinds, WIDE))[chance.integers(0, kinds, count)]
    rows += chance.choice([0.0, 1e-7, 1e-4, 0.3], (count, 1)) * chance.standard_normal(rows.shape)
    rows[chance.random(count) < 0.2, 3:] = 0  # words alone: few numbers are not 0
    unit: Matrix = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return unit


def plain(
    matrix: Matrix, rows: Places, vector: Matrix, limit: int, at_least: float
) -> list[tuple[float, int]]:
    """Return the same from the whole product, with all that tie with the last."""
    scores = matrix.astype(np.float64) @ vector.astype(np.float64)
    pairs = sorted((-round(float(scores[row]), 6), place) for place, row in enumerate(rows))
    pairs = [pair for pair in pairs if rows[pair[1]] >= 0 and -pair[0] >= at_least]
    return [pair for pair in pairs if pair[0] <= pairs[min(limit, len(pairs)) - 1][0]]


def found(asked: Asked, rows: Places, *given: float) -> list[tuple[float, int]]:
    near = asked.nearest(rows, int(given[0]), *given[1:])
    return sorted((-similarity, place) for place, similarity in near)


@hypothesis.given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 120),
    kinds=st.integers(1, 12),
    limit=st.integers(1, 130),
    at_least=st.sampled_from([-1.0, 0.0, 0.5, 0.999, 1.0]),
)
@hypothesis.settings(deadline=None)
def test_what_is_found_is_that_of_the_whole_product(
    seed: int, count: int, kinds: int, limit: int, at_least: float
) -> None:
    """Also among some rows, in any order, and after the table has grown."""
    table, chance, rounded = rows_of(seed, count, kinds), np.random.default_rng(seed), Rounded()
    for known in sorted(chance.integers(1, count + 1, 4).tolist()):
        matrix, rows = table[:known], chance.permutation(known)
        some = rows[: chance.integers(1, known + 1)].copy()
        some[chance.random(len(some)) < 0.3] = -1
        vector = matrix[chance.integers(known)] + (chance.standard_normal(WIDE) * 0.1)
        vector = (vector / np.linalg.norm(vector)).astype(np.float32)
        asked = Asked(matrix, vector, rounded)
        for each in (some, rows):
            expected = plain(matrix, each, vector, limit, at_least)
            assert found(asked, each, limit, at_least) == expected


def test_products_in_eight_bits_are_exact() -> None:
    """At the largest numbers as well, which would not fit sixteen bits."""
    rows = np.array([[127] * 1_000, [-127] * 1_000, [127, -127] * 500], np.int8)
    assert dots(rows, rows[0]).tolist() == [16_129_000, -16_129_000, 0]
    assert dots(rows[:0], rows[0]).tolist() == []
