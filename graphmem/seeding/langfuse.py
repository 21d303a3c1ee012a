"""Traces of Langfuse with their scores: downloads and exports as JSON, JSON lines or CSV.

A record is a whole trace with ``observations`` and ``scores``, or a row: a trace (whose scores may
be columns), an observation, or a score. Rows belong together by ``trace_id``. Mapping: the task is
the input of the trace, else of its root; observations of the type ``TOOL`` are steps. The outcome
is a score on the whole trace, by its name. The level ``ERROR`` is no outcome.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import BOM, DamagedError, Limits, reason_of
from graphmem.seeding.traces import (
    AGENT,
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

_KINDS = {"AGENT": AGENT, "TOOL": TOOL, "GENERATION": MODEL}
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_KNOWN = frozenset(
    {
        *("id", "name", "timestamp", "input", "output", "observations", "scores", "created_at"),
        *("updated_at", "html_path", "project_id", "trace_id", "trace_name", "type", "level"),
        *("parent_observation_id", "start_time", "end_time", "status_message", "model_parameters"),
        *("provided_model_name", "model", "model_id", "bookmarked", "public", "comments"),
    }
)
_LISTS = ("tags", "comments", "observations", "scores", "input", "output", "metadata")
"""Columns of traces that may be lists, and are no scores."""
_MARKS = (
    (b"observations", b"scores", b"timestamp"),
    (b"trace_id", b"parent_observation_id"),
    (b"traceId", b"parentObservationId"),
    (b"trace_id", b"data_type", b"string_value"),
    (b"traceId", b"dataType", b"authorUserId"),
    (b"timestamp", b"sessionId", b"userId", b"bookmarked"),
    (b"timestamp", b"session_id", b"user_id", b"bookmarked"),
)
"""Names of fields that identify each kind of record."""


def detect(head: bytes) -> bool:
    """Return whether it holds traces, observations or scores of Langfuse."""
    text = head.removeprefix(BOM).lstrip()
    if text[:1] in (b"{", b"["):
        return any(all(b'"' + name + b'"' in text for name in names) for names in _MARKS)
    columns = {name.strip(b' "\r') for name in text.split(b"\n", 1)[0].split(b",")}
    return any(columns.issuperset(names) for names in _MARKS[1:])


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the traces of a file, each with the number of its first record."""
    head = peek_head(stream, "langfuse")
    is_json = head[:1] in (b"{", b"[")
    with Groups(origin.limits) as groups:
        found = (
            read_objects(stream, head, origin.limits, "data")
            if is_json
            else _rows(stream, origin.limits)
        )
        for number, record in found:
            if isinstance(record, ValidationError):
                yield Refused(number, record.field, str(record))
                continue
            row = {_snake(name): value for name, value in record.items() if value is not None}
            key = row.get("trace_id") or (None if "value" in row else row.get("id"))
            if isinstance(key, str):
                groups.add(key, number, row)
            else:
                yield Refused(number, "trace_id", "is missing: this is no part of a trace")
        for first, rows in groups:
            if isinstance(rows, ValidationError):
                yield Refused(first, rows.field, str(rows))
            else:
                yield make_record(first, "trace of Langfuse", rows, partial(episode, first))


def episode(number: int, rows: Sequence[Mapping[str, Any]]) -> Unsettled:
    """Return the episode of the records of a trace."""
    trace: dict[str, Any] = {}
    observations: dict[str, Mapping[str, Any]] = {}
    scores: list[Mapping[str, Any]] = []
    for row in rows:
        if "trace_id" not in row:
            trace |= row
            observations |= {one["id"]: one for one in _all(row.get("observations"))}
            scores += _all(row.get("scores"))
        elif "type" in row:
            observations[row["id"]] = row
        else:
            scores.append(row)
    key = trace.get("id") or rows[0]["trace_id"]
    spans = [_span(one) for one in observations.values()]
    if not trace and not spans:
        raise ValidationError("trace", key, "has scores, but is not in this file", "join the files")
    if not spans:
        spans = [Span(key, OTHER, trace.get("name") or "trace")]
    root = root_of(spans)
    spans[spans.index(root)] = replace(
        root,
        input=trace.get("input") or root.input,
        output=trace.get("output") or root.output,
        started_at=root.started_at or parse_time(trace.get("timestamp")),
    )
    outcomes, unclear = split_judgements(_judgements(trace, scores, root.id))
    context: Mapping[str, Any] = trace or observations[root.id]
    metadata = chats.arguments(context.get("metadata")) or {}
    known = {*_KNOWN, *outcomes, *unclear}
    beside = {name: value for name, value in context.items() if name not in known}
    beside |= {"metadata": metadata, "tags": chats.arguments(context.get("tags"))}
    return make_episode(
        number,
        "langfuse",
        Trace(
            key=key,
            spans=spans,
            outcomes=outcomes,
            unclear=unclear,
            fields={
                "task_type": trace.get("name") or context.get("trace_name") or None,
                "extra": drop_empty(beside),
            },
            record={**context, "metadata": metadata},
        ),
    )


