"""What counts as a success: the same argument ``outcome`` in every integration.

It is a function of the run, its name (``package.module:function``), or None: then a run is recorded
as an abandoned attempt, which counts nowhere. Nothing else decides: a run without an error, or an
exit status of 0, is no success by itself. The name ``stated`` takes what the run itself states.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import Any

from graphmem.errors import NotFoundError, ValidationError
from graphmem.models.episodes import Step

_log = logging.getLogger(__name__)
_REMEDY = (
    "outcome: the function that judges runs failed with %s at %s, so such runs are NOT learned. "
    'Of a run that raised, run.answer is "" and run.error says what; return True, False, a score '
    "in [0, 1] or None. This is said once; strict=True raises it"
)


@dataclass(frozen=True, slots=True)
class Run:
    """What an agent did at one task, for the function that says whether it succeeded.

    ``answer`` is its last answer as a text, "" if it raised or gave none; ``output`` is the answer
    as the framework gives it, for instance an object. ``error`` is what it raised, if anything.
    ``stated`` is the outcome that the run itself states, if it does: True, False or a score in
    [0, 1]. ``metadata`` is what else the framework knows.
    """

    task: str
    answer: str = ""
    steps: tuple[Step, ...] = ()
    error: str | None = None
    agent: str | None = None
    stated: bool | float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None


Judge = Callable[[Run], bool | float | None]
Outcome = Judge | str | None


def judge_of(outcome: Outcome) -> Judge:
    """Return the function that says how a run ended: True, False, a score in [0, 1], or None.

    The first time that the function raises, or returns something else, an error is logged.
    """
    judge = _evaluator(outcome) if isinstance(outcome, str) else outcome
    if outcome is not None and not callable(judge):
        raise ValidationError(
            "outcome",
            outcome,
            "must be a function of the run, its name (package.module:function), or None",
        )

    failed = False

    def verdict(run: Run) -> bool | float | None:
        nonlocal failed
        try:
            return _checked(None if judge is None else judge(run))
        except Exception as error:
            if not failed:
                failed = True
                last = traceback.extract_tb(error.__traceback__)[-1]
                _log.error(_REMEDY, type(error).__name__, f"{last.filename}:{last.lineno}")
            raise

    return verdict


def _checked(known: Any) -> bool | float | None:
    known = known.item() if hasattr(known, "item") else known  # a scalar of numpy
    if known is None or (isinstance(known, bool | int | float) and 0 <= known <= 1):
        return known
    raise ValidationError(
        "outcome", known, "must be True, False, a score in [0, 1], or None for no outcome"
    )


def _evaluator(name: str) -> Judge:
    if name == "stated":
        return lambda run: run.stated
    try:
        judge: Judge = resolve_name(name)
    except Exception as error:  # a module can raise anything while it is imported
        remedy = "give package.module:function, or stated"
        raise NotFoundError(f"no evaluator {name!r} can be imported: {error}; {remedy}") from error
    return judge
