"""Reflexion logs of a question-answering agent: trials as plain text.

Mapping: the task is the question, an episode is one attempt that was actually run. A solved
question is printed again in all later trials although nothing was run; a question listed twice in a
trial (as incorrect and as halted) was run once. The outcome is the section of the attempt. The
first strategy is the sequence of kinds of actions; the others are these kinds in order of first
use, and ``reflect`` if the agent was shown its reflections on earlier attempts. ``Finish`` reveals
the outcome, so it never becomes a strategy. The right answer is never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import BinaryIO

from graphmem.errors import SeedingError, ValidationError
from graphmem.ids import digest
from graphmem.models import MAX_TEXT, Episode, Step
from graphmem.seeding.formats import Format, Origin, Record, Refused
from graphmem.seeding.reading import Limits

RETRIED = "You have attempted to answer following question before and failed"
"""The text that the prompt of a retry appends to the question, without a space."""
REFLECT = "reflect"
ANSWER = "Finish"
ERRORS = ("Could not find", "Invalid Action", "Answer is INCORRECT")
MAX_LINE = 4 * 1024 * 1024
MAX_LINES = 100_000
"""Most lines of one attempt."""
MAX_QUESTIONS = 200_000
"""Most questions of one trial."""
_OUTCOMES = {"CORRECT": True, "INCORRECT": False, "HALTED": False}
_TRIAL = re.compile(r"BEGIN TRIAL (\d{1,9})\s*")
_SECTION = re.compile(r"-+ BEGIN (\w+) AGENTS -+\s*")
_PART = re.compile(r"(Thought|Action|Observation) (\d{1,9}): ?(.*)", re.DOTALL)
_KIND = re.compile(r"\s*([A-Za-z]\w*)\s*\[")
_STEM = re.compile(r"(?P<kind>[A-Za-z]\w*?)_\d+_questions_\d+_trials")
_QUESTION, _REFLECTIONS, _END = "Question:", "Reflections:", "Correct answer:"
_ORDER = {"Thought": 0, "Action": 1, "Observation": 2}


def detect(head: bytes) -> bool:
    """Return whether one of its lines begins a trial."""
    return re.search(rb"^BEGIN TRIAL \d{1,9}\s*$", head, re.MULTILINE) is not None


@dataclass
class _Attempt:
    """The lines of one attempt, and its position; ``line`` is the line number of its question."""

    line: int
    run: int
    """How often the trial number did not increase, as in concatenated logs."""
    trial: int | None
    section: str | None
    lines: list[str] = field(default_factory=list)
    size: int = 0
    """Bytes of its lines; over the limit of a record they are no longer kept."""
    complete: bool = False

    @property
    def question(self) -> str:
        return self.lines[0].removeprefix(_QUESTION).partition(RETRIED)[0].strip()


def read(stream: BinaryIO, origin: Origin) -> Iterator[Record]:
    """Yield the attempts of a log, each with the line number of its question."""
    solved: set[str] = set()
    questions: set[str] = set()
    place: tuple[int, int | None] = (0, None)
    for attempt in _attempts(stream, origin.limits):
        if (attempt.run, attempt.trial) != place:
            if attempt.run != place[0]:
                solved.clear()
            questions.clear()
            place = (attempt.run, attempt.trial)
        key = digest(attempt.question.encode("utf-8", "replace").decode())
        if attempt.complete:
            if key in solved or key in questions:
                continue
            questions.add(key)
            if len(questions) > MAX_QUESTIONS:
                raise SeedingError(f"a trial has over {MAX_QUESTIONS:,} questions")
        try:
            attempted = episode(attempt, origin)
        except ValidationError as error:
            yield Refused(attempt.line, error.field, str(error))
            continue
        if attempted.success:
            solved.add(key)
        yield attempt.line, attempted


def episode(attempt: _Attempt, origin: Origin) -> Episode:
    """Return the episode of one attempt."""
    section, trial = attempt.section, attempt.trial
    if attempt.size > origin.limits.record:
        raise ValidationError("record", attempt.question[:200], origin.limits.too_long)
    if trial is None or section not in _OUTCOMES:
        problem = "the outcome is unknown: it lies outside of the known sections of a trial"
        raise ValidationError("success", section, problem)
    if not attempt.complete:
        raise ValidationError("record", attempt.question, f"the attempt has no {_END!r} at its end")
    before, reflections, steps = _parts(attempt.lines[1:])
    if not steps:
        raise ValidationError("steps", attempt.question, "nothing was run in this trial")
    beside = {"trial": trial, "prompt": before, "reflections": reflections}
    match = _STEM.fullmatch(origin.stem)
    return Episode(
        task=attempt.question,
        agent=origin.agent or (match["kind"] if match else origin.stem),
        strategy=strategies((step.action_type for step in steps), reflected=bool(reflections)),
        success=_OUTCOMES[section],
        steps=tuple(steps),
        error="halted" if section == "HALTED" else None,
        source_key=f"{origin.stem}/{trial}/{attempt.question}",
        source="reflexion",
        extra={name: value for name, value in beside.items() if value not in ("", [])},
    )


def strategies(kinds: Iterable[str], *, reflected: bool) -> list[str]:
    """Return the strategies of an attempt, from the kinds of its actions in order."""
    sequence = [kind for kind, _ in groupby(kind for kind in kinds if kind != ANSWER)]
    first = f"sequence: {' > '.join(sequence)}" if sequence else "answers at once"
    return [first, *dict.fromkeys(sequence), *([REFLECT] if reflected else [])]


def _attempts(stream: BinaryIO, limits: Limits) -> Iterator[_Attempt]:
    """Yield the attempts of a log; an attempt that is cut off is yielded with a mark."""
    run, trial = 0, None
    section: str | None = None
    attempt: _Attempt | None = None
    fresh = True  # a question begins after a blank line, or if there is no attempt at the moment
    number = 0
    while raw := stream.readline(MAX_LINE):
        number += 1
        # Invalid UTF-8 becomes lone surrogates, which an episode refuses.
        line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
        heading = _TRIAL.fullmatch(line) or _SECTION.fullmatch(line)
        begins = fresh and line.startswith(_QUESTION)
        if attempt and (heading or begins or len(attempt.lines) >= MAX_LINES):
            yield attempt
            attempt = None
        if heading:
            if heading.re is _TRIAL:
                before, trial, section = trial, int(heading[1]), None
                run += before is not None and trial <= before
            else:
                section = heading[1]
        elif begins:
            attempt = _Attempt(number, run, trial, section, [line])
        elif attempt and line.startswith(_END):
            attempt.complete = True
            yield attempt
            attempt = None
        elif attempt:
            attempt.size += len(raw)
            if attempt.size <= limits.record:
                attempt.lines.append(line)
        fresh = attempt is None or not line.strip()
    if attempt:
        yield attempt


def _parts(lines: list[str]) -> tuple[str, list[str], list[Step]]:
    """Return other text, the reflections and the steps from the lines after a question."""
    before: list[str] = []
    reflections: list[list[str]] = []
    steps: list[dict[str, list[str]]] = []
    into: list[str] | None = None
    reflecting = False
    last = -1
    for line in lines:
        match = _PART.fullmatch(line)
        number = int(match[2]) if match else -1
        begins = match is not None and number == len(steps) + 1 and match[1] != "Observation"
        if begins:
            steps.append({})
        if match and (begins or (number == len(steps) and _ORDER[match[1]] == last + 1)):
            last = _ORDER[match[1]]
            into = [match[3]]
            steps[-1][match[1]] = into
            reflecting = False
        elif not steps and line.strip() == _REFLECTIONS:
            reflecting = True
        elif reflecting:
            if line.startswith("- ") or not reflections:
                reflections.append([line.removeprefix("- ")])
            else:
                reflections[-1].append(line)
        else:
            (before if into is None else into).append(line)
    reflection_texts = ["\n".join(texts).strip() for texts in reflections]
    prompt = "\n".join(before).strip()
    return prompt, [text for text in reflection_texts if text], [_step(step) for step in steps]


def _step(parts: dict[str, list[str]]) -> Step:
    texts = {name: "\n".join(lines).strip() for name, lines in parts.items()}
    action, output = texts.get("Action", ""), texts.get("Observation")
    match = _KIND.match(action)
    return Step(
        action_type=match[1] if match else "(other)",
        action={name.lower(): texts[name] for name in ("Thought", "Action") if name in texts},
        observation=None if output is None else output[:MAX_TEXT],
        error=output if output and output.startswith(ERRORS) else None,
    )


FORMATS = (Format("reflexion", "Reflexion logs: trials of questions as text", detect, read),)
