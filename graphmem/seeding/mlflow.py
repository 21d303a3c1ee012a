"""Traces of MLflow with their assessments: one JSON object each, as ``Trace.to_json`` writes them.

Mapping: an episode is a trace; the task is the root's input; spans of the type ``TOOL`` are steps.
The outcome is a feedback on the whole trace, by its name; the latest of a name counts. An
expectation is the solution and is never read. The state ``ERROR`` of a trace is no outcome.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import BOM
from graphmem.seeding.traces import (
    AGENT,
    MODEL,
    OTHER,
    TOOL,
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

_KINDS = {"AGENT": AGENT, "TOOL": TOOL, "LLM": MODEL, "CHAT_MODEL": MODEL}
_KNOWN = frozenset(
    {
        *("trace_id", "request_id", "request_time", "timestamp_ms", "execution_time_ms"),
        *("execution_duration", "execution_duration_ms", "trace_metadata", "request_metadata"),
        *("tags", "assessments", "request_preview", "response_preview", "request", "response"),
        *("spans", "trace", "data", "info"),
    }
)
_MODELS = ("mlflow.llm.model", "mlflow.chat.model", "gen_ai.request.model", "llm.model_name")


def detect(head: bytes) -> bool:
    """Return whether it holds traces of MLflow."""
    text = head.removeprefix(BOM).lstrip()
    if b'"resourceSpans"' in text:  # spans of OpenTelemetry, which MLflow writes, too
        return False
    return text[:1] in (b"{", b"[") and (
        b'"mlflow.spanType' in text
        or b'"mlflow.traceRequestId' in text
        or (b'"mlflow.traceName"' in text and b'"info"' in text)
    )


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the traces of a file."""
    head = peek_head(stream, "mlflow")
    for number, record in read_objects(stream, head, origin.limits, "traces"):
        if isinstance(record, ValidationError):
            yield Refused(number, record.field, str(record))
        else:
            yield make_record(number, "trace of MLflow", record, partial(episode, number))


def episode(number: int, record: Mapping[str, Any]) -> Unsettled:
    """Return the episode of a trace."""
    whole = chats.arguments(record.get("trace"))  # a row of search_traces
    if isinstance(whole, Mapping):
        record = whole
    info: Mapping[str, Any] = record.get("info") or record
    data: Mapping[str, Any] = record.get("data") or record
    spans = [_span(span) for span in data["spans"]]
    root = root_of(spans)
    outcomes, unclear = split_judgements(_judgements(info.get("assessments") or (), root.id))
    told = info.get("trace_metadata") or info.get("request_metadata") or {}
    tags = info.get("tags") or {}
    key = info.get("trace_id") or info["request_id"]
    own = {
        name: value for name, value in {**told, **tags}.items() if not name.startswith("mlflow.")
    }
    beside = {name: value for name, value in info.items() if name not in _KNOWN}
    return make_episode(
        number,
        "mlflow",
        Trace(
            key=key,
            spans=spans,
            outcomes=outcomes,
            unclear=unclear,
            names=[info["client_request_id"]] if info.get("client_request_id") else (),
            fields={
                "task_type": tags.get("mlflow.traceName"),
                "extra": drop_empty({**beside, **own}),
            },
            record={**info, "metadata": told, "assessments": None},
        ),
    )


def _span(span: Mapping[str, Any]) -> Span:
    given = {name: chats.arguments(value) for name, value in (span["attributes"] or {}).items()}
    status = span.get("status") or span.get("status_code") or {}
    code = status.get("code") if isinstance(status, Mapping) else status
    return Span(
        id=span.get("span_id") or span["context"]["span_id"],
        parent=span.get("parent_span_id") or span.get("parent_id") or None,
        kind=_KINDS.get(str(given.get("mlflow.spanType")), OTHER),
        name=_name(span["name"], given.get("mlflow.spanFunctionName")),
        input=given.get("mlflow.spanInputs"),
        output=given.get("mlflow.spanOutputs"),
        error=_error(span, status) if str(code).endswith("ERROR") else None,
        started_at=parse_time(span.get("start_time_unix_nano", span.get("start_time"))),
        ended_at=parse_time(span.get("end_time_unix_nano", span.get("end_time"))),
        model=next((str(given[name]) for name in _MODELS if given.get(name)), None),
    )


def _name(name: str, function: Any) -> str:
    """Return the name of a span without the number that MLflow adds to equal ones."""
    numbered = isinstance(function, str) and re.fullmatch(re.escape(function) + r"_\d+", name)
    return str(function) if numbered else name


def _error(span: Mapping[str, Any], status: Any) -> str:
    """Return the error of a span."""
    for event in span.get("events") or ():
        message = (event.get("attributes") or {}).get("exception.message")
        if message:
            return str(message)
    told = status.get("message") if isinstance(status, Mapping) else span.get("status_message")
    return str(told or "error")


def _judgements(assessments: Any, root: str) -> dict[str, Any]:
    """Return the latest feedback of each name on the whole trace."""
    found: dict[str, tuple[str, Any]] = {}
    for one in assessments:
        feedback = one.get("feedback")
        if not feedback or one.get("error") or feedback.get("error") or one.get("valid") is False:
            continue
        if one.get("span_id") not in (None, "", root):
            continue
        name = one.get("assessment_name") or one["name"]
        at = str(one.get("last_update_time") or one.get("last_update_time_ms") or "")
        if name not in found or found[name][0] <= at:
            found[name] = at, feedback.get("value")
    return {name: value for name, (_, value) in found.items() if value is not None}


FORMAT = Format("mlflow", "MLflow traces with their feedback, as JSON", detect, read)
FORMATS = (FORMAT,)
