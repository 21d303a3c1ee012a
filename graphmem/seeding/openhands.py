"""OpenHands evaluations: ``output.jsonl``, one run of an instance a line.

Mapping: the task is the problem of the instance, its key the ``instance_id``; each action in the
``history`` is a step. The outcome is ``test_result.report.resolved``, if an evaluation wrote it;
else it is joined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.models import Step
from graphmem.seeding.chats import REPLY, cut_text, task_of, text_of
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, read_record
from graphmem.seeding.reading import read_lines

FILE = "output.jsonl"
_SAYS = frozenset({"message", "system", "recall", "agent_state_changed", "change_agent_state"})
"""Actions that are no tools."""
_MAPPED = frozenset({"instance_id", "instruction", "history", "error", "metadata", "instance"})
_CAUSES = ("cause", "action_id", "tool_call_id")
_UNSURE = ("error_eval", "test_timeout")


def detect(head: bytes) -> bool:
    """Return whether the first line is a run of an instance."""
    if not head.lstrip().startswith(b"{") or b'"instance_id"' not in head:
        return False
    return b'"test_result"' in head or (b'"metadata"' in head and b'"instruction"' in head)


def logs(folder: Path) -> list[Path] | None:
    """Return the output in the folder of an evaluation."""
    output = folder / FILE
    return [output] if output.is_file() and (folder / "metadata.json").is_file() else None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the runs of a file; blank lines are skipped."""
    for number, line in read_lines(stream, origin.limits):
        if isinstance(line, ValidationError):
            yield Refused(number, line.field, str(line))
        else:
            make = partial(run, origin=origin, number=number)
            yield read_record(number, "OpenHands run", partial(json.loads, line), make)


def run(told: dict[str, Any], origin: Origin, number: int) -> Unsettled:
    """Return one run."""
    setup = told.get("metadata") or {}
    instance = str(told["instance_id"])
    problem = (told.get("instance") or {}).get("problem_statement")
    steps, first = _steps(told.get("history") or ())
    asked = problem or told.get("instruction") or first
    result = told.get("test_result") or {}
    report = result.get("report") if isinstance(result, Mapping) else None
    report = report if isinstance(report, Mapping) else {}
    resolved = report.get("resolved")
    model = _model(setup)
    began = setup.get("start_time") or setup.get("eval_output_dir")
    kept = {name: value for name, value in told.items() if name not in _MAPPED}
    if isinstance(result, Mapping):
        kept["test_result"] = {name: one for name, one in result.items() if name != "git_patch"}
    run_name = ", ".join(str(part) for part in (model, began) if part) or origin.stem
    attempt = told.get("attempt", 1)
    fields = {
        "task": task_of(text_of(asked)) or instance,
        "task_key": instance,
        "task_type": setup.get("dataset"),
        "agent": setup.get("agent_class") or "openhands",
        "steps": tuple(steps),
        "error": cut_text(text_of(told.get("error"))),
        "source_key": f"openhands/{run_name}/{instance}" + (f"/{attempt}" if attempt != 1 else ""),
        "source": "openhands",
        "extra": {name: value for name, value in kept.items() if value},
    }
    unsure = any(report.get(name) for name in _UNSURE)
    return Unsettled(
        number,
        fields,
        outcomes={"report": resolved} if isinstance(resolved, bool) and not unsure else {},
        names=[instance],
        model=model,
        record=setup | told,
    )


def _model(setup: Mapping[str, Any]) -> str | None:
    config = setup.get("llm_config") or setup.get("llm") or {}
    name = config.get("model") if isinstance(config, Mapping) else None
    return name if isinstance(name, str) else None


def _steps(history: Any) -> tuple[list[Step], str | None]:
    """Return the steps of a history, and what the user said first.

    A history is a list of events, or of pairs of an action and its observation. An observation
    names the action that caused it, or follows it.
    """
    done: list[dict[str, Any]] = []
    by_id: dict[str, dict[str, Any]] = {}
    first = None
    for event in (one for item in history for one in (item if isinstance(item, list) else [item])):
        name = _name(event)
        if "observation" in event or event.get("kind") == "AgentErrorEvent":
            caused = [event[key] for key in _CAUSES if event.get(key) is not None]
            found = next((by_id[str(key)] for key in caused if str(key) in by_id), None)
            step = found or (done[-1] if done and not caused else None)
            if step is not None and "observation" not in step:
                step["observation"], failed = _observation(event)
                step["error"] = step["observation"] if failed else None
        elif event.get("source") == "user":
            first = first or _message_text(event)
        elif name and name not in _SAYS:
            done.append({"action_type": name, "action": event.get("args", event.get("action"))})
            known = [event[key] for key in ("id", "tool_call_id") if event.get(key) is not None]
            by_id |= dict.fromkeys(map(str, known), done[-1])
        elif (
            event.get("source") == "agent" and name == "message" and (said := _message_text(event))
        ):
            done.append({"action_type": REPLY, "action": said})
    return [Step(**step) for step in done], first


def _name(event: Mapping[str, Any]) -> str | None:
    """Return the tool that an event calls, or its other action; events have two forms."""
    if "kind" not in event:
        return event.get("action")
    return "message" if event["kind"] == "MessageEvent" else event.get("tool_name")


def _observation(event: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return an observation, and whether it is an error."""
    if "kind" not in event:
        return cut_text(text_of(event.get("content"))), event["observation"] == "error"
    seen = event.get("observation", event.get("error"))
    if not isinstance(seen, Mapping):
        return cut_text(text_of(seen)), "observation" not in event
    return cut_text(text_of(seen.get("content"))), bool(seen.get("is_error"))


def _message_text(event: Mapping[str, Any]) -> str | None:
    given, message = event.get("args"), event.get("llm_message")
    if isinstance(message, Mapping):
        return text_of(message.get("content"))
    return text_of(given.get("content") if isinstance(given, Mapping) else event.get("message"))


FORMAT = Format(
    "openhands", "OpenHands evaluations: output.jsonl, one run a line", detect, read, logs
)
