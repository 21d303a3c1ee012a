"""TD learning in real environments: the same table as a plain learner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
import pytest

from graphmem import Episode, Memory, Step

Table = npt.NDArray[np.float64]
WORLDS = ("FrozenLake8x8", "CliffWalking")


def make(name: str) -> Any:
    """The newest registered version of an environment."""
    versions = [spec.version or 0 for spec in gymnasium.registry.values() if spec.name == name]
    return gymnasium.make(f"{name}-v{max(versions)}")


def wander(name: str, steps: int, seed: int) -> Iterator[tuple[int, int, float, int, bool]]:
    """What a random agent sees: state, action, reward, next state, and whether that ends it."""
    world = make(name)
    rng = np.random.default_rng(seed)
    state, _ = world.reset(seed=seed)
    for _ in range(steps):
        action = int(rng.integers(world.action_space.n))
        after, reward, terminated, truncated, _ = world.step(action)
        yield int(state), action, float(reward), int(after), bool(terminated)
        state = world.reset()[0] if terminated or truncated else after
    world.close()


def transition(
    seen: tuple[int, int, float, int, bool], actions: int, **more: Any
) -> dict[str, Any]:
    state, action, reward, after, ends = seen
    follows = {"terminal": True} if ends else {"next_state": at(after), "next_actions": actions}
    return {"state": at(state), "action": str(action), "reward": reward, **follows, **more}


def at(state: int) -> dict[str, Any]:
    return {"cell": state}


def held(memory: Memory, shape: tuple[int, int]) -> tuple[Table, set[tuple[int, int]]]:
    """The values in the graph as a table, and which of them are there at all."""
    values, known = np.zeros(shape), set()
    rows = memory.query(
        "MATCH (p:Policy)-[:IN_STATE]->(s:State) WHERE p.ns = $ns "
        "RETURN s.features AS features, p.action_type AS action, p.q AS q"
    )
    for row in rows:
        place = int(row["features"].split(":")[1].strip(" }")), int(row["action"])
        values[place] = row["q"]
        known.add(place)
    return values, known


@pytest.mark.parametrize("name", WORLDS)
def test_the_values_are_those_of_a_plain_q_learner(memory: Memory, engine: str, name: str) -> None:
    world = make(name)
    shape = (int(world.observation_space.n), int(world.action_space.n))
    alpha, gamma = 0.1, 0.95
    steps = 3_000 if engine == "embedded" else 1_000
    seen = list(wander(name, steps, seed=11))
    if name == "FrozenLake8x8":  # a random agent seldom meets the only reward there is
        seen = [(s, a, r + (0.01 * s if ends else -0.001), s2, ends) for s, a, r, s2, ends in seen]

    plain = np.zeros(shape)
    for state, action, reward, after, ends in seen:
        best = 0.0 if ends else plain[after].max()
        plain[state, action] += alpha * (reward + gamma * best - plain[state, action])

    memory.policies.update_many(
        (transition(one, shape[1], alpha=alpha, gamma=gamma) for one in seen), batch_size=300
    )
    values, known = held(memory, shape)
    assert np.abs(values - plain).max() < 1e-9
    assert known == {(state, action) for state, action, *_ in seen}
    assert np.count_nonzero(plain) > 50

    rebuilt = memory.upkeep.rebuild()
    assert rebuilt.policies == len(known)
    assert (held(memory, shape)[0] == values).all()
    report = memory.verify()
    assert report.ok, report.differences


def test_episodes_of_steps_teach_what_the_steps_themselves_do(memory: Memory) -> None:
    """However many episodes go into a transaction, they are learned in the order given."""
    seen = list(wander("CliffWalking", 150, seed=2))
    walks = [seen[start : start + 12] for start in range(0, len(seen), 12)]
    for size in (1, 7, 500):
        memory.learn_many(
            (
                Episode(
                    task="walk",
                    strategy=["wander"],
                    success=False,
                    agent=f"in batches of {size}",
                    source_key=f"{size}/{number}",
                    steps=[
                        Step(
                            action_type=str(action),
                            state=at(state),
                            reward=reward,
                            next_state=None if ends else at(after),
                            terminal=ends,
                        )
                        for state, action, reward, after, ends in walk
                    ],
                )
                for number, walk in enumerate(walks)
            ),
            batch_size=size,
        )
    assert memory.policies.learn_episodes().transitions == 3 * len(seen)
    memory.policies.update_many(
        transition(one, 1, agent="step by step") for one in seen
    )  # one action: those never tried do not count, as in episodes, which do not name them

    def values(agent: str) -> dict[tuple[str, str], float]:
        rows = memory.policies.list(agent=agent, limit=500)
        return {(row.state, row.action): row.q for row in rows}

    expected = values("step by step")
    assert len(expected) > 30
    for size in (1, 7, 500):
        assert values(f"in batches of {size}") == expected
    assert memory.verify().ok
