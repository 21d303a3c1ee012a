"""A memory with something of everything in it, and arguments for every procedure there."""

from __future__ import annotations

import functools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import JsonValue

from graphmem import Memory, Step, StrategyUse
from graphmem.ids import strategy_id
from graphmem.models.levels import LevelUpkeep, Tags
from graphmem.store.queries import Query, procedure

DAY = datetime(2026, 5, 1, tzinfo=UTC)
HERE: dict[str, JsonValue] = {"place": "here"}
THERE: dict[str, JsonValue] = {"place": "there"}
STRENGTHS: dict[str, JsonValue] = {
    **dict.fromkeys(("task_strength", "strategy_strength", "cell_strength"), 3.0),
    "trials": 100,
    "gain": 5.0,
    "score": 4.0,
    "fitted": True,
}


def populate(memory: Memory, tag: str) -> None:
    """The same words in every namespace, so that a missing filter would show."""
    for number in range(3):
        memory.learn(
            "shared task",
            [chosen("shared a"), "shared b"],
            success=number != 1,
            agent="shared agent",
            task_type="shared",
            ended_at=DAY,
            source_key=f"{tag}/{number}",
            steps=[
                Step(action=tag, error="shared error"),
                Step(action="go", state=HERE, reward=1.0, next_state=THERE),
                Step(action="stay", state=THERE, reward=1.0, terminal=True),
            ],
        )
    policies = memory.policies
    policies.learn_episodes()
    policies.update(HERE, "go", 1.0, next_state=THERE, agent="shared agent", at=DAY)
    policies.update(THERE, "go", 1.0, terminal=True, agent="shared agent", success=True)
    go, stay = ids(memory, "Policy")[:2]
    policies.strengthen(go, stay)
    memory.predictions.expect(go, probability=0.5)
    next(memory.events.listen("shared group", consumer="shared consumer", limit=3))
    for week in range(12):
        policies.observe(HERE, "weekly", True, agent="shared agent", at=DAY + timedelta(weeks=week))
    weekly = policies.get(HERE, "weekly", agent="shared agent")
    assert weekly is not None
    assert memory.cycles.examine(weekly, keep=True).cycles
    memory.policies.crystallize(threshold=0.1)
    assert memory.policies.crystallize(threshold=0.9).taken_back
    say(memory)
    hold(memory)
    keep(memory, tag)
    teach(memory, tag)
    generalize(memory, tag)
    memory.upkeep.relink("hashing")
    given: dict[str, Any] = {"source_key": f"{tag}/pending", "error": "shared error"}
    memory.learn("shared pending", "shared pending", success=True, **given)
    memory.settle(f"{tag}/pending", score=0.8, error="another")
    memory.store.write(
        procedure("forecasting.put_pooling"),
        ns=memory.namespace,
        now=1,
        id=f"pooling in {memory.namespace}",
        strengths=STRENGTHS,
    )
    with memory.attempt("shared task", agent="shared agent", extra={"tag": tag}) as attempt:
        attempt.used("shared a")  # and no outcome
    memory.upkeep.flush()  # else counts of reads come in while a test looks


def chosen(text: str) -> StrategyUse:
    """A strategy that was chosen among two."""
    return StrategyUse(text, explore="shared way", candidates={text: 0.5, "shared rest": 0.5})


def say(memory: Memory) -> None:
    """Preferences, knowledge and scopes, each with one that stands against another."""
    for day, text in enumerate(("shared a", "shared b")):
        at = DAY + timedelta(days=day)
        memory.people.prefer("shared user", "shared category", text, at=at)
    first = memory.people.know("shared domain", "shared fact", user="shared user")
    memory.people.know("shared domain", "other fact", user="shared user", contradicts=first)
    memory.scopes.set("shared other", share_with=["shared agent"], inherit_from=["shared agent"])


def hold(memory: Memory) -> None:
    """Levels that pull from each other, and entries that outlive a test."""
    memory.levels.default("shared agent")
    both = ["collective:shared", "collective:spare"]
    fading = LevelUpkeep(decay=0.0001)
    for name in both:
        memory.levels.put(name, purpose="shared purpose", members="shared agent", upkeep=fading)
        memory.levels.add(name, "shared entry", tags=["shared"], key="shared")
    memory.levels.add("agent:shared agent:stm", {"shared": "content"}, tags=["shared"])
    memory.levels.put_lens("collective:lens", both, tags=Tags(any_of=["shared"]), max_age=1e9)


