"""Spans and log records of OTLP: what an episode takes from each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from math import isfinite
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import traces
from graphmem.seeding.chats import arguments, cut_task, question, text_of
from graphmem.seeding.formats import Format, Origin, Record, Refused
from graphmem.seeding.otlp_runs import CHAIN, CHAT, NOTHING, OTHER, SPAN, Runs
from graphmem.seeding.reading import BOM, read_objects
from graphmem.seeding.schema import Table
from graphmem.seeding.traces import AGENT, PLAN, TOOL, Groups

_EVENT = "gen_ai.evaluation.result"
_TELLS = re.compile(r"annotations\.|evaluation")
"""What tells that an attribute may be of a judgement."""
_JUDGED = re.compile(
    r"(?:(trace|session)\.)?"
    r"(annotations\.\d{1,9}\.annotation|evaluations\.\d{1,9}\.evaluation)\.(\w+)"
)
_LESS_IS_BETTER = {"hallucination", "toxicity"}
"""Evaluators whose high scores can be bad, so that their scores are no outcome."""
SPANS, LOGS = "resourceSpans", "resourceLogs"
Object = dict[str, Any]
_HEAD = re.compile(rb'\s*\[?\s*\{\s*"resource_?(?:spans|logs)"', re.IGNORECASE)
_FAILED = (2, "STATUS_CODE_ERROR")
_LATEST = 253_402_300_799_000_000_000
"""The last nanosecond that a time can be: the end of the year 9999."""
_SAID = re.compile(r"llm\.input_messages\.(\d+)\.message\.(role|content)")
_IN, _OUT = ("input.value", "traceloop.entity.input"), ("output.value", "traceloop.entity.output")
"""Inputs and outputs, in OpenInference and in OpenLLMetry."""
_FIELDS = {
    TOOL: ("session", "name", "input", "output"),
    CHAT: ("session", "response", "model"),
    **dict.fromkeys((AGENT, CHAIN), ("session", "response", "agent", "model")),
}
"""What is told of a span of a kind; of others, only their session."""
TABLE = Table.load("otlp")


def detect(head: bytes) -> bool:
    """Return whether the first line is an export of spans or log records."""
    return _HEAD.match(head.removeprefix(BOM)) is not None


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the refusals of the exports of a file, and then its runs."""
    with Groups.open(origin.limits) as groups:
        runs, damage = Runs(groups), None
        try:
            for line, read_export in read_objects(stream, origin.limits, "exports"):
                try:
                    for part in _parts(read_export()):
                        try:
                            _put_aside(*part, line, runs)
                        except ValidationError as error:
                            yield Refused(line, error.field, str(error))
                except ValidationError as error:
                    yield Refused(line, error.field, str(error))
        except SeedingError as error:
            damage = error  # the part before it is read
        yield from runs.records()
        if damage is not None:
            raise damage


def _parts(value: Any) -> Iterator[tuple[bool, str | None, Any]]:
    """Yield the spans and log records of an export, with the name of their service."""
    if not isinstance(value, dict):
        raise ValidationError("record", value, "must be an object")
    if SPANS not in value and LOGS not in value:
        remedy = "each line is one export of spans, as OTLP JSON"
        raise ValidationError(SPANS, None, "is missing", remedy)
    for outer, inner, items in ((SPANS, "scopeSpans", "spans"), (LOGS, "scopeLogs", "logRecords")):
        for resource in _objects_of(value, outer):
            described = resource.get("resource")
            attributes = _attributes(described) if isinstance(described, dict) else {}
            service = attributes.get("service.name")
            named = isinstance(service, str) and not service.startswith("unknown_service")
            for scope in _objects_of(resource, inner):
                for item in _objects_of(scope, items):
                    yield items == "spans", service if named else None, item


def _objects_of(holder: Object, name: str) -> list[Any]:
    values = holder.get(name)
    if not values:
        return []
    if not isinstance(values, list) or {type(item) for item in values} != {dict}:
        raise ValidationError(name, values, "is not a list of objects")
    return values


