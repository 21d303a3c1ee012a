"""SWE-agent trajectories: ``.traj`` files, one run each.

Mapping: the task is the problem statement, its key the name of the file (the instance); each action
is a step, named by its command. The way in which a run ended is not its outcome: the patch is
judged elsewhere, and the outcome joined.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.models import Step
from graphmem.seeding.chats import REPLY, arguments, cut_text, question, task_of
from graphmem.seeding.formats import Format, Origin, Record, Unsettled, read_record
from graphmem.seeding.reading import Values

ENDING = ".traj"
_COMMAND = re.compile(r"\s*([A-Za-z_.][\w./-]{0,99})")
_FOUND = re.compile(rb'"trajectory"\s*:\s*\[')
_LEFT_OUT = ("submission", "edited_files30", "edited_files50", "edited_files70")
_MAPPED = frozenset({"trajectory", "history", "info", "replay_config"})


def detect(head: bytes) -> bool:
    """Return whether it is an object with a trajectory of actions and observations."""
    if not head.lstrip().startswith(b"{") or b'"observation"' not in head:
        return False
    return _FOUND.search(head) is not None and b'"action"' in head and b'"thought"' in head


def logs(folder: Path) -> Sequence[Path] | None:
    """Return the trajectories in the folder of a run, which has one a folder, or all in itself."""
    inner = (child / f"{child.name}{ENDING}" for child in folder.iterdir() if child.is_dir())
    if any(folder.glob(f"*{ENDING}")) or any(path.is_file() for path in inner):
        return sorted(folder.rglob(f"*{ENDING}"))
    return None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the one run of a file."""
    values = Values(stream, origin.limits)
    yield read_record(1, "SWE-agent trajectory", values.value, partial(run, origin=origin))
    values.end()


def run(told: dict[str, Any], origin: Origin) -> Unsettled:
    """Return one run."""
    setup = arguments(told.get("replay_config"))
    setup = setup if isinstance(setup, dict) else {}
    history = [turn for turn in told.get("history") or () if not turn.get("is_demo")]
    instance = origin.stem.removesuffix(ENDING)
    info = told.get("info") or {}
    ended = info.get("exit_status")
    steps = tuple(map(_step, told["trajectory"]))
    run_name = _run_name(origin.path, instance)
    fields = {
        "task": task_of(_statement(setup) or question(history)) or instance,
        "task_key": instance,
        "agent": "swe-agent",
        "steps": steps,
        "error": None if not ended or str(ended).startswith("submitted") else str(ended),
        "source_key": "/".join(filter(None, ("swe-agent", run_name, instance))),
        "source": "swe-agent",
        "extra": {name: value for name, value in told.items() if name not in _MAPPED}
        | {"info": {name: value for name, value in info.items() if name not in _LEFT_OUT}},
    }
    return Unsettled(
        1,
        fields,
        names=[instance],
        model=_model(setup),
        record=setup | told,
    )


def _run_name(path: Path | None, instance: str) -> str:
    """Return the name of the folder of a run: of the file, or above that of its instance."""
    if path is None:
        return ""
    folder = path.absolute().parent
    return folder.parent.name if folder.name == instance else folder.name


def _statement(setup: Mapping[str, Any]) -> str | None:
    problem = setup.get("problem_statement")
    said = problem.get("text") if isinstance(problem, Mapping) else None
    return said if isinstance(said, str) else None


def _model(setup: Mapping[str, Any]) -> str | None:
    agent = setup.get("agent")
    model = agent.get("model") if isinstance(agent, Mapping) else None
    name = model.get("name", model.get("model_name")) if isinstance(model, Mapping) else None
    return name if isinstance(name, str) else None


def _step(turn: Mapping[str, Any]) -> Step:
    action = turn["action"]
    if not isinstance(action, str):
        raise ValidationError("action", action, "must be a text")
    match = _COMMAND.match(action)
    done = {"action": action.strip(), "thought": turn.get("thought")}
    return Step(
        action_type=match[1] if match else REPLY,
        action={name: value for name, value in done.items() if value},
        observation=cut_text(turn.get("observation")),
    )


FORMAT = Format("swe-agent", "SWE-agent trajectories: one run a .traj file", detect, read, logs)
