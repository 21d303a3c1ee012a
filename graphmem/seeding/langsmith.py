"""Runs of LangSmith with their feedback: JSON objects, as ``client.list_runs`` returns them.

Mapping: the runs of one ``trace_id`` are an episode; its task is the input of the root, and runs of
the type ``tool`` are steps. The outcome is the feedback on the root, by its key: in a list
``feedback``, in ``feedback_stats`` (the mean), or in objects of feedback among the runs. An error
of a run is no outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import BOM
from graphmem.seeding.traces import (
    MODEL,
    OTHER,
    TOOL,
    Groups,
    Span,
    Trace,
    drop_empty,
    make_episode,
    parse_time,
    peek_head,
    read_objects,
    root_of,
    split_judgements,
)

_KINDS = {"tool": TOOL, "llm": MODEL}
_KNOWN = frozenset(
    {
        *("id", "name", "run_type", "inputs", "outputs", "start_time", "end_time", "trace_id"),
        *("dotted_order", "parent_run_id", "parent_run_ids", "child_runs", "child_run_ids"),
        *("direct_child_run_ids", "feedback_stats", "feedback", "events", "serialized", "extra"),
        *("error", "attachments", "inputs_preview", "outputs_preview", "manifest_id", "app_path"),
    }
)


def detect(head: bytes) -> bool:
    """Return whether it holds runs of LangSmith."""
    text = head.removeprefix(BOM).lstrip()
    return text[:1] in (b"{", b"[") and all(
        f'"{name}"'.encode() in text for name in ("run_type", "inputs", "start_time")
    )


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the traces of a file, each with the number of its first run."""
    head = peek_head(stream, "langsmith")
    with Groups(origin.limits) as groups:
        for number, record in read_objects(stream, head, origin.limits, "runs"):
            if isinstance(record, ValidationError):
                yield Refused(number, record.field, str(record))
                continue
            trace = record.get("trace_id") or record.get("run_id") or record.get("id")
            if isinstance(trace, str):
                groups.add(trace, number, record)
            else:
                yield Refused(number, "trace_id", "is missing: this is no run")
        for first, found in groups:
            if isinstance(found, ValidationError):
                yield Refused(first, found.field, str(found))
            else:
                yield make_record(first, "trace of LangSmith", found, partial(episode, first))


def episode(number: int, found: Sequence[Mapping[str, Any]]) -> Unsettled:
    """Return the episode of the runs of a trace, and of feedback among them."""
    runs = {run["id"]: run for one in found if "run_type" in one for run in _flat(one)}
    spans = [_span(run) for run in runs.values()]
    if not spans:
        raise ValidationError("run_type", None, "is missing: there is feedback, but no run")
    root = runs[root_of(spans).id]
    if root.get("parent_run_id"):
        raise ValidationError("parent_run_id", root["parent_run_id"], "is no run in this file")
    outcomes, unclear = split_judgements(
        _feedback(root, [one for one in found if "run_type" not in one])
    )
    metadata = (root.get("extra") or {}).get("metadata") or {}
    beside = {name: value for name, value in root.items() if name not in _KNOWN}
    return make_episode(
        number,
        "langsmith",
        Trace(
            key=root.get("trace_id") or root["id"],
            spans=spans,
            outcomes=outcomes,
            unclear=unclear,
            names=[root["reference_example_id"]] if root.get("reference_example_id") else (),
            fields={
                "task_type": root.get("session_name"),
                "extra": drop_empty({**beside, "metadata": metadata}),
            },
            record={**root, "metadata": metadata},
        ),
    )


def _flat(run: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a run and those within it."""
    waiting = [run]
    while waiting:
        run = waiting.pop()
        yield run
        waiting += reversed(run.get("child_runs") or [])


def _span(run: Mapping[str, Any]) -> Span:
    metadata = (run.get("extra") or {}).get("metadata") or {}
    kind = _KINDS.get(run["run_type"], OTHER)
    given = run.get("inputs")
    return Span(
        id=run["id"],
        parent=run.get("parent_run_id"),
        kind=kind,
        name=run["name"],
        input=_only(given, "input") if kind == TOOL else given,
        output=_only(run.get("outputs"), "output"),
        error=run.get("error"),
        started_at=parse_time(run.get("start_time")),
        ended_at=parse_time(run.get("end_time")),
        model=metadata.get("ls_model_name") if kind == MODEL else None,
    )


def _only(given: Any, name: str) -> Any:
    """Return the only member of an object, if it stands for all of it."""
    held = given[name] if isinstance(given, Mapping) and given.keys() == {name} else given
    if isinstance(held, Mapping) and "content" in held and ("type" in held or "role" in held):
        return held["content"]  # a message of LangChain
    return held


def _feedback(root: Mapping[str, Any], beside: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the feedback on the root, by key."""
    judgements: dict[str, Any] = {}
    for key, stats in (root.get("feedback_stats") or {}).items():
        values = stats.get("values") or {}
        mean = stats.get("avg")
        judgements[key] = next(iter(values)) if mean is None and len(values) == 1 else mean
    for one in [*(root.get("feedback") or ()), *beside]:
        if one.get("run_id") in (None, root["id"]):
            score = one.get("score")
            judgements[one["key"]] = one.get("value") if score is None else score
    return {key: value for key, value in judgements.items() if value is not None}


FORMAT = Format("langsmith", "LangSmith runs with their feedback, as JSON", detect, read)
FORMATS = (FORMAT,)
