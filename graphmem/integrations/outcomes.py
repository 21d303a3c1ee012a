"""What counts as a success: the same argument ``outcome`` in every integration.

It is a function of the run, the name of an installed evaluator, or None: then a run is recorded as
an abandoned attempt, which counts nowhere. Nothing else decides: a run without an error, or an exit
status of 0, is no success by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from graphmem.episodes.recording import Recording
from graphmem.errors import GraphMemError, NotFoundError, ValidationError
from graphmem.models import Step

GROUP = "graphmem.evaluators"
"""The group of entry points in which packages install evaluators."""


@dataclass(frozen=True, slots=True)
class Run:
    """What an agent did at one task, for the function that says whether it succeeded.

    ``answer`` is its last answer as the framework gives it, ``error`` what it raised, if anything.
    ``stated`` is the outcome that the run itself states, if it does: True, False or a score in
    [0, 1]. ``metadata`` is what else the framework knows.
    """

    task: str
    answer: Any = None
    steps: tuple[Step, ...] = ()
    error: str | None = None
    agent: str | None = None
    stated: bool | float | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


Judge = Callable[[Run], bool | float | None]
Outcome = Judge | str | None
"""A function of the run, the name of an evaluator, or None: recorded, not counted."""


def stated(run: Run) -> bool | float | None:
    """Take what the run itself says: the evaluator ``stated``."""
    return run.stated


def judge_of(outcome: Outcome) -> Judge:
    """Return the function that says how a run ended: True, False, a score in [0, 1], or None.

    Raises:
        NotFoundError: no evaluator of that name is installed.
        GraphMemError: it cannot be loaded.
        ValidationError: it is neither a function, nor a name, nor None.
    """
    if outcome is None:
        return _give_no_verdict
    if isinstance(outcome, str):
        return _load_evaluator(outcome)
    if callable(outcome):
        return outcome
    raise ValidationError(
        "outcome", outcome, "must be a function of the run, the name of an evaluator, or None"
    )


def tell(
    attempt: Recording,
    verdict: bool | float | None,
    threshold: float,
    error: str | None = None,
) -> None:
    """Tell an attempt the outcome of its run; None: it is unknown.

    Args:
        attempt: a running attempt.
        verdict: what a judge returned.
        threshold: a run with at least this score succeeded.
        error: what ended the run, if anything.

    Raises:
        ValidationError: the verdict is none.
    """
    if verdict is None:
        return
    if not isinstance(verdict, bool | int | float):
        raise ValidationError(
            "outcome", verdict, "must return True, False, a score in [0, 1], or None"
        )
    score = None if isinstance(verdict, bool) else float(verdict)
    if verdict is True or (score is not None and score >= threshold):
        attempt.succeed(score)
    else:
        attempt.fail(error, score)


def _give_no_verdict(_: Run) -> None:
    return None


def _load_evaluator(name: str) -> Judge:
    if name == "stated":
        return stated
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        there = ", ".join(sorted({"stated", *found}))
        raise NotFoundError(f"no evaluator {name!r}; there are {there}")
    try:
        loaded = found[name].load()
    except Exception as error:
        raise GraphMemError(f"evaluator {name!r} cannot be loaded: {error}") from error
    if not callable(loaded):
        raise GraphMemError(f"evaluator {name!r}: {found[name].value} is not a function")
    judge: Judge = loaded
    return judge
