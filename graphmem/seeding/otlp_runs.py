"""Puts spans aside as they come, and puts runs together when all spans are there.

Spans of a trace may be far apart, so all wait in a temporary file. Memory holds one trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count
from typing import Any

from graphmem.errors import ValidationError
from graphmem.printable import counted
from graphmem.seeding.formats import Record, Refused, Unsettled, make_record
from graphmem.seeding.traces import AGENT, PLAN, TOOL, Groups, Span, make_episode, parse_time

CHAIN, CHAT, OTHER, NOTHING = "chain", "chat", "other", "nothing"
"""Kinds of spans, besides those of all traces; an evaluator's span is transparent: nothing."""
SPAN, TRACE, SESSION = "span", "trace", "session"
"""What a judgement is about."""

Object = Mapping[str, Any]
Spans = dict[str, Object]


class Runs:
    """The spans and judgements of a file, and the runs in them."""

    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._judgements = 0

    def add(self, span: Object) -> None:
        """Put a span aside."""
        self._groups.add("trace", span["trace"], span["line"], span)
        if (session := span.get("session")) is not None:
            text = {name: span.get(name) for name in ("trace", "start", "question")}
            self._groups.add("session", session, span["line"], text)

    def judge(self, trace: str | None, span: str | None, judgement: Object, line: int) -> None:
        """Put a judgement aside; it may name a span."""
        response, session, scope = (judgement.get(k) for k in ("response", "session", "scope"))
        if span is None and response is None and scope == SPAN:
            if trace is None and session is None:
                problem = "is missing, and so is a response, so nothing is judged"
                raise ValidationError("spanId", None, problem)
            scope = SESSION if trace is None else TRACE
        self._judgements += 1
        row = {**judgement, "scope": scope, "span": span, "number": self._judgements}
        keys = {"trace": trace, "response": response, "session": scope == SESSION and session}
        for kind, key in keys.items():
            if key:
                self._groups.add(f"judged {kind}", str(key), line, row)

    def records(self) -> Iterator[Record]:
        """Yield the runs, in the order in which their traces begin in the file, and refusals."""
        is_empty, line = True, 0
        for line, spans in self._groups.each("trace"):
            records: Iterator[Record]
            if isinstance(spans, ValidationError):
                records = iter([Refused(line, spans.field, str(spans))])
            else:
                records = self._of_trace(spans)
            for record in records:
                is_empty = False
                yield record
        if is_empty and line:
            reason = "holds no run: no span is invoke_agent, or of the kind AGENT or CHAIN"
            yield Refused(1, "file", reason)

    def _of_trace(self, rows: Sequence[Object]) -> Iterator[Record]:
        spans: Spans = {}
        for span in rows:
            first = spans.setdefault(span["id"], span)
            if {**first, "line": 0} != {**span, "line": 0}:
                reason = f"is that of another span, on line {first['line']}, which is taken"
                yield Refused(span["line"], "spanId", f"{span['id']} {reason}")
        owners, circles = _owners(spans, AGENT)
        if circles:
            line = min(spans[span]["line"] for span in circles)
            reason = f"leads in a circle, so {counted(len(circles), 'span')} belong to no run"
            yield Refused(line, "parentSpanId", reason)
        if not any(owners.values()):
            owners, _ = _owners(spans, CHAIN)
        runs: dict[str, list[Object]] = {}
        for name, owner in owners.items():
            span = spans[name]
            if owner is not None:
                runs.setdefault(owner, []).append(span)
            elif span["kind"] in (TOOL, PLAN):
                top = [span, *_above(spans, span)][-1].get("parent")
                reason = f"the {span['kind']} {span['id']} is below no agent"
                reason += "" if top is None else f": there is no span {top}"
                yield Refused(span["line"], "parentSpanId", reason)
        for root, members in runs.items():
            make = partial(self._run, spans, members=members, only=len(runs) == 1)
            yield make_record(spans[root]["line"], "run", root, make)

    def _run(self, spans: Spans, name: str, members: Sequence[Object], *, only: bool) -> Unsettled:
        root = spans[name]
        ordered = sorted(members, key=lambda one: one.get("start") or one.get("end") or 0)
        chats = [one for one in ordered if one["kind"] == CHAT]
        last = max(
            reversed(chats), key=lambda one: one.get("end") or one.get("start") or 0, default={}
        )
        above = _above(spans, root) if only else []
        session = root.get("session") or (chats[0].get("session") if chats else None)
        questions = (one["question"] for one in (root, *above, *chats) if "question" in one)
        judgements = self._judgements_of(spans, root, last, above, session, only=only)
        model = root.get("model") or last.get("model")
        own = root.get("fields", {})
        extra = {**own, "conversation": session, "model": model}
        acts = [
            Span(
                one["id"],
                one["kind"],
                parent=name,
                started_at=parse_time(one.get("start") or one.get("end")),
                **{key: one.get(key) for key in ("name", "input", "output", "error")},
            )
            for one in ordered
            if one["kind"] in (TOOL, PLAN)
        ]
        whole = Span(
            name,
            AGENT,
            None,
            output=root.get("answer"),
            error=root.get("error"),
            started_at=parse_time(root.get("start")),
            ended_at=parse_time(root.get("end")),
            model=model,
        )
        return make_episode(
            root["line"],
            [whole, *acts],
            {
                "task": next(questions, None) or self._question_in(session),
                "agent": root.get("agent"),
                "feedback": next(filter(None, (one["explanation"] for one in judgements)), None),
                "duration": None,
                "source_key": f"{root['trace']}/{name}",
                "source": "otlp",
                "extra": {name: value for name, value in extra.items() if value is not None},
            },
            _by_judge(judgements),
            names=[root["trace"], session] if session else [root["trace"]],
            record=own,
        )

    def _question_in(self, session: str | None) -> str:
        """Return the first question in a conversation."""
        rows = [one for one in self._groups.of("session", session) if one["question"] is not None]
        if rows:
            return str(min(rows, key=lambda one: one["start"] or 0)["question"])
        capture = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
        remedy = f"have contents captured, as with {capture}"
        raise ValidationError("task", None, "is not told by any span of the run", remedy)

    def _judgements_of(
        self,
        spans: Spans,
        root: Object,
        last: Object,
        above: Sequence[Object],
        session: str | None,
        *,
        only: bool,
    ) -> list[Object]:
        """Return the judgements of a run; if there are none, those of its last answer."""
        if not self._judgements:
            return []
        response, answered = root.get("response"), last.get("response")
        keys = [("trace", root["trace"]), ("response", response), ("response", answered)]
        found = {
            one["number"]: one
            for kind, key in (*keys, ("session", session))
            for one in self._groups.of(f"judged {kind}", key)
        }
        wholes = {root["id"], *(one["id"] for one in above)}
        of_run: list[Object] = []
        of_answer: list[Object] = []
        for _, one in sorted(found.items()):
            about, by_response = _about(spans, one["span"]), one["response"] is not None
            if one["scope"] != SPAN:
                own = one["scope"] == TRACE or one["session"] == session
                if only and own and (one["scope"] == TRACE or self._is_alone(session, root)):
                    of_run.append(one)
            elif about in wholes:
                of_run.append(one)
            elif about is not None and about == last.get("id"):
                of_answer.append(one)
            elif by_response and one["response"] == response:
                of_run.append(one)
            elif by_response and one["response"] == answered:
                of_answer.append(one)
        return of_run or of_answer

    def _is_alone(self, session: str | None, root: Object) -> bool:
        return all(one["trace"] == root["trace"] for one in self._groups.of("session", session))