def keep(memory: Memory, tag: str) -> None:
    """A file that was imported, with something beside its episode."""
    with TemporaryDirectory() as folder:
        form = {"task_id": "shared task", "score": 0.9, "successes": ["shared"], "steps": 3}
        (file := Path(folder) / f"{tag}.json").write_text(
            json.dumps({"episode_log": [form], "shared": tag})
        )
        memory.upkeep.import_(file, "sentinel", document="shared file")
        file.write_text(
            "---\nname: shared task\ndescription: shared\n---\n- shared a\n- never shared b\n"
        )
        memory.skills.import_(file, "shared source")


def teach(memory: Memory, tag: str) -> None:
    """Something of every lesson, and strategies that were merged."""
    for number in range(4):
        memory.learn_many(
            [
                {
                    "task": "shared task",
                    "strategy": chosen(["shared b", "shared d"][number % 2]),
                    "score": [0.1, 0.9][number // 2],
                    "agent": "shared agent",
                    "task_type": "shared",
                    "error": f"shared error {number}",
                    "successes": ["shared sentence"],
                    "mistakes": ["shared mistake"],
                    "mistake_cards": [{"type": "shared", "evidence": tag, "lesson": "shared"}],
                    "source_key": f"{tag}/lesson/{number}",
                }
            ]
        )
    memory.lessons.merge("shared b", "shared d")


def generalize(memory: Memory, tag: str) -> None:
    """A general rule: a strategy that worked on several tasks."""
    memory.learn_many(
        {
            "task": f"shared task {number % 2}",
            "strategy": [chosen("shared c")],
            "score": 0.9,
            "agent": "shared agent",
            "task_type": "shared",
            "source_key": f"{tag}/general/{number}",
        }
        for number in range(4)
    )
    assert memory.lessons.consolidate(force=True).rules


class Asked:
    """A memory that nothing changes, so that it is asked each thing only once."""

    def __init__(self, memory: Memory) -> None:
        self.namespace = memory.namespace
        self.query = functools.cache(memory.query)


def ids(memory: Memory | Asked, label: str) -> list[str]:
    found = memory.query(f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    return [row["id"] for row in found]


def arguments(query: Query, ns: str, target: Asked) -> dict[str, Any]:
    """Arguments of a procedure for Cypher users: they aim at the nodes of ``target``, in ``ns``."""
    policies, states = ids(target, "Policy"), ids(target, "State")
    cursors, claims = ids(target, "Cursor"), ids(target, "Claim")
    with_policies = "MATCH (p:Policy) WHERE p.ns = $ns RETURN p.stream AS stream ORDER BY stream"
    stream = target.query(with_policies)[0]["stream"]
    every = target.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    nodes = [row["id"] for row in every]
    own: dict[str, dict[str, Any]] = {
        "explaining.near": {"ids": [strategy_id(target.namespace, "shared a")]},
        "lessons.rules": {"tasks": ["shared task"]},
        "lessons.mistakes": {"worker": None},
        "events.open_streams": {"rows": [{"stream": f"stream of {ns}", "agent": "x"}]},
        "events.open_cursor": {"id": f"cursor of {ns}"},
        "events.claim": {"id": cursors[0]},
        "events.claims": {"consumer": "shared consumer"},
        "events.acknowledge": {"consumer": "shared consumer"},
        "policies.open_states": {"rows": [{"id": i, "features": "{}"} for i in states]},
        "policies.open": {
            "rows": [
                {"id": f"new {ns} {i}", "state_id": i, "stream": "x", "agent": "x"} for i in states
            ]
        },
        "policies.spread": {"rows": [{"id": i, "energy": 1.0} for i in policies]},
        "predictions.expect": {"id": f"prediction of {ns}"},
        "predictions.resolve": {"id": ids(target, "Prediction")[0], "happened": True},
    }
    known: dict[str, Any] = {
        "ns": ns,
        "now": 1,
        "ids": nodes,
        "id": policies[0],
        "tasks": ids(target, "Task"),
        "task": "shared task",
        "task_type": "shared",
        **{name: f"shared {name}" for name in ("worker", "agent", "group", "domain")},
        "agents": ["shared agent"],
        "limit": 50,
        "at_least": 1,
        "min_confidence": 0.0,
        "established": 0.6,
        "refuted": 0.4,
        "until": 2**60,
        "owner_kind": None,
        "owner": None,
        "name": None,
        "stream": stream,
        "stream_id": stream,
        "policy_id": policies[0],
        "state_id": states[0],
        "next_state_id": states[0],
        "consumer": "another",
        "claim": claims[0],
        "before": 2**60,
        "done": [1, 2, 3],
        "subject": policies[0],
        "subjects": nodes,
        "kind": "policy",
        "how": "acted",
        "trials": 9,
        "successes": 6,
        **own.get(query.name, {}),
    }
    plain = {"integer": 7, "float": 0.7}
    return {
        name: known.get(name, plain.get(param.type) if param.default is ... else param.default)
        for name, param in query.params.items()
    }
