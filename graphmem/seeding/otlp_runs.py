"""Puts spans aside as they come, and puts runs together when all spans are there.

Spans of a trace may be far apart, so all wait in a temporary file, which stays in memory for a
small log. At one time memory holds only how the spans of one trace hang together, and what the
episode of one run takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from graphmem.errors import StorageError, ValidationError
from graphmem.models.fields import MAX_STEPS, MAX_TEXT
from graphmem.printable import counted
from graphmem.seeding.chats import REPLY, arguments, cut_text
from graphmem.seeding.formats import Record, Refused, Unsettled, make_record
from graphmem.seeding.judgements import SESSION, SPAN, TRACE, Judgement
from graphmem.seeding.traces import answer_of, parse_time, split_judgements, unclear_error

NOTHING, OTHER, AGENT, CHAIN, TOOL, PLAN, CHAT = range(7)
"""Kinds of spans. Other spans, such as an evaluator's, are transparent."""
MAX_SPANS = 100_000
"""Most spans of one trace."""
_ENCODER = json.JSONEncoder(separators=(",", ":"))
_BATCH = 1_000
_FEW = 1_000
"""Spans of a trace that memory holds whole."""
_REST = "told, session, response, asked"
_CACHE = 32_000
"""Kilobytes of the temporary file that stay in memory."""
_TABLES = """
CREATE TABLE spans (trace BLOB, span BLOB, parent BLOB, line INTEGER, kind INTEGER, start INTEGER,
    stop INTEGER, session TEXT, response TEXT, asked TEXT, told TEXT);
CREATE TABLE judged (trace BLOB, span BLOB, name TEXT, value TEXT, scope INTEGER, explanation TEXT,
    response TEXT, session TEXT, judge TEXT, line INTEGER)
"""
_INDEXES = """
CREATE INDEX by_trace ON spans (trace);
CREATE INDEX by_session ON spans (session, start) WHERE session IS NOT NULL;
CREATE INDEX judged_trace ON judged (trace) WHERE trace IS NOT NULL;
CREATE INDEX judged_response ON judged (response) WHERE response IS NOT NULL;
CREATE INDEX judged_session ON judged (session) WHERE scope = 2
"""


@dataclass(frozen=True, slots=True)
class Span:
    """A span that was put aside; ``told`` is what an episode takes from it."""

    trace: bytes | None
    span: bytes | None
    parent: bytes | None
    line: int
    kind: int
    start: int | None
    end: int | None
    session: str | None
    response: str | None
    asked: str | None
    told: Mapping[str, Any]


class _Light(NamedTuple):
    """How a span hangs together with others; ``row`` is the place of the rest of it."""

    row: int
    span: bytes
    parent: bytes | None
    line: int
    kind: int
    start: int | None
    stop: int | None
    size: int


class _Rest(NamedTuple):
    """The rest of a span that was put aside."""

    told: str
    session: str | None
    response: str | None
    asked: str | None


