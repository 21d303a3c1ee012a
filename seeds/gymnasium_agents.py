"""Let tabular agents learn in gymnasium's grid worlds and log a sample of their episodes.

Every agent learns action values while it acts; agents differ in how they explore and in the rule
by which they learn. The log holds a few episodes of each training run, early to late, as they were
played (exploration included), with every transition.
"""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import gymnasium
from log_writer import Episode, Log, main

SEEDS = [0, 1]
LOGGED_AT = (0.1, 0.4, 0.7, 1.0)
"""Which episodes of a training run are logged, as shares of its length."""
GAMMA = 0.99
MAX_STEPS = 100
"""One limit for all worlds: the registered ones go up to 200 or none, and logs must stay small."""


@dataclass(frozen=True)
class World:
    """An environment, what its numbers mean, and when an episode counts as a success."""

    key: str
    env_id: str
    task: str
    task_type: str
    actions: tuple[tuple[str, str], ...]
    """(action type, action) of each action number."""
    training: int
    alpha: float
    best_return: float
    """No return is higher: where optimistic values start."""
    scale: float
    """How far values of good and bad actions lie apart: sets temperature and bonus."""
    features: Callable[[int], dict[str, Any]]
    failure: Callable[[bool, list[float]], str | None]
    """(terminated, rewards) -> why the episode failed, or None for a success."""


def _moves(*names: str) -> tuple[tuple[str, str], ...]:
    return tuple(("move", name) for name in names)


