"""What recall tells beside strategies: rules, heuristics and policies that fit the question."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import Memory, Step
from graphmem.errors import ValidationError
from graphmem.models.advice import Recall, RecallItem
from tests.conftest import Opener

ASKED = "late order of a gold customer"
NEAR = "late order of a silver customer"
DAY = datetime(2026, 5, 1, tzinfo=UTC)
DOOR: dict[str, Any] = {"customer": "gold", "stage": "late"}


def late(number: int, **more: Any) -> dict[str, Any]:
    """One episode, with what leads to every kind of item."""
    good = number % 5 != 4
    given: dict[str, Any] = {
        "task": NEAR,
        "strategy": "call the carrier",
        "score": 0.9 if good else 0.1,
        "agent": "ada",
        "task_type": "orders",
        "successes": ["look at the promised day"] if good else [],
        "mistakes": [] if good else ["promise a refund"],
        "steps": [Step(action="apologize", state=DOOR, reward=0.9, terminal=True)] if good else [],
        "source_key": f"late {number}",
    }
    return {**given, **more}


@pytest.fixture
def orders(opened: Opener) -> Memory:
    """A memory of orders: of late ones, of lamps that came broken, and of what repeats in both."""
    memory = opened(embedder="hashing")
    episodes = [late(number) for number in range(10)]
    for number in range(4):
        aside = {"task": f"lamp {number % 2} broken", "successes": ["write it down"], "steps": []}
        for way in ("offer an exchange", "send a new one"):
            key = f"lamp {number} {way}"
            episodes.append(late(0, **aside, strategy=way, source_key=key))
    memory.learn_many(episodes)
    memory.policies.learn_episodes()
    memory.lessons.consolidate(force=True)
    return memory


def of_kind(found: Recall, kind: str) -> list[RecallItem]:
    return [item for item in found.items if item.kind == kind]


def said(found: Recall, kind: str) -> dict[str, str]:
    return {item.text: item.said for item in of_kind(found, kind)}


def test_everything_that_fits_comes_after_the_strategies(orders: Memory) -> None:
    found = orders.recall(ASKED, limit=1)
    assert [item.kind for item in found.items] == sorted(
        (item.kind for item in found.items), key=("strategy", "rule", "heuristic", "policy").index
    )
    assert [item.text for item in of_kind(found, "strategy")] == ["call the carrier"]
    assert said(found, "rule") == {
        "[WORKS] look at the promised day": "holds in 8 of 8 on tasks like it",
        "[AVOID] promise a refund": "holds in 2 of 2 on tasks like it",
        "[WORKS] write it down": "holds in 8 of 8 on several tasks",
    }
    assert said(found, "heuristic") == {
        "for orders tasks: offer an exchange": "4 of 4 on tasks of its type by ada, tentative",
        "for orders tasks: send a new one": "4 of 4 on tasks of its type by ada, tentative",
    }
    [policy] = of_kind(found, "policy")
    assert policy.text == "in customer=gold, stage=late: apologize"
    assert policy.said.startswith("8 of 8 by ada, value 0.")
    rows = orders.query("MATCH (e:Episode) WHERE e.ns = $ns RETURN e.id AS id")
    episodes = {row["id"] for row in rows}
    for item in found.items:
        assert item.score == pytest.approx(item.relevance * item.lower * item.freshness)
        assert 0 < item.lower < item.mean < 1
        assert 0 < item.relevance <= 1
        assert 1 <= len(item.evidence) <= 5
        assert episodes.issuperset(item.evidence)
        assert item.path[0] == "text"
        assert orders.explain(item).kind == item.kind
    rule, heuristic = of_kind(found, "rule")[0], of_kind(found, "heuristic")[0]
    assert rule.path == (
        *("text", f"task: {NEAR}", "HAS_RULE 8 of 8"),
        "rule: [WORKS] look at the promised day",
    )
    assert heuristic.path[-1] == "strategy: offer an exchange"
    assert policy.path[:2] == ("text", f"task: {NEAR}")


def test_what_a_strategy_says_is_not_said_again(orders: Memory) -> None:
    found = orders.recall(ASKED, limit=1)
    assert not [item for item in found.items[1:] if "call the carrier" in item.text]
    alone = orders.recall(ASKED, limit=1, kinds=["heuristic"])
    assert {item.kind for item in alone.items} == {"heuristic"}
    assert "for orders tasks: call the carrier" in said(alone, "heuristic")


def test_each_kind_can_be_asked_for_alone(orders: Memory) -> None:
    for kind in ("strategy", "rule", "heuristic", "policy"):
        assert {item.kind for item in orders.recall(ASKED, kinds=[kind]).items} == {kind}
    two = orders.recall(ASKED, kinds=("policy", "rule"))
    assert [item.kind for item in two.items] == ["rule"] * 3 + ["policy"]
    with pytest.raises(ValidationError, match=r"strategy, rule, heuristic, policy"):
        orders.recall(ASKED, kinds=["rules"])  # type: ignore[list-item]
    wrongs: tuple[Any, ...] = ([], "rule", 7)
    for wrong in wrongs:
        with pytest.raises(ValidationError, match="kinds"):
            orders.recall(ASKED, kinds=wrong)


def test_only_what_is_relevant_is_said_and_only_strategies_are_chosen(orders: Memory) -> None:
    assert orders.recall("the plot of Hamlet").items == ()
    ways = {"call the carrier", "offer an exchange", "send a new one"}
    assert ways.issuperset(orders.choose(ASKED).candidates)


def test_a_type_by_wording_is_enough_for_its_heuristics(opened: Opener) -> None:
    memory = opened(embedder="hashing")
    more: dict[str, Any] = {"task": "debug the parser", "strategy": "bisect", "task_type": None}
    more |= {"steps": [], "successes": []}
    memory.learn_many(late(0, source_key=str(number), **more) for number in range(3))
    assert memory.recall("quantum physics").items == ()
    [item] = memory.recall("debug everything else there may be").items
    assert (item.kind, item.relevance) == ("heuristic", 0.25)  # a task lends its type from .5 on
    assert item.path[:2] == ("text", "type: debugging")
    # What was tried too seldom leaves no less room for it, however well it did.
    memory.learn_many(
        {"task": "debug the parser", "strategy": f"luck {number // 2}", "success": True}
        for number in range(66)
    )
    memory.learn_many([late(0, **more | {"score": 0.1})])
    [item] = memory.recall("debug everything else there may be").items
    assert item.text.endswith("bisect")


def test_what_is_erased_is_told_no_more(orders: Memory) -> None:
    orders.upkeep.erase(agent="ada")
    bobs = late(0, agent="bob", strategy="wait", successes=[], steps=[], source_key="bob")
    orders.learn_many([bobs])
    found = orders.recall(ASKED)
    assert [item.text for item in found.items] == ["wait"]
    assert orders.recall(ASKED, agent="bob").items == found.items


def test_the_best_policy_of_a_state_is_told(orders: Memory) -> None:
    orders.policies.set_q(DOOR, "action", 9.0, spec="upgrade", agent="ada")
    assert of_kind(orders.recall(ASKED), "policy") == []  # a better one was never taken there
    assert orders.policies.crystallize(threshold=0.5).created
    [policy] = of_kind(orders.recall(ASKED), "policy")
    assert policy.said.endswith("crystallized")
