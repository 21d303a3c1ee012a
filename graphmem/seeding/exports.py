"""Exports of tracing tools: Langfuse, LangSmith and MLflow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, BinaryIO

from graphmem.errors import ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import chats
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import (
    peek_head,
    read_objects,
    read_rows,
)
from graphmem.seeding.tables import Fields, Table
from graphmem.seeding.traces import OTHER, Groups, Span, make_episode, parse_time, root_of

Row = Mapping[str, Any]
Parts = tuple[Row, Sequence[Row], Sequence[tuple[str | None, str, Any]]]
"""What a trace is said to be, its spans, and judgements: the span, who judged, what was said."""
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_LISTS = ("tags", "comments", "observations", "scores", "input", "output", "metadata")
"""Columns of traces of Langfuse that may be lists, and are no scores."""


@dataclass(frozen=True, slots=True)
class TraceReader:
    """Reads the traces of an export, whose records ``parts`` puts together."""

    name: str
    table: Table
    parts: Callable[[list[dict[str, Any]]], Parts]
    key: Callable[[Row], object] | None = None
    """The key of the trace that a record belongs to; None: each record is a trace."""
    prepare: Callable[[Row], dict[str, Any]] = dict

    def format(self) -> Format:
        """Return the format."""
        table = self.table
        return Format(self.name, table.doc, table.marks.fit, self.read, mapping=table.mapping)

    def read(self, stream: BinaryIO, origin: Origin) -> Iterator[Record]:
        """Yield the traces of a file, each with the number of its first record."""
        what, limits = self.table.record, origin.limits
        records = read_objects(stream, limits, self.table.records.at or "")
        if peek_head(stream)[:1] not in (b"{", b"["):
            records = read_rows(stream, limits)
        with Groups.open(limits) as groups:
            for number, read in records:
                try:
                    record = read()
                    if not isinstance(record, dict):
                        raise ValidationError("record", record, "must be an object")
                except ValidationError as error:
                    yield Refused(number, error.field, str(error))
                    continue
                record = self.prepare(record)
                if self.key is None:
                    yield make_record(number, what, [record], partial(self._make, number))
                elif isinstance(key := self.key(record), str):
                    groups.add("trace", key, number, record)
                else:
                    yield Refused(number, "trace_id", f"is missing: this is no part of a {what}")
            if self.key is None:
                return
            for number, found in groups.each("trace"):
                if isinstance(found, ValidationError):
                    yield Refused(number, found.field, str(found))
                else:
                    yield make_record(number, what, found, partial(self._make, number))

    def _make(self, number: int, found: list[dict[str, Any]]) -> Unsettled:
        said, rows, judged = self.parts(found)
        spans = list(map(self._span, rows))
        root = root_of(spans)
        if self.table.spans.whole and root.parent is not None:
            field = str(self.table.spans.fields["parent"])
            raise ValidationError(field, root.parent, "is no run in this file")
        row = rows[spans.index(root)]
        look = Fields(self.table, said or row, {"trace": said})
        known = look.values(self.table.spans.root)
        spans[spans.index(root)] = replace(
            root,
            input=known.get("input") or root.input,
            output=known.get("output") or root.output,
            started_at=root.started_at or parse_time(known.get("started_at")),
        )
        fields = {name: one for name, one in look.values(self.table.fields).items() if one}
        values = {name: one for about, name, one in judged if about in (None, "", root.id)}
        return make_episode(
            number,
            spans,
            {**fields, "source": self.name, "extra": look.extra()},
            {name: one for name, one in values.items() if one is not None},
            names=[name for name in map(look.value, self.table.names) if name],
            record=look.record,
        )

    def _span(self, row: Row) -> Span:
        spans = self.table.spans
        known = Fields(self.table, row, {}).values(spans.fields)
        known["kind"] = spans.kinds.get(str(known["kind"]), OTHER)
        for name in ("started_at", "ended_at"):
            known[name] = parse_time(known[name])
        return Span(**known)


def _mlflow(found: list[dict[str, Any]]) -> Parts:
    [record] = found
    whole = chats.arguments(record.get("trace"))
    if isinstance(whole, dict):  # of a row of search_traces
        record = whole
    info: Row = record.get("info") or record
    data: Row = record.get("data") or record
    metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
    beside = {**metadata, **(info.get("tags") or {})}
    own = {name: value for name, value in beside.items() if not name.startswith("mlflow.")}
    return (
        {**own, **info, "metadata": metadata, "assessments": None},
        list(map(_mlflow_span, data["spans"])),
        list(_mlflow_judgements(info.get("assessments") or ())),
    )


def _mlflow_span(span: Row) -> Row:
    given = {name: chats.arguments(value) for name, value in (span["attributes"] or {}).items()}
    name, function = span["name"], given.get("mlflow.spanFunctionName")
    if isinstance(function, str) and re.fullmatch(re.escape(function) + r"_\d+", name):
        name = function  # MLflow numbers equal ones
    status = span.get("status") or span.get("status_code") or {}
    code = status.get("code") if isinstance(status, Mapping) else status
    error = None
    if str(code).endswith("ERROR"):
        told = [(one.get("attributes") or {}) for one in span.get("events") or ()]
        texts = [one["exception.message"] for one in told if one.get("exception.message")]
        texts.append(
            status.get("message") if isinstance(status, Mapping) else span.get("status_message")
        )
        error = str(texts[0] or "error")
    return {**span, "attributes": given, "name": name, "error": error}


def _mlflow_judgements(assessments: Sequence[Row]) -> Iterator[tuple[str | None, str, Any]]:
    """Yield feedback, the latest last."""

    def at(one: Row) -> str:
        return str(one.get("last_update_time") or one.get("last_update_time_ms") or "")

    for one in sorted(assessments, key=at):
        feedback = one.get("feedback")
        if feedback and not (
            one.get("error") or feedback.get("error") or one.get("valid") is False
        ):
            name = one.get("assessment_name") or one["name"]
            yield one.get("span_id"), name, feedback.get("value")


def _langsmith(found: list[dict[str, Any]]) -> Parts:
    waiting = [one for one in found if "run_type" in one][::-1]
    if not waiting:
        raise ValidationError("run_type", None, "is missing: there is feedback, but no run")
    runs: dict[str, Row] = {}
    judged: list[tuple[str | None, str, Any]] = []
    while waiting:
        run = waiting.pop()
        waiting += list(run.get("child_runs") or ())[::-1]
        runs[run["id"]] = _langsmith_span(run)
        for key, stats in (run.get("feedback_stats") or {}).items():
            values, mean = stats.get("values") or {}, stats.get("avg")
            only = next(iter(values)) if mean is None and len(values) == 1 else mean
            judged.append((run["id"], key, only))
        own = run.get("feedback") or ()
        judged += [(one.get("run_id") or run["id"], *_feedback(one)) for one in own]
    judged += [(one.get("run_id"), *_feedback(one)) for one in found if "run_type" not in one]
    return {}, list(runs.values()), judged


def _feedback(one: Row) -> tuple[str, Any]:
    score = one.get("score")
    return one["key"], one.get("value") if score is None else score


def _langsmith_span(run: Row) -> Row:
    metadata = (run.get("extra") or {}).get("metadata") or {}
    tool, model = (run["run_type"] == kind for kind in ("tool", "llm"))
    return {
        **run,
        "metadata": metadata,
        "model": metadata.get("ls_model_name") if model else None,
        "inputs": _only(run.get("inputs"), "input") if tool else run.get("inputs"),
        "outputs": _only(run.get("outputs"), "output"),
    }


def _only(given: Any, name: str) -> Any:
    """Return the only member of an object, if it stands for all of it."""
    inner = given[name] if isinstance(given, Mapping) and given.keys() == {name} else given
    if isinstance(inner, Mapping) and "content" in inner and ("type" in inner or "role" in inner):
        return inner["content"]  # a message of LangChain
    return inner


def _langfuse(found: list[dict[str, Any]]) -> Parts:
    trace: dict[str, Any] = {}
    observations: dict[str, Row] = {}
    scores: list[Row] = []
    for row in found:
        if "trace_id" not in row:
            trace |= row
            observations |= {one["id"]: one for one in _objects(row.get("observations"))}
            scores += _objects(row.get("scores"))
        elif "type" in row:
            observations[row["id"]] = row
        else:
            scores.append(row)
    if not trace and not observations:
        key = found[0]["trace_id"]
        raise ValidationError("trace", key, "has scores, but is not in this file", "join the files")
    columns = {name: one for name in trace if (one := _column(name, trace[name])) is not None}
    judged: list[tuple[str | None, str, Any]] = [(None, *column) for column in columns.items()]
    scores.sort(key=lambda one: str(one.get("timestamp") or ""))
    judged += [(one.get("observation_id"), one["name"], _score(one)) for one in scores]
    spans = [
        {**one, "error": (one.get("status_message") or "error") if failed else None}
        for one in observations.values()
        for failed in (one.get("level") == "ERROR",)
    ] or [{"id": trace.get("id"), "name": trace.get("name") or "trace"}]
    return {k: v for k, v in trace.items() if k not in columns}, spans, judged


def _langfuse_row(record: Row) -> dict[str, Any]:
    """Return a row with names as tables have them, and the values of JSON in texts."""
    row = {
        _CAPITAL.sub(lambda found: "_" + found[0], name).lower(): value
        for name, value in record.items()
        if value is not None
    }
    return row | {name: chats.arguments(row[name]) or None for name in _LISTS if name in row}


def _objects(listed: Any) -> list[dict[str, Any]]:
    return [_langfuse_row(one) for one in listed or () if isinstance(one, Mapping)]


def _score(score: Row) -> Any:
    kind = score.get("data_type")
    if kind in ("CATEGORICAL", "TEXT"):
        return score.get("string_value") or score.get("value")
    value = chats.arguments(score.get("value"))
    return bool(value) if kind == "BOOLEAN" and value in (0, 1) else value


def _column(name: str, value: Any) -> Any:
    """Return what a column of a table of traces says, if it is a score: a list of values."""
    values = None if name in _LISTS else chats.arguments(value)
    if not isinstance(values, list) or not values:
        return None
    if all(isinstance(one, int | float) for one in values):
        return fmean(values)
    return values[0] if len(set(map(str, values))) == 1 else canonical_json(values)


FORMATS = (
    TraceReader(
        "langfuse",
        Table.load("langfuse"),
        _langfuse,
        lambda row: row.get("trace_id") or (None if "value" in row else row.get("id")),
        _langfuse_row,
    ).format(),
    TraceReader(
        "langsmith",
        Table.load("langsmith"),
        _langsmith,
        lambda row: row.get("trace_id") or row.get("run_id") or row.get("id"),
    ).format(),
    TraceReader("mlflow", Table.load("mlflow"), _mlflow).format(),
)
