"""What the page shows: questions to a memory, and their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, JsonValue

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import Progress
from graphmem.ids import canonical_json, fingerprint, strategy_id, task_id
from graphmem.memory import Memory
from graphmem.printable import listed

Given = Mapping[str, str]  # the named texts of a request
Question = Callable[[Memory, Given], dict[str, Any]]
LongQuestion = Callable[[Memory, Given, Progress], dict[str, Any]]
MOST = 200  # most nodes of a picture, and most rows of a table
FIRST = 25  # strategies on the first view
_EDGES = MOST - 1  # edges around a node; each can bring one more node


def recall(memory: Memory, given: Given) -> dict[str, Any]:
    """Return what an agent gets when it asks for a task."""
    text = _needed(given, "text")
    found = memory.recall(text, limit=10, agent=given.get("agent")).model_dump()
    _name_alternatives(memory, found["warnings"])
    return found


def explain(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the evidence for a belief."""
    explained = memory.explain(
        _needed(given, "id"), agent=given.get("agent"), task=given.get("task")
    )
    answer = explained.model_dump()
    _name_alternatives(memory, [answer])
    for row in answer["by_task"]["rows"]:
        row["id"] = task_id(memory.namespace, row["name"])
    for row, change in zip(answer["changes"], explained.changes, strict=True):
        row["said"] = change.sentence
    expected, strategy = explained.expected, None
    if explained.kind in ("strategy", "heuristic"):
        strategy = strategy_id(memory.namespace, explained.text)
    because = [] if expected is None else expected.basis.lines
    return {**answer, "because": because, "strategy": strategy}


def show(memory: Memory, given: Given) -> dict[str, Any]:
    """Return anything that has an id; with a task its latest episodes and what works there."""
    item = memory.show(_needed(given, "id"))
    if item.kind != "task":
        return dict(item)
    more = {"episodes": memory.episodes(item.id), "strategies": memory.strategies(item.id)}
    return {**dict(item), **more}


def uses(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the counts and bounds of a strategy in the order in which it was learned."""
    asked = {name: given[name] for name in ("agent", "task_type") if name in given}
    [found] = memory.query("course.uses", id=_needed(given, "id"), **asked)
    return {"points": memory.query("explaining.course", **found) if found["times"] else []}


def neighbourhood(memory: Memory, given: Given) -> dict[str, Any]:
    """Return a node and what is around it, by at most ``limit`` edges, most trials first."""
    identity = _needed(given, "id")
    nodes = memory.query("neighbourhood.nodes", ids=[identity])
    if not nodes:
        raise NotFoundError(f"there is no node with the id {identity!r}")
    most = _number(given, "limit", _EDGES)
    kind = nodes[0]["kind"].replace("-", "_")
    found = memory.query(f"neighbourhood.{kind}_edges", ids=[identity], limit=most + 1)
    more, edges = len(found) > most, found[:most]
    others = {end for edge in edges for end in (edge["source"], edge["target"])} - {identity}
    if others:
        nodes += memory.query("neighbourhood.nodes", ids=sorted(others))
    known = {node["id"] for node in nodes}
    return {
        "id": identity,
        "nodes": nodes,
        "edges": [edge for edge in edges if {edge["source"], edge["target"]} <= known],
        "more": more,
    }


def lessons(memory: Memory, given: Given) -> dict[str, Any]:
    """Return heuristics, anti-patterns, rules and mistakes, and how many there are."""
    agent, task_type = given.get("agent"), given.get("task_type")

    def part(rows: Sequence[BaseModel]) -> dict[str, Any]:
        return {"count": len(rows), "rows": [row.model_dump() for row in rows[:MOST]]}

    answer = {
        "heuristics": part(memory.lessons.heuristics(task_type, agent)),
        "anti_patterns": part(memory.lessons.anti_patterns(task_type, agent)),
        "rules": part(memory.lessons.rules(agent=agent)),
        "mistakes": part(memory.lessons.mistakes(agent=agent)),
    }
    _name_alternatives(memory, answer["anti_patterns"]["rows"])
    return answer


def _name_alternatives(memory: Memory, rows: Sequence[dict[str, Any]]) -> None:
    """Give the alternative of each row its id, by which the page links to it."""
    for row in rows:
        if better := row["better_alternative"]:
            better["id"] = strategy_id(memory.namespace, better["strategy"])


def policies(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the policies of a state and where they led, else the best states."""
    agent = given.get("agent")
    leading: list[dict[str, Any]] = []
    if state := given.get("state"):
        found = memory.policies.list(state, agent=agent)[:MOST]
        features = next((policy.features for policy in found if policy.features is not None), None)
        states: list[JsonValue] = [state] if features is None else [state, canonical_json(features)]
        ids: list[JsonValue] = [policy.id for policy in found]
        leading = [*memory.query("states.next", ids=ids, states=states, limit=MOST)]
    else:
        found = memory.policies.list(agent=agent, limit=MOST)
    for row in leading:
        if row["state"] is None and row["features"]:  # as a step says of its next state
            features = row["features"]
            row["state"] = (
                fingerprint(json.loads(features)) if features.startswith("{") else features
            )
    return {"policies": found, "next": leading}


def verify(memory: Memory, _: Given, progress: Progress) -> dict[str, Any]:
    """Derive every number again and compare."""
    report = memory.verify(on_progress=progress)
    return {
        **dict(report),
        "differences": report.differences[:MOST],
        "count": len(report.differences) + report.more,
        "said": listed(report.checked),
    }


def _needed(given: Given, name: str) -> str:
    value = given.get(name, "")
    if not value.strip():
        raise ValidationError(name, value, "is missing", f"add {name}= to the address")
    return value


def _number(given: Given, name: str, most: int) -> int:
    value = given.get(name, str(most))
    if not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= most):
        raise ValidationError(name, value, f"is no number from 1 to {most}")
    return int(value)


def _history(memory: Memory, given: Given) -> dict[str, Any]:
    points = memory.policies.history(_needed(given, "id"))
    return {"points": points[-MOST:], "count": len(points)}


READS: dict[str, Question] = {
    "overview": lambda memory, given: {
        "strategies": memory.strategies(task_type=given.get("task_type"), limit=FIRST)
    },
    "stats": lambda memory, _: {"stats": memory.stats()},
    "agents": lambda memory, _: {
        "agents": [row["agent"] for row in memory.query("analysis.agents")]
    },
    "recall": recall,
    "explain": explain,
    "uses": uses,
    "history": _history,
    "neighbourhood": neighbourhood,
    "show": show,
    "lessons": lessons,
    "policies": policies,
    "levels": lambda memory, given: dict(memory.levels.map(given.get("agent"))),
    "course": lambda memory, _: {"parts": memory.query("course.parts")},
}
"""The questions of the page. ``overview`` is the first view, which waits for no other."""
LONG_READS: dict[str, LongQuestion] = {
    "calibrate": lambda memory, _, progress: dict(memory.calibrate(on_progress=progress)),
    "verify": verify,
}
"""Slow questions, which a button asks."""
WRITES: dict[str, Question] = {
    "erase": lambda memory, given: dict(memory.upkeep.erase(_needed(given, "id")))
}
LONG_WRITES: dict[str, LongQuestion] = {
    "rebuild": lambda memory, _, progress: dict(memory.upkeep.rebuild(on_progress=progress))
}
"""What takes long, and changes the memory."""
