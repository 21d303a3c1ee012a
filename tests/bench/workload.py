"""What the benchmarks learn: made up, the same in every run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from graphmem import Episode, Step

TASKS, STRATEGIES, TOOLS, AGENTS = 1_000, 97, 20, 5
ACTIONS, OUTCOMES_A_STATE = 4, 14


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
            steps=[
                Step(
                    action_type="query",
                    action={"tool": f"tool {place}", "row": number % 50},
                    observation="three rows of text, as a tool would print them",
                    reward=0.0,
                )
                for place in range(5)
            ],
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


Outcome = tuple[int, str, bool]
"""A state, an action and whether it worked."""


def outcomes(count: int) -> list[Outcome]:
    """Outcomes in the order of their states, nineteen of twenty successful."""
    chance = random.Random(7)
    return [(number // OUTCOMES_A_STATE, "act", chance.random() < 0.95) for number in range(count)]


def observation(outcome: Outcome) -> dict[str, Any]:
    """An outcome as ``policies.observe_many`` takes it."""
    state, action, success = outcome
    return {"state": features(state), "action": action, "success": success}
