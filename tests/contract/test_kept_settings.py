"""Settings that shape learning: a memory keeps those with which it was first written."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem import Memory
from graphmem.config import KEPT, Settings
from graphmem.ids import node_id
from tests.conftest import Opener
from tests.contract.teaching import attempts, tamper

OTHER: dict[str, Any] = {
    "success_threshold": 0.8,
    "z": 1.0,
    "alpha": 0.5,
    "min_occurrences": 1,
    "anti_pattern_failures": 1,
}


def kept(memory: Memory) -> dict[str, Any]:
    [row] = memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace"))
    return row


def what_is_believed(memory: Memory) -> Any:
    return memory.strategies(), memory.lessons.heuristics(), memory.lessons.anti_patterns()


def test_who_gives_no_settings_takes_those_of_the_memory(opened: Opener) -> None:
    first = opened(**OTHER)
    attempts(first, "plan", 2, 1, task_type="ops")
    first.learn("deploy", "hope", success=False, error="boom", source_key="hope")
    first.policies.update({"n": 1}, "go", 1.0, terminal=True)
    assert {name: kept(first)[name] for name in OTHER} == OTHER
    assert kept(first).keys() == set(KEPT)

    second = opened()
    assert what_is_believed(second) == what_is_believed(first)
    assert second.lessons.anti_patterns()
    second.learn("deploy", "plan", score=0.7, source_key="by score")
    [plan] = [row for row in second.strategies() if row.text == "plan"]
    assert (plan.trials, plan.successes) == (4, 2)  # .7 is no success here
    assert second.policies.update({"n": 2}, "go", 1.0, terminal=True).q == 0.5
    assert second.verify().ok


def test_what_is_given_holds_for_who_gives_it_until_a_rebuild_keeps_it(opened: Opener) -> None:
    first = opened()
    attempts(first, "plan", 3, 1)
    usual = first.strategies()
    assert kept(first) == {name: getattr(Settings(), name) for name in KEPT}

    strict = opened(z=3.0)
    assert strict.strategies()[0].lower < usual[0].lower
    strict.learn("deploy", "plan", success=True, source_key="more")
    assert kept(strict)["z"] == 1.96
    assert opened().strategies()[0].lower > strict.strategies()[0].lower

    strict.upkeep.rebuild()
    assert kept(strict) == {name: getattr(Settings(z=3.0), name) for name in KEPT}
    assert opened().strategies() == strict.strategies()
    assert strict.verify().ok


def test_a_memory_from_before_keeps_them_from_its_next_write(opened: Opener) -> None:
    first = opened()
    attempts(first, "plan", 3)
    usual = first.strategies()
    gone = ", ".join(f"n.{name} = null" for name in KEPT if "half_life" not in name)
    tamper(first, f"MATCH (n:Namespace) WHERE n.ns = $ns SET {gone}")

    later = opened()
    assert later.strategies() == usual
    assert later.verify().ok
    later.learn("another task", "plan", success=True, source_key="another")
    assert kept(later) == {name: getattr(Settings(), name) for name in KEPT}


def test_each_namespace_keeps_its_own(opened: Opener) -> None:
    one, two = opened(alpha=0.5), opened(namespace="test-kept-elsewhere", alpha=0.25)
    for memory in (one, two):  # policies alone keep settings, too
        memory.policies.update({"n": 1}, "go", 1.0, terminal=True)
    assert (kept(one)["alpha"], kept(two)["alpha"]) == (0.5, 0.25)
    assert opened().policies.update({"n": 2}, "go", 1.0, terminal=True).q == 0.5


def test_what_fails_keeps_nothing(memory: Memory) -> None:
    with pytest.raises(KeyError, match="stop"):
        memory._graph.transact(lambda tx: (_ for _ in ()).throw(KeyError("stop")))
    assert memory.query("schema.namespace", id=node_id(memory.namespace, "Namespace")) == []
