"""Traces as episodes: what formats of spans, runs and observations share.

A trace is a tree of spans. The task is the input of its root. The steps are its calls of tools in
the order in which they began, and the answer of the root. A temporary file puts together what
stands in a file in any order, so that memory stays bounded.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from types import TracebackType
from typing import Any, BinaryIO, Self

from graphmem.errors import SeedingError, StorageError, ValidationError
from graphmem.ids import canonical_json
from graphmem.models import MAX_TEXT, Step
from graphmem.seeding import chats
from graphmem.seeding.formats import HEAD, Unsettled
from graphmem.seeding.reading import (
    BOM,
    Limits,
    Values,
    read_lines,
    reason_of,
    refusal,
    refuse_constant,
)

AGENT, TOOL, MODEL, OTHER = "agent", "tool", "model", "other"
"""Kinds of spans."""
_ASKS = ("question", "input", "query", "prompt", "task", "message", "text", "content")
"""Members of an input that hold the question, the likelier ones first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS = {
    **dict.fromkeys(("yes", "true", "pass", "passed", "correct", "c"), True),
    **dict.fromkeys(("success", "successful", "succeeded", "resolved"), True),
    **dict.fromkeys(("no", "false", "fail", "failed", "incorrect", "i"), False),
    **dict.fromkeys(("failure", "wrong", "unresolved"), False),
}


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a trace."""

    id: str
    kind: str
    name: str
    parent: str | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A tree of spans, with what else a format knows."""

    key: str
    spans: Sequence[Span]
    outcomes: Mapping[str, bool | float] = field(default_factory=dict)
    names: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the episode that go before those of the spans."""
    record: Mapping[str, Any] = field(default_factory=dict)
    unclear: Mapping[str, Any] = field(default_factory=dict)
    """Judgements that are neither a success nor a score in [0, 1], by who judged."""


def make_episode(number: int, source: str, trace: Trace) -> Unsettled:
    """Return the episode of a trace, with the outcomes of its judges.

    Raises:
        ValidationError: it has no root.
    """
    root = root_of(trace.spans)
    ordered = sorted(trace.spans, key=_start_of)
    acting = [span for span in ordered if span.kind == AGENT]
    steps = [_step(span) for span in ordered if span.kind == TOOL and span is not root]
    steps = steps or _chat_steps(root.output)
    tools = chats.tools(steps)
    answer = answer_of(root.output)
    if answer and not (steps and steps[-1].action_type == chats.REPLY):
        steps.append(Step(action_type=chats.REPLY, action=answer[:MAX_TEXT]))
    told = {name: value for name, value in trace.fields.items() if value is not None}
    task = told.pop("task", None) or question_of(root.input) or root.name
    model = next((span.model for span in ordered if span.model), None)
    return Unsettled(
        number,
        {
            "task": chats.cut_task(task),
            "agent": (acting[0] if acting else root).name,
            "steps": tuple(steps),
            "error": chats.cut_text(root.error),
            "started_at": root.started_at,
            "ended_at": root.ended_at,
            "duration": _seconds(root),
            "source_key": trace.key,
            "source": source,
            **told,
        },
        outcomes=trace.outcomes,
        names=trace.names,
        tools=tools,
        model=model,
        record=trace.record,
        unknown=unclear_error(trace.unclear),
    )


def root_of(spans: Sequence[Span]) -> Span:
    """Return the span that has no parent here; of several the one that began first.

    Raises:
        ValidationError: there is none: they are each other's parents, or there are no spans.
    """
    ids = {span.id for span in spans}
    roots = [span for span in spans if span.parent is None or span.parent not in ids]
    if not roots:
        problem = "go round in a circle" if spans else "are missing"
        raise ValidationError("spans", None, f"{problem}: the trace has no root")
    first = [span for span in roots if span.parent is None] or roots
    return min(first, key=_start_of)


def _seconds(span: Span) -> float | None:
    if span.started_at is None or span.ended_at is None:
        return None
    return max(0.0, (span.ended_at - span.started_at).total_seconds())


def _step(span: Span) -> Step:
    return Step(
        action_type=span.name,
        action=chats.arguments(span.input),
        observation=chats.cut_text(answer_of(span.output)),
        error=chats.cut_text(span.error),
    )


def _chat_steps(output: Any) -> list[Step]:
    """Return the steps that a chat in an output tells, if it holds a call of a tool."""
    messages = output.get("messages") if isinstance(output, Mapping) else None
    steps = list(chats.steps(_messages(messages))) if isinstance(messages, list) else []
    return steps if chats.tools(steps) else []


def unclear_error(unclear: Mapping[str, Any]) -> ValidationError | None:
    """Return what to say if judgements are unclear, and there are no others."""
    if not unclear:
        return None
    return ValidationError(
        "score",
        canonical_json(dict(unclear)),
        "is neither a success nor a score in [0, 1]",
        "join an outcome with --outcomes",
    )


def question_of(given: Any) -> str | None:
    """Return the question in an input: that of a chat, a text, or all as JSON."""
    given = chats.arguments(given)
    if given is None or isinstance(given, str):
        return given
    held = given.get("messages") if isinstance(given, Mapping) else given
    if isinstance(held, list) and (question := chats.question(_messages(held))):
        return question
    if isinstance(given, Mapping):
        texts = [given[name] for name in _ASKS if isinstance(given.get(name), str)]
        if texts or len(given) == 1:
            return texts[0] if texts else question_of(next(iter(given.values())))
    return canonical_json(given) if given else None


def answer_of(given: Any) -> str | None:
    """Return an output as a text: the last message of a chat, a text, or all as JSON."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, Mapping):
        messages = given.get("messages")
        if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
            return chats.text_of(messages[-1].get("content"))
        if len(given) == 1 and isinstance(only := next(iter(given.values())), str):
            return only
        return canonical_json(given) if given else None
    return chats.text_of(given)


