"""Spans and log records of OTLP, as runs of agents.

Spans of a trace may be far apart, so all wait in a temporary file: of each what an episode takes
from it. Memory holds one trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import isfinite
from string import hexdigits
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import canonical_json
from graphmem.printable import counted
from graphmem.seeding import traces
from graphmem.seeding.chats import arguments, cut_task, question, text_of
from graphmem.seeding.formats import Format, Origin, Record, Refused, Unsettled, make_record
from graphmem.seeding.reading import read_objects
from graphmem.seeding.schema import Table
from graphmem.seeding.traces import AGENT, OTHER, PLAN, TOOL, Groups, Span, parse_time

CHAIN, CHAT, NOTHING = "chain", "chat", "nothing"
"""Kinds of spans, besides those of all traces; an evaluator's span is transparent: nothing."""
_EVENT = "gen_ai.evaluation.result"
_JUDGED = re.compile(
    r"(trace\.)?"
    r"(annotations\.\d{1,9}\.annotation|evaluations\.\d{1,9}\.evaluation)\.(\w+)"
)
_LESS_IS_BETTER = {"hallucination", "toxicity"}
"""Evaluators whose high scores can be bad, so that their scores are no outcome."""
_LISTS = {"resourceSpans": ("scopeSpans", "spans"), "resourceLogs": ("scopeLogs", "logRecords")}
_LATEST = 253_402_300_799_000_000_000
"""The last nanosecond that a time can be: the end of the year 9999."""
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_SAID = re.compile(r"llm\.input_messages\.(\d{1,9})\.message\.(role|content)")
_WRAPPERS = ("inputs", "outputs", "input_str", "output")
"""Members of what OpenLLMetry wraps inputs and outputs in."""
TABLE = Table.load("otlp")
Object = Mapping[str, Any]
Rows = Sequence[Object]
Spans = dict[str, Object]


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the refusals of the exports of a file, and then its runs."""
    with Groups.open(origin.limits) as groups:
        runs = _Runs(groups)
        try:
            for line, read_export in read_objects(stream, origin.limits, "exports"):
                yield from runs.put_aside(read_export, line)
        except SeedingError:
            yield from runs.records()  # the part before the damage is read
            raise
        yield from runs.records()


class _Runs:
    """The spans and judgements of a file, and the runs in them."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._judgements = 0

    def put_aside(self, read_export: Callable[[], Any], line: int) -> Iterator[Refused]:
        """Put an export aside; yield what is wrong in it."""
        try:
            for name, service, item in _items(read_export()):
                try:
                    self._add(name == "spans", service, item, line)
                except ValidationError as error:
                    yield Refused(line, error.field, str(error))
        except ValidationError as error:
            yield Refused(line, error.field, str(error))

    def _add(self, is_span: bool, service: str | None, item: Object, line: int) -> None:
        attributes = _attributes(item)
        trace = _id(item, "traceId", 32, may_lack=not is_span)
        name = _id(item, "spanId", 16, may_lack=not is_span)
        judgements = _span_judgements if is_span else _event_judgements
        for judgement in judgements(item, attributes):
            self._judge(trace, name, judgement, line)
        if not is_span:
            return
        span = {
            "trace": trace,
            "id": name,
            "parent": _id(item, "parentSpanId", 16, may_lack=True),
            "line": line,
            "start": _time(item, "startTimeUnixNano"),
            "end": _time(item, "endTimeUnixNano"),
            "error": _error(item, attributes),
            **_read_fields(item, attributes, service),
        }
        self._groups.add("trace", str(trace), line, span)

    def _judge(self, trace: str | None, span: str | None, judgement: Object, line: int) -> None:
        """Put a judgement aside; it may name a span."""
        response = judgement["response"]
        whole = judgement["whole"] or (span is None and response is None)
        if whole and trace is None:
            problem = "is missing, and so is a response, so nothing is judged"
            raise ValidationError("spanId", None, problem)
        self._judgements += 1
        row = {**judgement, "whole": whole, "span": span, "number": self._judgements}
        for kind, key in (("trace", trace), ("response", response)):
            if key:
                self._groups.add(f"judged {kind}", str(key), line, row)

    def records(self) -> Iterator[Record]:
        """Yield the runs, in the order in which their traces begin in the file, and refusals."""
        is_empty, line = True, 0
        for line, read_spans in self._groups.each("trace"):
            try:
                records = self._of_trace(read_spans())
            except ValidationError as error:
                records = iter([Refused(line, error.field, str(error))])
            for record in records:
                is_empty = False
                yield record
        if is_empty and line:
            reason = "holds no run: no span is invoke_agent, or of the kind AGENT or CHAIN"
            yield Refused(1, "file", reason)

    def _of_trace(self, rows: Rows) -> Iterator[Record]:
        spans: Spans = {}
        for span in rows:
            first = spans.setdefault(span["id"], span)
            if first is not span and {**first, "line": 0} != {**span, "line": 0}:
                reason = f"is that of another span, on line {first['line']}, which is taken"
                yield Refused(span["line"], "spanId", f"{span['id']} {reason}")
        owners = _owners(spans, AGENT)
        if circles := [spans[name]["line"] for name in spans if name not in owners]:
            reason = f"leads in a circle, so {counted(len(circles), 'span')} belong to no run"
            yield Refused(min(circles), "parentSpanId", reason)
        if not any(owner for owner, _ in owners.values()):
            owners = _owners(spans, CHAIN)
        runs: dict[str, list[Object]] = {}
        for name, (owner, gone) in owners.items():
            span = spans[name]
            if owner is not None:
                runs.setdefault(owner, []).append(span)
            elif span["kind"] in (TOOL, PLAN):
                reason = f"the {span['kind']} {span['id']} is below no agent"
                reason += "" if gone is None else f": there is no span {gone}"
                yield Refused(span["line"], "parentSpanId", reason)
        for name, members in runs.items():
            make = partial(self._run, spans, members=members, only=len(runs) == 1)
            yield make_record(spans[name]["line"], "run", name, make)

    def _run(self, spans: Spans, name: str, members: Rows, *, only: bool) -> Unsettled:
        root = spans[name]
        ordered = sorted(members, key=lambda one: one["start"] or one["end"] or 0)
        chats = [one for one in ordered if one["kind"] == CHAT]
        last = max(reversed(chats), key=lambda one: one["end"] or one["start"] or 0, default=None)
        wholes = [root]
        while only and (above := spans.get(wholes[-1]["parent"] or "")) is not None:
            wholes.append(above)
        session = root["session"] or (chats[0]["session"] if chats else None)
        judgements = self._judgements_of(spans, wholes, last, only=only)
        model = root["model"] or (last["model"] if last else None)
        beside = {"conversation": session, "model": model}
        task = next(filter(None, (one.get("question") for one in (*wholes, *chats))), None)
        if task is None:
            remedy = f"have contents captured, as with {_CAPTURE}"
            raise ValidationError("task", None, "is not told by any span of the run", remedy)
        return traces.make_episode(
            root["line"],
            [
                _make_span({**root, "model": model}, None),
                *(_make_span(one, name) for one in ordered if one["kind"] in (TOOL, PLAN)),
            ],
            {
                "task": task,
                "feedback": next(filter(None, (one["explanation"] for one in judgements)), None),
                "duration": None,
                "source_key": f"{root['trace']}/{name}",
                "source": "otlp",
                "extra": root["fields"] | {k: v for k, v in beside.items() if v is not None},
            },
            _by_judge(judgements),
            names=[root["trace"], session] if session else [root["trace"]],
            record=root["fields"],
        )

    def _judgements_of(
        self, spans: Spans, wholes: Rows, last: Object | None, *, only: bool
    ) -> list[Object]:
        """Return the judgements of a run; if there are none, those of its last answer."""
        if not self._judgements:
            return []
        root, answer = wholes[0], last or {}
        ranks = {answer.get("id"): 1, **dict.fromkeys((one["id"] for one in wholes), 2)}
        ranks |= {answer.get("response"): 1, root["response"]: 2, None: 0}
        keys = [("trace", root["trace"])]
        keys += [("response", one) for one in (root["response"], answer.get("response"))]
        found = {
            one["number"]: one
            for kind, key in keys
            for one in self._groups.of(f"judged {kind}", key)
        }
        ranked: dict[int, list[Object]] = {0: [], 1: [], 2: []}
        for _, one in sorted(found.items()):
            rank = ranks.get(_about(spans, one["span"])) or ranks.get(one["response"], 0)
            if one["whole"]:
                rank = 2 if only else 0
            ranked[rank].append(one)
        return ranked[2] or ranked[1]


