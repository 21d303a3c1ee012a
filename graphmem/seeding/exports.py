"""Exports of tracing tools: Langfuse, LangSmith and MLflow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from graphmem.ids import canonical_json
from graphmem.seeding import chats
from graphmem.seeding.tables import Parts, TableReader

Row = Mapping[str, Any]
Judgement = tuple[str | None, str, Any]
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")
_LISTS = ("tags", "comments", "observations", "scores", "input", "output", "metadata")
"""Columns of traces of Langfuse that may be lists, and are no scores."""


def _read_mlflow_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a trace, as a row of ``search_traces`` holds it, too, or an assessment."""
    whole = chats.arguments(row.get("trace"))
    return whole if isinstance(whole, dict) else row


def _split_mlflow(records: list[dict[str, Any]]) -> Parts:
    alone = [one for one in records if "assessment_name" in one]
    wholes = [one for one in records if "assessment_name" not in one]
    if not wholes:
        told = _read_mlflow_judgements(alone)
        return _told(alone[0]["trace_id"], "last_update_time", alone, told)
    record = wholes[-1]
    info: Row = record.get("info") or record
    data: Row = record.get("data") or record
    metadata = info.get("trace_metadata") or info.get("request_metadata") or {}
    beside = {**metadata, **(info.get("tags") or {})}
    own = {name: value for name, value in beside.items() if not name.startswith("mlflow.")}
    return (
        {**own, **info, "metadata": metadata, "assessments": None},
        list(map(_read_mlflow_span, data["spans"])),
        list(_read_mlflow_judgements(info.get("assessments") or ())),
    )


def _read_mlflow_span(span: Row) -> Row:
    content = {name: chats.arguments(value) for name, value in (span["attributes"] or {}).items()}
    name, function = span["name"], content.get("mlflow.spanFunctionName")
    if isinstance(function, str) and re.fullmatch(re.escape(function) + r"_\d+", name):
        name = function  # MLflow numbers equal ones
    status = span.get("status") or span.get("status_code") or {}
    code = status.get("code") if isinstance(status, Mapping) else status
    error = None
    if str(code).endswith("ERROR"):
        events = [(one.get("attributes") or {}) for one in span.get("events") or ()]
        texts = [one["exception.message"] for one in events if one.get("exception.message")]
        said = status.get("message") if isinstance(status, Mapping) else span.get("status_message")
        error = str([*texts, said][0] or "error")
    return {**span, "attributes": content, "name": name, "error": error}


def _read_mlflow_judgements(assessments: Sequence[Row]) -> Iterator[Judgement]:
    for one in _sorted(_sorted(assessments, "last_update_time_ms"), "last_update_time"):
        feedback = one.get("feedback")
        if feedback and not (one.get("error") or feedback.get("error")):
            name = one.get("assessment_name") or one["name"]
            if one.get("valid") is not False:
                yield one.get("span_id"), name, feedback.get("value")


def _split_langsmith(records: list[dict[str, Any]]) -> Parts:
    waiting = [one for one in records if "run_type" in one][::-1]
    if not waiting:
        key = records[0].get("trace_id") or records[0]["run_id"]
        told = [(one.get("run_id"), *_feedback(one)) for one in _sorted(records, "created_at")]
        return _told(key, "created_at", records, told)
    runs: dict[str, Row] = {}
    judgements: list[Judgement] = []
    while waiting:
        run = waiting.pop()
        waiting += list(run.get("child_runs") or ())[::-1]
        runs[run["id"]] = _read_langsmith_span(run)
        for key, stats in (run.get("feedback_stats") or {}).items():
            values, mean = stats.get("values") or {}, stats.get("avg")
            only = next(iter(values)) if mean is None and len(values) == 1 else mean
            judgements.append((run["id"], key, only))
        own = run.get("feedback") or ()
        judgements += [(one.get("run_id") or run["id"], *_feedback(one)) for one in own]
    judgements += [(one.get("run_id"), *_feedback(one)) for one in records if "run_type" not in one]
    return {}, list(runs.values()), judgements


def _feedback(one: Row) -> tuple[str, Any]:
    score = one.get("score")
    return one["key"], one.get("value") if score is None else score


