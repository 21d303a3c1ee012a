"""Fills a memory with something of each label, edge and property of the graph."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

from graphmem import Memory, ModelSettings, Step, StrategyUse, Tags
from tests.contract.populating import HERE, ids, populate
from tests.faults.model_server import rules, serving

AT = datetime(2025, 3, 3, tzinfo=UTC)


def complete(memory: Memory) -> None:
    """Fill the memory; the last texts wait for their vectors."""
    populate(memory, "all")
    learn_everything(memory)
    find_alternatives(memory)
    predict_and_count(memory)
    hold(memory)
    memory.scopes.set("agent", can_learn=["type"], min_occurrences=2)
    memory.people.know("domain", "fact", at=AT, valid_from=AT, valid_to=AT + timedelta(days=9))
    memory.strategies()
    memory.upkeep.flush()
    memory.upkeep.relink("hashing")
    memory.learn("book a train", "book a train", success=True)


def learn_everything(memory: Memory) -> None:
    """Learn an episode with all fields, and an attempt that was interrupted."""
    memory.learn(
        "t",
        [StrategyUse("a", shown=True), "failed"],
        success=True,
        feedback="f",
        user="u",
        summary="s",
        started_at=AT,
        ended_at=AT,
        duration=1.0,
        steps=[
            Step(action={"a": 1}, observation="o", state={"a": 1}),
            Step(action="failed", error="e"),
        ],
    )
    with contextlib.suppress(KeyboardInterrupt), memory.attempt("t", task_type="type"):
        raise KeyboardInterrupt


def find_alternatives(memory: Memory) -> None:
    """Let one strategy fail where another works, and a model conclude something."""
    card: dict[str, Any] = {
        **dict.fromkeys(("type", "bad_decision", "worker", "correct_decision"), "x"),
        "extra": {"a": 1},
    }
    for score, strategy in ((0.1, "bad"), (0.9, "good")):
        memory.learn_many(
            {
                "task": "lessons",
                "strategy": strategy,
                "score": score,
                "error": "e",
                "successes": ["do"],
                "mistakes": ["do not"],
                "mistake_cards": [card],
                "ended_at": AT + timedelta(days=day),
            }
            for day in range(5)
        )
    conclusion = {"verdict": "WORKS", "text": "x", "episodes": [1]}
    with serving(rules(conclusion)) as server:
        model = ModelSettings(base_url=server.url, name="any")
        assert memory.lessons.consolidate(model, force=True).model_rules == 1


def predict_and_count(memory: Memory) -> None:
    """Update with all arguments, find cycles of successes, and resolve predictions."""
    update = memory.policies.update
    go = update(HERE, "go", 1.0, next_state={"x": 2}, next_actions=2, at=AT).policy_id
    update(HERE, "go", 1.0, next_max_q=0.5)
    for week in range(12):
        memory.learn("weekly", "c", success=True, ended_at=AT + timedelta(weeks=week))
    assert memory.cycles.examine("c", only="success", keep=True).cycles
    for subject in (go, "a", "anything"):
        expected = memory.predictions.expect(
            subject, probability=0.5, outcome={"a": 1}, at=AT, due=AT + timedelta(days=1)
        )
        memory.predictions.resolve(expected.id, actual={"a": 1})
    assert ids(memory, "Cycle")


def hold(memory: Memory) -> None:
    """Fill levels with what flows, becomes an episode or a fact, and is compared."""
    levels = memory.levels
    levels.default("agent")
    for ttl in (1, 2):
        levels.put("task:t:shared", ttl=ttl, capacity=1, purpose="p")
    levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=AT)
    levels.put_lens("agent:agent:lens", "task:t:shared", tags=Tags(any_of=["t"]), max_age=1)
    levels.add("agent:agent:sensory", "text")
    levels.add("agent:agent:sensory", {"task": "t", "task_type": "type", "success": True})
    levels.add("agent:agent:sensory", {"fact": "f", "domain": "d"})
    levels.tick()
    levels.maintain(at=datetime.now(UTC) + timedelta(minutes=10))
    levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=AT)