def _make_span(row: Object, parent: str | None) -> Span:
    """Return a span; a step without a start has the place of its end."""
    began = row["start"] or (row["end"] if parent else None)
    fields = {name: row[name] for name in ("id", "kind", "name", "input", "output", "error")}
    fields |= {"started_at": parse_time(began), "ended_at": parse_time(row["end"])}
    return Span(**fields, parent=parent, model=row.get("model"))


def _owners(spans: Spans, kind: str) -> dict[str, tuple[str | None, str | None]]:
    """Return the topmost span of a kind above each span, or itself, and the parent that is gone.

    Spans in circles, and those below, are left out.
    """
    owners: dict[str, tuple[str | None, str | None]] = {}
    circles: set[str] = set()
    for span in spans:
        path: dict[str, None] = {}
        at: str | None = span
        while at in spans and at not in owners and at not in circles and at not in path:
            path[at] = None
            at = spans[at].get("parent")
        if at in path or at in circles:
            circles.update(path)
            continue
        owner, gone = owners.get(at or "", (None, at))
        for below in reversed(path):
            if owner is None and spans[below]["kind"] == kind:
                owner = below
            owners[below] = owner, gone
    return owners


def _about(spans: Spans, span: str | None) -> str | None:
    """Return the judged span: this one, or the span above an evaluator's span."""
    for _ in spans:
        judged = spans.get(span or "", {})
        if judged.get("kind") != NOTHING or judged.get("parent") not in spans:
            break
        span = judged["parent"]
    return span


