"""What was learned by kind of task: what to do, what to avoid, on which errors, what changed.

Only what its outcomes established or refuted (the Wilson bounds of its success rate) is told, and
only if it did no worse, or worse, than everything else that was tried on that kind of task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from graphmem.advice.changes import Changes
from graphmem.errors import NotFoundError
from graphmem.graph.access import View, read_view
from graphmem.graph.arguments import checked_text
from graphmem.graph.estimate import rates_of
from graphmem.graph.graph import Graph
from graphmem.ids import from_millis, strategy_id, to_millis
from graphmem.lessons import Lessons
from graphmem.lessons.anti_patterns import read_failing
from graphmem.models.forecasts import Change
from graphmem.models.lessons import Rule
from graphmem.store.port import Row
from graphmem.text.fencing import fenced
from graphmem.text.task_types import GENERAL
from graphmem.text.words import words

WORDS = 12
"""Most words that describe a kind of task."""
SAMPLE = 500
"""Most tasks of a kind whose wording is looked at for that."""
TYPES = 20
"""Most types of tasks in the error for one that is unknown."""
TEXT = 2_000
"""Most characters of a wording that are looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One conclusion: a strategy or a sentence, with its outcomes on a kind of task."""

    id: str
    """Of the strategy, rule or anti-pattern; `graphmem explain` shows its evidence."""
    text: str
    trials: int
    successes: int
    lower: float
    upper: float
    last_at: datetime | None = None
    others: float | None = None
    """How often all else worked that was tried on the same tasks, in [0, 1]; None: nothing was."""
    error: str | None = None
    """The class of errors that it fails with: then trials are these failures and the successes, and
    the bounds those of the share of these failures."""
    change: Change | None = None


@dataclass(slots=True)
class Kind:
    """A kind of task: a type, or tasks that are near each other; with what was learned of it."""

    name: str
    """The type, or the wording of the task that was attempted most."""
    type: str
    tasks: list[Row]
    """Rows {id, key, text, runs, solved, agents, first_at, last_at}, the most attempted first."""
    lower: float = 0.0
    upper: float = 1.0
    """The bounds of the share of its runs that worked."""
    do: list[Finding] = field(default_factory=list)
    avoid: list[Finding] = field(default_factory=list)
    errors: list[Finding] = field(default_factory=list)
    changed: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """All its conclusions."""
        return [*self.do, *self.avoid, *self.errors, *self.changed]

    @property
    def runs(self) -> int:
        """How often its tasks were attempted."""
        return sum(task["runs"] for task in self.tasks)

    @property
    def solved(self) -> int:
        """How many of these runs worked."""
        return sum(task["solved"] for task in self.tasks)

    @property
    def words(self) -> list[str]:
        """The words that most of its tasks have."""
        texts = (fenced(task["text"] or "", TEXT) for task in self.tasks[:SAMPLE])
        said = Counter(word for text in texts for word in {*words(text)})
        told = [(-count, word) for word, count in said.items() if len(word) > 2 and word.isalpha()]
        return [word for _, word in sorted(told)[:WORDS]]

    @property
    def span(self) -> tuple[datetime | None, ...] | None:
        """The times of the first and the last run that have one."""
        dated = [task for task in self.tasks if task["last_at"] is not None]
        if not dated:
            return None
        first = min(task["first_at"] for task in dated)
        return from_millis(first), from_millis(max(task["last_at"] for task in dated))


def gather_kinds(
    graph: Graph,
    lessons: Lessons,
    changes: Changes,
    link: Callable[[], object],
    task_type: str | None = None,
    agent: str | None = None,
) -> list[Kind]:
    """Return the kinds of tasks in order of name, also those of which nothing is certain.

    Tasks without a type are grouped by their nearness, once ``link`` drew the edges SIMILAR_TO of
    new ones; those of groups of which nothing is certain are one kind.

    Raises:
        NotFoundError: there is no task of this type.
        ValidationError: an argument is wrong.
    """
    view = read_view(graph, agent)
    wanted = checked_text("task_type", task_type)
    types: dict[str, list[Row]] = {}
    for task in _read_tasks(graph, view, wanted):
        types.setdefault(task["task_type"], []).append(task)
    untyped = types.pop(GENERAL, [])
    if untyped:
        link()
    kinds = [*(Kind(name, name, held) for name, held in types.items()), *_near(graph, untyped)]
    rules, found = lessons.rules(agent=agent), changes.changes(agent=agent)
    known = _Known(read_failing(graph, view, task_type=wanted), rules, found, graph.ns)
    _conclude(graph, kinds, view, known)
    kinds = [kind for kind in kinds if kind.findings or kind.type != GENERAL]
    taken = {task["id"] for kind in kinds for task in kind.tasks}
    if wanted in (None, GENERAL):
        rest = [task for task in untyped if task["id"] not in taken]
        other = Kind(GENERAL, GENERAL, rest)
        _conclude(graph, [other], view, known)
        kinds += [other] if rest or other.findings else []
    return sorted(kinds, key=lambda kind: (kind.name, [task["id"] for task in kind.tasks[:1]]))


def _read_tasks(graph: Graph, view: View, wanted: str | None) -> list[Row]:
    """Return the readable tasks, the most attempted first."""
    counts = {row["id"]: row for row in graph.read("skills.tasks", agents=view.agents)}
    tasks = [counts[one] | row for one, row in view.tasks(graph, sorted(counts)).items()]
    tasks.sort(key=lambda task: (-task["runs"], task["id"]))
    if wanted is None:
        return tasks
    types = sorted({task["task_type"] for task in tasks})
    if wanted not in types:
        names = ", ".join([*types[:TYPES], *(["..."] if types[TYPES:] else [])])
        there = f"there are: {names}" if types else "there are no tasks"
        raise NotFoundError(f"no task of type {wanted!r}; {there}")
    return [task for task in tasks if task["task_type"] == wanted]


def _near(graph: Graph, tasks: Sequence[Row]) -> list[Kind]:
    """Return groups of near tasks: one that was attempted often, with its neighbours."""
    places = {task["id"]: place for place, task in enumerate(tasks)}
    near = {one: {one} for one in places}
    for row in graph.read("similarity.links_of_tasks", ids=sorted(near)) if near else ():
        if row["other"] in near:
            near[row["id"]].add(row["other"])
            near[row["other"]].add(row["id"])
    kinds = []
    for first in places:
        group = near[first] & near.keys() if first in near else set()
        for one in group:
            del near[one]
        held = [tasks[place] for place in sorted(map(places.__getitem__, group))]
        if len(held) > 1:
            kinds.append(Kind(held[0]["text"], GENERAL, held))
    return kinds


def _conclude(graph: Graph, kinds: Sequence[Kind], view: View, known: _Known) -> None:
    """Fill in what was learned of kinds of tasks."""
    asked = [
        {"kind": place, "tasks": [task["id"] for task in kind.tasks]}
        for place, kind in enumerate(kinds)
    ]
    rows = [known.sentences(kind) for kind in kinds]
    for row in graph.read("skills.outcomes", rows=asked, agents=view.agents):
        rows[row["kind"]].append(row)
    counts = {_count(row) for of_kind in rows for row in of_kind}
    rates = rates_of(graph, counts | {(kind.runs, kind.solved) for kind in kinds})
    for kind, of_kind in zip(kinds, rows, strict=True):
        for row in of_kind:
            _tell(kind, row, rates[_count(row)], known)
        rate = rates[kind.runs, kind.solved]
        kind.lower, kind.upper = rate["lower"], rate["upper"]
        kind.do.sort(key=lambda one: (-one.lower, one.id))
        kind.avoid.sort(key=lambda one: (one.upper, one.id))
        kind.errors.sort(key=lambda one: (-one.lower, one.id))
        kind.changed.sort(
            key=lambda one: (-one.change.since.timestamp() if one.change else 0.0, one.id)
        )


def _tell(kind: Kind, row: Row, rate: Row, known: _Known) -> None:
    """Add what is certain of a strategy or a sentence to a kind of task."""
    others = row["expected"] / row["compared"] if row.get("compared") else None
    bounds = rate["lower"], rate["upper"]
    at = from_millis(row["last_at"])
    found = Finding(row["id"], row["text"], *_count(row), *bounds, at, others)
    if changes := known.changes.get(row["id"], []):
        texts = {None, *(task["text"] for task in kind.tasks)}
        changes = [change for change in changes if change.task in texts]
    kind.changed += [replace(found, change=change) for change in changes]
    turned = {
        one.successes_since * one.trials_before > one.successes_before * one.trials_since
        for one in changes
    }
    """Whether it works better since."""
    worse = others is not None and others > found.upper
    if rate["status"] == "established" and not worse and False not in turned:
        kind.do.append(found)
    elif rate["status"] == "refuted" and (worse or others is None) and True not in turned:
        kind.avoid.append(found)
    if not found.successes or others is None or found.successes < others * found.trials:
        kind.errors += known.failures.get((kind.type, row["id"]), {}).values()


class _Known:
    """What is known of errors, sentences and changes, by what they are about."""

    def __init__(
        self, failures: Iterable[Row], rules: Iterable[Rule], changes: Iterable[Change], ns: str
    ) -> None:
        """``failures`` are rows of ``lessons.anti_patterns``."""
        self.failures: dict[tuple[str, str], dict[str, Finding]] = {}
        """By type of task and strategy (id), then by class of errors: the surest of each."""
        self._rules: dict[str | None, list[Rule]] = {}
        self.changes: dict[str, list[Change]] = {}
        """By strategy (id)."""
        for row in failures:
            if row["status"] == "established":
                counts = row["occurrences"] + row["successes"], row["successes"]
                bounds, at = (row["lower"], row["upper"]), from_millis(row["last_at"])
                error = row["error_class"]
                found = Finding(row["id"], row["strategy"], *counts, *bounds, at, error=error)
                for kind in row["task_types"]:
                    held = self.failures.setdefault((kind, row["strategy_id"]), {})
                    held.setdefault(error, found)
        for rule in rules:
            self._rules.setdefault(rule.task, []).append(rule)
        for change in changes:
            self.changes.setdefault(strategy_id(ns, change.strategy), []).append(change)

    def sentences(self, kind: Kind) -> list[Row]:
        """Return the sentences about tasks of a kind, with how many runs speak for each.

        A sentence to avoid something fails where it is supported.
        """
        keys: list[str | None] = [task["key"] for task in kind.tasks]
        keys += [None] if kind.name == kind.type == GENERAL else []
        found: dict[str, Row] = {}
        for rule in (rule for key in keys for rule in self._rules.get(key, ())):
            new = {"id": rule.id, "text": rule.text, "trials": 0, "successes": 0, "last_at": None}
            row = found.setdefault(rule.text, new)
            row["trials"] += rule.supporting + rule.opposing
            row["successes"] += rule.supporting if rule.verdict == "WORKS" else rule.opposing
            times = [row["last_at"], rule.last_at and to_millis(rule.last_at)]
            row["last_at"] = max(filter(None, times), default=None)
        return list(found.values())


def _count(row: Row) -> tuple[int, int]:
    return row["trials"], row["successes"]
