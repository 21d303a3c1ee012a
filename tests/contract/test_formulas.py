"""The formulas against the peers' numbers and against their definitions, on both engines."""

from __future__ import annotations

import json
import math
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory
from graphmem.lessons.odds import least_odds
from graphmem.store.queries import catalog
from tests.conftest import SHARED

VECTORS = SHARED / "vectors" / "peers.json"


def bounds(memory: Memory, k: int, n: int, z: float = 1.96) -> dict[str, Any]:
    """Ask the store itself, by the procedure that weighs counts."""
    return memory.query("rates.weigh", rows=[{"trials": n, "successes": k}], z=z)[0]


def test_the_wilson_lower_bound_is_the_peers(memory: Memory) -> None:
    if not VECTORS.exists():
        pytest.skip("the vectors of the peers are not on this machine")
    entries = json.loads(VECTORS.read_text())["popoto"]["wilson_ci_lower"]
    assert entries
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


@hypothesis.given(k=st.integers(0, 10**6), f=st.integers(0, 10**6), z=st.floats(0.1, 5))
def test_what_has_a_bound_has_the_odds_of_it(memory: Memory, k: int, f: int, z: float) -> None:
    """So nothing among the best is left out by its odds."""
    odds = catalog()["schema.weigh_heuristics"].text.split("WITH h, ")[1].split(" AS odds")[0]
    least = catalog()["context.parts"].text.split("odds: ")[1].split("}) AS rows")[0]
    lower = bounds(memory, k, k + f, z)["lower"]
    given = "WITH {successes: $k, trials: $n} AS h, $lower AS lower"
    cypher = f"{given} RETURN {odds} AS odds, {least} AS least"
    found = memory.query(cypher, k=k, n=k + f, lower=lower, z=z)[0]
    assert found["odds"] * (1 + 1e-9) >= found["least"]


@hypothesis.given(
    k=st.integers(0, 1_000),
    f=st.integers(0, 1_000),
    prior=st.tuples(st.floats(0.01, 50), st.floats(0.01, 50)),
)
def test_what_has_a_mean_has_the_odds_of_it(
    memory: Memory, k: int, f: int, prior: tuple[float, float]
) -> None:
    """So nothing that fails, or works, more often than not is left out by its odds."""
    told = catalog()["recall_kinds.told"].text
    mean = told.split("WITH h.id AS id, ")[1].split(" AS mean")[0]
    odds = catalog()["schema.weigh_heuristics"].text.split("WITH h, ")[1].split(" AS odds")[0]
    cypher = f"WITH {{successes: $k, trials: $n}} AS h RETURN {odds} AS odds, {mean} AS mean"
    given = {"prior_successes": prior[0], "prior_failures": prior[1]}
    found = memory.query(cypher, k=k, n=k + f, **given)[0]
    assert found["odds"] >= least_odds(found["mean"], prior)
    assert found["odds"] >= least_odds(found["mean"], prior, trials=k + f, successes=k)
    below = 0.999 * found["mean"]
    assert found["odds"] >= least_odds(below, prior, successes=k, over=True)