def _by_judge(judgements: Rows) -> dict[str, Any]:
    """Return judgements by evaluator; those of one name that differ, by who judged, too."""
    outcomes: dict[str, Any] = {}
    for one in judgements:
        name, value = one["name"], one["value"]
        if outcomes.setdefault(name, value) != value:
            outcomes[f"{name} ({one['by'] or one['number']})"] = value
    return outcomes


def _items(export: Any) -> Iterator[tuple[str, str | None, Object]]:
    """Yield the spans and log records of an export, with the name of their service."""
    if not isinstance(export, dict):
        raise ValidationError("record", export, "must be an object")
    if not export.keys() & _LISTS.keys():
        remedy = "each line is one export of spans, as OTLP JSON"
        raise ValidationError("resourceSpans", None, "is missing", remedy)
    for outer, (inner, items) in _LISTS.items():
        for resource in _objects_of(export, outer):
            described = resource.get("resource")
            attributes = _attributes(described) if isinstance(described, dict) else {}
            service = attributes.get("service.name")
            named = isinstance(service, str) and not service.startswith("unknown_service")
            for scope in _objects_of(resource, inner):
                for item in _objects_of(scope, items):
                    yield items, service if named else None, item


def _objects_of(holder: Object, name: str) -> list[Any]:
    values = holder.get(name)
    if not values:
        return []
    if not isinstance(values, list) or {type(item) for item in values} != {dict}:
        raise ValidationError(name, values, "is not a list of objects")
    return values


def _span_judgements(span: Object, attributes: Object) -> Iterator[Object]:
    """Yield the judgements in the events of a span, and in its attributes."""
    for event in _objects_of(span, "events"):
        yield from _event_judgements(event, _attributes(event))
    values: dict[tuple[str | None, str], dict[str, Any]] = {}
    for name, value in attributes.items():
        if match := _JUDGED.fullmatch(name):
            values.setdefault((match[1], match[2]), {})[match[3]] = value
    for (whole, _), fields in values.items():
        yield from _judgement(fields, None, whole=whole is not None)


def _event_judgements(event: Object, attributes: Object) -> Iterator[Object]:
    """Yield the judgement of an event; before log records had names, an attribute was it."""
    if _EVENT in (event.get("eventName"), event.get("name"), attributes.get("event.name")):
        names = {"name": "name", "score": "score.value", "label": "score.label"}
        names["explanation"] = "explanation"
        fields = {key: attributes.get(f"gen_ai.evaluation.{name}") for key, name in names.items()}
        yield from _judgement(fields, _told(attributes, "response"), whole=False)


def _judgement(fields: Object, response: str | None, *, whole: bool) -> Iterator[Object]:
    """Yield a judgement, if it is one: a success that a label states, else a score.

    ``whole`` says that it is of the whole trace.
    """
    name, by, explanation = (
        value if isinstance(value, str) and value.strip() else None
        for value in map(fields.get, ("name", "annotator_kind", "explanation"))
    )
    if name is None:
        return
    label = fields.get("label")
    value = traces.judge(label) if isinstance(label, str) else None
    if value is None and name.strip().lower() not in _LESS_IS_BETTER:
        value = fields.get("score")
    if isinstance(value, bool | int | float):
        yield {
            "name": name[:1_000],
            "value": value,
            "by": by and by[:1_000],
            "explanation": explanation,
            "whole": whole,
            "response": response,
        }


