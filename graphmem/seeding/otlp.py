"""OTLP JSON lines: traces of agents, as OpenTelemetry's file exporters and collectors write them.

Each line is one export of spans (``resourceSpans``) or of log records (``resourceLogs``). Spans of
the GenAI conventions and of OpenInference are read alike. A run is a topmost ``invoke_agent`` or
``AGENT`` span; in a trace without any, a topmost ``invoke_workflow`` or ``CHAIN`` span. Its steps
are the spans of tools and plans below it, in the order of time. The outcome is a judgement
(:mod:`graphmem.seeding.judgements`). An error is none, and a run without an outcome is refused.

Spans of a trace come in any order and over many lines. So they wait in a temporary file, and the
runs are put together at the end of the log (:mod:`graphmem.seeding.otlp_runs`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from math import isfinite
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import judgements, traces
from graphmem.seeding.chats import MAX_JSON, arguments, cut_task, question, text_of
from graphmem.seeding.formats import Format, Origin, Record, Refused
from graphmem.seeding.judgements import Judgement
from graphmem.seeding.otlp_runs import (
    AGENT,
    CHAIN,
    CHAT,
    NOTHING,
    OTHER,
    PLAN,
    TOOL,
    Span,
    Traces,
)
from graphmem.seeding.reading import BOM

SPANS, LOGS = "resourceSpans", "resourceLogs"
Object = dict[str, Any]
_HEAD = re.compile(rb'\s*\[?\s*\{\s*"resource_?(?:spans|logs)"', re.IGNORECASE)
_OPERATIONS = {
    "invoke_agent": AGENT,
    "invoke_workflow": CHAIN,
    "execute_tool": TOOL,
    "plan": PLAN,
    "chat": CHAT,
    "generate_content": CHAT,
    "text_completion": CHAT,
}
_KINDS = {"AGENT": AGENT, "CHAIN": CHAIN, "TOOL": TOOL, "LLM": CHAT, "EVALUATOR": NOTHING}
_DECODER, _SPACE = json.JSONDecoder(), re.compile(r"\s*")
_FAILED = (2, "STATUS_CODE_ERROR")
_LATEST = 253_402_300_799_000_000_000
"""The last nanosecond that a time can be: the end of the year 9999."""
_SAID = re.compile(r"llm\.input_messages\.(\d+)\.message\.(role|content)")
_IN, _OUT = ("input.value", "traceloop.entity.input"), ("output.value", "traceloop.entity.output")
"""Inputs and outputs, in OpenInference and in OpenLLMetry."""
_MAPPED = frozenset(
    {
        *(*_IN, *_OUT, "gen_ai.task.input", "gen_ai.task.output"),
        *("final_result", "pydantic_ai.all_messages", "logfire.json_schema"),
        *("gen_ai.operation.name", "openinference.span.kind", "gen_ai.conversation.id"),
        *("session.id", "gen_ai.agent.name", "agent.name", "gen_ai.input.messages"),
        *("gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions"),
        *("input.mime_type", "output.mime_type", "error.type"),
    }
)
"""Attributes of a run that an episode holds elsewhere, or that are its whole chat or its tools."""


def detect(head: bytes) -> bool:
    """Return whether the first line is an export of spans or log records."""
    return _HEAD.match(head.removeprefix(BOM)) is not None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the refusals of the lines of a file, and then its runs."""
    head = traces.peek_head(stream, origin.name)
    is_list = head.startswith(b"[") and detect(head)
    if not is_list and not head.partition(b"\n")[0].rstrip().endswith((b"{", b"[")):
        head = b""  # each line is read by itself
    with Traces(origin.limits.record) as aside:
        damage = None
        try:
            for number, value in traces.read_objects(stream, head, origin.limits, "exports"):
                yield from _set_export_aside(value, number, aside)
        except SeedingError as error:
            damage = error  # the part before it is read
        yield from aside.runs()
        if damage is not None:
            raise damage