def _owners(spans: Spans, kind: str) -> tuple[dict[str, str | None], set[str]]:
    """Return the topmost span of a kind above each span, or itself, and all in or below circles."""
    owners: dict[str, str | None] = {}
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
        owner = owners.get(at) if at is not None else None
        for below in reversed(path):
            if owner is None and spans[below]["kind"] == kind:
                owner = below
            owners[below] = owner
    return owners, circles


def _above(spans: Spans, span: Object) -> list[Object]:
    """Return the spans above one that is in no circle, the nearest first."""
    found = []
    while (parent := spans.get(span.get("parent") or "")) is not None:
        found.append(parent)
        span = parent
    return found


def _about(spans: Spans, span: str | None) -> str | None:
    """Return the judged span: this one, or the span above an evaluator's span."""
    for _ in spans:
        judged = spans.get(span or "", {})
        if judged.get("kind") != NOTHING or judged.get("parent") not in spans:
            break
        span = judged["parent"]
    return span


def _by_judge(judgements: Sequence[Object]) -> dict[str, Any]:
    """Return judgements by evaluator; those of one name that differ, by who judged, too."""
    outcomes: dict[str, Any] = {}
    for one in judgements:
        base = f"{one['name']} ({one['by']})" if one["by"] else one["name"]
        names = chain((one["name"], base), (f"{base} {number}" for number in count(2)))
        name = next(name for name in names if outcomes.get(name, one["value"]) == one["value"])
        outcomes[name] = one["value"]
    return outcomes
