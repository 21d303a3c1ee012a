"""What is public of a memory: its methods, those of its parts, and arguments to call each with."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

import graphmem.models
from graphmem import AsyncMemory, Episode, Memory
from graphmem.models.levels import Tags
from graphmem.store.queries import adhoc
from tests.contract.populating import DAY, HERE, THERE

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

    They fit a memory that :func:`~tests.contract.populating.populate` filled. What a method names
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
            "arguments": {"most": 3},
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
