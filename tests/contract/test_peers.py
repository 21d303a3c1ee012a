"""What the peers' own functions answered, and where this library answers otherwise on purpose."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, fingerprint
from graphmem.errors import ValidationError
from graphmem.store.queries import _Shared, catalog
from graphmem.text.error_classes import error_class
from graphmem.text.task_types import infer_task_type
from tests.conftest import of_peers
from tests.contract.teaching import known, observe, some

STATE = {"task": "deploy"}


def evaluate(memory: Memory, formula: str, **given: float | None) -> float:
    """Let the store compute a formula of cypher/formulas.cypher."""
    formulas = _Shared(catalog().folder / "formulas.cypher")
    expression = formulas.expand(formula, "a test")
    value: float = memory.query(f"RETURN {expression} AS value", dict(given))[0]["value"]
    return value


def test_fingerprints_are_the_peers() -> None:
    for entry in of_peers("popoto", "compute_fingerprint"):
        found = fingerprint(entry["features"], include=entry["include_fields"])
        assert found == entry["expect"], entry


def test_the_hour_counts_where_it_is_asked_for() -> None:
    for entry in of_peers("popoto", "compute_fingerprint_hour_bucket"):
        moment = datetime.fromtimestamp(entry["now"], UTC)
        assert fingerprint(entry["features"], hour_bucket=moment) == entry["expect"]
        assert fingerprint(entry["equals_features"]) == entry["expect"]


def test_a_date_among_the_features_is_an_error_and_not_hashed_as_python_prints_it() -> None:
    """There str() of a datetime was hashed: two spellings of one moment were two states."""
    [entry] = of_peers("popoto", "compute_fingerprint_default_str")
    text = json.loads(entry["canonical"])["t"]
    with pytest.raises(ValidationError, match=r"state\.t: is a datetime") as caught:
        fingerprint({"t": datetime.fromisoformat(text)})
    assert caught.value.field == "state.t"
    assert fingerprint({"t": text}) == entry["expect"]  # the text itself can be given


def test_crystallizing_decides_as_the_peer_did_and_starts_at_the_lower_bound(
    memory: Memory,
) -> None:
    entries = {
        f"{e['successes']}/{e['total']}": e for e in of_peers("popoto", "crystallize_decision")
    }
    for name, entry in entries.items():
        successes, trials = entry["successes"], entry["total"]
        observe(memory, STATE, name, successes, trials - successes)
    report = memory.policies.crystallize()
    created = {found.action: found.lower for found in report.created}
    below = {found.action: found.lower for found in report.below}
    for name, entry in entries.items():
        policy = known(memory, STATE, name)
        assert policy.crystallized == entry["crystallized"] == (name in created)
        assert {**created, **below}[name] == pytest.approx(entry["ci_lower"], rel=1e-12)
        expected = float(entry["q_value"]) if entry["crystallized"] else 0.0
        assert policy.q == pytest.approx(expected, rel=1e-12)
    assert some(memory.policies.best(STATE)).action == "10/10"


def test_the_formula_of_confidence_is_the_peers_at_any_start_and_cap(memory: Memory) -> None:
    memory.upkeep.initialize()
    for entry in of_peers("popoto", "confidence_update"):
        confidence, cap = entry["initial_confidence"], entry["evidence_cap"]
        for n, signal in enumerate(entry["signals"]):
            confidence = evaluate(
                memory, "moved($c, $n, $signal, $cap)", c=confidence, n=n, signal=signal, cap=cap
            )
            assert confidence == pytest.approx(entry["confidence_after_each"][n], rel=1e-12)


AGED = "aged($base, $days, $rate, $confidence, $strength, $neutral)"


def test_decayed_values_are_the_peers(memory: Memory) -> None:
    memory.upkeep.initialize()
    for case in of_peers("popoto", "decay_score")["cases"]:
        given = {"strength": case["s"], "neutral": case["c0"], "rate": case["decay_rate"]}
        given |= {"base": case["base"], "confidence": case["confidence"]}
        found = evaluate(memory, AGED, days=float(case["elapsed_days"]), **given)
        assert found == pytest.approx(case["expect"], rel=case["rel_tol"]), case


def test_cycles_and_waiting_add_what_they_added_to_the_peers(memory: Memory) -> None:
    memory.upkeep.initialize()
    for case in of_peers("popoto", "cyclic_decay_score")["cases"]:
        days, rate = float(case["elapsed_days"]), case["decay_rate"]
        plain = {"confidence": None, "strength": 0.5, "neutral": 0.5}
        total = evaluate(memory, AGED, base=case["base"], days=days, rate=rate, **plain)
        for period, amplitude, phase in case["cycles"]:
            total += evaluate(
                memory,
                "swing($amplitude, $period, $phase, $clock)",
                amplitude=amplitude,
                period=period,
                phase=phase,
                clock=case["now"],
            )
        if waited := case["pressure"]:
            total += evaluate(
                memory, "pressed($rate, $days)", rate=waited["rate"], days=waited["unresolved_days"]
            )
        assert total == pytest.approx(case["expect"], abs=case["abs_tol"]), case


CORRECTED = {"rapid prototyping": "general"}
"""The peer looks for letters, and finds "api" in "rapid"; here a word must say it."""


def test_types_of_tasks_are_the_peers(memory: Memory) -> None:
    """Asked of the function, and of what a memory stores of a task without a given type."""
    for place, entry in enumerate(of_peers("alma", "infer_task_type")):
        expected = CORRECTED.get(entry["task"], entry["expect"])
        assert infer_task_type(entry["task"]).name == expected, entry
        memory.learn(entry["task"], "try", success=True, source_key=str(place))
        query = (
            "MATCH (t:Task) WHERE t.ns = $ns AND t.key = $task RETURN t.type AS t, t.type_rule AS r"
        )
        [stored] = memory.query(query, task=entry["task"])
        assert stored == {"t": expected, "r": infer_task_type(entry["task"]).rule}


def test_errors_are_the_same_only_where_their_wording_is() -> None:
    """The peer takes an error for another's that it is a part of: "E" is any with an e.

    Here each has a class of its own, and what differs in particulars alone has the same.
    """
    for entry in of_peers("alma", "errors_similar"):
        assert entry["expect"]
        assert error_class(entry["e1"]) != error_class(entry["e2"])
    late, later = "Connection timeout after 30s", "Connection timeout after 7s"
    assert error_class(late) == error_class(later)


# The bounds of a rate


def bounds(memory: Memory, k: int, n: int, z: float = 1.96) -> dict[str, Any]:
    """Ask the store itself, by the procedure that weighs counts."""
    return memory.query("rates.weigh", rows=[{"trials": n, "successes": k}], z_value=z)[0]


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
