"""Derived data: the kinds of items, and the parts of the graph to verify and rebuild.

A :class:`Kind` defines how items are named, keyed, derived, stored and compared. ``verify`` and
``rebuild`` process each :class:`Part` page by page.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.sums import (
    COUNTS,
    SPAN,
    Merge,
    both,
    decayed,
    earliest,
    latest,
    latest_cards,
    left_out,
    merged,
    of_the_earliest,
    of_the_latest,
    total,
)
from graphmem.ids import anti_pattern_id, heuristic_id, tally_id
from graphmem.models import Difference
from graphmem.store.paging import ranges
from graphmem.store.port import Row
from graphmem.text.task_types import infer_task_type

TOLERANCE = 1e-9


Complete = Callable[[str, Row], Row]
"""Makes an item of a namespace from the row of a deriving procedure."""

Settled = Callable[[Transaction, list[Row]], list[Row]]


@dataclass(frozen=True)
class Kind:
    """One kind of derived item: its name, its key, and the label that it belongs to."""

    name: str
    label: str
    key: tuple[str, ...]
    needs_half_life: bool = False
    edges: bool = False
    """Whether it is removed and created again, and not set on existing nodes."""
    linked: bool = False
    """Whether it is a node, which a procedure links to its evidence."""
    file: str = "maintenance"
    complete: Complete | None = None
    home: str = "id"
    """The column with the id of the node that an item belongs to."""
    narrowed: Mapping[str, str] = field(default_factory=dict)
    """Parameters that limit what is derived, and the columns that they are compared with."""
    merges: Mapping[str, Merge] = field(default_factory=dict)
    """How columns derived from two ranges of the episodes become one."""
    samples: Mapping[str, int] = field(default_factory=dict)
    """Columns with the latest episodes, and how many these are."""
    settled: Settled | None = None
    """Completes items that were derived in ranges."""

    def key_of(self, row: Row) -> str:
        """Return the key of an item."""
        return " ".join(str(row[name]) for name in self.key)

    def derive(
        self,
        tx: Transaction,
        ids: Sequence[str],
        half_life: float,
        *options: str,
        parts: int = 1,
        **only: Any,
    ) -> list[Row]:
        """Return the items derived from the facts; ``only`` limits them (see ``narrowed``).

        With the option "share", the ids are those of episodes, and only these count. With several
        ``parts``, so many ranges of the episodes are looked at, one after the other.
        """
        given = {"half_life": half_life, **only} if self.needs_half_life else only

        def read(*options: str, **bounds: str) -> list[Row]:
            return tx.run(self._procedure("derive"), *options, ids=list(ids), **given, **bounds)

        rows = read(*options) if parts == 1 else self._in_parts(tx, read, half_life, parts)
        rows = _in_order(rows)
        return [self.complete(tx.ns, row) for row in rows] if self.complete else rows

    def _in_parts(
        self, tx: Transaction, read: Callable[..., list[Row]], half_life: float, parts: int
    ) -> list[Row]:
        rules = dict(self.merges)
        if self.needs_half_life:
            rules["weight"] = decayed(half_life)
        rows: list[Row] = []
        for first, beyond in ranges(parts, 1):
            rows = merged([*rows, *read("part", first=first, beyond=beyond)], rules)
            self._cut(tx, rows)
        return self.settled(tx, rows) if self.settled else rows

    def _cut(self, tx: Transaction, rows: list[Row]) -> None:
        """Leave only the latest of the episodes that items name, the latest first."""
        for name, most in self.samples.items():
            several = [row for row in rows if len(row[name]) > 1]
            ids = {episode for row in several for episode in row[name]}
            at = {row["id"]: row["at"] for row in tx.run("maintenance.times", ids=sorted(ids))}
            for row in several:
                latest_first = sorted(row[name], key=lambda key: (at[key], key), reverse=True)
                row[name] = latest_first[:most]

    def stored(self, tx: Transaction, ids: Sequence[str]) -> list[Row]:
        """Return the stored items."""
        return _in_order(tx.run(self._procedure("stored"), ids=list(ids)))

    def put(self, tx: Transaction, ids: Sequence[str], rows: list[Row]) -> int:
        """Replace the stored items; return the number of new ones."""
        if self.edges:
            self.clear(tx, ids)
        if not rows:
            return 0
        written = tx.run(self._procedure("put"), rows=rows)
        if self.linked:
            tx.run(self._procedure("link"), rows=rows)
        return int(written[0]["written"])

    def set(self, tx: Transaction, rows: list[Row]) -> None:
        """Write items that are there."""
        tx.run(f"shares.set_{self.name}" if self.edges else self._procedure("put"), rows=rows)
        if self.linked:
            tx.run(self._procedure("link"), rows=rows)

    def clear(self, tx: Transaction, ids: Sequence[str]) -> None:
        """Remove the items of some nodes."""
        tx.run(self._procedure("clear"), ids=list(ids))

    def _procedure(self, what: str) -> str:
        return f"{self.file}.{what}_{self.name}"


def _in_order(rows: list[Row]) -> list[Row]:
    """Sort the types of tasks, whose order does not matter."""
    for name in ("types", "opposed"):
        if rows and name in rows[0]:
            rows = [{**row, name: sorted(row[name] or (), key=str)} for row in rows]
    return rows


def _typed(_: str, row: Row) -> Row:
    """Infer the type of a task without a given type from its wording."""
    if row["type"] is not None:
        return {**row, "type_rule": "given"}
    inferred = infer_task_type(row["description"] or "")
    return {**row, "type": inferred.name, "type_rule": inferred.rule}


def _heuristic(ns: str, row: Row) -> Row:
    return {"id": heuristic_id(ns, row["agent"], str(row["type"]), row["text"]), **row}


def _tally(ns: str, row: Row) -> Row:
    return {"id": tally_id(ns, row["agent"], str(row["type"])), **row}


def _anti_pattern(ns: str, row: Row) -> Row:
    agent, text = row["agent"], row["text"]
    return {
        "id": anti_pattern_id(ns, agent, text, str(row["error_class"])),
        **row,
        "opposed": row["types"],
        "opposing": [heuristic_id(ns, agent, str(name), text) for name in row["types"]],
    }


def _told(_: Transaction, rows: list[Row]) -> list[Row]:
    """Take the texts of mistakes from the latest cards that have them."""
    for row in rows:
        for name, card in zip(_TEXTS, row.pop("told"), strict=True):
            row[name] = card and card[name]
    return rows


def _from_counts(name: str, counts: Sequence[str], tx: Transaction, rows: list[Row]) -> list[Row]:
    """Give items the column ``name``, which follows from their counts."""
    counted = [
        {"id": str(place), **{count: row[count] for count in counts}}
        for place, row in enumerate(rows)
    ]
    concluded = tx.run("lessons_maintenance.conclude", rows=counted)
    values = {row["id"]: row[name] for row in concluded}
    return [{**row, name: values[str(place)]} for place, row in enumerate(rows)]


def _sums(*names: str) -> dict[str, Merge]:
    return dict.fromkeys(names, total)


FILE = "lessons_maintenance"
_TEXTS = ("bad_decision", "evidence", "lesson")
_SPAN: dict[str, Merge] = {**SPAN, "created_at": earliest}
STRATEGIES = Kind(
    "strategies",
    "Strategy",
    ("id",),
    merges={**_sums("uses"), **COUNTS, "last_used_at": latest, "created_at": earliest},
)
OUTCOMES = Kind(
    "outcomes",
    "Strategy",
    ("strategy", "task", "agent"),
    edges=True,
    home="strategy",
    narrowed={"tasks": "task"},
    merges={**COUNTS, "last_at": latest},
)
CO_OCCURRENCES = Kind(
    "co_occurrences",
    "Strategy",
    ("low", "high"),
    needs_half_life=True,
    edges=True,
    home="low",
    narrowed={"others": "high"},
    merges={**_sums("count", "successes", "undated"), "last_at": latest},
)
HEURISTICS = Kind(
    "heuristics",
    "Strategy",
    ("id",),
    edges=True,
    linked=True,
    file=FILE,
    complete=_heuristic,
    home="strategy",
    narrowed={"agents": "agent", "types": "type"},
    merges={**COUNTS, **_SPAN, "odds": left_out, "supporting": both, "opposing": both},
    samples={"supporting": 5, "opposing": 5},
    settled=partial(_from_counts, "odds", ("trials", "successes")),
)
ANTI_PATTERNS = Kind(
    "anti_patterns",
    "Strategy",
    ("id",),
    edges=True,
    linked=True,
    file=FILE,
    complete=_anti_pattern,
    home="strategy",
    narrowed={"agents": "agent", "classes": "error_class"},
    merges={**_sums("occurrences"), **_SPAN, "types": both, "supporting": both},
    samples={"supporting": 5},
)
TASKS = Kind(
    "tasks",
    "Task",
    ("id",),
    complete=_typed,
    merges={
        **_sums("uses", "episodes", "successes", "score_sum"),
        **dict.fromkeys(
            ("description", "described_at", "described_by"),
            of_the_latest("described_at", "described_by"),
        ),
        **dict.fromkeys(("type", "typed_at", "typed_by"), of_the_latest("typed_at", "typed_by")),
        "created_at": earliest,
    },
)
RECENT = Kind(
    "recent",
    "Task",
    ("id",),
    edges=True,
    file=FILE,
    complete=lambda _, row: {**row, "misdated": 0},
    merges={"episodes": both},
    samples={"episodes": 20},
)
RULES = Kind(
    "rules",
    "Rule",
    ("id",),
    file=FILE,
    complete=lambda _, row: {**row, "held": 1},
    merges={
        **_sums("uses", "worked", "praised", "failed", "blamed"),
        **_SPAN,
        "worked_at": latest,
        "failed_at": latest,
        "verdict": left_out,
    },
    settled=partial(_from_counts, "verdict", ("worked", "praised", "failed", "blamed")),
)
MISTAKES = Kind(
    "mistakes",
    "Mistake",
    ("id",),
    file=FILE,
    merges={
        **_sums("uses", "seen"),
        **_SPAN,
        **dict.fromkeys(_TEXTS, left_out),
        "told": latest_cards,
        **dict.fromkeys(
            ("first_episode", "first_order"), of_the_earliest("first_order", "first_episode")
        ),
        **dict.fromkeys(
            ("last_episode", "last_order", "last_rank"),
            of_the_latest("last_order", "last_episode", "last_rank"),
        ),
    },
    settled=_told,
)
AGENTS = Kind("agents", "Agent", ("id",), merges={**_sums("uses"), "created_at": earliest})
TALLIES = Kind(
    "tallies",
    "Agent",
    ("id",),
    edges=True,
    complete=_tally,
    home="home",
    narrowed={"types": "type"},
    merges={**_sums("trials", "successes"), "created_at": earliest},
)
KINDS = (
    *(STRATEGIES, OUTCOMES, CO_OCCURRENCES, HEURISTICS, ANTI_PATTERNS),
    *(TASKS, RECENT, RULES, MISTAKES, AGENTS, TALLIES),
)
COUNTED = tuple(kind.name for kind in (STRATEGIES, OUTCOMES, TASKS))
"""Kinds that the strengths of pooling are fitted to."""
LABELS = ("Mistake", "Rule", "Strategy", "Task", "Agent")
"""Labels with derived items, in order of deriving; locks are taken in reverse order."""
# Derived by consolidation.
GENERAL_RULES = Kind("general_rules", "Rule", ("id",))
PREFERRED = Kind("preferred", "AntiPattern", ("id",))
# Derived stream by stream.
POLICIES = Kind("policies", "Policy", ("id",))
POLICY_LINKS = Kind("policy_links", "Policy", ("low", "high"), edges=True)

_PLURALS = {
    "Strategy": "strategies",
    "Task": "tasks",
    "Agent": "agents",
    "Rule": "rules",
    "Mistake": "mistakes",
}


def upkeep(what: str, label: str) -> str:
    """Return the procedure that does ``what`` ("ids", "lock" or "drop") to nodes of a label."""
    own = label in ("Rule", "Mistake") and what != "lock"
    return f"{FILE if own else 'maintenance'}.{what}_{_PLURALS[label]}"


class Page(NamedTuple):
    """The work of one transaction."""

    items: Any = None
    size: int = 0
    """How many facts it reads."""


class Work(NamedTuple):
    """What there is to do."""

    pages: Iterable[Page]
    """One after the other, so that they are not held together."""
    size: int = 0
    """How many facts all of them read."""


class Verified(NamedTuple):
    """The differences, and the number of compared items, by kind.

    The numbers are there when the differences were read: nobody holds all of them.
    """

    differences: Iterable[Difference]
    checked: Mapping[str, int]


class Rebuilt(NamedTuple):
    """The numbers of written items, by kind, and of removed items."""

    written: Mapping[str, int] = MappingProxyType({})
    removed: int = 0


class Part(ABC):
    """A derived part of the graph."""

    kinds: Sequence[str] = ()
    """The kinds for which it always reports the number of compared items."""
    follows: Sequence[str] = ()
    """Other kinds of derived items that it is derived from: where these differ it is not compared,
    since what is derived from wrong numbers says nothing."""

    def work(self) -> Work:
        """Return the pages to process; by default everything as one page."""
        return Work([Page()])

    @abstractmethod
    def verify(self, page: Page) -> Verified:
        """Compare stored items with those derived from the facts."""

    @abstractmethod
    def rebuild(self, page: Page) -> Rebuilt:
        """Replace stored items by those derived from the facts."""


class Paged(Part):
    """A part that processes each page in one transaction."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    @abstractmethod
    def compare(self, tx: Transaction, page: Page) -> Verified:
        """Compare a page, after locking it if the graph needs that."""

    @abstractmethod
    def mend(self, tx: Transaction, page: Page) -> Rebuilt:
        """Derive and store a page again."""

    def verify(self, page: Page) -> Verified:
        """Compare a page on one consistent state."""
        return self._graph.view(lambda tx: self.compare(tx, page))

    def rebuild(self, page: Page) -> Rebuilt:
        """Derive and store a page again in one transaction."""
        return self._graph.transact(lambda tx: self.mend(tx, page))


