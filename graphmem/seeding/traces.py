"""Traces as episodes: what formats of spans, runs and observations share.

A trace is a tree of spans. The task is the input of its root. The steps are its calls of tools in
the order in which they began, and the answer of the root. A temporary file puts together what
stands in a file in any order, so that memory stays bounded.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from pathlib import Path
from typing import Any

from graphmem.errors import StorageError, ValidationError
from graphmem.ids import canonical_json
from graphmem.models.episodes import Step
from graphmem.models.fields import MAX_TEXT
from graphmem.seeding import chats
from graphmem.seeding.formats import Unsettled
from graphmem.seeding.reading import Limits

AGENT, TOOL, PLAN, OTHER = "agent", "tool", "plan", "other"
"""Kinds of spans."""
_ASKS = ("question", "input", "query", "prompt", "task", "message", "text", "content")
"""Members of an input that hold the question, the likelier ones first."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LARGEST = {"s": 1e11, "ms": 1e14, "us": 1e17}
"""Up to which size a number of time is of this unit; a larger one is of nanoseconds."""
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
USUAL = tomllib.loads(Path(__file__).with_name("usual.toml").read_text("utf-8"))
"""The usual names and words of logs."""
WORDS = dict.fromkeys(USUAL["words"]["success"], True) | dict.fromkeys(
    USUAL["words"]["failure"], False
)


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a trace."""

    id: str
    kind: str
    name: str | None
    parent: str | None = None
    input: Any = None
    output: Any = None
    error: str | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    model: str | None = None


def make_episode(
    number: int,
    spans: Sequence[Span],
    fields: Mapping[str, Any],
    judgements: Mapping[str, Any],
    *,
    names: Sequence[str] = (),
    record: Mapping[str, Any] | None = None,
) -> Unsettled:
    """Return the episode of a trace, with the outcomes of its judges."""
    root = root_of(spans)
    ordered = sorted(spans, key=_start_of)
    acting = next((span for span in ordered if span.kind == AGENT), root)
    calls = [span for span in ordered if span.kind in (TOOL, PLAN) and span is not root]
    steps = [
        Step(
            action_type=span.name or TOOL,
            action=chats.arguments(span.input),
            observation=chats.cut_text(answer_of(span.output)),
            error=chats.cut_text(span.error),
        )
        for span in calls
    ]
    tools = chats.tools(
        [step for step, span in zip(steps, calls, strict=True) if span.kind == TOOL]
    )
    if not calls:
        messages = root.output.get("messages") if isinstance(root.output, Mapping) else None
        told = list(chats.steps(messages_of(messages)))
        if tools := chats.tools(told):
            steps = told
    answer = answer_of(root.output)
    if answer and not (steps and steps[-1].action_type == chats.REPLY):
        steps.append(Step(action_type=chats.REPLY, action=answer[:MAX_TEXT]))
    seconds = None
    if root.started_at and root.ended_at:
        seconds = max(0.0, (root.ended_at - root.started_at).total_seconds())
    episode = {
        "task": question_of(root.input) or root.name,
        "agent": acting.name,
        "steps": tuple(steps),
        "error": chats.cut_text(root.error),
        "started_at": root.started_at,
        "ended_at": root.ended_at,
        "duration": seconds,
        **fields,
    }
    episode["task"] = chats.cut_task(episode["task"])
    outcomes, unknown = split_judgements(judgements)
    return Unsettled(
        number,
        episode,
        outcomes=outcomes,
        names=names,
        tools=tools,
        model=next((span.model for span in ordered if span.model), None),
        record=record or {},
        unknown=unknown,
    )


def root_of(spans: Sequence[Span]) -> Span:
    """Return the span that has no parent here; of several the one that began first."""
    ids = {span.id for span in spans}
    roots = [span for span in spans if span.parent is None or span.parent not in ids]
    if not roots:
        problem = "go round in a circle" if spans else "are missing"
        raise ValidationError("spans", None, f"{problem}: the trace has no root")
    first = [span for span in roots if span.parent is None] or roots
    return min(first, key=_start_of)


def _start_of(span: Span) -> datetime:
    return span.started_at or _EPOCH


def question_of(value: Any) -> str | None:
    """Return the question in an input: that of a chat, a text, or all as JSON."""
    value = chats.arguments(value)
    if value is None or isinstance(value, str):
        return value
    chat = value.get("messages") if isinstance(value, Mapping) else value
    if isinstance(chat, list) and (question := chats.question(messages_of(chat))):
        return question
    if isinstance(value, Mapping):
        texts = [value[name] for name in _ASKS if isinstance(value.get(name), str)]
        if texts or len(value) == 1:
            return texts[0] if texts else question_of(next(iter(value.values())))
    return canonical_json(value) if value else None


def answer_of(value: Any) -> str | None:
    """Return an output as a text: the last message of a chat, a text, or all as JSON."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        messages = value.get("messages")
        if isinstance(messages, list) and messages and isinstance(messages[-1], Mapping):
            return chats.text_of(messages[-1].get("content"))
        if len(value) == 1 and isinstance(only := next(iter(value.values())), str):
            return only
        return canonical_json(value) if value else None
    return chats.text_of(value)


