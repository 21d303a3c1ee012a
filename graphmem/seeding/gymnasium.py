"""Logs of Gymnasium environments: transitions, which become runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.models import MAX_STEPS, Step
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import Limits, parse_line, read_lines
from graphmem.seeding.schema import Table

MARK = "gymnasium"
"""The field that each line has; its value is the version of the form."""
VERSION = 1
TABLE = Table.load("gymnasium")
Lines = list[dict[str, Any]]


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the runs, each with the number of its first line."""
    run: Lines = []
    start = size = 0
    for number, line in read_lines(stream, origin.limits):
        try:
            transition = _transition(parse_line(line))
        except ValidationError as error:
            yield Refused(number, error.field, str(error))
            continue
        if run and run[0]["run"] != transition["run"]:
            yield _record(start, run, size, origin.limits)
            run = []
        if not run:
            start, size = number, 0
        size += len(line) if isinstance(line, bytes) else 0
        if size <= origin.limits.record and len(run) <= MAX_STEPS:
            run.append(transition)
        if transition.get("terminated") or transition.get("truncated"):
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


def _transition(transition: Any) -> dict[str, Any]:
    if not isinstance(transition, dict) or not isinstance(transition.get("run"), str):
        raise ValidationError("run", None, "is missing: this is no transition of a run")
    if transition.get(MARK) != VERSION:
        raise ValidationError(MARK, transition.get(MARK), f"must be {VERSION}", "update graphmem")
    return transition


def episode(number: int, run: Lines) -> Unsettled:
    """Return the episode of a run from its transitions."""
    first, last = run[0], run[-1]
    for place, line in enumerate(run):
        if line["step"] != place:
            raise ValidationError("step", line["step"], f"must be {place}: a line is missing")
    if not last.get("terminated") and not last.get("truncated") and "outcome" not in last:
        raise ValidationError("run", first["run"], "has no end: it was cut off")
    unknown = {name: value for name, value in last.items() if name not in TABLE.extra.drop}
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
        outcomes={} if outcome is None else {"recorder": _check_outcome(outcome)},
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


def _check_outcome(value: Any) -> bool | float:
    if isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value <= 1):
        return value
    raise ValidationError("outcome", value, "must be true, false, or a score in [0, 1]")


FORMATS = (Format(MARK, TABLE.doc, TABLE.marks.fit, read, mapping=TABLE.mapping),)
