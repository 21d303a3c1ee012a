"""Logs of Gymnasium environments, as :class:`graphmem.integrations.gymnasium.Recorder` writes them.

JSON lines, one for each transition, in the order in which they happened. Mapping: the task is the
environment; an episode is a run from a reset to its end; each transition is a step with its state,
reward and next state, from which ``policies.learn_episodes`` learns values. The reward of the
episode is the return, the sum of the rewards. The outcome is the ``outcome`` in the last line of
the run, which was stated at the recording.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.models import MAX_STEPS, Step
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import BOM, Limits, parse_line, read_lines

MARK = "gymnasium"
"""The field that each line has; its value is the version of the form."""
VERSION = 1
_KNOWN = frozenset(
    {
        *(MARK, "env", "run", "step", "seed", "agent", "strategy", "at", "state", "action"),
        *("reward", "next_state", "terminated", "truncated", "outcome", "spec", "info"),
    }
)
Lines = list[dict[str, Any]]


def detect(head: bytes) -> bool:
    """Return whether the first line is a transition."""
    line = head.removeprefix(BOM).lstrip().split(b"\n", 1)[0]
    return line.startswith(b"{") and all(
        f'"{name}"'.encode() in line for name in (MARK, "env", "run", "next_state")
    )


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the runs, each with the number of its first line."""
    run: Lines = []
    start = size = 0
    for number, line in read_lines(stream, origin.limits):
        try:
            told = _transition(parse_line(line))
        except ValidationError as error:
            yield Refused(number, error.field, str(error))
            continue
        if run and run[0]["run"] != told["run"]:
            yield _record(start, run, size, origin.limits)
            run = []
        if not run:
            start, size = number, 0
        size += len(line) if isinstance(line, bytes) else 0
        if size <= origin.limits.record and len(run) <= MAX_STEPS:
            run.append(told)
        if told.get("terminated") or told.get("truncated"):
            yield _record(start, run, size, origin.limits)
            run = []
    if run:
        yield _record(start, run, size, origin.limits)


def _record(number: int, run: Lines, size: int, limits: Limits) -> Record:
    """Return the episode of the lines of a run, or why there is none."""
    excess = f"has over {MAX_STEPS:,} steps" if len(run) > MAX_STEPS else None
    if size > limits.record:
        excess = limits.too_long
    if excess is not None:
        return Refused(number, "run", f"run: {excess} (got {run[0]['run']!r:.80})")
    return make_record(number, "run", run, partial(episode, number))


def _transition(told: Any) -> dict[str, Any]:
    if not isinstance(told, dict) or not isinstance(told.get("run"), str):
        raise ValidationError("run", None, "is missing: this is no transition of a run")
    if told.get(MARK) != VERSION:
        raise ValidationError(MARK, told.get(MARK), f"must be {VERSION}", "update graphmem")
    return told


def episode(number: int, run: Lines) -> Unsettled:
    """Return the episode of a run from its transitions."""
    first, last = run[0], run[-1]
    for place, line in enumerate(run):
        if line["step"] != place:
            raise ValidationError("step", line["step"], f"must be {place}: a line is missing")
    if not last.get("terminated") and not last.get("truncated") and "outcome" not in last:
        raise ValidationError("run", first["run"], "has no end: it was cut off")
    unknown = {name: value for name, value in last.items() if name not in _KNOWN}
    extra = {"seed": first.get("seed"), "info": last.get("info"), **unknown}
    total = math.fsum(line["reward"] for line in run)
    outcome = last.get("outcome")
    return Unsettled(
        number,
        {
            "task": first["env"],
            "task_type": MARK,
            "agent": first.get("agent"),
            "reward": total,
            "steps": tuple(step(line) for line in run),
            "started_at": first.get("at"),
            "ended_at": last.get("at"),
            "source_key": first["run"],
            "source": MARK,
            "extra": {name: value for name, value in extra.items() if value is not None},
        },
        outcomes={} if outcome is None else {"recorder": checked(outcome)},
        strategy=first.get("strategy") or [],
        tools=[line["action"] for line in run],
        record=first,
    )


def step(line: Mapping[str, Any]) -> Step:
    """Return the step of a transition."""
    ends = bool(line.get("terminated"))
    return Step(
        action_type=line["action"],
        action=line.get("spec"),
        reward=line["reward"],
        state=line["state"],
        next_state=None if ends else line["next_state"],
        terminal=ends,
    )


def checked(value: Any) -> bool | float:
    """Return an outcome."""
    if isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value <= 1):
        return value
    raise ValidationError("outcome", value, "must be true, false, or a score in [0, 1]")


FORMAT = Format("gymnasium", "Gymnasium runs as the recorder of graphmem writes them", detect, read)
FORMATS = (FORMAT,)
