"""A memory with something of everything in it, and arguments for all that can be called there."""

from __future__ import annotations

import inspect
import json
import pkgutil
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FunctionType
from typing import Any

from pydantic import JsonValue

import graphmem.models
from graphmem import AsyncMemory, Episode, Memory, Step, StrategyUse
from graphmem.ids import strategy_id
from graphmem.models.levels import LevelUpkeep, Tags
from graphmem.store.queries import Query, adhoc, procedure

# A memory with something of everything in it, and arguments for every procedure there

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
        policies.update(
            HERE, "weekly", success=True, agent="shared agent", at=DAY + timedelta(weeks=week)
        )
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
    for number in range(4):  # one by one: sums of a batch may differ in the last bit
        given = {
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
        memory.learn_many([given])
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
        self.query = cache(memory.query)


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


# What is public of a memory: its methods, and arguments to call each with

PLAIN = {"store", "namespace", "settings"}  # public attributes of a memory that are no parts of it
INTERNAL = {"renew"}
"""Methods of parts for other modules of the package: they take their transactions."""


def methods(
    memory: Memory | AsyncMemory, plain: Collection[str] = PLAIN
) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a memory and its parts, as ``part.method``."""
    owners: dict[str, object] = {"": memory}
    for name, part in vars(memory).items():
        if not name.startswith("_") and name not in plain:
            owners[f"{name}."] = part
    return {
        f"{prefix}{name}": getattr(owner, name)
        for prefix, owner in owners.items()
        for name, _ in inspect.getmembers(type(owner), callable)
        if not name.startswith("_") and name not in INTERNAL
    }


def parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a bound method."""
    return list(inspect.signature(method).parameters.values())


def call(memory: Memory, name: str, given: dict[str, Any]) -> Any:
    """Call a public method, named as ``part.method``."""
    method = methods(memory)[name]
    first = [given.pop(one.name) for one in parameters(method) if one.kind is one.POSITIONAL_ONLY]
    return method(*first, **given)


def models() -> dict[str, type]:
    """Return the public classes of all modules of ``graphmem.models``, by their names."""
    package = graphmem.models
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and not name.startswith("_")
    }


Arguments = dict[str, Any]
SOON = datetime(2026, 6, 1, tzinfo=UTC)
FILES = {"upkeep.backup", "upkeep.restore", "upkeep.accept_loss"}
"""Methods about the files of an embedded memory, which others do not have."""
LAST = (
    *("levels.prolong", "levels.remove", "levels.remove_lens", "levels.unpull", "levels.close"),
    *("scopes.get", "scopes.remove", "predictions.resolve", "predictions.feedback"),
    *("predictions.expire", "policies.unlink"),
    *("lessons.unmerge", "upkeep.rebuild", "upkeep.erase", "close"),
)
"""Methods that are called after the others, since they take away what these need."""
LEVEL = "collective:"
SHARED = ("worker", "user", "category", "domain", "key", "purpose", "group", "consumer")
"""Arguments with the same text for all methods."""
EPISODE: Arguments = {
    "task": "shared task",
    "strategy": "shared a",
    "success": None,
    "score": 0.9,
    "reward": 1.0,
    **{name: f"shared {name}" for name in ("agent", "error", "feedback", "summary", "source")},
    "task_type": "shared",
    "task_key": "shared key",
    "steps": [{"action": "go"}],
    "started_at": DAY,
    "ended_at": DAY,
    "duration": 1.0,
    "extra": {"shared": 1},
    "successes": ["shared"],
    "mistakes": ["shared mistake"],
    "mistake_cards": [{"type": "shared card"}],
}