def _set_export_aside(
    value: Object | ValidationError, line: int, aside: Traces
) -> Iterator[Refused]:
    """Put aside the contents of an export, and yield the refusals."""
    try:
        if isinstance(value, ValidationError):
            raise value
        for part in _parts(_export(value)):
            try:
                _set_aside(part, line, aside)
            except ValidationError as error:
                yield Refused(line, error.field, str(error))
    except ValidationError as error:
        yield Refused(line, error.field, str(error))


def _export(value: Object) -> Object:
    if SPANS in value or LOGS in value:
        return value
    for name in value:
        for meant in (SPANS, LOGS):
            if name.replace("_", "").lower() == meant.lower():
                raise ValidationError(name, None, "is not a known field", f"{meant} is meant")
    if "resourceMetrics" in value:
        raise ValidationError("resourceMetrics", None, "holds no runs", "give a file of traces")
    raise ValidationError(SPANS, None, "is missing", "each line is one export, as OTLP JSON")


def _parts(value: Object) -> Iterator[tuple[bool, str | None, Any]]:
    """Yield the spans and log records of an export, with the name of their service."""
    for outer, inner, items in (
        (SPANS, "scopeSpans", "spans"),
        (LOGS, "scopeLogs", "logRecords"),
    ):
        for resource in _objects_of(value, outer):
            described = resource.get("resource")
            given = _attributes(described) if isinstance(described, dict) else {}
            service = decode_value(given.get("service.name"))
            named = isinstance(service, str) and not service.startswith("unknown_service")
            for scope in _objects_of(resource, inner):
                for item in _objects_of(scope, items):
                    yield items == "spans", service if named else None, item


def _objects_of(holder: Object, name: str) -> list[Any]:
    found = holder.get(name)
    if not found:
        return []
    if not isinstance(found, list) or {type(item) for item in found} != {dict}:
        raise ValidationError(name, found, "is not a list of objects")
    return found


def _set_aside(part: tuple[bool, str | None, Any], line: int, aside: Traces) -> None:
    """Put aside what a span or a log record holds."""
    is_span, service, item = part
    if not is_span:
        if judgements.is_judgement(item.get("eventName"), given := _attributes(item)):
            trace, span = _id(item, "traceId", 16, empty=True), _id(item, "spanId", 8, empty=True)
            aside.judge(trace, span, judgements.of_event(_decode_all(given)), line)
        return
    trace, span = _id(item, "traceId", 16), _id(item, "spanId", 8)
    given = _attributes(item)
    kind = _kind(given)
    for judgement in _judgements(item, given):
        aside.judge(trace, span, judgement, line)
    aside.add(
        Span(
            trace=trace,
            span=span,
            parent=_id(item, "parentSpanId", 8, empty=True),
            line=line,
            kind=kind,
            start=_time(item, "startTimeUnixNano"),
            end=_time(item, "endTimeUnixNano"),
            session=_text(given, "gen_ai.conversation.id", "session.id"),
            response=_text(given, "gen_ai.response.id") if kind in (AGENT, CHAIN, CHAT) else None,
            asked=_question(given) if kind in (AGENT, CHAIN, CHAT) else None,
            told=_span_fields(kind, item, given, service),
        )
    )


def _judgements(item: Object, given: Object) -> Iterator[Judgement | None]:
    for event in _objects_of(item, "events"):
        about = _attributes(event)
        if judgements.is_judgement(event.get("name"), about):
            yield judgements.of_event(_decode_all(about))
    if judgements.is_about_judgement(" ".join(given)):
        yield from judgements.of_attributes(_decode_all(given))


def _kind(given: Object) -> int:
    operation = decode_value(given.get("gen_ai.operation.name"))
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, OTHER)
    kind = decode_value(given.get("openinference.span.kind"))
    return _KINDS.get(kind.upper(), OTHER) if isinstance(kind, str) else NOTHING


