"""Recording runs of Gymnasium environments: what a log teaches is what was learned live."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from graphmem import Memory
from graphmem.errors import ValidationError
from graphmem.integrations.gymnasium import Recorder
from graphmem.integrations.outcomes import Run
from tests.contract.test_grid_worlds import make
from tests.seeding.test_seeding import seeded

MOVES = ["left", "down", "right", "up"]


class Tower(gymnasium.Env[Any, Any]):
    """Ends at once; its observations are of the space that it is given."""

    def __init__(self, space: Any, actions: Any = None, info: Any = None) -> None:
        self.observation_space = space
        self.action_space = actions or spaces.Discrete(2, start=5)
        self._info = info or {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Any]:
        return self.observation_space.sample(), 1.5, True, False, self._info


def wander(env: Any, runs: int, seed: int = 0) -> None:
    """Take random steps in so many runs."""
    chance = np.random.default_rng(seed)
    for number in range(runs):
        env.reset(seed=number)
        over = False
        while not over:
            _, _, ends, cut, _ = env.step(int(chance.integers(env.action_space.n)))
            over = ends or cut
    env.close()


def policies(memory: Memory) -> list[Any]:
    rows = memory.policies.list(limit=5_000)
    return sorted(
        (row.agent, row.state, row.action, row.q, row.trials, row.successes) for row in rows
    )


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def earned(run: Run) -> bool:
    return bool(run.metadata["return"] > -60)


@pytest.mark.parametrize(
    ("name", "outcome", "limit"),
    [("FrozenLake", "stated", 100), ("Taxi", earned, 20), ("CliffWalking", earned, 30)],
)
def test_a_log_teaches_what_was_learned_live(
    memory: Memory, tmp_path: Path, name: str, outcome: Any, limit: int
) -> None:
    log = tmp_path / "log.jsonl"
    with Memory.open("memory:") as live:
        world = gymnasium.wrappers.TimeLimit(make(name).env, limit)
        env = Recorder(world, log, memory=live, outcome=outcome, agent="ada", strategy="wander")
        wander(env, 12)
        report = seeded(memory, log)
        assert (report.created, report.refused) == (12, 0)
        assert memory.policies.learn_episodes().transitions == len(lines(log))

        assert policies(memory) == policies(live)
        assert any(row[3] for row in policies(live)) or name == "FrozenLake"
        assert memory.stats().successes == live.stats().successes
        assert [row.text for row in memory.strategies()] == ["wander"]
        assert seeded(live, log).skipped == 12  # they are the same episodes
        assert live.policies.learn_episodes().transitions == 0
        assert live.verify().ok
    assert memory.verify().ok


def test_what_is_not_judged_counts_nowhere(memory: Memory, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    env = Recorder(make("CliffWalking"), log, memory=memory)  # which has no threshold
    env.reset(seed=1)
    env.step(0)
    env.reset(seed=2)  # before the end of the run
    env.step(0)
    env.close()
    assert (memory.stats().abandoned, memory.stats().episodes) == (2, 0)
    report = seeded(memory, log)
    assert [item.reason.split(" (")[0] for item in report.refusals] == [
        "run: has no end: it was cut off"
    ] * 2
    [one, _] = lines(log)
    whole = [{**one, "truncated": True, "outcome": None, "run": "a"}]
    log.write_text("".join(json.dumps(line) + "\n" for line in whole))
    assert "is unknown" in seeded(memory, log).refusals[0].reason
    assert seeded(memory, log, outcomes={"a": True}).created == 1


def test_observations_become_states(tmp_path: Path) -> None:
    def stored(space: Any, state: Callable[[Any], Any] | None = None) -> Any:
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        env = Recorder(Tower(space, info={"is_success": True}), log, state=state)
        env.reset(seed=4)
        env.step(6)
        [line] = lines(log)
        assert (line["action"], line["outcome"], line["env"]) == ("6", True, "Tower")
        return line["state"]

    real = spaces.Box(-1, 1, (2,))
    parts = spaces.Dict({"at": spaces.Discrete(4), "bag": spaces.MultiBinary(2)})
    assert stored(spaces.Discrete(3))["state"] in range(3)
    assert len(stored(spaces.MultiDiscrete([2, 2]))["state"]) == 2
    assert isinstance(stored(spaces.Box(0, 9, (2,), np.int8))["state"][0], int)
    assert stored(parts)["at"] in range(4)
    rounded = stored(real, lambda seen: [round(float(one), 1) for one in seen])
    assert all(one * 10 == round(one * 10) for one in rounded["state"])
    side = stored(real, lambda seen: {"side": np.digitize(seen[0], [-0.5, 0.5])})
    assert side["side"] in range(3)


def test_what_cannot_be_a_state_or_an_action_is_said_at_once() -> None:
    real = spaces.Box(-1, 1, (2,))
    for space in (real, spaces.Dict({"x": spaces.Tuple([real])})):
        with pytest.raises(ValidationError, match=r"state: has real numbers.*rounds them"):
            Recorder(Tower(space))
    with pytest.raises(ValidationError, match="actions: has no names"):
        Recorder(Tower(spaces.Discrete(2), actions=real))
    with pytest.raises(ValidationError, match="actions: must be 2 names"):
        Recorder(Tower(spaces.Discrete(2)), actions=MOVES)
    env = Recorder(Tower(spaces.Discrete(2), actions=real), actions=lambda a: str(a[0] > 0))
    env.reset(seed=1)
    env.step(np.array([0.5, 0.0]))


def test_what_goes_wrong_does_not_stop_the_agent(
    unstored: Memory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def secret(_: Run) -> bool:
        raise KeyError("secret")

    space = spaces.Discrete(2)
    unstored.close()
    for outcome in (secret, lambda _: True, lambda _: 7):
        env = Recorder(Tower(space), tmp_path / "log", memory=unstored, outcome=outcome)
        env.reset()
        assert env.step(5)[1] == 1.5
    env = Recorder(Tower(space), memory=unstored, outcome=secret, strict=True)
    env.reset()
    with pytest.raises(KeyError):
        env.step(5)
    assert [line["outcome"] for line in lines(tmp_path / "log")] == [None, True, None]
    assert caplog.text.count("the run was not learned") == 3  # the memory is closed
    assert caplog.text.count("the outcome is not known") == 2
    assert "secret" not in caplog.text
