"""What counts as the strategy of a run, and the ids of things."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from graphmem.episodes.naming import strategies
from graphmem.ids import heuristic_id, heuristic_ids


def test_tools_are_the_strategy_in_the_order_of_their_first_use() -> None:
    assert strategies("tools", tools=["find", "read", "find"]) == ["find > read", "find", "read"]
    assert strategies("tools", tools=["find", "find"]) == ["find"]
    assert strategies("tools") == ["no tools"]


def test_long_sequences_say_how_many_tools_are_left_out() -> None:
    [sequence, *single] = strategies("tools", tools=[f"t{number}" for number in range(15)])
    assert sequence.endswith("t11 > (3 more)")
    assert len(single) == 15


# Deterministic ids

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@hypothesis.given(
    kinds=st.lists(st.tuples(TEXTS, TEXTS), max_size=3), strategies=st.lists(TEXTS, max_size=3)
)
def test_many_ids_are_those_of_one_by_one(
    kinds: list[tuple[str, str]], strategies: list[str]
) -> None:
    wanted = [heuristic_id("ns", *kind, strategy) for strategy in strategies for kind in kinds]
    assert heuristic_ids("ns", kinds, strategies) == wanted