def _span_fields(kind: int, item: Object, given: Object, service: str | None) -> Object:
    """Return what an episode takes from a span, without empty fields."""
    name = item.get("name")
    told: Object = {"error": _error(item, given)}
    if kind == TOOL:
        plain = name.removeprefix("execute_tool ") if isinstance(name, str) else None
        told["name"] = _text(given, "gen_ai.tool.name", "tool.name") or plain
        told["input"] = _first(given, "gen_ai.tool.call.arguments") or _io_value(given, _IN)
        if told["input"] is None:
            told["input"] = _first(given, "tool.parameters")
        told["output"] = _first(given, "gen_ai.tool.call.result", "output.value")
        if told["output"] is None:
            told["output"] = _io_value(given, _OUT)
    elif kind == PLAN:
        told["name"], told["input"] = "plan", _question(given)
        told["output"] = _answer(given)
    elif kind == CHAT:
        told["model"] = _model(given)
    elif kind in (AGENT, CHAIN):
        told["agent"] = _text(given, "gen_ai.agent.name", "agent.name") or service
        told["model"] = _model(given)
        told["answer"] = _answer(given)
        told["fields"] = {
            name: decode_value(value)
            for name, value in given.items()
            if name not in _MAPPED and not judgements.is_about_judgement(name)
        }
    return {name: value for name, value in told.items() if value is not None}


def _error(item: Object, given: Object) -> str | None:
    """Return the error of a span, from its status or an exception in it."""
    status = item.get("status")
    if not isinstance(status, dict) or status.get("code") not in _FAILED:
        return None
    message = status.get("message")
    if isinstance(message, str) and message.strip():
        return message
    for event in _objects_of(item, "events"):
        about = _attributes(event)
        if event.get("name") == "exception" and (said := _text(about, "exception.message")):
            return said
    return _text(given, "error.type") or "error"


def _question(given: Object) -> str | None:
    """Return the first words of the user, or the question, if a span has them."""
    told = _first_user_text(_first(given, "gen_ai.input.messages"))
    if told is None and any(name.startswith("llm.input_messages.") for name in given):
        told = question(_flat_messages(given))
    if told is None:
        told = traces.question_of(_io_value(given, _IN))
    return cut_task(told) if told and told.strip() else None


def _first_user_text(value: Any) -> str | None:
    """Return the first words of the user in messages; read no more messages than that takes."""
    if not isinstance(value, str) or len(value) > MAX_JSON:
        return question(_messages(value))
    at, end = value.find("[") + 1, len(value)
    try:
        while 0 < at < end:
            message, at = _DECODER.raw_decode(value, _SPACE.match(value, at).end())  # type: ignore[union-attr]
            if (said := question(_messages([message]))) is not None:
                return said
            at = value.index(",", at) + 1
    except (ValueError, RecursionError):
        pass
    return None


def _answer(given: Object) -> str | None:
    """Return the last words of an agent."""
    messages = _messages(_first(given, "gen_ai.output.messages"))
    said = text_of(messages[-1].get("content")) if messages else None
    return said or traces.answer_of(_io_value(given, (*_OUT, "final_result")))


def _io_value(given: Object, names: tuple[str, ...]) -> Any:
    """Return an input or output; OpenLLMetry wraps it in other data."""
    value = _first(given, *names)
    if not isinstance(value, str) or "traceloop.span.kind" not in given:
        return value
    inner = arguments(value)
    for name in ("inputs", "outputs", "input_str", "output"):
        if isinstance(inner, dict) and inner.get(name) is not None:
            return inner[name]
    return value


def _messages(value: Any) -> list[dict[str, Any]]:
    """Return messages whose content is a text, or blocks with texts, of whichever convention."""
    found = arguments(value)
    if not isinstance(found, list):
        return []
    messages = []
    for message in found:
        if isinstance(message, dict):
            parts = message.get("parts")
            if isinstance(parts, list):
                content: Any = [
                    part["content"]
                    for part in parts
                    if isinstance(part, dict)
                    and part.get("type") == "text"
                    and isinstance(part.get("content"), str)
                ]
            else:
                content = message.get("content")
            role = message.get("role", message.get("type"))
            messages.append({"role": role, "content": content or None})
    return messages