def _span(row: Mapping[str, Any]) -> Span:
    message = row.get("status_message") or "error"
    return Span(
        id=row["id"],
        parent=row.get("parent_observation_id") or None,
        kind=_KINDS.get(str(row.get("type")), OTHER),
        name=row.get("name") or str(row.get("type")),
        input=chats.arguments(row.get("input")) or None,
        output=chats.arguments(row.get("output")) or None,
        error=message if row.get("level") == "ERROR" else None,
        started_at=parse_time(row.get("start_time")),
        ended_at=parse_time(row.get("end_time")),
        model=row.get("provided_model_name") or row.get("model") or None,
    )


def _judgements(
    trace: Mapping[str, Any], scores: Sequence[Mapping[str, Any]], root: str
) -> dict[str, Any]:
    """Return the scores of the whole trace, by name; the last one written of each name."""
    found = {name: value for name in trace if (value := _column(name, trace[name])) is not None}
    for score in sorted(scores, key=lambda one: str(one.get("timestamp") or "")):
        if score.get("observation_id") in (None, "", root):
            found[score["name"]] = _value(score)
    return {name: value for name, value in found.items() if value is not None}


def _value(score: Mapping[str, Any]) -> Any:
    kind = score.get("data_type")
    if kind in ("CATEGORICAL", "TEXT"):
        return score.get("string_value") or score.get("value")
    value = chats.arguments(score.get("value"))
    return bool(value) if kind == "BOOLEAN" and value in (0, 1) else value


def _column(name: str, value: Any) -> Any:
    """Return what a column of a table of traces says, if it is a score: a list of values."""
    if name in _LISTS:
        return None
    values = chats.arguments(value)
    if not isinstance(values, list) or not values:
        return None
    if all(isinstance(one, int | float) for one in values):
        return fmean(values)
    return values[0] if len(set(map(str, values))) == 1 else canonical_json(values)


def _rows(
    stream: BinaryIO, limits: Limits
) -> Iterator[tuple[int, dict[str, Any] | ValidationError]]:
    """Yield the rows of a CSV file by column, numbered from 1 behind the names.

    Raises:
        SeedingError: it is damaged, or a row is longer than a record may be.
    """
    csv.field_size_limit(max(csv.field_size_limit(), limits.text))
    table = csv.DictReader(_bounded(stream, limits), strict=True)
    try:
        for number, row in enumerate(table, 1):
            if None in row or None in row.values():
                yield (
                    number,
                    ValidationError("row", None, "has not as many cells as there are names"),
                )
            else:
                yield number, {name: cell for name, cell in row.items() if cell != ""}
    except (csv.Error, UnicodeDecodeError) as error:
        raise DamagedError(reason_of(error, "the table is cut off or damaged here: ")) from None


def _bounded(stream: BinaryIO, limits: Limits) -> Iterator[str]:
    """Yield lines; the lines of one cell must not be too long together."""
    held = 0
    quotes = 0
    first = True
    while line := stream.readline(limits.record + 1):
        held += len(line)
        if held > limits.record:
            raise SeedingError(f"a row {limits.too_long}")
        quotes += line.count(b'"')
        if quotes % 2 == 0:
            held = 0
        yield (line.removeprefix(BOM) if first else line).decode()
        first = False


def _all(given: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, with names as tables have them."""
    listed = chats.arguments(given)
    found = [one for one in listed or () if isinstance(one, Mapping)] if listed else []
    return [{_snake(name): value for name, value in one.items()} for one in found]


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda found: "_" + found[0], name).lower()


FORMAT = Format("langfuse", "Langfuse traces with their scores, as JSON or CSV", detect, read)
FORMATS = (FORMAT,)
