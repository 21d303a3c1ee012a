"""Deterministic ids."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from graphmem.ids import heuristic_id, heuristic_ids

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@hypothesis.given(
    kinds=st.lists(st.tuples(TEXTS, TEXTS), max_size=3), strategies=st.lists(TEXTS, max_size=3)
)
def test_many_ids_are_those_of_one_by_one(
    kinds: list[tuple[str, str]], strategies: list[str]
) -> None:
    wanted = [heuristic_id("ns", *kind, strategy) for strategy in strategies for kind in kinds]
    assert heuristic_ids("ns", kinds, strategies) == wanted
