"""What counts as the strategy of a run."""

from __future__ import annotations

from graphmem.episodes.naming import strategies


def test_tools_are_the_strategy_in_the_order_of_their_first_use() -> None:
    assert strategies("tools", tools=["find", "read", "find"]) == ["find > read", "find", "read"]
    assert strategies("tools", tools=["find", "find"]) == ["find"]
    assert strategies("tools") == ["no tools"]


def test_long_sequences_say_how_many_tools_are_left_out() -> None:
    [sequence, *single] = strategies("tools", tools=[f"t{number}" for number in range(15)])
    assert sequence.endswith("t11 > (3 more)")
    assert len(single) == 15