def _read_fields(item: Object, attributes: dict[str, Any], service: str | None) -> Object:
    """Return what an episode takes from a span: its kind, and fields that depend on that."""
    kind = attributes.get("gen_ai.operation.name")
    if not isinstance(kind, str):
        kind = attributes.get("openinference.span.kind")
        kind = kind.upper() if isinstance(kind, str) else None
    kind = NOTHING if kind is None else TABLE.spans.kinds.get(kind, OTHER)
    told = partial(_told, attributes)
    fields: dict[str, Any] = {"kind": kind, "session": told("session")}
    if kind in (NOTHING, OTHER):
        return fields
    _unwrap(attributes)
    if kind == TOOL:
        name = told("name")
        if name is None and isinstance(item.get("name"), str):
            name = item["name"].removeprefix("execute_tool ").strip()
        return {**fields, "name": name, "input": told("input"), "output": told("output")}
    asked, answer = _question(attributes), _answer(attributes) or None
    if kind == PLAN:
        return {**fields, "name": "plan", "input": asked, "output": answer}
    fields |= {name: told(name) for name in ("response", "model")}
    fields |= {"name": told("agent") or service, "question": asked, "input": None, "output": answer}
    if kind != CHAT:
        fields["fields"] = {
            name: value
            for name, value in attributes.items()
            if not (name in TABLE.extra.drop or "evaluation" in name or "annotations." in name)
        }
    return fields


def _told(attributes: Object, name: str) -> Any:
    """Return what the attributes tell of a field; texts are cut."""
    values = map(attributes.get, TABLE.spans.fields[name])
    value = next((one for one in values if one is not None), None)
    if value is None or name in ("input", "output"):
        return value or None
    text = value if isinstance(value, str) else canonical_json(value)
    return cut_task(text) if text.strip() else None


def _unwrap(attributes: dict[str, Any]) -> None:
    """Put what OpenLLMetry wraps in other data where OpenInference has inputs and outputs."""
    for name in ("input", "output"):
        value = attributes.get(f"{name}.value")
        if value is None:
            value = attributes.get(f"traceloop.entity.{name}")
        if isinstance(value, str) and "traceloop.span.kind" in attributes:
            inner = arguments(value)
            inner = inner if isinstance(inner, dict) else {}
            value = next((inner[one] for one in _WRAPPERS if inner.get(one) is not None), value)
        attributes[f"{name}.value"] = value


def _error(item: Object, attributes: Object) -> str | None:
    status = item.get("status")
    if not isinstance(status, dict) or status.get("code") not in (2, "STATUS_CODE_ERROR"):
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
    flat: dict[int, dict[str, Any]] = {}
    """Messages that are written as one attribute for each part of each."""
    for name, value in attributes.items():
        if match := _SAID.fullmatch(name):
            flat.setdefault(int(match[1]), {})[match[2]] = value
    text = (
        question(traces.messages_of(attributes.get("gen_ai.input.messages")))
        or question([flat[place] for place in sorted(flat)])
        or traces.question_of(attributes["input.value"])
    )
    return cut_task(text) if text and text.strip() else None


def _answer(attributes: Object) -> str | None:
    """Return the last words of an agent."""
    messages = traces.messages_of(attributes.get("gen_ai.output.messages"))
    text = text_of(messages[-1].get("content")) if messages else None
    output = attributes["output.value"]
    return text or traces.answer_of(attributes.get("final_result") if output is None else output)


def _attributes(item: Object) -> dict[str, Any]:
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


def _id(item: Object, name: str, digits: int, *, may_lack: bool) -> str | None:
    """Return an id; None if it is empty and may be."""
    value = item.get(name)
    if may_lack and (not value or (isinstance(value, str) and not value.strip("0"))):
        return None
    if not isinstance(value, str) or len(value) != digits or value.strip(hexdigits):
        problem = f"is not {digits} hexadecimal digits"
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


FORMATS = (Format("otlp", TABLE.doc, TABLE.marks.fit, read, mapping=TABLE.mapping),)