def _messages(given: Sequence[Any]) -> list[Mapping[str, Any]]:
    """Return messages with roles; those of LangChain have types, or are pairs, or in lists."""
    found: list[Mapping[str, Any]] = []
    for one in given:
        if isinstance(one, list):
            pair = len(one) == 2 and all(isinstance(part, str) for part in one)
            found += [{"role": one[0], "content": one[1]}] if pair else _messages(one)
        elif isinstance(one, Mapping):
            held = one.get("kwargs") if "lc" in one else one
            known = held if isinstance(held, Mapping) else one
            found.append(known if "role" in known else {**known, "role": known.get("type")})
    return found


def judge(value: Any) -> bool | float | None:
    """Return a judgement as a success, a score in [0, 1], or None if it is unclear."""
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower())
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def split_judgements(
    judgements: Mapping[str, Any],
) -> tuple[dict[str, bool | float], dict[str, Any]]:
    """Return the judgements that are an outcome, and those that are unclear.

    Raises:
        ValidationError: who judged is not told by a text.
    """
    outcomes: dict[str, bool | float] = {}
    unclear: dict[str, Any] = {}
    for name, value in judgements.items():
        if not isinstance(name, str):
            raise ValidationError("name", name, "of a judgement must be a text")
        outcome = judge(value)
        if outcome is None:
            unclear[name] = value
        else:
            outcomes[name] = outcome
    return outcomes, unclear


def drop_empty(beside: Mapping[str, Any]) -> dict[str, Any]:
    """Return the other fields than the known ones, if they say anything."""
    return {name: value for name, value in beside.items() if value not in (None, "", [], {})}


def parse_time(value: Any, zone: tzinfo | None = UTC) -> datetime | None:
    """Return a time: ISO 8601, in this zone if it names none, or nanoseconds since 1970.

    Without a zone it says nothing.

    Raises:
        ValidationError: it is none.
    """
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
            return _EPOCH + timedelta(microseconds=int(value) // 1_000)
        parsed = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError):
        raise ValidationError("time", value, "is no time") from None
    if parsed.tzinfo is None:
        return None if zone is None else parsed.replace(tzinfo=zone)
    return parsed


