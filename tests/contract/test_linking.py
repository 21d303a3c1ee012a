"""Co-occurrence of policies on both engines: by episodes and by hand, spreading, exact erasing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.fields import Input
from tests.contract.teaching import set_all

HERE: dict[str, Any] = {"task": "deploy"}


def episode(actions: str, *, success: bool = True, **more: Any) -> Episode:
    """An episode that took these actions, one letter each, in this order."""
    steps = [Step(action_type=action, state=HERE) for action in actions]
    return Episode(task="t", strategy=["s"], success=success, steps=steps, **more)


def learn(memory: Memory, actions: str, **more: Any) -> None:
    memory.learn_many([episode(actions, **more)])


def ids(memory: Memory, agent: str | None = None) -> dict[str, str]:
    return {p.action: p.id for p in memory.policies.list(HERE, agent=agent)}


def weights(memory: Memory, agent: str | None = None) -> dict[str, dict[str, float]]:
    """The edges as each end sees them: {action: {other action: weight}}."""
    known = ids(memory, agent)
    names = {identity: action for action, identity in known.items()}
    return {
        action: {names[row.id]: row.weight for row in memory.policies.linked(identity)}
        for action, identity in known.items()
    }


@pytest.fixture
def abcd(memory: Memory) -> dict[str, str]:
    """Four policies that nothing links yet: their ids."""
    set_all(memory, ((HERE, action, 0.0) for action in "abcd"))
    return ids(memory)


# By episodes


def test_what_one_episode_takes_is_linked_and_both_ends_agree(memory: Memory) -> None:
    learn(memory, "aba", source_key="1")
    assert weights(memory) == {"a": {"b": 0.05}, "b": {"a": 0.05}}
    learn(memory, "ba", success=False, source_key="2")
    assert weights(memory) == {"a": {"b": 0.1}, "b": {"a": 0.1}}
    [linked] = memory.policies.linked(ids(memory)["a"])
    assert linked.count == 2
    learn(memory, "bc", agent="ben", source_key="3")
    assert weights(memory, "ben") == {"b": {"c": 0.05}, "c": {"b": 0.05}}
    with pytest.raises(ValidationError, match="agents do not mix"):
        memory.policies.link(ids(memory, "default")["a"], ids(memory, "ben")["c"])
    assert memory.verify().ok


def test_each_trial_of_one_end_without_the_other_takes_five_per_cent(memory: Memory) -> None:
    learn(memory, "ab", source_key="0")
    learn(memory, "a", source_key="1")
    assert weights(memory)["a"]["b"] == pytest.approx(0.05 * 0.95)
    learn(memory, "bc", source_key="2")
    memory.policies.update(HERE, "a", success=False)
    memory.policies.update(HERE, "b", 1.0, terminal=True, success=True)
    assert weights(memory)["b"]["a"] == pytest.approx(0.05 * 0.95**4)
    memory.policies.update(HERE, "b", 1.0, terminal=True)  # no trial
    learn(memory, "ab", source_key="3")
    assert weights(memory)["b"]["a"] == pytest.approx(0.05 * 0.95**4 + 0.05)
    assert memory.verify().ok


def test_a_weight_is_never_over_one_and_fades_to_nothing(memory: Memory) -> None:
    memory.learn_many(episode("ab", source_key=str(number)) for number in range(30))
    assert weights(memory)["a"]["b"] == 1.0
    least = math.ceil(math.log(0.001) / math.log(0.95))
    memory.policies.update_many([{"state": HERE, "action": "a", "success": True}] * (least - 1))
    assert 0.001 <= weights(memory)["a"]["b"] < 0.0011
    memory.policies.update(HERE, "a", success=True)
    assert weights(memory)["a"] == weights(memory)["b"] == {}
    learn(memory, "ab", source_key="again")  # a new link
    assert weights(memory)["a"]["b"] == pytest.approx(0.05)
    assert memory.verify().ok


# By hand


def test_a_first_link_has_its_weight_and_a_second_changes_nothing(
    memory: Memory, abcd: dict[str, str]
) -> None:
    policies = memory.policies
    assert policies.link(abcd["a"], abcd["b"]) == 0.1
    assert policies.link(abcd["b"], abcd["a"], weight=0.9) == 0.1
    assert policies.link(abcd["a"], abcd["c"], weight=1) == 1.0
    assert [row.count for row in policies.linked(abcd["a"])] == [0, 0]  # no episode took both
    assert weights(memory)["a"] == {"c": 1.0, "b": 0.1}
    assert list(weights(memory)["a"]) == ["c", "b"]  # strongest first
    assert [row.id for row in policies.linked(abcd["a"], limit=1)] == [abcd["c"]]


def test_links_are_strengthened_to_one_weakened_to_nothing_and_cut(
    memory: Memory, abcd: dict[str, str]
) -> None:
    policies = memory.policies
    a, b, c, d = (abcd[name] for name in "abcd")
    assert policies.strengthen(a, b) == 0.05
    assert policies.strengthen(b, a, delta=7) == 1.0
    assert policies.weaken(a, b) == 0.95
    assert policies.weaken(a, b, factor=0.0011) == pytest.approx(0.95 * 0.0011)
    assert policies.weaken(b, a, factor=0.5) == 0.0
    assert policies.weaken(b, a) == 0.0  # there is none
    for other, weight in ((b, 0.5), (c, 0.002), (d, 0.001)):
        policies.link(a, other, weight=weight)
    policies.link(b, c, weight=0.2)
    assert policies.weaken(a, d, factor=0.5) == 0.0
    assert weights(memory)["a"] == {"b": 0.5, "c": 0.002}
    policies.unlink(b, a)
    policies.unlink(b, a)
    assert weights(memory) == {"a": {"c": 0.002}, "b": {"c": 0.2}, "c": {"b": 0.2, "a": 0.002}, "d": {}}  # noqa: E501  # fmt: skip
    before = weights(memory)
    assert memory.verify().ok
    memory.upkeep.rebuild()
    assert weights(memory) == before


# Spreading


def test_activation_spreads_over_the_strongest_way(memory: Memory, abcd: dict[str, str]) -> None:
    policies = memory.policies
    policies.link(abcd["a"], abcd["b"], weight=0.8)
    policies.link(abcd["b"], abcd["c"], weight=0.5)
    policies.link(abcd["a"], abcd["c"], weight=0.1)
    names = {identity: action for action, identity in abcd.items()}

    def spread(*start: str, **more: Any) -> dict[str, float]:
        found = policies.propagate([abcd[name] for name in start], **more)
        return {names[identity]: energy for identity, energy in found.items()}

    assert spread("a", depth=0) == {"a": 1.0}
    assert spread("a") == pytest.approx({"b": 0.4, "c": 0.05})
    assert spread("a", depth=2) == pytest.approx({"b": 0.4, "c": 0.1})  # over b
    assert spread("a", depth=10) == spread("a", depth=2)  # a circle does not add up
    assert spread("a", depth=2, threshold=0.2) == pytest.approx({"b": 0.4})
    assert spread("a", "b") == pytest.approx({"c": 0.25})
    assert spread("d", depth=5) == {}
    assert spread() == {}
    assert spread("a", depth=2, decay_per_hop=0.0) == {}


def test_only_the_strongest_hundred_edges_spread(memory: Memory) -> None:
    policies = memory.policies
    actions = ["hub", *(f"leaf {number}" for number in range(103))]
    policies.update_many(
        {"state": HERE, "action": action, "reward": 0.0, "terminal": True} for action in actions
    )
    known = ids(memory)
    rows = []
    for number in range(103):
        low, high = sorted((known["hub"], known[f"leaf {number}"]))
        weight = 0.5 + number / 1000
        rows.append({"low": low, "high": high, "count": 1, "weight": weight, "held": 0})
    memory._graph.write("policies.put_links", rows=rows)
    assert len(policies.linked(known["hub"])) == 100
    assert len(policies.linked(known["hub"], limit=200)) == 103
    reached = policies.propagate([known["hub"]])
    assert len(reached) == 100
    assert not {known["leaf 0"], known["leaf 1"], known["leaf 2"]} & reached.keys()
    assert policies.propagate([known["leaf 0"]]) == {known["hub"]: 0.25}
    made = len(Input.__subclasses__())
    policies.propagate([known["hub"]])
    assert len(Input.__subclasses__()) == made  # a call leaves nothing behind


# What is wrong


def test_what_is_wrong_is_named_and_nothing_is_written(
    memory: Memory, abcd: dict[str, str]
) -> None:
    policies, a = memory.policies, abcd["a"]
    events = memory.stats().events
    with pytest.raises(ValidationError, match=r"^b: "):
        policies.link(a, a)
    missing: list[Callable[[], object]] = [
        lambda: policies.link(a, "nobody"),
        lambda: policies.strengthen("nobody", a),
        lambda: policies.weaken("nobody", "nobody else"),
        lambda: policies.unlink(a, "nobody"),
        lambda: policies.linked("nobody"),
        lambda: policies.propagate([a, "nobody"]),
    ]
    for call in missing:
        with pytest.raises(NotFoundError, match="no policy 'nobody'"):
            call()
    assert memory.stats().events == events
    assert weights(memory)["a"] == {}