def _put_aside(is_span: bool, service: str | None, item: Any, line: int, runs: Runs) -> None:
    attributes = _attributes(item)
    trace = _id(item, "traceId", 16, empty=not is_span)
    span = _id(item, "spanId", 8, empty=not is_span)
    if not is_span:
        for judgement in _read_event(item.get("eventName"), attributes):
            runs.judge(trace, span, judgement, line)
        return
    for judgement in _read_judgements(item, attributes):
        runs.judge(trace, span, judgement, line)
    kind = _kind(attributes)
    fields = {
        "trace": trace,
        "id": span,
        "parent": _id(item, "parentSpanId", 8, empty=True),
        "line": line,
        "kind": kind,
        "start": _time(item, "startTimeUnixNano"),
        "end": _time(item, "endTimeUnixNano"),
        "error": _error(item, attributes),
        **_kind_fields(kind, item, attributes, service),
    }
    runs.add({name: value for name, value in fields.items() if value is not None})


def _read_judgements(item: Object, attributes: Object) -> Iterator[Object]:
    for event in _objects_of(item, "events"):
        yield from _read_event(event.get("name"), _attributes(event))
    values: dict[tuple[str | None, str], Object] = {}
    for name, value in attributes.items():
        if _TELLS.search(name) and (match := _JUDGED.fullmatch(name)):
            values.setdefault((match[1], match[2]), {})[match[3]] = value
    for (scope, _), fields in values.items():
        yield from _judgement(fields, scope or SPAN, None, _told(attributes, "session"))


def _read_event(name: Any, attributes: Object) -> Iterator[Object]:
    """Yield the judgement of an event; before log records had names, an attribute was it."""
    if _EVENT in (name, attributes.get("event.name")):
        names = {"name": "name", "score": "score.value", "label": "score.label"}
        names["explanation"] = "explanation"
        fields = {key: attributes.get(f"gen_ai.evaluation.{name}") for key, name in names.items()}
        response, session = (_told(attributes, name) for name in ("response", "session"))
        yield from _judgement(fields, SPAN, response, session)


def _judgement(
    fields: Object, scope: str, response: str | None, session: str | None
) -> Iterator[Object]:
    """Yield a judgement, if it is one: a success that a label states, else a score."""
    texts = {
        key: value[:1_000] if isinstance(value, str) and value.strip() else None
        for key, value in fields.items()
    }
    name, value = texts.get("name"), fields.get("label")
    value = traces.judge(value) if isinstance(value, str) else None
    if value is None and name is not None and name.strip().lower() not in _LESS_IS_BETTER:
        value = fields.get("score")
    if name is not None and isinstance(value, bool | int | float):
        yield {
            "name": name,
            "value": value,
            "by": texts.get("annotator_kind"),
            "explanation": fields.get("explanation") if texts.get("explanation") else None,
            "scope": scope,
            "response": response,
            "session": session,
        }


def _kind(attributes: Object) -> str:
    kind = attributes.get("gen_ai.operation.name")
    if not isinstance(kind, str):
        kind = attributes.get("openinference.span.kind")
        kind = kind.upper() if isinstance(kind, str) else None
    return NOTHING if kind is None else TABLE.spans.kinds.get(kind, OTHER)


def _told(attributes: Object, name: str) -> Any:
    """Return what the attributes tell of a field; texts are cut."""
    values = map(partial(_find, attributes), TABLE.spans.fields[name])
    value = next((one for one in values if one is not None), None)
    if value is None or name in ("input", "output"):
        return value or None
    text = value if isinstance(value, str) else canonical_json(value)
    return cut_task(text) if text.strip() else None


def _find(attributes: Object, path: str) -> Any:
    if path.startswith("@"):
        return _io_value(attributes, _IN if path == "@in" else _OUT)
    return attributes.get(path)


def _kind_fields(kind: str, item: Object, attributes: Object, service: str | None) -> Object:
    """Return what an episode takes from a span of a kind."""
    fields = {name: _told(attributes, name) for name in _FIELDS.get(kind, ("session",))}
    if kind == TOOL and fields["name"] is None and isinstance(item.get("name"), str):
        fields["name"] = item["name"].removeprefix("execute_tool ").strip()
    elif kind == PLAN:
        output = _answer(attributes) or None
        fields |= {"name": "plan", "input": _question(attributes), "output": output}
    elif kind in (AGENT, CHAIN, CHAT):
        fields["question"] = _question(attributes)
    if kind in (AGENT, CHAIN):
        fields["agent"] = fields["agent"] or service
        fields["answer"] = _answer(attributes)
        fields["fields"] = {
            name: value
            for name, value in attributes.items()
            if name not in TABLE.extra.drop and not _TELLS.search(name)
        }
    return fields


