"""Harbor trials: ``result.json``, and beside it ``agent/trajectory.json`` in the form ATIF 1.

Mapping: the task is the first message of the user, else the name of the task; the rewards of the
verifier are the outcome, by name. Calls of tools are steps. A trajectory without a result has no
outcome of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.models import Step
from graphmem.seeding import places
from graphmem.seeding.chats import REPLY, cut_text, task_of, text_of
from graphmem.seeding.formats import (
    HEAD,
    Format,
    Origin,
    Record,
    Unsettled,
    parse_time,
    read_record,
)
from graphmem.seeding.reading import Values
from graphmem.seeding.sources import Source

RESULT, TRAJECTORY = "result.json", Path("agent", "trajectory.json")
PARTS = 100
"""Most files in which one trajectory goes on."""
_VERSION = re.compile(r"ATIF-v1\.\d+")
_ATIF = re.compile(rb'"schema_version"\s*:\s*"ATIF-v')
_MAPPED = frozenset(
    {
        *("id", "task_name", "task_id", "config", "agent_info", "verifier_result", "step_results"),
        *("exception_info", "started_at", "finished_at"),
        *("environment_setup", "agent_setup", "agent_execution", "verifier"),
    }
)
_TOLD = ("schema_version", "session_id", "final_metrics", "notes")


def detect(head: bytes) -> bool:
    """Return whether it is the result of a trial, or a trajectory."""
    if not head.lstrip().startswith(b"{"):
        return False
    if b'"n_total_trials"' in head:  # the result of a job, which sums up its trials
        return False
    return (b'"trial_name"' in head and b'"trial_uri"' in head) or bool(_ATIF.search(head))


def logs(folder: Path) -> Sequence[Path] | None:
    """Return the results of trials in the folder of a trial or of a job.

    For a trial without a result, return its trajectory.
    """
    if (own := _trial(folder)) is not None:
        return [own]
    folders = sorted(child for child in folder.iterdir() if child.is_dir())
    if not any(map(_trial, folders)):
        return None
    return [path for child in folders for path in logs(child) or ()]


def _trial(folder: Path) -> Path | None:
    for path in (folder / RESULT, folder / TRAJECTORY):
        if path.is_file():
            with path.open("rb") as file:
                return path if detect(file.read(HEAD)) else None
    return None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the one trial of a file."""
    values = Values(stream, origin.limits)
    yield read_record(1, "Harbor trial", values.value, partial(_make_record, origin=origin))
    values.end()


def _make_record(first: dict[str, Any], origin: Origin) -> Unsettled:
    if "schema_version" not in first:
        beside = origin.path.parent / TRAJECTORY if origin.path else None
        found = _file(beside, origin)
        return run(first, found and places.wrap_neighbour(first, found, TRAJECTORY.name), origin)
    above = origin.path.absolute().parent.parent / RESULT if origin.path else None
    result = _file(above, origin) if above and _trial(above.parent) == above else None
    return run(result or {}, first, origin)


def run(result: dict[str, Any], trajectory: dict[str, Any] | None, origin: Origin) -> Unsettled:
    """Return the trial of a result, of a trajectory, or of both."""
    told = {"agent": {}, "steps": []} if trajectory is None else trajectory
    version = told.get("schema_version", "ATIF-v1.0")
    if not _VERSION.fullmatch(version):
        raise ValidationError("schema_version", version, "is not read", "ATIF-v1.0 to 1.8 are")
    info = result.get("agent_info") or told["agent"]
    model = _model(info.get("model_info")) or told["agent"].get("model_name")
    turns = list(_turns(told, origin))
    name = result.get("task_name")
    known = result.get("trial_name") or told.get("session_id") or origin.stem
    asked = (text_of(turn.get("message")) for turn in turns if turn.get("source") == "user")
    task = task_of(next(filter(None, asked), None)) or name
    if not task:
        raise ValidationError("task", None, "is unknown: no user says anything")
    rewards = (result.get("verifier_result") or {}).get("rewards") or {}
    error = (result.get("exception_info") or {}).get("exception_type")
    kept = {key: value for key, value in result.items() if key not in _MAPPED}
    extra = {"model": model} | kept | {key: told.get(key) for key in _TOLD}
    fields: dict[str, Any] = {
        "task": task,
        "task_key": name,
        "agent": info.get("name"),
        "steps": None if trajectory is None else tuple(_steps(turns)),
        "error": error,
        "started_at": parse_time(result.get("started_at")),
        "ended_at": parse_time(result.get("finished_at")),
        "source_key": f"harbor/{result.get('id') or known}",
        "source": "harbor",
        "extra": {key: value for key, value in extra.items() if value is not None},
    }
    set_up = ", ".join(part for part in (info.get("name"), model) if part)
    return Unsettled(
        1,
        fields,
        outcomes={judge: reward for judge, reward in rewards.items() if reward is not None},
        names=[one for one in (known, name, told.get("session_id")) if isinstance(one, str)],
        strategy=[set_up] if trajectory is None and set_up else None,
        model=model,
        record=result or told,
    )


def _model(info: Mapping[str, Any] | None) -> str | None:
    if not info:
        return None
    return "/".join(part for part in (info.get("provider"), info["name"]) if part)


def _turns(told: dict[str, Any], origin: Origin) -> Iterator[Mapping[str, Any]]:
    """Yield the turns of a trajectory, without those that were copied from an earlier one."""
    for _ in range(PARTS):
        for turn in told["steps"]:
            if not turn.get("is_copied_context"):
                yield turn
        after = told.get("continued_trajectory_ref")
        if not after or origin.path is None:
            return
        folder = origin.path.parent
        beside = folder if origin.path.name != RESULT else folder / TRAJECTORY.parent
        more = _file(beside / Path(after).name, origin)
        if more is None:
            return
        told = more


def _steps(turns: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    for turn in turns:
        if turn["source"] != "agent":
            continue
        results = list((turn.get("observation") or {}).get("results") or ())
        calls = turn.get("tool_calls") or ()
        for at, call in enumerate(calls):
            own = [one for one in results if one.get("source_call_id") == call["tool_call_id"]]
            if not own and not any(one.get("source_call_id") for one in results):
                # Without ids: by order; the last call gets the rest.
                own = list(islice(results, at, None if at == len(calls) - 1 else at + 1))
            yield Step(
                action_type=call["function_name"],
                action=call.get("arguments"),
                observation=_observation(own),
            )
        message = text_of(turn.get("message"))
        if not calls and (message or results):
            yield Step(action_type=REPLY, action=message, observation=_observation(results))


def _observation(results: Sequence[Mapping[str, Any]]) -> str | None:
    seen = [said for one in results if (said := text_of(one.get("content"))) is not None]
    return cut_text("\n".join(seen)) if seen else None


def _file(path: Path | None, origin: Origin) -> dict[str, Any] | None:
    """Return the object in a file beside, if there is one.

    Raises:
        ValidationError: it cannot be read.
    """
    if path is None or not path.is_file():
        return None
    try:
        with Source(str(path)).open(origin.limits) as (_, stream):
            found = Values(stream, origin.limits).value()
    except SeedingError as error:
        raise ValidationError(path.name, None, f"cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ValidationError(path.name, found, "is no object")
    return found


FORMAT = Format(
    "harbor", "Harbor trials: result.json beside agent/trajectory.json (ATIF)", detect, read, logs
)
