"""What a question is about: the task that it names, near tasks, and the type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from graphmem.graph.access import EVERYTHING, View
from graphmem.graph.graph import Reader
from graphmem.graph.lookup import known_tasks
from graphmem.store.port import Row
from graphmem.text.task_types import GENERAL, infer_task_type

SPEAKS = 10
"""A task with fewer episodes may be new, and may not have links to similar ones yet."""


class NearTasks(NamedTuple):
    """The known tasks that are similar enough to a text."""

    tasks: tuple[tuple[str, float], ...] = ()
    """Their ids and similarities, the nearest first; none is under the floor of relevance."""
    lender: str | None = None
    """The nearest task, if it is near enough to lend its type."""
    floor: float | None = None
    """The similarity from which the embedder of the search finds texts related."""


class Near(Protocol):
    """Finds what is near a text in a part of the memory."""

    def near_tasks(self, text: str, view: View = EVERYTHING) -> NearTasks:
        """Return the tasks near a text."""

    def fresh(self) -> object:
        """Embed new texts, and link them if that takes no lease; None for an empty memory."""

    @property
    def similar_from(self) -> float:
        """The similarity from which strategies lend to each other."""

    def near_strategies(self, text: str, view: View = EVERYTHING) -> Sequence[tuple[str, float]]:
        """Return the ids and similarities of strategies like a text."""


@dataclass(frozen=True, slots=True)
class Question:
    """A text that means a task, and what the memory knows of that task."""

    text: str
    known: tuple[Row, ...]
    """All tasks that it names: rows of ``lookup.tasks``."""
    near: tuple[tuple[str, float], ...]
    """The ids and similarities of other tasks, the nearest first."""
    task_type: str | None
    """None: it has none."""
    type_rule: str | None
    """What decided the type: ``given``, the rule that fired, or ``near: <id of the task>``."""
    floor: float | None = None
    """The similarity from which texts are related; None: that of the stored vectors."""

    @property
    def tasks(self) -> list[str]:
        """The ids of the tasks that it names."""
        return [row["id"] for row in self.known]


class Expected(Protocol):
    """What to expect of a strategy on a task, from its outcomes there and elsewhere."""

    @property
    def text(self) -> str:
        """The text of the strategy."""

    @property
    def probability(self) -> float:
        """The probability that it works."""

    @property
    def lower(self) -> float:
        """A lower bound of the probability."""

    @property
    def said(self) -> str:
        """The counts that moved it, in words."""

    @property
    def seen(self) -> tuple[int, int]:
        """Its successes and trials on the task and those near it, or on the type of the task."""

    @property
    def usual(self) -> bool:
        """Whether it worked at times, and no less often than other strategies did."""

    @property
    def common(self) -> bool:
        """Whether it is a tool that nearly every run uses, and no advice."""


Expect = Callable[[Question, Sequence[str], View], Sequence[Expected]]
"""Tells what to expect of strategies (texts), without those that count as another one."""


def understood(
    reader: Reader,
    text: str,
    view: View = EVERYTHING,
    near: Near | NearTasks | None = None,
    task_type: str | None = None,
    *,
    fresh: bool = False,
) -> Question:
    """Return what a question is about.

    A known task has links to near tasks in the graph; with ``fresh``, a search finds those of a new
    task.
    For any other text ``near`` searches, or is the result of a search.

    The type is the given one, else that of the known task, else that of the wording, else that of
    the nearest known task, if that is near enough. "general" means no type. Several tasks with one
    wording have a type if they have only one among them.
    """
    known = known_tasks(reader, text, view)
    own = [row["id"] for row in known]
    search = None if isinstance(near, NearTasks) else near
    if known:
        new = search if fresh and sum(row["episodes"] for row in known) < SPEAKS else None
        if new:
            new.fresh()
        found = _linked(reader, own, view)
        if new and not found.tasks:  # its links may wait for the next write
            found = _as_linked(new.near_tasks(text, view), own, new.similar_from)
    elif isinstance(near, NearTasks):
        found = near
    else:
        found = search.near_tasks(text, view) if search else NearTasks()
    kind, rule = _type(reader, text, known, found, view, task_type)
    return Question(text, tuple(known), found.tasks, kind, rule, found.floor)


def _linked(reader: Reader, own: Sequence[str], view: View) -> NearTasks:
    """Return the tasks that the graph links to given ones, as similar tasks."""
    rows = reader.read("lookup.linked_tasks", ids=own)
    nearest: dict[str, float] = {}
    for row in rows:
        nearest.setdefault(row["id"], row["similarity"])
    there = view.tasks(reader, list(nearest)) if view.agents is not None else nearest
    floor = reader.settings.relevance_floor or 0.0
    tasks = tuple(
        pair
        for pair in nearest.items()
        if pair[0] in there and pair[0] not in own and pair[1] >= floor
    )
    return NearTasks(tasks, tasks[0][0] if tasks else None)


def _as_linked(near: NearTasks, own: Sequence[str], similar: float) -> NearTasks:
    """Return the tasks of a search that will be linked to given ones."""
    tasks = tuple(pair for pair in near.tasks if pair[0] not in own and pair[1] >= similar)
    return NearTasks(tasks, tasks[0][0] if tasks else None, near.floor)


def _type(
    reader: Reader,
    text: str,
    known: Sequence[Row],
    near: NearTasks,
    view: View,
    given: str | None,
) -> tuple[str | None, str | None]:
    """Return a type, and what decided it."""
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