def _read_langsmith_span(run: Row) -> Row:
    metadata = (run.get("extra") or {}).get("metadata") or {}
    tool, model = (run["run_type"] == kind for kind in ("tool", "llm"))
    return {
        **run,
        "metadata": metadata,
        "model": metadata.get("ls_model_name") if model else None,
        "inputs": _only(run.get("inputs"), "input") if tool else run.get("inputs"),
        "outputs": _only(run.get("outputs"), "output"),
    }


def _only(content: Any, name: str) -> Any:
    """Return the only member of an object, if it stands for all of it."""
    inner = content[name] if isinstance(content, Mapping) and content.keys() == {name} else content
    if isinstance(inner, Mapping) and "content" in inner and ("type" in inner or "role" in inner):
        return inner["content"]  # a message of LangChain
    return inner


def _split_langfuse(records: list[dict[str, Any]]) -> Parts:
    trace: dict[str, Any] = {}
    observations: dict[str, Row] = {}
    scores: list[Row] = []
    for row in records:
        if "trace_id" not in row:
            trace |= row
            observations |= {one["id"]: one for one in _objects(row.get("observations"))}
            scores += _objects(row.get("scores"))
        elif "type" in row:
            observations[row["id"]] = row
        else:
            scores.append(row)
    if not trace and not observations:
        key = records[0]["trace_id"]
        return _told(key, "timestamp", scores, map(_judgement, _sorted(scores, "timestamp")))
    columns = {name: one for name in trace if (one := _column(name, trace[name])) is not None}
    judgements: list[Judgement] = [(None, *column) for column in columns.items()]
    judgements += map(_judgement, _sorted(scores, "timestamp"))
    spans = [
        {**one, "error": (one.get("status_message") or "error") if failed else None}
        for one in observations.values()
        for failed in (one.get("level") == "ERROR",)
    ] or [{"id": trace.get("id"), "name": trace.get("name") or "trace"}]
    return {k: v for k, v in trace.items() if k not in columns}, spans, judgements


def _judgement(score: Row) -> Judgement:
    kind, value = score.get("data_type"), score.get("value")
    if kind in ("CATEGORICAL", "TEXT"):
        value = score.get("string_value") or value
    else:
        value = chats.arguments(value)
        value = bool(value) if kind == "BOOLEAN" and value in (0, 1) else value
    return score.get("observation_id"), score["name"], value


def _told(key: str, at: str, records: Sequence[Row], judgements: Iterable[Judgement]) -> Parts:
    """Return what was told of a run that is not in the file, and when the latest was told."""
    latest = _sorted(records, at)[-1].get(at)
    return {"id": key, "trace_id": key, "told_at": latest}, [], list(judgements)


def _sorted(records: Iterable[Row], at: str) -> list[Row]:
    return sorted(records, key=lambda one: str(one.get(at) or ""))


def _read_langfuse_row(record: Row) -> dict[str, Any]:
    """Return a row with names as tables have them, and the values of JSON in texts."""
    row = {
        _CAPITAL.sub(lambda match: "_" + match[0], name).lower(): value
        for name, value in record.items()
        if value is not None
    }
    return row | {name: chats.arguments(row[name]) or None for name in _LISTS if name in row}


def _read_langfuse_record(record: Row) -> dict[str, Any]:
    row = _read_langfuse_row(record)
    if "value" in row and "trace_id" not in row:  # the id of a score is none of a trace
        row.pop("id", None)
    return row


def _objects(items: Any) -> list[dict[str, Any]]:
    return [_read_langfuse_row(one) for one in items or () if isinstance(one, Mapping)]


def _column(name: str, value: Any) -> Any:
    """Return what a column of a table of traces says, if it is a score: a list of values."""
    values = None if name in _LISTS else chats.arguments(value)
    if not isinstance(values, list) or not values:
        return None
    if all(isinstance(one, int | float) for one in values):
        return fmean(values)
    return values[0] if len(set(map(str, values))) == 1 else canonical_json(values)


FORMATS = (
    TableReader("langfuse", prepare=_read_langfuse_record, parts=_split_langfuse).make_format(),
    TableReader("langsmith", parts=_split_langsmith).make_format(),
    TableReader("mlflow", prepare=_read_mlflow_row, parts=_split_mlflow).make_format(),
)
