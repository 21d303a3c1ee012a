"""The formulas against the peers' numbers and against their definitions, on both engines."""

from __future__ import annotations

import math
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from tests.conftest import of_peers


def bounds(memory: Memory, k: int, n: int, z: float = 1.96) -> dict[str, Any]:
    """Ask the store itself, by the procedure that weighs counts."""
    return memory.query("rates.weigh", rows=[{"trials": n, "successes": k}], z=z)[0]


def test_the_wilson_lower_bound_is_the_peers(memory: Memory) -> None:
    entries = of_peers("popoto", "wilson_ci_lower")
    memory.upkeep.initialize()
    for entry in entries:
        k, n = entry["successes"], entry["total"]
        expected = max(0.0, entry["expect"])  # a tiny negative is the peer's rounding
        assert bounds(memory, k, n, entry.get("z", 1.96))["lower"] == pytest.approx(
            expected, rel=1e-12, abs=1e-15
        )


@hypothesis.given(n=st.integers(0, 10**6), share=st.floats(0, 1), z=st.floats(0.1, 5))
def test_the_bounds_hold_the_rate_and_stay_in_the_unit_interval(
    memory: Memory, n: int, share: float, z: float
) -> None:
    k = math.floor(n * share)
    found = bounds(memory, k, n, z)
    rate = k / n if n else 0.5
    assert 0 <= found["lower"] <= rate <= found["upper"] <= 1
    most = k / (n + z * z)  # by which `strategies` chooses what to look at, with this tolerance
    assert found["lower"] <= most + 1e-6
    assert k != n or found["lower"] == pytest.approx(most, abs=1e-6)