def _cells(columns: int) -> Callable[[int], dict[str, Any]]:
    return lambda state: {"row": state // columns, "column": state % columns}


def _taxi_features(state: int) -> dict[str, Any]:
    # The four landmarks in the order of the environment's own numbering; 4 is "in the taxi".
    landmarks = ("red", "green", "yellow", "blue", "taxi")
    state, destination = divmod(state, 4)
    state, passenger = divmod(state, 5)
    row, column = divmod(state, 5)
    return {
        "row": row,
        "column": column,
        "passenger": landmarks[passenger],
        "destination": landmarks[destination],
    }


def _lake_failure(terminated: bool, rewards: list[float]) -> str | None:
    if not terminated:
        return f"step limit of {MAX_STEPS} reached before the goal"
    return None if rewards[-1] == 1 else "fell into a hole"


def _cliff_failure(terminated: bool, rewards: list[float]) -> str | None:
    # The environment sends a fallen walker back to the start; this task does not forgive it.
    if min(rewards) == -100:
        return "fell off the cliff"
    return None if terminated else f"step limit of {MAX_STEPS} reached before the goal"


def _taxi_failure(terminated: bool, _rewards: list[float]) -> str | None:
    return None if terminated else f"step limit of {MAX_STEPS} reached before the passenger arrived"


LAKE_ACTIONS = _moves("left", "down", "right", "up")
WORLDS = [
    World(
        "frozenlake-4x4", "FrozenLake-v1", "reach the goal on the slippery 4x4 frozen lake",
        "gridworld.frozen_lake", LAKE_ACTIONS, training=4000, alpha=0.1, best_return=1, scale=0.2,
        features=_cells(4), failure=_lake_failure,
    ),
    World(
        "frozenlake-8x8", "FrozenLake8x8-v1", "reach the goal on the slippery 8x8 frozen lake",
        "gridworld.frozen_lake", LAKE_ACTIONS, training=10000, alpha=0.1, best_return=1, scale=0.2,
        features=_cells(8), failure=_lake_failure,
    ),
    World(
        "taxi", "Taxi-v4", "pick up the passenger and deliver them to their destination by taxi",
        "gridworld.taxi",
        (*_moves("south", "north", "east", "west"), ("passenger", "pick up"),
         ("passenger", "drop off")),
        training=3000, alpha=0.3, best_return=20, scale=10,
        features=_taxi_features, failure=_taxi_failure,
    ),
    World(
        "cliffwalking", "CliffWalking-v1", "walk along the cliff to the goal without falling",
        "gridworld.cliff_walking", _moves("up", "right", "down", "left"),
        training=600, alpha=0.3, best_return=0, scale=10,
        features=_cells(12), failure=_cliff_failure,
    ),
]  # fmt: skip


@dataclass
class Values:
    """Action values and visits of one training run."""

    world: World
    start: float
    rng: random.Random
    progress: float = 0.0
    """Share of the training that is done."""
    q: dict[int, list[float]] = field(default_factory=dict)
    visits: dict[int, list[int]] = field(default_factory=dict)

    def of(self, state: int) -> list[float]:
        """Return the values of all actions in ``state``."""
        return self.q.setdefault(state, [self.start] * len(self.world.actions))

    def visited(self, state: int) -> list[int]:
        """Return how often each action was taken in ``state``."""
        return self.visits.setdefault(state, [0] * len(self.world.actions))

    def greedy(self, values: list[float]) -> int:
        """Return an action of highest value, ties at random."""
        top = max(values)
        return self.rng.choice([action for action, value in enumerate(values) if value == top])


Choose = Callable[[Values, int], int]
"""(values, state) -> action."""


def _random(values: Values, _state: int) -> int:
    return values.rng.randrange(len(values.world.actions))


def _epsilon(epsilon: Callable[[float], float]) -> Choose:
    def choose(values: Values, state: int) -> int:
        if values.rng.random() < epsilon(values.progress):
            return _random(values, state)
        return values.greedy(values.of(state))

    return choose


def _softmax(values: Values, state: int) -> int:
    q = values.of(state)
    top, temperature = max(q), 0.1 * values.world.scale
    weights = [math.exp((value - top) / temperature) for value in q]
    return values.rng.choices(range(len(q)), weights)[0]


def _ucb(values: Values, state: int) -> int:
    visits = values.visited(state)
    if 0 in visits:
        return values.greedy([-float(count) for count in visits])
    log_total, width = math.log(sum(visits)), 0.5 * values.world.scale
    bonus = [width * math.sqrt(log_total / count) for count in visits]
    return values.greedy([q + b for q, b in zip(values.of(state), bonus, strict=True)])


def _greedy(values: Values, state: int) -> int:
    return values.greedy(values.of(state))


@dataclass(frozen=True)
class Exploration:
    """A way to explore: its name, its text, how it chooses, and whether values start high."""

    key: str
    text: str
    choose: Choose
    optimistic: bool = False
    learns: bool = True


EXPLORATIONS = [
    Exploration("random", "take a random action in every step", _random, learns=False),
    Exploration(
        "epsilon-fixed",
        "explore with epsilon-greedy, epsilon fixed at 0.1",
        _epsilon(lambda _progress: 0.1),
    ),
    Exploration(
        "epsilon-decaying",
        "explore with epsilon-greedy, epsilon decaying from 1 to 0.01 over the first 80 % of the "
        "training",
        _epsilon(lambda progress: max(0.01, 1 - 0.99 * progress / 0.8)),
    ),
    Exploration(
        "softmax",
        "draw actions by softmax over their values, temperature fixed to suit the reward scale",
        _softmax,
    ),
    Exploration(
        "ucb",
        "add an upper-confidence bonus to the values of actions that were rarely tried (UCB1)",
        _ucb,
    ),
    Exploration(
        "optimistic",
        "act greedily from optimistic initial values, the best return that is possible",
        _greedy,
        optimistic=True,
    ),
]
RULES = {
    "q-learning": "learn with Q-learning: bootstrap from the best next action",
    "sarsa": "learn with SARSA: bootstrap from the next action actually taken",
}


def play(
    env: gymnasium.Env[Any, Any], values: Values, explore: Exploration, rule: str | None,
    seed: int | None,
) -> tuple[list[tuple[int, int, float, int, bool]], bool]:  # fmt: skip
    """Play one episode and learn from it; return its transitions and whether it terminated."""
    state, _ = env.reset(seed=seed)
    state = int(state)
    action = explore.choose(values, state)
    transitions = []
    while True:
        observed, reward, terminated, truncated, _ = env.step(action)
        after, reward = int(observed), float(reward)
        transitions.append((state, action, reward, after, terminated))
        values.visited(state)[action] += 1
        follow = explore.choose(values, after)
        if explore.learns:
            ahead = max(values.of(after)) if rule == "q-learning" else values.of(after)[follow]
            target = reward if terminated else reward + GAMMA * ahead
            q = values.of(state)
            q[action] += values.world.alpha * (target - q[action])
        if terminated or truncated:
            return transitions, terminated
        state, action = after, follow


def record(
    world: World, explore: Exploration, rule: str | None, seed: int, number: int,
    transitions: list[tuple[int, int, float, int, bool]], terminated: bool,
) -> Episode:  # fmt: skip
    """Return one episode as a line of the log."""
    # The state names its world: cell (0, 0) of one lake is not that of another.
    name = {"env": world.env_id}
    rewards = [reward for _, _, reward, _, _ in transitions]
    failure = world.failure(terminated, rewards)
    steps = [
        {
            "action_type": world.actions[action][0],
            "action": world.actions[action][1],
            "reward": reward,
            "state": name | world.features(state),
            "next_state": name | world.features(after),
            "terminal": terminal,
        }
        for state, action, reward, after, terminal in transitions
    ]
    key = [world.key, explore.key, *([rule] if rule else []), f"seed-{seed}", f"episode-{number}"]
    return {
        "task": world.task,
        "task_key": world.key,
        "task_type": world.task_type,
        "agent": "tabular learner",
        "strategy": [{"text": explore.text}] + ([{"text": RULES[rule]}] if rule else []),
        "success": failure is None,
        "reward": sum(rewards),
        "error": failure,
        "summary": f"{failure or 'succeeded'} after {len(steps)} steps, "
        f"in episode {number} of {world.training} of the training",
        "source_key": "/".join(["gymnasium", *key]),
        "source": "seeds/gymnasium_agents.py",
        "steps": steps,
        "extra": {
            "env_id": world.env_id,
            "max_episode_steps": MAX_STEPS,
            "seed": seed,
            "training_episode": number,
            "training_episodes": world.training,
            "alpha": world.alpha if rule else None,
            "gamma": GAMMA if rule else None,
        },
    }


def train(
    world: World, explore: Exploration, rule: str | None, seed: int, times: bool
) -> Iterator[Episode]:
    """Train one agent and yield the episodes that are logged."""
    env = gymnasium.make(world.env_id, max_episode_steps=MAX_STEPS, disable_env_checker=True)
    start = world.best_return if explore.optimistic else 0.0
    rng = random.Random(f"{world.key}/{explore.key}/{rule}/{seed}")
    values = Values(world, start, rng)
    recent: deque[bool] = deque(maxlen=100)
    logged = {round(share * world.training) for share in LOGGED_AT}
    for number in range(1, world.training + 1):
        began = datetime.now(UTC)
        # The environment is seeded once; later resets go on with its generator.
        values.progress = number / world.training
        first_seed = seed if number == 1 else None
        transitions, terminated = play(env, values, explore, rule, first_seed)
        rewards = [reward for _, _, reward, _, _ in transitions]
        recent.append(world.failure(terminated, rewards) is None)
        if number in logged:
            episode = record(world, explore, rule, seed, number, transitions, terminated)
            # One episode says little where the ice is slippery; this says what the agent can do.
            episode["extra"]["recent_success_rate"] = round(sum(recent) / len(recent), 4)
            if times:
                episode |= {
                    "started_at": began.isoformat(),
                    "ended_at": datetime.now(UTC).isoformat(),
                }
            yield episode
    env.close()


def episodes(times: bool) -> Iterator[Episode]:
    """Yield the log, world by world."""
    for world in WORLDS:
        for explore in EXPLORATIONS:
            for rule in RULES if explore.learns else [None]:
                for seed in SEEDS:
                    yield from train(world, explore, rule, seed, times)


if __name__ == "__main__":
    sys.exit(
        main(
            Log(
                file="logs/gridworlds.jsonl.gz",
                script="seeds/gymnasium_agents.py",
                seeds=SEEDS,
                environments=[world.env_id for world in WORLDS],
                versions={name: version(name) for name in ("gymnasium", "numpy")},
                episodes=episodes,
            )
        )
    )