def messages_of(value: Any) -> list[Mapping[str, Any]]:
    """Return messages with roles; those of LangChain have types, or are pairs, or in lists."""
    messages: list[Mapping[str, Any]] = []
    items = chats.arguments(value)
    for one in items if isinstance(items, list) else ():
        if isinstance(one, list):
            pair = len(one) == 2 and all(isinstance(part, str) for part in one)
            messages += [{"role": one[0], "content": one[1]}] if pair else messages_of(one)
        elif isinstance(one, Mapping):
            inner = one.get("kwargs") if "lc" in one else one
            message = dict(inner if isinstance(inner, Mapping) else one)
            message.setdefault("role", message.get("type"))
            if isinstance(parts := message.get("parts"), list):  # as OpenTelemetry writes them
                blocks = [part for part in parts if isinstance(part, Mapping)]
                texts = [part.get("content") for part in blocks if part.get("type") == "text"]
                message["content"] = [text for text in texts if isinstance(text, str)] or None
            messages.append(message)
    return messages


def judge(value: Any) -> bool | float | None:
    """Return a judgement as a success, a score in [0, 1], or None if it is unclear."""
    if isinstance(value, str):
        return WORDS.get(value.strip().lower())
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and 0 <= value <= 1:
        return float(value)
    return None


def split_judgements(
    judgements: Mapping[str, Any],
) -> tuple[dict[str, bool | float], ValidationError | None]:
    """Return the judgements that are an outcome, and what to say of those that are unclear."""
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
    if not unclear:
        return outcomes, None
    problem = "is neither a success nor a score in [0, 1]"
    remedy = "join an outcome with --outcomes"
    return outcomes, ValidationError("score", canonical_json(unclear), problem, remedy)


def parse_time(value: Any, zone: tzinfo | None = UTC, unit: str | None = "ns") -> datetime | None:
    """Return a time: ISO 8601, in this zone if it names none, or a number since 1970.

    Without a unit, the size of a number tells it: each covers the years from 1973 to 5138.
    """
    if value is None or value == "" or isinstance(value, bool):
        return None
    try:
        number = (
            _NUMBER.fullmatch(value) if isinstance(value, str) else isinstance(value, int | float)
        )
        if number:
            amount = int(value) if isinstance(value, int) or "." not in str(value) else float(value)
            size = next((name for name, most in _LARGEST.items() if abs(amount) < most), "ns")
            return _EPOCH + timedelta(microseconds=amount * 1_000_000 // _PER_SECOND[unit or size])
        parsed = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError):
        raise ValidationError("time", value, "is no time") from None
    if parsed.tzinfo is None:
        return None if zone is None else parsed.replace(tzinfo=zone)
    return parsed


@dataclass(frozen=True, slots=True)
class Groups:
    """Records by kind and key, such as those of a trace, in a temporary file."""

    file: sqlite3.Connection
    limits: Limits

    @classmethod
    @contextmanager
    def open(cls, limits: Limits) -> Iterator[Groups]:
        """Yield groups that are gone at the end of the block."""
        try:
            file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
            with closing(file):
                file.executescript(
                    "PRAGMA journal_mode = OFF; PRAGMA cache_size = -32000; BEGIN;"
                    "CREATE TABLE records (kind TEXT, key TEXT, number INTEGER, record TEXT)"
                )
                yield cls(file, limits)
        except sqlite3.Error as error:
            raise StorageError(f"traces cannot be put together: {error}") from error

    def add(self, kind: str, key: str, number: int, record: Mapping[str, Any]) -> None:
        """Add a record."""
        row = (kind, key.encode("utf-8", "replace").decode(), number, json.dumps(record))
        self.file.execute("INSERT INTO records VALUES (?, ?, ?, ?)", row)

    def of(self, kind: str, key: str | None) -> Iterator[dict[str, Any]]:
        """Yield the records of a key in their order; None has none."""
        if key is None:
            return
        rows = self.file.execute(
            "SELECT record FROM records WHERE kind = ? AND key = ? ORDER BY rowid",
            (kind, key.encode("utf-8", "replace").decode()),
        )
        for (record,) in rows:
            yield json.loads(record)

    def each(self, kind: str) -> Iterator[tuple[int, Callable[[], list[dict[str, Any]]]]]:
        """Yield the number of the first record of each key of a kind, and what reads them all."""
        self.file.execute("CREATE INDEX places ON records (kind, key)")
        groups = self.file.execute(
            "SELECT key, min(number), sum(length(record)) FROM records WHERE kind = ?"
            " GROUP BY key ORDER BY min(rowid)",
            (kind,),
        )
        for key, first, size in groups:
            yield first, partial(self._read, kind, key, size)

    def _read(self, kind: str, key: str, size: int) -> list[dict[str, Any]]:
        if size > self.limits.record:
            raise ValidationError(kind, key, self.limits.too_long)
        return list(self.of(kind, key))
