"""What a question is about: the task that it names, near tasks, and the type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from graphmem.graph.access import View
from graphmem.graph.estimate import Estimate
from graphmem.graph.graph import Reader
from graphmem.graph.lookup import described_tasks, keyed_tasks
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL, infer_task_type


class NearTasks(NamedTuple):
    """The known tasks that are similar enough to a text."""

    tasks: tuple[tuple[str, float], ...] = ()
    """Their ids and similarities, the nearest first; none is under the floor of relevance."""
    linked: tuple[tuple[str, float], ...] = ()
    """The few nearest, as ``SIMILAR_TO`` links them."""
    around: tuple[tuple[str, float], ...] = ()
    """The near and less similar ones, whose outcomes count for little each, at most 128."""
    lender: str | None = None
    """The nearest task, if it is near enough to lend its type."""
    edge: float = 1.0
    """The cosine at which another task counts for nothing."""


class NearSkill(NamedTuple):
    """A skill that tells of tasks like one that is asked about."""

    id: str
    source: str
    kind: str
    similarity: float
    """Cosine of what it is about and the text, 1 for its type."""
    worth: float
    """What all that it says of a strategy counts for, at most, in trials."""
    places: tuple[int, ...] | None = None
    """Which of its priors are near; None: all."""


class Near(Protocol):
    """Finds what is near a text in a part of the memory."""

    def near_tasks(self, text: str, view: View, own: Sequence[str]) -> NearTasks:
        """Return the tasks near a text, without the tasks (ids) that it names."""

    def same_tasks(self, text: str, found: NearTasks, view: View) -> Sequence[str] | None:
        """Return tasks (ids) among which are all with a text, for which these were found."""

    def near_skills(self, text: str, task_type: str | None, view: View) -> Sequence[NearSkill]:
        """Return the imported skills that tell of such tasks, the nearest first."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text that means a task, and what the memory knows of it and of tasks near it."""

    text: str
    known: tuple[Row, ...]
    """All tasks that it names: rows of ``lookup.tasks``."""
    near: NearTasks
    task_type: str | None
    """None: it has none."""
    type_rule: str | None
    """What decided the type: ``given``, the rule that fired, or ``near: <id of the task>``."""
    skills: tuple[NearSkill, ...] = ()
    """The imported skills that tell of such tasks, the nearest first."""

    @property
    def tasks(self) -> list[str]:
        """The ids of the tasks that it names."""
        return [row["id"] for row in self.known]


Expect = Callable[[Question, Sequence[str], View], Sequence[Estimate]]
"""Tells what to expect of strategies (texts), without those that count as another one."""


def understood(
    reader: Reader, text: str, view: View, near: Near | None, task_type: str | None = None
) -> Question:
    """Return what a question is about; ``near`` searches for near tasks.

    The type is the given one, else that of the known tasks if they have one, else that of the
    wording, else that of the nearest known task, if that is near enough. "general" means no type.
    """
    known, found, among = keyed_tasks(reader, text, view), NearTasks(), None
    if near and not known:
        found = near.near_tasks(text, view, ())
        among = near.same_tasks(text, found, view)
    known = known or described_tasks(reader, text, view, among)
    said = known[0]["text"] if known else text
    if near and known:
        found = near.near_tasks(said, view, [row["id"] for row in known])
    kind, rule = _type(reader, text, known, found, view, task_type)
    skills = tuple(near.near_skills(said, kind, view)) if near else ()
    return Question(text, tuple(known), found, kind, rule, skills)


def _type(
    reader: Reader, text: str, known: Sequence[Row], near: NearTasks, view: View, given: str | None
) -> tuple[str | None, str | None]:
    if given is not None:
        return (None, None) if given == GENERAL else (given, "given")
    types = {row["task_type"]: row["type_rule"] for row in known if row["task_type"] != GENERAL}
    if types:
        return next(iter(types.items())) if len(types) == 1 else (None, None)
    if not known and (inferred := infer_task_type(text)).name != GENERAL:
        return inferred.name, inferred.rule
    if near.lender is not None:
        row = view.tasks(reader, [near.lender]).get(near.lender)
        if row is not None and row["task_type"] != GENERAL:
            return row["task_type"], f"near: {near.lender}"
    return None, None
