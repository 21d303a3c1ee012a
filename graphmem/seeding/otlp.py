"""OTLP JSON lines: traces of agents, as OpenTelemetry's file exporters and collectors write them.

Each line is one export of spans (``resourceSpans``) or of log records (``resourceLogs``). Spans of
the GenAI conventions and of OpenInference are read alike. A run is a topmost ``invoke_agent`` or
``AGENT`` span; in a trace without any, a topmost ``invoke_workflow`` or ``CHAIN`` span. Its steps
are the spans of tools and plans below it, in the order of time. The outcome is a judgement: an
event ``gen_ai.evaluation.result``, in a span or as a log record; or attributes
``evaluations.N.evaluation.*`` or ``annotations.N.annotation.*``, also of a whole trace or session.
An error is none, and a run without an outcome is refused.

Spans of a trace come in any order and over many lines. So they wait in a temporary file, and the
runs are put together at the end of the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.seeding import traces
from graphmem.seeding.chats import arguments, cut_task, question, text_of
from graphmem.seeding.formats import Format, Origin, Record, Refused
from graphmem.seeding.otlp_runs import CHAIN, CHAT, NOTHING, OTHER, SPAN, Runs
from graphmem.seeding.reading import BOM, read_objects
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
    """Yield the refusals of the exports of a file, and then its runs."""
    with Groups.open(origin.limits) as groups:
        runs, damage = Runs(groups), None
        try:
            for line, read_export in read_objects(stream, origin.limits, "exports"):
                try:
                    for part in _parts(_export(read_export())):
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


def _export(value: Any) -> Object:
    if not isinstance(value, dict):
        raise ValidationError("record", value, "must be an object")
    if SPANS in value or LOGS in value:
        return value
    raise ValidationError(
        SPANS, None, "is missing", "each line is one export of spans, as OTLP JSON"
    )


def _parts(value: Object) -> Iterator[tuple[bool, str | None, Any]]:
    """Yield the spans and log records of an export, with the name of their service."""
    for outer, inner, items in (
        (SPANS, "scopeSpans", "spans"),
        (LOGS, "scopeLogs", "logRecords"),
    ):
        for resource in _objects_of(value, outer):
            described = resource.get("resource")
            given = _attributes(described) if isinstance(described, dict) else {}
            service = given.get("service.name")
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


def _put_aside(is_span: bool, service: str | None, item: Any, line: int, runs: Runs) -> None:
    """Put aside what a span or a log record holds."""
    given = _attributes(item)
    if not is_span:
        if _is_judgement(item.get("eventName"), given):
            trace, span = _id(item, "traceId", 16, empty=True), _id(item, "spanId", 8, empty=True)
            for judgement in _event_judgement(given):
                runs.judge(trace, span, judgement, line)
        return
    trace, span = _id(item, "traceId", 16), _id(item, "spanId", 8)
    kind = _kind(given)
    answers = kind in (AGENT, CHAIN, CHAT)
    for judgement in _judgements(item, given):
        runs.judge(trace, span, judgement, line)
    told = {
        "trace": trace,
        "id": span,
        "parent": _id(item, "parentSpanId", 8, empty=True),
        "line": line,
        "kind": kind,
        "start": _time(item, "startTimeUnixNano"),
        "end": _time(item, "endTimeUnixNano"),
        "session": _text(given, "gen_ai.conversation.id", "session.id"),
        "response": _text(given, "gen_ai.response.id") if answers else None,
        "asked": _question(given) if answers else None,
        "error": _error(item, given),
        **_kind_fields(kind, item, given, service),
    }
    runs.add({name: value for name, value in told.items() if value is not None})


def _judgements(item: Object, given: Object) -> Iterator[Object]:
    """Yield the judgements in the events and the attributes of a span."""
    for event in _objects_of(item, "events"):
        about = _attributes(event)
        if _is_judgement(event.get("name"), about):
            yield from _event_judgement(about)
    if not _TELLS.search(" ".join(given)):
        return
    found: dict[tuple[str | None, str], Object] = {}
    for name, value in given.items():
        if match := _JUDGED.fullmatch(name):
            found.setdefault((match[1], match[2]), {})[match[3]] = value
    session = _text(given, "session.id", "gen_ai.conversation.id")
    for (scope, _), fields in found.items():
        yield from _judgement(fields, scope or SPAN, None, session)


def _is_judgement(name: Any, given: Object) -> bool:
    """Return whether an event is a judgement; before log records had names, an attribute was it."""
    return _EVENT in (name, given.get("event.name"))


def _event_judgement(given: Object) -> Iterator[Object]:
    names = {"name": "name", "score": "score.value", "label": "score.label"}
    names["explanation"] = "explanation"
    told = {key: _first(given, f"gen_ai.evaluation.{name}") for key, name in names.items()}
    response, session = _text(given, "gen_ai.response.id"), _text(given, "gen_ai.conversation.id")
    return _judgement(told, SPAN, response, session)


def _judgement(
    told: Object, scope: str, response: str | None, session: str | None
) -> Iterator[Object]:
    """Yield a judgement, if it is one: a success that a label states, else a score."""
    texts = {
        key: value[:1_000] if isinstance(value, str) and value.strip() else None
        for key, value in told.items()
    }
    name, value = texts.get("name"), told.get("label")
    value = traces.judge(value) if isinstance(value, str) else None
    if value is None and name is not None and name.strip().lower() not in _LESS_IS_BETTER:
        value = told.get("score")
    if name is not None and isinstance(value, bool | int | float):
        explanation = told.get("explanation") if texts.get("explanation") else None
        yield {
            "name": name,
            "value": value,
            "by": texts.get("annotator_kind"),
            "explanation": explanation,
            "scope": scope,
            "response": response,
            "session": session,
        }


def _kind(given: Object) -> str:
    operation = given.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, OTHER)
    kind = given.get("openinference.span.kind")
    return _KINDS.get(kind.upper(), OTHER) if isinstance(kind, str) else NOTHING


def _kind_fields(kind: str, item: Object, given: Object, service: str | None) -> Object:
    """Return what an episode takes from a span of a kind."""
    if kind == TOOL:
        name = item.get("name")
        plain = name.removeprefix("execute_tool ").strip() if isinstance(name, str) else None
        put = _first(given, "gen_ai.tool.call.arguments") or _io_value(given, _IN)
        out = _first(given, "gen_ai.tool.call.result", "output.value")
        return {
            "name": _text(given, "gen_ai.tool.name", "tool.name") or plain,
            "input": _first(given, "tool.parameters") if put is None else put,
            "output": (_io_value(given, _OUT) if out is None else out) or None,
        }
    if kind == PLAN:
        return {"name": "plan", "input": _question(given), "output": _answer(given) or None}
    if kind == CHAT:
        return {"model": _model(given)}
    if kind not in (AGENT, CHAIN):
        return {}
    return {
        "agent": _text(given, "gen_ai.agent.name", "agent.name") or service,
        "model": _model(given),
        "answer": _answer(given),
        "fields": {
            name: value
            for name, value in given.items()
            if name not in _MAPPED and not _TELLS.search(name)
        },
    }


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
    told = question(traces.messages_of(given.get("gen_ai.input.messages")))
    if told is None:
        told = question(_flat_messages(given))
    if told is None:
        told = traces.question_of(_io_value(given, _IN))
    return cut_task(told) if told and told.strip() else None


def _answer(given: Object) -> str | None:
    """Return the last words of an agent."""
    messages = traces.messages_of(given.get("gen_ai.output.messages"))
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


def _flat_messages(given: Object) -> list[dict[str, Any]]:
    """Return messages that are written as one attribute for each part of each."""
    messages: dict[int, dict[str, Any]] = {}
    for name, value in given.items():
        if match := _SAID.fullmatch(name):
            place = int(match[1][:9])
            messages.setdefault(place, {})[match[2]] = value
    return [messages[place] for place in sorted(messages)]


def _model(given: Object) -> str | None:
    return _text(given, "gen_ai.request.model", "llm.model_name", "gen_ai.response.model")


def _attributes(item: Object) -> Object:
    """Return the values of attributes by name; None if one is wrong."""
    found = item.get("attributes")
    if not found:
        return {}
    try:
        given = {pair["key"]: _decode(pair.get("value")) for pair in found}
        if not all(isinstance(name, str) for name in given):
            raise TypeError
    except (TypeError, KeyError, AttributeError):
        raise ValidationError("attributes", found, "is not a list of keys and values") from None
    return given


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


def _first(given: Object, *names: str) -> Any:
    """Return the first value that is there."""
    return next((given[name] for name in names if given.get(name) is not None), None)


def _text(given: Object, *names: str) -> str | None:
    """Return the first value that is there, as a text, if it says anything."""
    value = _first(given, *names)
    if value is None or isinstance(value, str):
        return cut_task(value) if value and value.strip() else None
    return cut_task(canonical_json(value))


def _id(item: Object, name: str, size: int, *, empty: bool = False) -> str | None:
    """Return an id; None if it is empty and may be."""
    given = item.get(name)
    if empty and (not given or (isinstance(given, str) and not given.strip("0"))):
        return None
    if not isinstance(given, str) or not re.fullmatch(rf"[0-9a-fA-F]{{{2 * size}}}", given):
        problem = f"is not {2 * size} hexadecimal digits"
        raise ValidationError(name, given, problem, "OTLP writes no base64, and camelCase")
    if not given.strip("0"):
        raise ValidationError(name, given, "is zero, which is no id")
    return given.lower()


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
