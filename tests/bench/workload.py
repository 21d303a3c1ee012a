"""What the benchmarks learn: made up, the same in every run."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from graphmem import Episode, Step

TASKS, STRATEGIES, TOOLS, AGENTS = 1_000, 97, 20, 5
ACTIONS = 4


def steps(number: int, count: int) -> list[Step]:
    """Return the steps of an episode."""
    return [
        Step(
            action_type="query",
            action={"tool": f"tool {place}", "row": number % 50},
            observation="three rows of text, as a tool would print them",
            reward=0.0,
        )
        for place in range(count)
    ]


def episodes(start: int, stop: int, *, tag: str = "k") -> Iterator[Episode]:
    """Episodes with three strategies and five steps each."""
    for number in range(start, stop):
        yield Episode(
            task=f"task {number % TASKS}",
            strategy=[
                f"strategy {number % STRATEGIES}",
                f"tool {number % 13}",
                f"tool {13 + number % 7}",
            ],
            success=number % 3 != 0,
            agent=f"agent {number % AGENTS}",
            source_key=f"{tag}/{number}",
            steps=steps(number, 5),
        )


def single(number: int, tag: str) -> dict[str, object]:
    """The arguments of one call of ``learn``."""
    return {
        "task": f"task {number % TASKS}",
        "strategy": f"strategy {number % STRATEGIES}",
        "success": number % 3 != 0,
        "agent": f"agent {number % AGENTS}",
        "source_key": f"{tag}/{number}",
    }


BARE = (
    "MATCH (a:Agent {id: $agent}) MATCH (t:Task {id: $task}) MATCH (s:Strategy {id: $strategy}) "
    "CREATE (a)-[:RAN]->(:Episode {id: $id, ns: $ns, task: $task, success: $success, "
    "score: $score, reward: $score, source_key: $id, content_hash: $id, step_count: 0, "
    "use_count: 1, created_at: 0, recorded_at: 0, keyed: false, type: 'general'})"
    "-[:ATTEMPTED]->(t) "
    "SET t.episodes = t.episodes + 1, s.trials = s.trials + 1, "
    "s.successes = s.successes + $one RETURN s.trials AS trials"
)
"""What a loop without graphmem would send for an episode: itself, two edges and three counts."""


def bare(number: int, tag: str, ns: str) -> dict[str, object]:
    """The parameters of :data:`BARE` for the same episode."""
    call = single(number, tag)
    names = {name: f"{ns} {call[name]}" for name in ("agent", "task", "strategy")}
    success = bool(call["success"])
    score = float(success)
    key = f"{ns} {tag}/{number}"
    return {**names, "id": key, "ns": ns, "success": success, "score": score, "one": int(success)}


def bare_row(episode: Episode) -> dict[str, Any]:
    """What a bare loop needs to write the nodes and edges of an episode of :func:`episodes`."""
    key = str(episode.source_key)
    return {
        "id": key,
        "agent": f"agent of {episode.agent}",
        "agent_name": episode.agent,
        "task": f"task of {episode.task}",
        "task_key": episode.task,
        "description": episode.task,
        "success": int(bool(episode.success)),
        "score": float(bool(episode.success)),
        "reward": float(bool(episode.success)),
        "source_key": key,
        "content_hash": key,
        "step_count": len(episode.steps),
        "use_count": len(episode.strategy),
        "steps": [
            {
                "id": f"{key}/{place}",
                "index": place,
                "action_type": step.action_type,
                "action": json.dumps(step.action),
                "observation": step.observation,
                "reward": step.reward,
            }
            for place, step in enumerate(episode.steps)
        ],
        "uses": [
            {"strategy": f"strategy of {use.text}", "text": use.text, "rank": rank}
            | {"credit": use.credit, "applied": True}
            for rank, use in enumerate(episode.strategy)
        ],
    }


def nodes(ns: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Statements that create what :data:`BARE` looks for, and their parameters."""
    for label, name, count in (("Agent", "agent", AGENTS), ("Task", "task", TASKS)):
        text = f"UNWIND $ids AS id CREATE (:{label} {{id: id, ns: $ns, episodes: 0}})"
        yield text, {"ids": [f"{ns} {name} {number}" for number in range(count)], "ns": ns}
    text = "UNWIND $ids AS id CREATE (:Strategy {id: id, ns: $ns, trials: 0, successes: 0})"
    yield text, {"ids": [f"{ns} strategy {number}" for number in range(STRATEGIES)], "ns": ns}


Move = tuple[int, int, int, float]
"""What an agent did: state, action, next state, reward; the first three are numbers."""


def features(state: int) -> dict[str, object]:
    """The features of a state."""
    return {"row": state}


def moves(count: int, states: int, seed: int) -> list[Move]:
    """Moves between states at random."""
    chance = random.Random(seed)
    return [
        (chance.randrange(states), chance.randrange(ACTIONS), chance.randrange(states), reward)
        for reward in (float(number % 3 - 1) for number in range(count))
    ]


def first_moves(policies: int) -> list[Move]:
    """One move for each policy, four policies in a state."""
    states = policies // ACTIONS
    return [
        (number // ACTIONS, number % ACTIONS, (number // ACTIONS + 1) % states, number % 7 / 7)
        for number in range(policies)
    ]


def transition(move: Move) -> dict[str, Any]:
    """A move as ``policies.update`` takes it."""
    state, action, after, reward = move
    return {
        "state": features(state),
        "action": f"act {action}",
        "reward": reward,
        "next_state": features(after),
    }


TYPES = {
    "debugging": "fix the crash in module",
    "coding": "write a parser in python for format",
    "sql_query": "query the database for report",
    "writing": "draft an email to customer",
    "data_analysis": "plot the sales data of region",
    "web_search": "search the web for product",
    "summarization": "summarise report",
    "testing": "test service",
}
ERRORS = (
    "timeout after {} ms",
    "file '/srv/jobs/{}' not found",
    "line {}: unexpected end of input",
    "connection to 10.0.0.{} refused",
)
