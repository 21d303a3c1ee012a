"""What the page shows: questions to a memory, and their answers as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel

from graphmem.errors import NotFoundError, ValidationError
from graphmem.memory import Memory

Given = Mapping[str, str]
"""The named texts of a request."""
MOST = 200
"""Most nodes of a picture, and most rows of a table."""
FIRST = 25
"""Strategies on the first view."""
_EDGES = MOST - 1
"""Edges around a node; each can bring one more node."""


def overview(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the counts and what works best."""
    stats = memory.stats().model_dump(mode="json")
    shown = memory.strategies(task_type=given.get("task_type"), limit=FIRST)
    return {
        "stats": stats,
        "strategies": [row.model_dump(mode="json") for row in shown],
    }


def agents(memory: Memory, given: Given) -> dict[str, Any]:  # noqa: ARG001 - as all have it
    """Return the agents; all episodes are counted for that, so the first view does not wait."""
    return {"agents": [row["agent"] for row in memory.query("analysis.agents")]}


def recall(memory: Memory, given: Given) -> dict[str, Any]:
    """Return what an agent gets when it asks for a task."""
    text = _needed(given, "text")
    return memory.recall(text, limit=10, agent=given.get("agent")).model_dump(mode="json")


def explain(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the evidence for a belief."""
    explained = memory.explain(
        _needed(given, "id"), agent=given.get("agent"), task=given.get("task")
    )
    expected = explained.expected
    because = [] if expected is None else [*expected.basis.lines]
    return {**explained.model_dump(mode="json"), "because": because}


def near(memory: Memory, given: Given) -> dict[str, Any]:
    """Return a node and what is around it, by at most ``limit`` edges, most trials first."""
    identity = _needed(given, "id")
    nodes = memory.query("neighbourhood.nodes", ids=[identity])
    if not nodes:
        raise NotFoundError(f"there is no node with the id {identity!r}")
    most = _number(given, "limit", _EDGES)
    found = memory.query("neighbourhood.edges", ids=[identity], limit=most + 1)
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
    found: dict[str, Sequence[BaseModel]] = {
        "heuristics": memory.lessons.heuristics(task_type, agent),
        "anti_patterns": memory.lessons.anti_patterns(task_type, agent),
        "rules": memory.lessons.rules(agent=agent),
        "mistakes": memory.lessons.mistakes(agent=agent),
    }
    return {
        name: {"count": len(rows), "rows": [row.model_dump(mode="json") for row in rows[:MOST]]}
        for name, rows in found.items()
    }


def policies(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the policies of a state, else the states with the highest values."""
    agent = given.get("agent")
    if state := given.get("state"):
        found = memory.policies.values(state, agent=agent)
    else:
        found = memory.policies.top(agent=agent, limit=MOST)
    return {"policies": [row.model_dump(mode="json") for row in found[:MOST]]}


def levels(memory: Memory, given: Given) -> dict[str, Any]:
    """Return the levels that an agent may read, and which pulls from which."""
    return memory.levels.map(given.get("agent")).model_dump(mode="json")


def course(memory: Memory, given: Given) -> dict[str, Any]:  # noqa: ARG001 - as all have it
    """Return how each agent did over time."""
    return {"parts": memory.query("course.parts")}


def calibrate(memory: Memory, given: Given) -> dict[str, Any]:
    """Return how well past outcomes were predicted."""
    by: Literal["order", "time"] = "time" if given.get("by") == "time" else "order"
    return memory.calibrate(by).model_dump(mode="json")


def verify(memory: Memory, given: Given) -> dict[str, Any]:  # noqa: ARG001
    """Derive every number again and compare."""
    report = memory.verify().model_dump(mode="json")
    count = len(report["differences"])
    return {**report, "differences": report["differences"][:MOST], "count": count}


def rebuild(memory: Memory, given: Given) -> dict[str, Any]:  # noqa: ARG001
    """Derive every number again, and store it."""
    return memory.upkeep.rebuild().model_dump(mode="json")


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


READS = {
    question.__name__: question
    for question in (overview, agents, recall, explain, near, lessons, policies, levels, course)
}
WORKS = {question.__name__: question for question in (calibrate, verify)}
"""Slow questions, which a button asks."""
WRITES = {rebuild.__name__: rebuild}
