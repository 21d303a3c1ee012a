"""Judgements of runs in traces: evaluation events, evaluations, annotations.

The GenAI conventions write an event ``gen_ai.evaluation.result``, in a span or as a log record;
OpenInference writes attributes ``evaluations.N.evaluation.*`` and ``annotations.N.annotation.*``,
which mean the same, also of a whole trace or session.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graphmem.seeding.traces import judge

EVENT = "gen_ai.evaluation.result"
SPAN, TRACE, SESSION = range(3)
_TELLS = re.compile(r"annotations\.|evaluation")
_ATTRIBUTE = re.compile(
    r"(?:(trace|session)\.)?"
    r"(annotations\.\d{1,9}\.annotation|evaluations\.\d{1,9}\.evaluation)\.(\w+)"
)
_SCOPES = {None: SPAN, "trace": TRACE, "session": SESSION}
_LESS_IS_BETTER = {"hallucination", "toxicity"}
"""Evaluators whose high scores can be bad, so that their scores are no outcome."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One result: of a span, of its trace, or of a session."""

    name: str
    value: bool | float
    scope: int = SPAN
    explanation: str | None = None
    response: str | None = None
    session: str | None = None
    by: str | None = None
    """Who judged, if the log says it: LLM, HUMAN, CODE."""


def is_judgement(name: Any, given: Mapping[str, Any]) -> bool:
    """Return whether an event is a judgement; before log records had names, an attribute was it."""
    about = given.get("event.name")
    return name == EVENT or (isinstance(about, dict) and about.get("stringValue") == EVENT)


def is_about_judgement(name: str) -> bool:
    """Return whether an attribute of that name may be of a judgement."""
    return _TELLS.search(name) is not None


def of_event(given: Mapping[str, Any]) -> Judgement | None:
    """Return the judgement of an event's attributes, None if it has neither score nor label."""
    found = {
        "name": given.get("gen_ai.evaluation.name"),
        "score": given.get("gen_ai.evaluation.score.value"),
        "label": given.get("gen_ai.evaluation.score.label"),
        "explanation": given.get("gen_ai.evaluation.explanation"),
    }
    response, session = given.get("gen_ai.response.id"), given.get("gen_ai.conversation.id")
    return _judgement(found, SPAN, _name_of(response), _name_of(session))


def of_attributes(given: Mapping[str, Any]) -> Iterator[Judgement]:
    """Yield the judgements in attributes of a span."""
    found: dict[tuple[str | None, str], dict[str, Any]] = {}
    for name, value in given.items():
        if match := _ATTRIBUTE.fullmatch(name):
            found.setdefault((match[1], match[2]), {})[match[3]] = value
    session = _name_of(given.get("session.id")) or _name_of(given.get("gen_ai.conversation.id"))
    for (scope, _), fields in found.items():
        if (made := _judgement(fields, _SCOPES[scope], None, session)) is not None:
            yield made


def _judgement(
    found: Mapping[str, Any], scope: int, response: str | None, session: str | None
) -> Judgement | None:
    name, explanation = _name_of(found.get("name")), found.get("explanation")
    value = _value(name, found.get("score"), found.get("label"))
    if name is None or value is None:
        return None
    told = explanation if isinstance(explanation, str) and explanation.strip() else None
    by = _name_of(found.get("annotator_kind"))
    return Judgement(name, value, scope, told, response, session, by)


def _value(name: str | None, score: Any, label: Any) -> bool | float | None:
    """Return the success that a label states, else the score."""
    if isinstance(label, str) and (success := judge(label)) is not None:
        return success
    if name is None or name.strip().lower() in _LESS_IS_BETTER:
        return None
    return score if isinstance(score, bool | int | float) else None


def _name_of(value: Any) -> str | None:
    return value[:1_000] if isinstance(value, str) and value.strip() else None
