"""terminal-bench results: a run's object with a list of results, or the object of one trial.

Mapping: the task is the instruction, its key the ``task_id``; the outcome is ``is_resolved``. The
file does not say what a trial did, so the strategy is the set-up: agent and model, from
``run_metadata.json`` in the folder of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import GraphMemError, ValidationError
from graphmem.seeding.chats import task_of
from graphmem.seeding.formats import (
    Format,
    Origin,
    Record,
    Unsettled,
    make_record,
    parse_time,
    read_record,
)
from graphmem.seeding.reading import Values
from graphmem.seeding.sources import Source

FILE, METADATA = "results.json", "run_metadata.json"
_ABOVE = 3
"""The metadata of a run may be in so many folders: that of a file, or those above it."""
_MAPPED = frozenset(
    {"id", "task_id", "instruction", "is_resolved", "agent_started_at", "agent_ended_at"}
)


def detect(head: bytes) -> bool:
    """Return whether it is an object with tasks that were resolved or not."""
    return head.lstrip().startswith(b"{") and b'"is_resolved"' in head and b'"task_id"' in head


def logs(folder: Path) -> Sequence[Path] | None:
    """Return the results in the folder of a run."""
    results = folder / FILE
    return [results] if results.is_file() and (folder / METADATA).is_file() else None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the trials of a file."""
    values = Values(stream, origin.limits)
    setup = metadata(origin)
    trial: dict[str, Any] = {}
    listed = False
    for name in values.members():
        if name == "results":
            listed = True
            for number in values.items():
                make = partial(run, origin=origin, setup=setup, number=number)
                yield read_record(number, "terminal-bench trial", values.value, make)
        elif listed:
            values.skip()
        else:
            try:
                trial[name] = values.value()
            except ValidationError:
                trial[name] = None
    values.end()
    if not listed:
        make = partial(run, origin=origin, setup=setup, number=1)
        yield make_record(1, "terminal-bench trial", trial, make)


def run(trial: dict[str, Any], origin: Origin, setup: dict[str, Any], number: int) -> Unsettled:
    """Return one trial."""
    agent, model = setup.get("agent_name"), setup.get("model_name")
    resolved, failure = trial.get("is_resolved"), trial.get("failure_mode")
    if resolved is not None and not isinstance(resolved, bool):
        raise ValidationError("is_resolved", resolved, "is neither true, false nor null")
    task = str(trial["task_id"])
    known = trial.get("id") or trial.get("trial_name") or f"{origin.stem}/{number}"
    fields = {
        "task": task_of(trial.get("instruction")) or task,
        "task_key": task,
        "task_type": setup.get("dataset_name"),
        "agent": agent,
        "error": None if failure in (None, "unset", "none") else str(failure),
        "started_at": parse_time(trial.get("agent_started_at")),
        "ended_at": parse_time(trial.get("agent_ended_at")),
        "source_key": f"terminal-bench/{known}",
        "source": "terminal-bench",
        "extra": {name: value for name, value in trial.items() if name not in _MAPPED},
    }
    names = [name for name in (trial.get("trial_name"), task) if isinstance(name, str)]
    set_up = ", ".join(part for part in (agent, model) if isinstance(part, str))
    return Unsettled(
        number,
        fields,
        outcomes={} if resolved is None else {"is_resolved": resolved},
        names=names,
        strategy=[set_up] if set_up else [],
        model=model,
        record=setup | trial,
    )


def metadata(origin: Origin) -> dict[str, Any]:
    """Return what is known of the run, if its metadata are there."""
    for folder in origin.path.absolute().parents[:_ABOVE] if origin.path else ():
        if not (path := folder / METADATA).is_file():
            continue
        try:
            with Source(str(path)).open(origin.limits) as (_, stream):
                found = Values(stream, origin.limits).value()
        except (GraphMemError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}
    return {}


FORMAT = Format(
    "terminal-bench", "terminal-bench results: trials that were resolved or not", detect, read, logs
)