def _start_of(span: Span) -> datetime:
    return span.started_at or _EPOCH


def peek_head(stream: BinaryIO, name: str) -> bytes:
    """Return the first bytes of a stream, which stay in it.

    Raises:
        SeedingError: it has no buffer.
    """
    peek = getattr(stream, "peek", None)
    if peek is None:
        raise SeedingError(f"{name} needs a buffered stream")
    return bytes(peek(HEAD)[:HEAD]).removeprefix(BOM).lstrip()


def read_objects(
    stream: BinaryIO, head: bytes, limits: Limits, wrapper: str
) -> Iterator[tuple[int, dict[str, Any] | ValidationError]]:
    """Yield the objects of a file, with their numbers; for unreadable ones, the error.

    They are lines, or follow each other, or are in a list, or in the list ``wrapper`` of an object.
    """
    if _has_wrapper(head, wrapper) or head.startswith(b"[") or not _is_lines(head):
        values = Values(stream, limits)
        for number, _ in enumerate(_places(values, head, wrapper), 1):
            try:
                yield number, _object(values.value())
            except ValidationError as error:
                yield number, error
        return
    for number, line in read_lines(stream, limits):
        try:
            if isinstance(line, ValidationError):
                raise line
            yield number, _object(_line(line))
        except ValidationError as error:
            yield number, error


def _places(values: Values, head: bytes, wrapper: str) -> Iterator[None]:
    if head.startswith(b"["):
        for _ in values.items():
            yield
        values.end()
    elif _has_wrapper(head, wrapper):
        for name in values.members():
            if name != wrapper:
                values.skip()
                continue
            for _ in values.items():
                yield
        values.end()
    else:
        while values.peek():
            yield


def _has_wrapper(head: bytes, wrapper: str) -> bool:
    return re.match(rb'\{\s*"' + wrapper.encode() + rb'"\s*:\s*\[', head) is not None


def _is_lines(head: bytes) -> bool:
    """Return whether the first line is an object by itself."""
    first, found, _ = head.partition(b"\n")
    return first.rstrip().endswith(b"}") if found else True


def _line(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=refuse_constant)
    except ValueError as error:
        raise refusal("line", line, reason_of(error)) from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValidationError("record", value, "must be an object")
    return value


class Groups:
    """Records by their trace, in a temporary file.

    Use it in a ``with`` block.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._file = sqlite3.connect("", isolation_level=None)
        self._file.execute("PRAGMA journal_mode = OFF")
        self._file.execute("PRAGMA cache_size = -16000")
        self._file.execute("BEGIN")
        self._file.execute("CREATE TABLE records (trace TEXT, number INTEGER, record TEXT)")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, trace: str, number: int, record: Mapping[str, Any]) -> None:
        """Add a record to a trace.

        Raises:
            StorageError: the temporary file cannot be written.
        """
        row = (trace, number, json.dumps(record, ensure_ascii=True))
        try:
            self._file.execute("INSERT INTO records VALUES (?, ?, ?)", row)
        except sqlite3.Error as error:
            raise StorageError(f"traces cannot be put together: {error}") from error

    def __iter__(self) -> Iterator[tuple[int, list[dict[str, Any]] | ValidationError]]:
        """Yield the records of each trace, with the number of its first one, in their order.

        Raises:
            StorageError: the temporary file cannot be read.
        """
        try:
            self._file.execute("CREATE INDEX places ON records (trace, number)")
            traces = self._file.execute(
                "SELECT min(number) AS first, sum(length(record)), trace FROM records"
                " GROUP BY trace ORDER BY first"
            )
            for first, size, trace in traces:
                if size > self._limits.record:
                    yield first, ValidationError("trace", trace, self._limits.too_long)
                    continue
                rows = self._file.execute(
                    "SELECT record FROM records WHERE trace = ? ORDER BY number", (trace,)
                )
                yield first, [json.loads(record) for (record,) in rows]
        except sqlite3.Error as error:
            raise StorageError(f"traces cannot be put together: {error}") from error
