"""Logs of Gymnasium environments: transitions, which become runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphmem.errors import ValidationError
from graphmem.models.episodes import Step
from graphmem.seeding.formats import Origin, Unsettled
from graphmem.seeding.tables import TableReader

MARK = "gymnasium"
"""The field that each line has; its value is the version of the form."""
VERSION = 1
Lines = list[dict[str, Any]]


def check_transition(line: dict[str, Any]) -> dict[str, Any]:
    """Return a transition, if it is one of a run."""
    if not isinstance(line.get("run"), str):
        raise ValidationError("run", None, "is missing: this is no transition of a run")
    if line.get(MARK) != VERSION:
        raise ValidationError(MARK, line.get(MARK), f"must be {VERSION}", "update graphmem")
    return line


def join_run(lines: Lines, _: Origin | None = None) -> dict[str, Any]:
    """Return a run: what its first and its last line say, and all lines."""
    first, last = lines[0], lines[-1]
    if not last.get("terminated") and not last.get("truncated") and "outcome" not in last:
        raise ValidationError("run", first["run"], "has no end: it was cut off")
    known = {"strategy": first.get("strategy") or [], "began": first.get("at")}
    return {**first, **last, **known, "lines": lines}


def read_steps(run: Mapping[str, Any], names: dict[str, Any]) -> list[Step]:
    """Return the steps of a run; ``return`` is the sum of their rewards."""
    lines = run["lines"]
    for place, line in enumerate(lines):
        if line["step"] != place:
            raise ValidationError("step", line["step"], f"must be {place}: a line is missing")
    names["return"] = math.fsum(line["reward"] for line in lines)
    return list(map(step, lines))


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


def read_run(lines: Lines) -> Unsettled:
    """Return the episode of a run."""
    return READER.make(join_run(lines), {"number": 1, "found": set()})


READER = TableReader(MARK, prepare=check_transition, join=join_run, steps=read_steps)
FORMATS = (READER.make_format(),)