class Whole(Part):
    """A part that opens its own transactions."""

    def __init__(
        self,
        kind: str,
        rebuild: Callable[[], int],
        verify: Callable[[Counter[str]], Iterable[Difference]] = lambda _: (),
        follows: Sequence[str] = (),
    ) -> None:
        self._kind, self._rebuild, self._verify = kind, rebuild, verify
        self.follows = follows

    def verify(self, page: Page) -> Verified:  # noqa: ARG002 - there is one
        """Compare it, if there is anything to compare."""
        checked: Counter[str] = Counter()
        return Verified(self._verify(checked), checked)

    def rebuild(self, page: Page) -> Rebuilt:  # noqa: ARG002 - there is one
        """Derive and store it again."""
        return Rebuilt({self._kind: self._rebuild()})


def by_key(kind: Kind, rows: Iterable[Row]) -> dict[str, Row]:
    """Return items by their keys within their kind."""
    return {kind.key_of(row): row for row in rows}


def doubled(kind: Kind, rows: Sequence[Row]) -> Iterator[Difference]:
    """Yield the items that are stored more than once."""
    for key, times in Counter(kind.key_of(row) for row in rows).items():
        if times > 1:
            stored = f"{times} times"
            yield Difference(kind=kind.name, key=key, field="*", stored=stored, expected="once")


def differences_of(
    kind: Kind, stored: Mapping[str, Row], expected: Mapping[str, Row]
) -> Iterator[Difference]:
    """Yield the differences between stored and expected items; numbers may differ by 1e-9."""
    for key in sorted(stored.keys() | expected.keys()):
        was, should = stored.get(key), expected.get(key)
        if was is None or should is None:
            yield Difference(
                kind=kind.name,
                key=key,
                field="*",
                stored=None if was is None else "present",
                expected=None if should is None else "present",
            )
            continue
        for name, value in should.items():
            if name not in was or was[name] == value or name in kind.key:
                continue
            if not _close(was[name], value):
                yield Difference(
                    kind=kind.name, key=key, field=name, stored=was[name], expected=value
                )


def _close(a: Any, b: Any) -> bool:
    """Return whether two values are numbers that differ by rounding."""
    return (
        (isinstance(a, float) or isinstance(b, float))
        and isinstance(a, float | int)
        and isinstance(b, float | int)
        and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    )
