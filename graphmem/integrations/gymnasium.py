"""Records what an agent does in a Gymnasium environment: to a log, into a memory, or both."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from graphmem.async_memory import AsyncMemory
from graphmem.errors import ValidationError
from graphmem.graph.arguments import check_flag
from graphmem.integrations import extra
from graphmem.integrations.outcomes import Outcome, Run, judge_of
from graphmem.integrations.runs import going_on, memory_of
from graphmem.memory import Memory
from graphmem.models.episodes import Episode
from graphmem.models.fields import MAX_STEPS
from graphmem.seeding.benchmarks import GYM, GYM_VERSION, Lines, make_run_step, read_run

with extra("gymnasium"):
    import gymnasium
    from gymnasium import spaces

STATE = "state"  # the feature of a state that is one value


class Recorder(gymnasium.Wrapper):
    """An environment whose runs are recorded; the agent stays as it is.

    At the end of a run its transitions become one episode, and values of actions are learned.

    Attributes:
        actions: the names of the actions, if the environment has a number of them.
        state: the latest state, as a policy has it.

    Args:
        env: the environment.
        log: a file to which transitions are added, as JSON lines; ``graphmem seed`` learns it.
        memory: a memory that learns each run at its end, and the values of its actions.
        outcome: whether a run was a success: a function of the run, whose ``metadata`` has the
            ``return``, ``terminated``, ``truncated`` and ``info``; or its name.
            ``stated``: what the environment says, by ``is_success`` or ``success`` in its
            information, else by its ``reward_threshold``. None: runs are recorded, not counted; so
            are runs whose outcome is unknown.
        agent: the agent of the runs.
        strategy: what the agent does, in words.
        state: takes an observation and returns the part that counts: a mapping, or one value. If
            observations are real numbers, it must round them, or put them into bins.
        actions: names of the actions, or a function that returns the name of one.
        strict: raise errors of the recording; else they are logged as warnings, without contents,
            and the agent goes on.

    Raises:
        ValidationError: an argument is wrong, or states or actions of this environment need a
            function.
        NotFoundError: no function of that name can be imported.
        OSError: the log cannot be written.
    """

    def __init__(
        self,
        env: Any,
        log: str | os.PathLike[str] | None = None,
        *,
        memory: Memory | AsyncMemory | None = None,
        outcome: Outcome = "stated",
        agent: str = "default",
        strategy: str | Sequence[str] = (),
        state: Callable[[Any], Any] | None = None,
        actions: Sequence[str] | Callable[[Any], str] | None = None,
        strict: bool = False,
    ) -> None:
        super().__init__(env)
        check_flag("strict", strict)
        known = Episode(task="-", strategy=strategy, success=True, agent=agent)
        self._file = None if log is None else Path(log)
        if self._file is not None:
            self._file.open("a").close()
        self._memory = None if memory is None else memory_of(memory)
        self._judge = judge_of(outcome)
        self._agent = known.agent
        self._strategy = [use.text for use in known.strategy]
        self._strict = strict
        self._state_of = state
        if state is None:
            _check_states(env.observation_space)
        self.actions = [] if callable(actions) else _names(env.action_space, actions)
        first = int(getattr(env.action_space, "start", 0))
        self._name = actions if callable(actions) else lambda at: self.actions[int(at) - first]
        self.state: dict[str, Any] = {}
        self._run: Lines = []
        self._about: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a run; record one that has not ended without an outcome."""
        self._end(None)
        seen, info = self.env.reset(seed=seed, options=options)
        about = {"agent": self._agent, "seed": seed, "strategy": self._strategy}
        self._about = {name: value for name, value in about.items() if value not in (None, [])}
        self.state = self._encode(seen)
        return seen, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step, and record it."""
        seen, reward, terminated, truncated, info = self.env.step(action)
        after = self._encode(seen)
        over = bool(terminated) or bool(truncated) or len(self._run) + 1 == MAX_STEPS
        self._run.append(
            {
                GYM: GYM_VERSION,
                "env": self.env.spec.id if self.env.spec else type(self.env.unwrapped).__name__,
                "run": self._run[0]["run"] if self._run else uuid4().hex,
                "step": len(self._run),
                "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
                **({} if self._run else self._about),
                "state": self.state,
                "action": self._name(action),
                "reward": float(reward),
                "next_state": after,
                "terminated": bool(terminated),
                "truncated": over and not terminated,
            }
        )
        self.state = after
        if over:
            self._end(info)
        return seen, reward, terminated, truncated, info

    def close(self) -> None:
        """Record a run that has not ended, and close the environment."""
        self._end(None)
        super().close()

    def _end(self, info: Mapping[str, Any] | None) -> None:
        """Record the run; ``info`` is that of its last step, None if it has not ended."""
        run, self._run = self._run, []
        if not run:
            return
        strict, outcome = self._strict, None
        if info is not None:
            with going_on("the outcome is not known", strict=strict):
                outcome = self._outcome(run, info)
            run[-1]["outcome"] = outcome
        if self._file is not None:
            lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in run)
            with (
                going_on("the run was not written", strict=strict),
                self._file.open("a", encoding="utf-8") as log,
            ):
                log.write(lines)
        if self._memory is not None:
            with going_on("the run was not learned", strict=strict):
                self._learn(self._memory, run, outcome)

    def _outcome(self, run: Lines, info: Mapping[str, Any]) -> bool | float | None:
        total, last = sum(line["reward"] for line in run), run[-1]
        ended = {name: last[name] for name in ("terminated", "truncated")}
        said = (bool(info[name]) for name in ("is_success", "success") if name in info)
        stated = next(said, None)
        threshold = self.env.spec.reward_threshold if self.env.spec else None
        if stated is None and threshold is not None:
            stated = bool(total >= threshold)
        return self._judge(
            Run(
                task=last["env"],
                steps=tuple(make_run_step(line) for line in run),
                agent=self._agent,
                stated=stated,
                metadata={"return": total, "info": info, "seed": self._about.get("seed"), **ended},
            )
        )

    def _learn(self, memory: Memory, run: Lines, outcome: bool | float | None) -> None:
        if outcome is None:
            task = run[0]["env"]
            with memory.attempt(task, agent=self._agent, task_type=GYM, source=GYM) as attempt:
                attempt.used(*self._strategy)
                for line in run:
                    attempt.step(**make_run_step(line).model_dump())
            return
        whole = read_run(run)
        known = {name: value for name, value in whole.fields.items() if value is not None}
        judged = {"success" if isinstance(outcome, bool) else "score": outcome}
        memory.learn_many([Episode(**known, **judged, strategy=whole.strategy)])
        memory.policies.learn_episodes(self._agent)

    def _encode(self, seen: Any) -> dict[str, Any]:
        value = _to_json(seen if self._state_of is None else self._state_of(seen))
        return value if isinstance(value, dict) else {STATE: value}


def _check_states(space: Any) -> None:
    inner = space.spaces if isinstance(space, spaces.Dict | spaces.Tuple) else ()
    for part in inner.values() if isinstance(inner, Mapping) else inner:
        _check_states(part)
    if isinstance(space, spaces.Box) and space.dtype.kind == "f":
        raise ValidationError(
            "state",
            str(space),
            "has real numbers, so that hardly any state is seen twice",
            "give a function that rounds them or puts them into bins",
        )


def _names(space: Any, names: Sequence[str] | None) -> list[str]:
    if not isinstance(space, spaces.Discrete):
        raise ValidationError(
            "actions", str(space), "has no names", "give a function that names an action"
        )
    names = [str(int(space.start) + at) for at in range(int(space.n))] if names is None else names
    if len(names) != space.n:
        raise ValidationError("actions", list(names), f"must be {space.n} names")
    return list(names)


def _to_json(value: Any) -> Any:
    """Return a value of numpy, or one that contains such values, as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _to_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(one) for one in value]
    if hasattr(value, "tolist"):
        return _to_json(value.tolist())
    return value + 0.0 if isinstance(value, float) else value  # 0.0 and -0.0 are one state