def calls(memory: Memory, folder: Path) -> dict[str, Callable[[], Arguments]]:
    """Return all arguments of each public method, by ``part.method``; ``open`` is left out.

    They fit a memory that :func:`populate` filled. What a method names
    here goes before what is usual, and that before the default of a parameter.
    """

    def first(label: str) -> str:
        text = f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id LIMIT 1"
        return str(memory.store.read(adhoc(text, "read"), ns=memory.namespace)[0]["id"])

    def policy(place: int = 0) -> str:
        return memory.policies.list(HERE, agent="shared agent")[place].id

    playbook = folder / "playbook.md"
    playbook.write_text("## shared kind\n\n[x] helpful=2 harmful=1 :: shared way\n")
    usual: Arguments = {
        **{name: EPISODE[name] for name in ("task", "strategy", "agent", "task_type", "source")},
        **{name: f"shared {name}" for name in SHARED},
        "state": HERE,
        "action": "go",
        "reward": 1.0,
        "success": True,
        "at": SOON,
        "limit": 5,
        "text": "shared task",
        "item": "shared a",
        "seed": 1,
        "name": f"{LEVEL}shared",
        "level": f"{LEVEL}shared",
        "target": f"{LEVEL}spare",
        "ttl": 60,
        "keys": ["shared key"],
        "idle": 60,
        "follow": False,
        "path": folder / "exported.jsonl",
        "format_name": "jsonl",
        "folder": folder / "backup",
        "subject": policy,
        "a": policy,
        "b": lambda: policy(1),
        "policy": policy,
        "policies": lambda: [policy()],
        "prediction_id": lambda: first("Prediction"),
        "max_age": 1e9,
        "resamples": 100,
        "tags": Tags(any_of=["shared"]),
    }
    own: dict[str, Arguments] = {
        "learn": EPISODE | {"source_key": "shared call"},
        "learn_many": {"episodes": [Episode(**EPISODE, source_key="shared batch")]},
        "record_episode": {
            "form": {"task_id": "shared task", "score": 0.9, "successes": ["shared"], "steps": 3}
        },
        "watch": {
            "target": type("Dispatcher", (), {"dispatch": lambda self: None}),
            "pattern": "dispatch*",
        },
        "context": {"lens": "planning"},
        "recall": {"kinds": ["strategy", "rule"]},
        "choose": {"explore": "epsilon", "task_type": None},
        "predict": {"strategy": None, "together": ["shared a", "shared b"]},
        "episodes": {"since": DAY},
        "show": {"item": lambda: first("Episode")},
        "settle": {
            "episode": lambda: first("Episode"),
            "score": 0.4,
            "success": None,
            "agent": None,
            "at": None,  # some of the episodes ended now
        },
        "to_networkx": {"kinds": ["strategy", "task"], "limit": 500},
        "evaluate": {"explore": "thompson"},
        "query": {"cypher": "learning.best", "params": {"limit": 3}},
        "lessons.merge": {"other": "shared c"},
        "lessons.unmerge": {"strategy": "shared c"},
        "policies.update": {"next_state": THERE, "next_actions": 2, "at": DAY},
        "policies.update_many": {
            "transitions": [{"state": HERE, "action": "go", "reward": 1.0, "terminal": True}]
        },
        "policies.set_q": {"q": 0.5},
        "policies.signal": {"signal": 0.5},
        "seed": {
            "logs": [{"q": "shared log", "tool": "shared tool", "ok": True}],
            "map": {"task": "q", "strategy": "tool", "success": "ok"},
        },
        "skills.import_": {"path": playbook, "source": "shared playbook"},
        "skills.export": {"path": folder / "learned"},
        "levels.put": {"name": f"{LEVEL}more", "capacity": 5},
        "levels.names": {"owner": "shared agent"},
        "levels.add": {
            "content": {"shared": [1, "text"]},
            "tags": ["shared tag"],
            "metadata": {"shared": 1},
            "relevance": 0.5,
        },
        "levels.pull": {
            "source": f"{LEVEL}shared",
            "transformer": "summarise",
            "where": Tags(any_of=["shared"]),
        },
        "levels.unpull": {"source": f"{LEVEL}shared"},
        "levels.maintain": {"name": f"{LEVEL}spare"},
        "levels.start": {"every": 1e9},
        "levels.entries": {"ids": lambda: first("Entry")},
        "levels.recall": {
            "text": "shared entry",
            "lens": f"{LEVEL}lens",
            "tags": None,
            "since": DAY,
            "key": "*",
            "include_expired": True,
        },
        "levels.put_lens": {"name": f"{LEVEL}seen", "levels": [f"{LEVEL}shared"]},
        "levels.lenses": {"owner": "shared task"},
        "levels.remove_lens": {"name": f"{LEVEL}lens"},
        "levels.close": {"name": f"{LEVEL}spare"},
        "people.prefer": {"text": "shared text", "source": "explicit_instruction"},
        "people.know": {"fact": "a third fact", "source": "user_stated"},
        "scopes.set": {
            "agent": "shared third",
            "can_learn": ["shared"],
            "min_occurrences": 1,
            "share_with": ["shared agent"],
            "inherit_from": ["shared agent"],
        },
        "scopes.get": {"agent": "shared other"},
        "scopes.remove": {"agent": "shared third"},
        "events.listen": {"kinds": ["entry"], "agent": "shared*"},
        "predictions.expect": {
            "probability": 0.5,
            "due": SOON,
            "key": "shared prediction",
            "at": DAY,
        },
        "predictions.list": {"status": "open"},
        "predictions.resolve": {"happened": True},
        "predictions.feedback": {"how": "used"},
        "predictions.expire": {"now": SOON},
        "upkeep.erase": {
            "episode_id": lambda: first("Episode"),
            "agent": None,
            "user": None,
            "source": None,
        },
        "upkeep.export": {"limit": None},
        "upkeep.forget": {"older_than": 90, "below_confidence": 0.3, "dry_run": True},
    }

    def arguments(name: str, method: Callable[..., Any]) -> Arguments:
        found = {}
        for one in parameters(method):
            if one.kind is not one.VAR_KEYWORD:
                value = own.get(name, {}).get(one.name, usual.get(one.name, one.default))
                assert value is not inspect.Parameter.empty, (name, one.name)
                found[one.name] = value() if isinstance(value, FunctionType) else value
        return found

    public = methods(memory)
    names = [name for name in public if name not in (*LAST, "open", "current_attempt")]
    return {name: partial(arguments, name, public[name]) for name in (*names, *LAST)}