class Traces:
    """The spans and judgements of one file, and the runs in them.

    Close it, or use it in a ``with`` block.
    """

    def __init__(self, most: int) -> None:
        """Take at most so many bytes for one run."""
        self._most = most
        self._spans: list[tuple[Any, ...]] = []
        self._judged: list[tuple[Any, ...]] = []
        self.judged = False
        """Whether there is any judgement."""
        # "" is a file without a name. It is gone when it is closed, and nobody else can read it.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for statement in (
            "PRAGMA journal_mode = OFF",
            "PRAGMA synchronous = OFF",
            f"PRAGMA cache_size = -{_CACHE}",
            *_TABLES.split(";"),
        ):
            self._file.execute(statement)

    def add(self, span: Span) -> None:
        """Put a span aside.

        Raises:
            StorageError: the temporary file cannot be written.
        """
        told = _ENCODER.encode(span.told) if span.told else ""
        self._spans.append(
            (
                *(span.trace, span.span, span.parent, span.line, span.kind, span.start, span.end),
                *(_plain(span.session), _plain(span.response), _plain(span.asked), told),
            )
        )
        if len(self._spans) >= _BATCH or len(told) > MAX_TEXT:
            self._flush()

    def judge(
        self, trace: bytes | None, span: bytes | None, made: Judgement | None, line: int
    ) -> None:
        """Put a judgement aside; it may name a span."""
        if made is None:
            return
        if span is None and made.response is None and made.scope == SPAN:
            if trace is None and made.session is None:
                raise ValidationError(
                    "spanId", None, "is missing, and so is a response, so nothing is judged"
                )
            scope = SESSION if trace is None else TRACE
        else:
            scope = made.scope
        value, self.judged = json.dumps(made.value), True
        self._judged.append(
            (
                *(trace, span, _plain(made.name), value, scope, _plain(made.explanation)),
                *(_plain(made.response), _plain(made.session), _plain(made.by), line),
            )
        )
        if len(self._judged) >= _BATCH:
            self._flush()

    def runs(self) -> Iterator[Record]:
        """Yield the runs, in the order in which their traces begin in the file."""
        self._flush()
        with _storage_errors():
            for statement in _INDEXES.split(";"):
                self._file.execute(statement)
        traces = self._all(
            "SELECT trace, count(*), min(line), sum(length(told)) FROM spans GROUP BY trace"
            " ORDER BY min(rowid)"
        )
        found = any_line = False
        for trace, count, line, size in traces:
            any_line = True
            if count > MAX_SPANS:
                found = True
                yield Refused(line, "traceId", f"has {counted(count, 'span')}, over {MAX_SPANS:,}")
                continue
            for record in _Trace(self, trace, small=count <= _FEW and size <= MAX_TEXT).records():
                found = True
                yield record
        if any_line and not found:
            reason = "holds no run: no span is invoke_agent, or of the kind AGENT or CHAIN"
            yield Refused(1, "file", reason)

    def close(self) -> None:
        """Remove the temporary file."""
        self._file.close()

    def _all(self, statement: str, *values: Any) -> Iterator[Any]:
        with _storage_errors():
            yield from self._file.execute(statement, values)

    def _flush(self) -> None:
        spans, self._spans = self._spans, []
        judged, self._judged = self._judged, []
        with _storage_errors():
            self._file.execute("BEGIN")
            self._file.executemany(f"INSERT INTO spans VALUES ({_marks(11)})", spans)  # noqa: S608
            self._file.executemany(f"INSERT INTO judged VALUES ({_marks(10)})", judged)  # noqa: S608
            self._file.execute("COMMIT")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Trace:
    """The spans of one trace, and its runs."""

    def __init__(self, home: Traces, trace: bytes, *, small: bool) -> None:
        self._home = home
        self._trace = trace
        self._refused: list[Refused] = []
        self._spans: dict[bytes, _Light] = {}
        self._held: dict[int, _Rest] = {}
        rest = f", {_REST}" if small else ""
        rows = home._all(
            f"SELECT rowid, span, parent, line, kind, start, stop, length(told){rest} FROM spans"  # noqa: S608
            " WHERE trace = ? ORDER BY rowid",
            trace,
        )
        for row in rows:
            light = _Light(*row[:8])
            if small:
                self._held[light.row] = _Rest(*row[8:])
            self._take(light)
        self._circular = self._in_circles()

    def _take(self, light: _Light) -> None:
        first = self._spans.setdefault(light.span, light)
        if first is light:
            return
        same = (light.parent, light.kind, light.start, light.stop, light.size)
        if same != (first.parent, first.kind, first.start, first.stop, first.size) or (
            self._told(light) != self._told(first)
        ):
            reason = f"is that of another span, on line {first.line}, which is taken"
            self._refused.append(Refused(light.line, "spanId", f"{light.span.hex()} {reason}"))

    def _in_circles(self) -> set[bytes]:
        """Return the spans that are below themselves, or below such ones."""
        state: dict[bytes, bool] = {}
        for span in self._spans:
            path: dict[bytes, None] = {}
            at: bytes | None = span
            while at is not None and at in self._spans and at not in state and at not in path:
                path[at] = None
                at = self._spans[at].parent
            circular = at in path or state.get(at or b"", False)
            state.update(dict.fromkeys(path, circular))
        circles = {span for span, circular in state.items() if circular}
        if circles:
            line = min(self._spans[span].line for span in circles)
            reason = f"leads in a circle, so {counted(len(circles), 'span')} belong to no run"
            self._refused.append(Refused(line, "parentSpanId", reason))
        return circles

    def records(self) -> Iterator[Record]:
        """Yield the runs and the refusals, in the order of the file."""
        yield from self._refused
        runs: dict[bytes, list[_Light]] = {}
        owners: dict[bytes, bytes | None] = {}
        kind = AGENT
        for kind in (AGENT, CHAIN):
            owners = self._owners(kind)
            for span, owner in owners.items():
                if owner is not None:
                    runs.setdefault(owner, []).append(self._spans[span])
            if runs:
                break
        for span, owner in owners.items():
            light = self._spans[span]
            if owner is None and light.kind in (TOOL, PLAN):
                yield Refused(light.line, "parentSpanId", self._stray(light))
        only = len(runs) == 1
        for root, members in runs.items():
            line = self._spans[root].line
            yield make_record(line, "run", root, partial(self._run, members=members, only=only))

    def _stray(self, light: _Light) -> str:
        what = (
            f"the {'tool' if light.kind == TOOL else 'plan'} {light.span.hex()} is below no agent"
        )
        at: _Light | None = light
        while at is not None and at.parent is not None:
            if at.parent not in self._spans:
                return f"{what}: there is no span {at.parent.hex()}"
            at = self._spans[at.parent]
        return what

    def _owners(self, kind: int) -> dict[bytes, bytes | None]:
        """Return the topmost span of a kind above each span, or itself."""
        owners: dict[bytes, bytes | None] = {}
        for span in self._spans:
            if span in self._circular:
                continue
            path = []
            at: bytes | None = span
            while at is not None and at in self._spans and at not in owners:
                path.append(at)
                at = self._spans[at].parent
            owner = owners.get(at) if at is not None else None
            for below in reversed(path):
                if owner is None and self._spans[below].kind == kind:
                    owner = below
                owners[below] = owner
        return owners

    def _run(self, root: bytes, members: Sequence[_Light], *, only: bool) -> Unsettled:
        light = self._spans[root]
        ordered = sorted(members, key=lambda one: (one.start or one.stop or 0, one.row))
        acts = [one for one in ordered if one.kind in (TOOL, PLAN)]
        chats = [one for one in ordered if one.kind == CHAT]
        above = [*self._above(light)] if only else []
        last = max(chats, key=lambda one: (one.stop or one.start or 0, one.row), default=None)
        self._check_size(light, acts)
        told = self._told(light)
        fields = told.get("fields", {})
        response, session = self._rest(light).response, self._rest(light).session
        if session is None and chats:
            session = self._rest(chats[0]).session
        model = told.get("model") or (self._told(last).get("model") if last else None)
        made = [(one.kind, self._told(one)) for one in acts]
        steps = [_step(one) for _, one in made]
        if answer := told.get("answer"):
            steps.append({"action_type": REPLY, "action": answer[:MAX_TEXT]})
        judged = self._judged(light, last, above, response, session, only=only)
        outcomes, unclear = split_judgements(_named(judged))
        trace = self._trace.hex()
        extra = {**fields, "conversation": session, "model": model}
        return Unsettled(
            number=light.line,
            fields={
                "task": self._asked([light, *above, *chats], session),
                "agent": told.get("agent"),
                "steps": steps,
                "error": cut_text(told.get("error")),
                "feedback": next((one.explanation for one in judged if one.explanation), None),
                "started_at": parse_time(light.start),
                "ended_at": parse_time(light.stop),
                "source_key": f"{trace}/{root.hex()}",
                "source": "otlp",
                "extra": {name: value for name, value in extra.items() if value is not None},
            },
            outcomes=outcomes,
            unknown=unclear_error(unclear),
            names=[trace, session] if session else [trace],
            tools=[_name(one) for kind, one in made if kind == TOOL],
            model=model,
            record=fields,
        )

    def _check_size(self, root: _Light, acts: Sequence[_Light]) -> None:
        if len(acts) >= MAX_STEPS:
            raise ValidationError("steps", None, f"are {len(acts):,}, over {MAX_STEPS:,}")
        size = root.size + sum(one.size for one in acts)
        if size > self._home._most:
            raise ValidationError(
                "record", None, f"takes {counted(size, 'byte')}, over the limit of a record"
            )

    def _told(self, light: _Light) -> dict[str, Any]:
        told = self._rest(light).told
        found: dict[str, Any] = json.loads(told) if told else {}
        return found

    def _rest(self, light: _Light) -> _Rest:
        held = self._held.get(light.row)
        if held is None:
            statement = f"SELECT {_REST} FROM spans WHERE rowid = ?"  # noqa: S608
            [row] = self._home._all(statement, light.row)
            held = _Rest(*row)
        return held

    def _asked(self, spans: Sequence[_Light], session: str | None) -> str:
        """Return the question in the first of these spans, else the first in the conversation."""
        for light in spans:
            if (asked := self._rest(light).asked) is not None:
                return asked
        if session is not None:
            for (asked,) in self._home._all(
                "SELECT asked FROM spans WHERE session = ? AND asked IS NOT NULL"
                " ORDER BY start, rowid LIMIT 1",
                session,
            ):
                return str(asked)
        raise ValidationError(
            "task",
            None,
            "is not told by any span of the run",
            "have contents captured, as with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        )

    def _judged(
        self,
        root: _Light,
        last: _Light | None,
        above: Sequence[_Light],
        response: str | None,
        session: str | None,
        *,
        only: bool,
    ) -> list[Judgement]:
        """Return the judgements of a run; if there are none, those of its last answer."""
        wholes = {root.span, *(one.span for one in above)}
        answered = self._rest(last).response if last else None
        of_run: list[Judgement] = []
        of_answer: list[Judgement] = []
        for span, one in self._judgements(response, answered, session):
            about = self._about(span)
            if one.scope != SPAN:
                alone = one.scope == TRACE or (one.session == session and self._alone(session))
                if only and alone:
                    of_run.append(one)
            elif about in wholes:
                of_run.append(one)
            elif last is not None and about == last.span:
                of_answer.append(one)
            elif one.response is not None and one.response == response:
                of_run.append(one)
            elif one.response is not None and one.response == answered:
                of_answer.append(one)
        return of_run or of_answer

    def _about(self, span: bytes | None) -> bytes | None:
        """Return the judged span: this one, or the span above an evaluator's span."""
        while span in self._spans and self._spans[span].kind == NOTHING:
            parent = self._spans[span].parent
            if parent not in self._spans or span in self._circular:
                break
            span = parent
        return span

    def _judgements(
        self, response: str | None, answered: str | None, session: str | None
    ) -> Iterator[tuple[bytes | None, Judgement]]:
        if not self._home.judged:
            return
        columns = "rowid, span, name, value, scope, explanation, response, session, judge"
        wheres = ("trace = ?1", "response IN (?2, ?3)", "session = ?4 AND scope = 2")
        parts = (f"SELECT {columns} FROM judged WHERE {where}" for where in wheres)  # noqa: S608
        statement = f"{' UNION '.join(parts)} ORDER BY 1"
        rows = self._home._all(statement, self._trace, response, answered, session)
        for _, span, name, value, *rest in rows:
            yield span, Judgement(name, json.loads(value), *rest)

    def _above(self, root: _Light) -> Iterator[_Light]:
        at = root.parent
        while at is not None and at in self._spans:
            yield self._spans[at]
            at = self._spans[at].parent

    def _alone(self, session: str | None) -> bool:
        """Return whether a session has no other trace."""
        rows = self._home._all(
            "SELECT 1 FROM spans WHERE session = ? AND trace <> ? LIMIT 1", session, self._trace
        )
        return next(rows, None) is None


def _named(judged: Sequence[Judgement]) -> dict[str, bool | float]:
    """Return judgements by evaluator; those of one name that differ, by who judged, too."""
    outcomes: dict[str, bool | float] = {}
    for one in judged:
        name = one.name
        if name in outcomes and outcomes[name] != one.value:
            base, number = f"{name} ({one.by})" if one.by else name, 1
            name = base
            while name in outcomes and outcomes[name] != one.value:
                number += 1
                name = f"{base} {number}"
        outcomes[name] = one.value
    return outcomes


def _step(told: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "action_type": _name(told),
        "action": arguments(told.get("input")),
        "observation": cut_text(answer_of(told.get("output")) or None),
        "error": cut_text(told.get("error")),
    }


def _name(told: Mapping[str, Any]) -> str:
    name = told.get("name")
    return name if isinstance(name, str) and name.strip() else "tool"


def _plain(given: str | None) -> str | None:
    """Return a text without lone surrogates, which cannot be stored."""
    return None if given is None else given.encode("utf-8", "replace").decode()


def _marks(count: int) -> str:
    return ", ".join("?" * count)


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StorageError(f"spans cannot be put aside: {error}") from error