def _error(item: Object, attributes: Object) -> str | None:
    status = item.get("status")
    if not isinstance(status, dict) or status.get("code") not in _FAILED:
        return None
    message = status.get("message")
    if isinstance(message, str) and message.strip():
        return message
    for event in _objects_of(item, "events"):
        about = _attributes(event)
        if event.get("name") == "exception" and (text := text_of(about.get("exception.message"))):
            return text
    return text_of(attributes.get("error.type")) or "error"


def _question(attributes: Object) -> str | None:
    """Return the first words of the user, or the question, if a span has them."""
    text = question(traces.messages_of(attributes.get("gen_ai.input.messages")))
    if text is None:
        text = question(_flat_messages(attributes))
    if text is None:
        text = traces.question_of(_io_value(attributes, _IN))
    return cut_task(text) if text and text.strip() else None


def _answer(attributes: Object) -> str | None:
    """Return the last words of an agent."""
    messages = traces.messages_of(attributes.get("gen_ai.output.messages"))
    text = text_of(messages[-1].get("content")) if messages else None
    return text or traces.answer_of(_io_value(attributes, (*_OUT, "final_result")))


def _io_value(attributes: Object, names: tuple[str, ...]) -> Any:
    """Return an input or output; OpenLLMetry wraps it in other data."""
    value = next((attributes[name] for name in names if attributes.get(name) is not None), None)
    if not isinstance(value, str) or "traceloop.span.kind" not in attributes:
        return value
    inner = arguments(value)
    for name in ("inputs", "outputs", "input_str", "output"):
        if isinstance(inner, dict) and inner.get(name) is not None:
            return inner[name]
    return value


def _flat_messages(attributes: Object) -> list[dict[str, Any]]:
    """Return messages that are written as one attribute for each part of each."""
    messages: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        if match := _SAID.fullmatch(name):
            place = int(match[1][:9])
            messages.setdefault(place, {})[match[2]] = value
    return [messages[place] for place in sorted(messages)]


def _attributes(item: Object) -> Object:
    """Return the values of attributes by name; None if one is wrong."""
    values = item.get("attributes")
    if not values:
        return {}
    try:
        attributes = {pair["key"]: _decode(pair.get("value")) for pair in values}
        if not all(isinstance(name, str) for name in attributes):
            raise TypeError
    except (TypeError, KeyError, AttributeError):
        raise ValidationError("attributes", values, "is not a list of keys and values") from None
    return attributes


def _decode(value: Any) -> Any:
    """Return a value as OTLP writes it; None if it is wrong."""
    if not isinstance(value, dict) or not value:
        return None
    kind, inner = next(iter(value.items()))
    try:
        if kind in ("stringValue", "boolValue", "bytesValue"):
            return inner
        if kind == "arrayValue":
            return [_decode(one) for one in inner.get("values") or ()]
        if kind == "kvlistValue":
            return _attributes({"attributes": inner.get("values")})
        number = int(inner) if kind == "intValue" else float(inner)
        return number if kind in ("intValue", "doubleValue") and isfinite(number) else None
    except (TypeError, ValueError, OverflowError, AttributeError):
        return None


def _id(item: Object, name: str, size: int, *, empty: bool = False) -> str | None:
    """Return an id; None if it is empty and may be."""
    value = item.get(name)
    if empty and (not value or (isinstance(value, str) and not value.strip("0"))):
        return None
    if not isinstance(value, str) or not re.fullmatch(rf"[0-9a-fA-F]{{{2 * size}}}", value):
        problem = f"is not {2 * size} hexadecimal digits"
        raise ValidationError(name, value, problem, "OTLP writes no base64, and camelCase")
    if not value.strip("0"):
        raise ValidationError(name, value, "is zero, which is no id")
    return value.lower()


def _time(item: Object, name: str) -> int | None:
    """Return a time in nanoseconds; zero is none."""
    value = item.get(name)
    try:
        number = int(value or 0) if not isinstance(value, bool | float) else -1
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= _LATEST:
        raise ValidationError(name, value, "is not a time in nanoseconds since 1970")
    return number or None


FORMATS = (Format("otlp", TABLE.doc, detect, read, mapping=TABLE.mapping),)
