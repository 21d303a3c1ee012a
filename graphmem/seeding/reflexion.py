"""Reflexion logs of a question-answering agent: trials as plain text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import digest
from graphmem.models import Step
from graphmem.seeding import chats
from graphmem.seeding.reading import Limits
from graphmem.seeding.tables import Reading, TableReader

RETRIED = "You have attempted to answer following question before and failed"
"""The text that the prompt of a retry appends to the question, without a space."""
ERRORS = ("Could not find", "Invalid Action", "Answer is INCORRECT")
MAX_LINE = 4 * 1024 * 1024
MAX_LINES = 100_000
"""Most lines of one attempt."""
MAX_QUESTIONS = 200_000
"""Most questions of one trial."""
_SECTIONS = ("CORRECT", "INCORRECT", "HALTED")
_HEADING = re.compile(r"BEGIN TRIAL (\d{1,9})\s*|-+ BEGIN (\w+) AGENTS -+\s*")
_PART = re.compile(r"^((Thought|Action|Observation) (\d{1,9}): ?)", re.MULTILINE)
_KIND = re.compile(r"\s*([A-Za-z]\w*)\s*\[")
_REFLECTED = re.compile(r"^[ \t]*Reflections:[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"^- ", re.MULTILINE)
_QUESTION, _END = "Question:", "Correct answer:"
_NEXT = {"Thought": "Action", "Action": "Observation"}


@dataclass
class _Attempt:
    """The lines of one attempt, and its position; ``line`` is the line number of its question."""

    line: int
    question: str
    trial: int | None
    section: str | None
    lines: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes of its lines; over the limit of a record they are no longer kept."""
    complete: bool = False

    def check(self, limits: Limits) -> dict[str, Any]:
        """Return the record of an attempt that can be one."""
        if self.size > limits.record:
            raise ValidationError("record", self.question[:200], limits.too_long)
        if self.trial is None or self.section not in _SECTIONS:
            problem = "the outcome is unknown: it lies outside of the known sections of a trial"
            raise ValidationError("success", self.section, problem)
        if not self.complete:
            problem = f"the attempt has no {_END!r} at its end"
            raise ValidationError("record", self.question, problem)
        return {name: getattr(self, name) for name in ("question", "section", "trial", "lines")}


def read_attempts(stream: BinaryIO, limits: Limits) -> Iterator[Reading]:
    """Yield the attempts that were run, each with the line number of its question."""
    solved: set[str] = set()
    known: set[str] = set()
    """Questions that were run in this trial, or solved before."""
    trial: int | None = None
    for attempt in _attempts(stream, limits):
        if attempt.trial != trial:
            known, trial = set(solved), attempt.trial
        if attempt.complete:
            key = digest(attempt.question.encode("utf-8", "replace").decode())
            if key in known:
                continue
            known.add(key)
            if len(known) > MAX_QUESTIONS:
                raise SeedingError(f"a trial has over {MAX_QUESTIONS:,} questions")
            if attempt.section == "CORRECT":
                solved.add(key)
        yield attempt.line, None, partial(attempt.check, limits)


def read_steps(attempt: Mapping[str, Any], names: dict[str, Any]) -> list[Step]:
    """Return the steps of an attempt; ``names`` get the rest of its text."""
    names["prompt"], names["reflections"], steps = _parts("\n".join(attempt["lines"]))
    if not steps:
        raise ValidationError("steps", None, "nothing was run in this trial")
    names["halted"] = "halted" if attempt["section"] == "HALTED" else None
    return steps


def name_strategies(steps: Sequence[Step], names: dict[str, Any]) -> list[str]:
    """Return the strategies of an attempt, from the kinds of its actions in order."""
    kinds = [step.action_type for step in steps if step.action_type != "Finish"]
    first = f"sequence: {chats.in_order(kinds)}" if kinds else "answers at once"
    return [first, *dict.fromkeys(kinds), *(["reflect"] if names["reflections"] else [])]


def _attempts(stream: BinaryIO, limits: Limits) -> Iterator[_Attempt]:
    """Yield the attempts of a log; an attempt that is cut off is yielded with a mark."""
    trial: int | None = None
    section: str | None = None
    attempt: _Attempt | None = None
    fresh = True  # a question begins after a blank line, or if there is no attempt at the moment
    for number, raw in enumerate(iter(partial(stream.readline, MAX_LINE), b""), 1):
        # Invalid UTF-8 becomes lone surrogates, which an episode refuses.
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        heading = _HEADING.fullmatch(line)
        begins = fresh and line.startswith(_QUESTION)
        ends = line.startswith(_END)
        if attempt and (heading or begins or ends or len(attempt.lines) >= MAX_LINES):
            attempt.complete = ends
            yield attempt
            attempt = None
        if heading and heading[1]:
            trial, section = int(heading[1]), None
        elif heading:
            section = heading[2]
        elif begins:
            question = line.removeprefix(_QUESTION).partition(RETRIED)[0].strip()
            attempt = _Attempt(number, question, trial, section)
        elif attempt:
            attempt.size += len(raw)
            if attempt.size <= limits.record:
                attempt.lines.append(line)
        fresh = attempt is None or not line.strip()
    if attempt:
        yield attempt


def _parts(text: str) -> tuple[str, list[str], list[Step]]:
    """Return other text, the reflections and the steps from the text behind a question."""
    before, *rest = _PART.split(text)
    steps: list[dict[str, str]] = []
    last = ""
    for at in range(0, len(rest), 4):
        mark, kind, number, said = rest[at : at + 4]
        begins = int(number) == len(steps) + 1 and kind != "Observation"
        if begins:
            steps.append({})
        if begins or (int(number) == len(steps) and _NEXT.get(last) == kind):
            last = kind
            steps[-1][kind] = said
        elif steps:
            steps[-1][last] += mark + said
        else:
            before += mark + said
    prompt, *told = _REFLECTED.split(before, maxsplit=1)
    reflections = [one.strip() for one in _ITEM.split("".join(told)) if one.strip()]
    return prompt.strip(), reflections, list(map(_step, steps))


def _step(parts: dict[str, str]) -> Step:
    texts = {name: said.strip() for name, said in parts.items()}
    action, output = texts.get("Action", ""), texts.get("Observation")
    match = _KIND.match(action)
    return Step(
        action_type=match[1] if match else "(other)",
        action={name.lower(): texts[name] for name in ("Thought", "Action") if name in texts},
        observation=chats.cut_text(output),
        error=output if output and output.startswith(ERRORS) else None,
    )


FORMATS = (
    TableReader(
        "reflexion", read_attempts, steps=read_steps, strategy=name_strategies
    ).make_format(),
)