def _flat_messages(given: Object) -> list[dict[str, Any]]:
    """Return messages that are written as one attribute for each part of each."""
    messages: dict[int, dict[str, Any]] = {}
    for name, value in given.items():
        if match := _SAID.fullmatch(name):
            place = int(match[1][:9])
            messages.setdefault(place, {})[match[2]] = decode_value(value)
    return [messages[place] for place in sorted(messages)]


def _model(given: Object) -> str | None:
    return _text(given, "gen_ai.request.model", "llm.model_name", "gen_ai.response.model")


def _attributes(item: Object) -> Object:
    """Return attributes by name, with values as OTLP writes them."""
    found = item.get("attributes")
    if not found:
        return {}
    try:
        given = {pair["key"]: pair.get("value") for pair in found}
        if not all(isinstance(name, str) for name in given):
            raise TypeError
    except (TypeError, KeyError, AttributeError):
        raise ValidationError("attributes", found, "is not a list of keys and values") from None
    return given


def _decode_all(given: Object) -> Object:
    return {name: decode_value(value) for name, value in given.items()}


def decode_value(value: Any) -> Any:
    """Return a value of an attribute; None if it is wrong."""
    if isinstance(value, dict):
        for kind, held in value.items():
            try:
                return _VALUES[kind](held)
            except (LookupError, TypeError, ValueError, OverflowError, AttributeError):
                return None
    return None


def _same_value(held: Any) -> Any:
    return held


def _finite_float(held: Any) -> float | None:
    number = float(held)
    return number if isfinite(number) else None


_VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": _same_value,
    "boolValue": _same_value,
    "bytesValue": _same_value,
    "intValue": int,
    "doubleValue": _finite_float,
    "arrayValue": lambda held: [decode_value(one) for one in held.get("values") or ()],
    "kvlistValue": lambda held: _decode_all(_attributes({"attributes": held.get("values")})),
}


def _first(given: Object, *names: str) -> Any:
    """Return the first value that is not empty."""
    for name in names:
        if name in given and (value := decode_value(given[name])) is not None:
            return value
    return None


def _text(given: Object, *names: str) -> str | None:
    """Return the first value that is not empty, as a text."""
    value = _first(given, *names)
    if value is None or isinstance(value, str):
        return cut_task(value) if value and value.strip() else None
    return cut_task(canonical_json(value))


def _id(item: Object, name: str, size: int, *, empty: bool = False) -> bytes | None:
    """Return an id; None if it is empty and may be.

    Raises:
        ValidationError: it is not so many bytes in hexadecimal digits.
    """
    given = item.get(name)
    if not given and empty:
        return None
    try:
        if not isinstance(given, str) or len(given) != 2 * size:
            raise ValueError
        made = bytes.fromhex(given)
    except ValueError:
        names = (one for one in item if one != name)
        near = next((one for one in names if one.replace("_", "").lower() == name.lower()), None)
        hint = f"{name} is meant by {near}" if near and given is None else ""
        if given:
            hint = "base64, as protobuf writes ids in JSON, is not OTLP"
        raise ValidationError(name, given, f"is not {2 * size} hexadecimal digits", hint) from None
    if any(made):
        return made
    if empty:
        return None
    raise ValidationError(name, given, "is zero, which is no id")


def _time(item: Object, name: str) -> int | None:
    """Return a time in nanoseconds; zero is none."""
    given = item.get(name)
    try:
        made = int(given or 0) if not isinstance(given, bool | float) else -1
    except (TypeError, ValueError):
        made = -1
    if not 0 <= made <= _LATEST:
        raise ValidationError(name, given, "is not a time in nanoseconds since 1970")
    return made or None


FORMAT = Format("otlp", "OpenTelemetry traces of agents, as OTLP JSON lines", detect, read)
FORMATS = (FORMAT,)
