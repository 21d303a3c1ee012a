"""Arguments with which every public method of a memory can be called, and is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphmem import Episode, Memory
from graphmem.models.levels import Tags
from graphmem.store.queries import adhoc
from tests.contract.populating import DAY, HERE, THERE

Arguments = dict[str, Any]
SOON = datetime(2026, 6, 1, tzinfo=UTC)
FILES = {"upkeep.backup", "upkeep.restore", "upkeep.accept_loss"}
"""Methods about the files of an embedded memory, which others do not have."""
LAST = ("lessons.unmerge", "upkeep.rebuild", "upkeep.erase", "close")
"""Methods that are called after the others, since they take away what these need."""


def calls(memory: Memory, folder: Path) -> dict[str, Callable[[], Arguments]]:
    """Return all arguments of each public method, by ``part.method``; ``open`` is left out.

    They fit a memory that :func:`~tests.contract.populating.populate` filled.
    """

    def first(label: str) -> str:
        text = f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id LIMIT 1"
        return str(memory.store.read(adhoc(text, "read"), ns=memory.namespace)[0]["id"])

    def policies() -> tuple[str, str]:
        found = memory.policies.list(HERE, agent="shared agent")
        return found[0].id, found[1].id

    episode: Arguments = {
        "task": "shared task",
        "strategy": "shared a",
        "success": None,
        "score": 0.9,
        "reward": 1.0,
        "agent": "shared agent",
        "task_type": "shared",
        "task_key": "shared key",
        "steps": [{"action": "go"}],
        "error": "shared error",
        "feedback": "shared feedback",
        "summary": "shared summary",
        "started_at": DAY,
        "ended_at": DAY,
        "duration": 1.0,
        "source_key": "shared call",
        "source": "shared source",
        "extra": {"shared": 1},
        "successes": ["shared"],
        "mistakes": ["shared mistake"],
        "mistake_cards": [{"type": "shared card"}],
    }
    place: Arguments = {"state": HERE, "action": "go", "spec": None, "agent": "shared agent"}

    def a_pair() -> Arguments:
        return dict(zip("ab", policies(), strict=True))

    producing: Arguments = {
        "extract": None,
        "ttl": 60,
        "errors": True,
        "agent": "shared agent",
    }

    def handled() -> Arguments:
        memory.events.on("entry", group="shared group")(lambda event: None)
        return {"consumer": "shared consumer", "idle": 60, "follow": False}

    dated: Arguments = {"at": SOON}
    progress: Arguments = {"on_progress": None}
    found: dict[str, Callable[[], Arguments]] = {
        "learn": lambda: episode,
        "attempt": lambda: {
            **{name: episode[name] for name in ("task", "agent", "task_type", "task_key")},
            **{name: episode[name] for name in ("source", "extra")},
            "max_tokens": 200,
            "judge": None,
            "strict": False,
            "started_at": None,
        },
        "learn_many": lambda: {
            "episodes": [Episode(**episode | {"source_key": "shared batch"})],
            "batch_size": 10,
            "on_error": "raise",
            "on_reject": None,
            **progress,
        },
        "record_episode": lambda: {
            "form": {"task_id": "shared task", "score": 0.9, "successes": ["shared"], "steps": 3}
        },
        "remember": lambda: {"level": "task:shared task:shared", **producing},
        "watch": lambda: {
            "target": type("Dispatcher", (), {"dispatch": lambda self: None}),
            "pattern": "dispatch*",
            "level": "task:shared task:shared",
            **producing,
        },
        "context": lambda: {
            "task": "shared task",
            "max_tokens": 200,
            "agent": "shared agent",
            "count": None,
            "lens": "planning",
        },
        "recall": lambda: {
            "text": "shared task",
            "limit": 5,
            "agent": "shared agent",
            "max_hops": 2,
            "kinds": ["strategy", "rule"],
            **dated,
        },
        "choose": lambda: {
            "task": "shared task",
            "candidates": None,
            "agent": "shared agent",
            "task_type": None,
            "explore": "epsilon",
            "epsilon": 0.1,
            "width": 1.0,
            "seed": 1,
        },
        "predict": lambda: {
            "task": "shared task",
            "strategy": ["shared a", "shared b"],
            "agent": "shared agent",
        },
        "explain": lambda: {
            "item": "shared a",
            "kind": "strategy",
            "agent": "shared agent",
            "task": "shared task",
        },
        "strategies": lambda: {
            "task": "shared task",
            "task_type": "shared",
            "agent": "shared agent",
            "limit": 10,
        },
        "evidence": lambda: {"strategy": "shared a", "limit": 5, "agent": "shared agent"},
        "episodes": lambda: {
            "task": "shared task",
            "task_type": "shared",
            "agent": "shared agent",
            "strategy": "shared a",
            "success": True,
            "since": DAY,
            "limit": 5,
        },
        "tasks": lambda: {
            "task_type": "shared",
            "agent": "shared agent",
            "sort": "worst",
            "limit": 5,
        },
        "show": lambda: {"item": first("Episode")},
        "similar": lambda: {"strategy": "shared a", "limit": 5},
        "communities": lambda: {"limit": 5, "resolution": 1.0},
        "to_networkx": lambda: {
            "around": "shared a",
            "hops": 2,
            "kinds": ["strategy", "task", "episode"],
            "limit": 500,
        },
        "calibrate": lambda: {"by": "order", **progress},
        "evaluate": lambda: {
            "explore": "thompson",
            "strategies": None,
            "epsilon": 0.1,
            "width": 1.0,
            "clip": 10.0,
            "seed": 1,
            "resamples": 100,
            **progress,
        },
        "query": lambda: {"cypher": "learning.best", "params": {"limit": 3}},
        "stats": dict,
        "verify": lambda: progress,
        "close": dict,
        "lessons.heuristics": lambda: {
            "task_type": "shared",
            "agent": "shared agent",
            "min_confidence": 0.1,
            "pooled": False,
        },
        "lessons.anti_patterns": lambda: {
            "task_type": "shared",
            "agent": "shared agent",
            "min_confidence": 0.1,
        },
        "lessons.rules": lambda: {"task": "shared task", "agent": "shared agent", "limit": 5},
        "lessons.mistakes": lambda: {
            "task": "shared task",
            "worker": "shared worker",
            "agent": "shared agent",
            "limit": 5,
        },
        "lessons.scores": lambda: {"task": "shared task", "last": 5},
        "lessons.summary": lambda: {"top": 3},
        "lessons.consolidate": lambda: {"model": None, "force": True},
        "lessons.consolidation_due": dict,
        "lessons.merge": lambda: {"strategy": "shared a", "other": "shared c"},
        "lessons.unmerge": lambda: {"strategy": "shared c"},
        "policies.update": lambda: {
            **place,
            "reward": 1.0,
            "next_state": THERE,
            "next_max_q": None,
            "terminal": False,
            "next_actions": 2,
            "alpha": 0.1,
            "gamma": 0.9,
            "success": True,
            "at": DAY,
            "record": True,
        },
        "policies.update_many": lambda: {
            "transitions": [{"state": HERE, "action": "go", "reward": 1.0, "terminal": True}],
            "batch_size": 10,
        },
        "policies.observe": lambda: {**place, "success": True, **dated},
        "policies.observe_many": lambda: {
            "observations": [{"state": HERE, "action": "go", "success": True}],
            "batch_size": 10,
        },
        "policies.set_q": lambda: {**place, "q": 0.5},
        "policies.signal": lambda: {**place, "signal": 0.5},
        "policies.get": lambda: place,
        "policies.best": lambda: {
            "state": HERE,
            "agent": "shared agent",
            "actions": ["go", "stay"],
            "explore": None,
            "epsilon": 0.1,
            "width": 1.0,
            "rng": None,
            "stored": False,
            **dated,
        },
        "policies.list": lambda: {
            "state": HERE,
            "agent": "shared agent",
            "pressure": 0.0,
            "stored": False,
            "limit": 10,
            **dated,
        },
        "policies.seen": lambda: place,
        "policies.history": lambda: {"policies": list(policies())},
        "policies.link": lambda: {**a_pair(), "weight": 0.2},
        "policies.strengthen": lambda: {**a_pair(), "delta": 0.05},
        "policies.weaken": lambda: {**a_pair(), "factor": 0.9},
        "policies.unlink": a_pair,
        "policies.linked": lambda: {"policy": policies()[0], "limit": 5},
        "policies.propagate": lambda: {
            "policies": [policies()[0]],
            "depth": 2,
            "decay_per_hop": 0.5,
            "threshold": 0.0,
        },
        "policies.learn_episodes": lambda: {
            "agent": "shared agent",
            "alpha": 0.1,
            "gamma": 0.9,
            **progress,
        },
        "policies.crystallize": lambda: {
            "agent": "shared agent",
            "min_events": 3,
            "threshold": 0.5,
            "z": 1.0,
        },
        "levels.put": lambda: {
            "name": "task:shared task:more",
            "ttl": 60,
            "capacity": 5,
            "purpose": "shared purpose",
            "upkeep": None,
            "agent": "shared agent",
        },
        "levels.default": lambda: {"agent": "shared agent"},
        "levels.names": lambda: {"owner": "shared agent", "agent": "shared agent"},
        "levels.info": lambda: {"name": "task:shared task:shared", "agent": "shared agent"},
        "levels.add": lambda: {
            "name": "task:shared task:shared",
            "content": {"shared": [1, "text"]},
            "tags": ["shared tag"],
            "key": "shared key",
            "metadata": {"shared": 1},
            "ttl": 60,
            "at": SOON,
            "relevance": 0.5,
            "agent": "shared agent",
        },
        "levels.pull": lambda: {
            "target": "task:shared task:spare",
            "source": "task:shared task:shared",
            "transformer": "summarise",
            "arguments": {"most": 3},
            "where": Tags(any_of=["shared"]),
            "agent": "shared agent",
        },
        "levels.unpull": lambda: {
            "target": "task:shared task:spare",
            "source": "task:shared task:shared",
            "agent": "shared agent",
        },
        "levels.map": lambda: {"agent": "shared agent"},
        "levels.statistics": lambda: {"agent": "shared agent"},
        "levels.tags": lambda: {"name": "task:shared task:shared", "agent": "shared agent"},
        "levels.tick": lambda: {"agent": "shared agent"},
        "levels.maintain": lambda: {
            "name": "task:shared task:spare",
            "agent": "shared agent",
            "at": SOON,
            **progress,
        },
        "levels.start": lambda: {"every": 1e9},
        "levels.stop": dict,
        "levels.entries": lambda: {"ids": first("Entry"), "agent": "shared agent"},
        "levels.recall": lambda: {
            "text": "shared entry",
            "levels": ["task:shared task:shared"],
            "tags": None,
            "since": DAY,
            "until": None,
            "key": "*",
            "max_age": 1e9,
            "min_relevance": 0.0,
            "include_expired": True,
            "limit": 5,
            "agent": "shared agent",
        },
        "levels.put_lens": lambda: {
            "name": "task:shared task:seen",
            "levels": ["task:shared task:shared"],
            "tags": Tags(any_of=["shared"]),
            "max_age": 1e9,
            "limit": 5,
            "purpose": "shared purpose",
            "agent": "shared agent",
        },
        "levels.lens": lambda: {"name": "task:shared task:lens", "agent": "shared agent"},
        "levels.lenses": lambda: {"owner": "shared task", "agent": "shared agent"},
        "levels.remove_lens": lambda: {"name": "task:shared task:lens", "agent": "shared agent"},
        "levels.prolong": lambda: {
            "name": "task:shared task:shared",
            "keys": ["shared key"],
            "ttl": 60,
            "agent": "shared agent",
        },
        "levels.remove": lambda: {
            "name": "task:shared task:shared",
            "keys": ["shared key"],
            "agent": "shared agent",
        },
        "levels.close": lambda: {"name": "task:shared task:spare", "agent": "shared agent"},
        "people.prefer": lambda: {
            "user": "shared user",
            "category": "shared category",
            "text": "shared text",
            "source": "explicit_instruction",
            **dated,
        },
        "people.preferences": lambda: {
            "user": "shared user",
            "category": "shared category",
            "history": True,
        },
        "people.know": lambda: {
            "domain": "shared domain",
            "fact": "a third fact",
            "source": "user_stated",
            "user": "shared user",
            "contradicts": None,
            **dated,
        },
        "people.knowledge": lambda: {"domain": "shared domain", "limit": 5},
        "scopes.set": lambda: {
            "agent": "shared third",
            "can_learn": ["shared"],
            "cannot_learn": [],
            "share_with": ["shared agent"],
            "inherit_from": ["shared agent"],
            "min_occurrences": 1,
        },
        "scopes.list": dict,
        "scopes.get": lambda: {"agent": "shared other"},
        "scopes.remove": lambda: {"agent": "shared third"},
        "events.consume": lambda: {
            "group": "shared group",
            "consumer": "shared consumer",
            "limit": 5,
            "agent": "shared agent",
        },
        "events.listen": lambda: {
            "group": "shared group",
            "kinds": ["entry"],
            "agent": "shared*",
            "consumer": "shared consumer",
            "idle": 60,
            "follow": False,
        },
        "events.on": lambda: {
            "kinds": "entry",
            "group": "shared group",
            "agent": "shared*",
            "attempts": 2,
            "backoff": 0.1,
        },
        "events.run": handled,
        "events.stop": dict,
        "events.tail": lambda: {"limit": 5, "agent": "shared agent"},
        "events.positions": dict,
        "events.since": lambda: {"positions": {}, "limit": 5},
        "events.pending": lambda: {"group": "shared group"},
        "predictions.expect": lambda: {
            "subject": policies()[0],
            "probability": 0.5,
            "outcome": None,
            "agent": "shared agent",
            "due": SOON,
            "key": "shared prediction",
            "kind": None,
            "at": DAY,
        },
        "predictions.get": lambda: {"prediction_id": first("Prediction")},
        "predictions.list": lambda: {"status": "open", "subject": policies()[0], "limit": 5},
        "predictions.resolve": lambda: {
            "prediction_id": first("Prediction"),
            "actual": None,
            "happened": True,
        },
        "predictions.feedback": lambda: {"subject": policies()[0], "how": "used"},
        "predictions.expire": lambda: {"now": SOON},
        "predictions.reliability": lambda: {
            "bins": 5,
            "subject": policies()[0],
            "agent": "shared agent",
        },
        "cycles.discover": lambda: {
            "subject": policies()[0],
            "timezone": "UTC",
            "alpha": 0.05,
            "at_least": 3,
            "only": None,
        },
        "cycles.examine": lambda: {
            "subject": policies()[0],
            "timezone": "UTC",
            "alpha": 0.05,
            "at_least": 3,
            "only": None,
            "keep": False,
        },
        "cycles.list": lambda: {"subject": policies()[0]},
        "upkeep.initialize": dict,
        "upkeep.rebuild": lambda: progress,
        "upkeep.erase": lambda: {
            "episode_id": first("Episode"),
            "agent": None,
            "user": None,
            "compact": False,
        },
        "upkeep.forget": lambda: {
            "older_than": 90,
            "below_confidence": 0.3,
            "agent": "shared agent",
            "dry_run": True,
        },
        "upkeep.relink": lambda: {"embedder": None, **progress},
        "upkeep.pending": dict,
        "upkeep.embedded_with": dict,
        "upkeep.export": lambda: {
            "path": folder / "exported.jsonl",
            "format_name": "jsonl",
            "document": None,
            "around": None,
            "hops": 1,
            "kinds": None,
            "limit": None,
        },
        "upkeep.import_": lambda: {
            "path": folder / "exported.jsonl",
            "format_name": "jsonl",
            "document": None,
        },
        "upkeep.flush": dict,
        "upkeep.backup": lambda: {"folder": folder / "backup"},
        "upkeep.restore": lambda: {"folder": folder / "backup"},
        "upkeep.accept_loss": dict,
    }
    for name in LAST:
        found[name] = found.pop(name)
    return found
