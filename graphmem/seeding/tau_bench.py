"""tau-bench result files: a JSON list of runs of a tool-calling agent with its chat.

Mapping: the task is the user's instruction, its key the ``task_id``; the file name
``<model>-<domain>`` gives agent and task type; the outcome is ``reward`` (1 is a success). The
first strategy is the sequence of writing tools; the others are the tools in order of first use.
Every tool call and every reply is a step. The gold actions and outputs of ``info.task`` and
``info.reward_info`` belong to the grading and are never read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import groupby, islice, takewhile, zip_longest
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.models import Episode, Step
from graphmem.seeding.formats import Format, Origin, Record, Refused
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
        try:
            yield number, episode(values.value(), origin)
        except ValidationError as error:
            yield Refused(number, error.field, str(error))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            yield Refused(number, "record", f"is not a tau-bench run: {error!r}")
    values.end()


def episode(run: dict[str, Any], origin: Origin) -> Episode:
    """Return the episode of one run."""
    match = _FILE.fullmatch(origin.stem)
    model, domain = (match["model"], match["domain"]) if match else (origin.stem, None)
    steps = list(_steps(run["traj"]))
    tools = [step.action_type for step in steps if step.action_type != "respond"]
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
    first = f"writes: {' > '.join(writing)}" if writing else "(none)"
    return [first, *dict.fromkeys(tools)]


def _steps(chat: list[dict[str, Any]]) -> Iterator[Step]:
    for at, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        # Answers follow their calls in order; their ids are not unique within a run.
        following = takewhile(lambda other: other["role"] == "tool", islice(chat, at + 1, None))
        for call, answer in zip_longest(message.get("tool_calls") or (), following):
            if call is None:
                break
            observation = answer.get("content") if answer else None
            failed = isinstance(observation, str) and observation.startswith("Error")
            yield Step(
                action_type=call["function"]["name"],
                action=_arguments(call["function"].get("arguments")),
                observation=observation,
                error=observation if failed else None,
            )
        if message.get("content") and not message.get("tool_calls"):
            reply = chat[at + 1] if at + 1 < len(chat) else {}
            said = reply.get("content") if reply.get("role") == "user" else None
            yield Step(action_type="respond", action=message["content"], observation=said)


def _arguments(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


FORMAT = Format("tau-bench", "tau-bench results: a JSON list of tool-calling runs", detect, read)
