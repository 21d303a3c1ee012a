"""tau-bench result files: a JSON list of runs of a tool-calling agent with its chat.

Mapping: the task is the user's instruction, its key the ``task_id``; the file name
``<model>-<domain>`` gives agent and task type; the outcome is ``reward`` (1 is a success). The
first strategy is the sequence of writing tools; the others are the tools in order of first use.
Every tool call and every reply is a step. The gold actions and outputs of ``info.task`` and
``info.reward_info`` belong to the grading and are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO

from graphmem.models import Episode
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, read_record
from graphmem.seeding.reading import Values

WRITING = ("book_", "cancel_", "update_", "send_", "transfer_")
_FILE = re.compile(r"(?P<model>.+)-(?P<domain>airline|retail)")
_KNOWN = frozenset({"task_id", "trial", "reward", "traj", "info"})


def detect(head: bytes) -> bool:
    """Return whether it is a list of runs with a ``traj``."""
    return head.lstrip().startswith(b"[") and b'"task_id"' in head and b'"traj"' in head


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the runs of a file."""
    values = Values(stream, origin.limits)
    for number in values.items():
        yield read_record(number, "tau-bench run", values.value, partial(episode, origin=origin))
    values.end()


def episode(run: dict[str, Any], origin: Origin) -> Episode:
    """Return the episode of one run."""
    match = _FILE.fullmatch(origin.stem)
    model, domain = (match["model"], match["domain"]) if match else (origin.stem, None)
    steps = list(chats.steps(run["traj"], is_error=_is_error))
    tools = chats.tools(steps)
    info = run.get("info") or {}
    task = info.get("task") or {}
    reward = float(run["reward"])
    told = {
        "trial": run.get("trial"),
        "user_id": task.get("user_id"),
        "user_cost": info.get("user_cost"),
    }
    unknown = {name: value for name, value in run.items() if name not in _KNOWN}
    extra = unknown | {name: value for name, value in told.items() if value is not None}
    return Episode(
        task=task.get("instruction") or f"task {run['task_id']}",
        task_key=str(run["task_id"]),
        task_type=domain,
        agent=origin.agent or model,
        strategy=strategies(tools),
        success=reward >= 1 - 1e-6,
        reward=reward,
        steps=tuple(steps),
        source_key=f"{origin.stem}/{run['task_id']}/{run.get('trial', 0)}",
        source="tau-bench",
        extra=extra,
    )


def strategies(tools: list[str]) -> list[str]:
    """Return the strategies of a run, from its tool calls in order.

    The prefix ``writes:`` distinguishes "exactly these writes in this order" from "this tool was
    used".
    """
    writing = [name for name, _ in groupby(tool for tool in tools if tool.startswith(WRITING))]
    first = f"writes: {' > '.join(writing)}" if writing else "writes: nothing"
    return [first, *dict.fromkeys(tools)]


def _is_error(observation: str) -> bool:
    return observation.startswith("Error")


FORMAT = Format("tau-bench", "tau-bench results: a JSON list of tool-calling runs", detect, read)
