"""Derived data: how each kind is named, keyed, derived, stored and compared, page by page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from graphmem.errors import SettingsError
from graphmem.graph.graph import Graph, Reader, Transaction
from graphmem.ids import anti_pattern_id, heuristic_id, node_id, tally_id
from graphmem.models.reports import Difference
from graphmem.store.port import Row
from graphmem.text.task_types import infer_task_type

TOLERANCE = 1e-9
DAY = 86_400_000.0  # milliseconds in a day


def half_life_of(reader: Reader) -> float:
    """Return the half-life of co-occurrences (days) that the namespace was built with."""
    name, settings = "co_occurrence_half_life_days", reader.settings
    wanted = settings.co_occurrence_half_life_days
    rows = reader.read("schema.namespace", id=node_id(reader.ns, "Namespace"))
    stored = float(rows[0][name]) if rows else wanted
    if name in settings.model_fields_set and wanted != stored:
        raise SettingsError(
            f"{name} is {wanted:g}, the memory was built with {stored:g}; "
            "leave the setting out, or derive everything anew with rebuild"
        )
    return stored


@dataclass(frozen=True)
class Kind:
    """One kind of derived item: its name, its key, and the label that it belongs to."""

    name: str
    label: str
    key: tuple[str, ...] = ("id",)
    needs_half_life: bool = False
    edges: bool = False
    """Whether it is removed and created again, and not set on existing nodes."""
    linked: bool = False
    """Whether it is a node, which a procedure links to its evidence."""
    complete: Callable[[str, Row], Row] | None = None
    """Makes an item of a namespace from the row of a deriving procedure."""
    home: str = "id"
    """The column with the id of the node that an item belongs to."""
    narrowed: Mapping[str, str] = field(default_factory=dict)
    """Parameters that limit what is derived, and the columns that they are compared with."""

    def key_of(self, row: Row) -> str:
        """Return the key of an item."""
        return " ".join(str(row[name]) for name in self.key)

    def derive(self, tx: Transaction, ids: Sequence[str], *options: str, **only: Any) -> list[Row]:
        """Return the items derived from the facts; ``only`` limits them (see ``narrowed``).

        With the option "share", the ids are those of episodes, and only these count.
        """
        given = self._half_life(tx) | only
        rows = tx.run(f"maintenance.derive_{self.name}", *options, ids=list(ids), **given)
        rows = _in_order(rows)
        return [self.complete(tx.ns, row) for row in rows] if self.complete else rows

    def stored(self, tx: Transaction, ids: Sequence[str]) -> list[Row]:
        """Return the stored items."""
        return _in_order(tx.run(f"maintenance.stored_{self.name}", ids=list(ids)))

    def put(self, tx: Transaction, rows: list[Row]) -> int:
        """Store items; return their number. Those of a kind of edges must not be there."""
        if not rows:
            return 0
        written = tx.run(f"maintenance.put_{self.name}", rows=rows)
        if self.linked:
            tx.run(f"maintenance.link_{self.name}", rows=rows)
        return int(written[0]["written"])

    def clear(self, tx: Transaction, ids: Sequence[str]) -> None:
        """Remove the items of some nodes, if they are removed and created again."""
        if self.edges:
            tx.run(f"maintenance.clear_{self.name}", ids=list(ids))

    def take(self, tx: Transaction, rows: list[Row]) -> set[str]:
        """Take shares away from the stored items; return the keys of those to be derived anew."""
        rows = tx.run(f"shares.take_{self.name}", rows=rows, **self._half_life(tx))
        return {self.key_of(row) for row in rows if not row["exact"]}

    def _half_life(self, tx: Transaction) -> dict[str, Any]:
        return {"half_life": half_life_of(tx) * DAY} if self.needs_half_life else {}

    def compare(self, stored: Sequence[Row], expected: Iterable[Row]) -> Iterator[Difference]:
        """Yield the differences of stored items from expected ones, and those there twice."""
        yield from self.differences(self.by_key(stored), self.by_key(expected))
        for key, times in Counter(map(self.key_of, stored)).items():
            if times > 1:
                found = f"{times} times"
                yield Difference(kind=self.name, key=key, field="*", stored=found, expected="once")

    def by_key(self, rows: Iterable[Row]) -> dict[str, Row]:
        """Return items by their keys within their kind."""
        return {self.key_of(row): row for row in rows}

    def differences(
        self, stored: Mapping[str, Row], expected: Mapping[str, Row]
    ) -> Iterator[Difference]:
        """Yield the differences between stored and expected items; numbers may differ by 1e-9."""
        for key in sorted(stored.keys() | expected.keys()):
            was, should = stored.get(key), expected.get(key)
            if was is None or should is None:
                states = (None if was is None else "present", None if should is None else "present")
                wrong = [("*", *states)]
            else:
                wrong = [
                    (name, was[name], value)
                    for name, value in should.items()
                    if name in was and name not in self.key and not _equal(was[name], value)
                ]
            for name, one, other in wrong:
                yield Difference(kind=self.name, key=key, field=name, stored=one, expected=other)


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


STRATEGIES = Kind("strategies", "Strategy")
_of_strategy = partial(Kind, label="Strategy", edges=True, home="strategy")
OUTCOMES = _of_strategy("outcomes", key=("strategy", "task", "agent"), narrowed={"tasks": "task"})
CO_OCCURRENCES = _of_strategy(
    "co_occurrences",
    key=("low", "high"),
    needs_half_life=True,
    home="low",
    narrowed={"others": "high"},
)
HEURISTICS = _of_strategy(
    "heuristics", linked=True, complete=_heuristic, narrowed={"agents": "agent", "types": "type"}
)
ANTI_PATTERNS = _of_strategy(
    "anti_patterns",
    linked=True,
    complete=_anti_pattern,
    narrowed={"agents": "agent", "classes": "error_class"},
)
TASKS = Kind("tasks", "Task", complete=_typed)
RECENT = Kind("recent", "Task", edges=True, complete=lambda _, row: {**row, "misdated": 0})
RULES = Kind("rules", "Rule", complete=lambda _, row: {**row, "held": 1})
MISTAKES = Kind("mistakes", "Mistake")
AGENTS = Kind("agents", "Agent")
TALLIES = Kind(
    "tallies", "Agent", edges=True, complete=_tally, home="home", narrowed={"types": "type"}
)
KINDS = (
    *(STRATEGIES, OUTCOMES, CO_OCCURRENCES, HEURISTICS, ANTI_PATTERNS),
    *(TASKS, RECENT, RULES, MISTAKES, AGENTS, TALLIES),
)
SHARED = (STRATEGIES, OUTCOMES, CO_OCCURRENCES, HEURISTICS, ANTI_PATTERNS, TASKS, AGENTS, TALLIES)
"""Kinds from which shares are taken, in this order."""
COUNTED = tuple(kind.name for kind in (STRATEGIES, OUTCOMES, TASKS))
"""Kinds that the strengths of pooling are fitted to."""
LABELS = ("Mistake", "Rule", "Strategy", "Task", "Agent")
"""Labels with derived items, in order of deriving; locks are taken in reverse order."""
# Derived by consolidation.
GENERAL_RULES = Kind("general_rules", "Rule")
PREFERRED = Kind("preferred", "AntiPattern")
# Derived stream by stream.
POLICIES = Kind("policies", "Policy")
POLICY_LINKS = Kind("policy_links", "Policy", ("low", "high"), edges=True)


def upkeep(what: str, label: str) -> str:
    """Return the procedure for ``what`` ("ids", "lock", "drop") of nodes of a label."""
    plural = "strategies" if label == "Strategy" else f"{label.lower()}s"
    return f"maintenance.{what}_{plural}"


class Page(NamedTuple):
    """The work of one transaction."""

    items: Any = None
    size: int = 0
    """How many facts it reads."""


class Verified(NamedTuple):
    """The differences, and the number of compared items, by kind."""

    differences: Iterable[Difference]
    checked: Mapping[str, int]


class Rebuilt(NamedTuple):
    """The numbers of written items, by kind, and of removed items."""

    written: Mapping[str, int] = MappingProxyType({})
    removed: int = 0


class Paged:
    """A derived part of the graph, each page of which is processed in one transaction.

    A part overrides what it has: pages, something to compare, something to mend.
    """

    kinds: Sequence[str] = ()
    """The kinds for which it always reports the number of compared items."""
    follows: Sequence[str] = ()
    """Other kinds of derived items that it is derived from: where these differ it is not compared,
    since what is derived from wrong numbers says nothing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def work(self) -> tuple[Iterable[Page], int]:
        """Return the pages to process, and how many facts they read; by default one for all."""
        return [Page()], 0

    def compare(self, tx: Transaction, page: Page) -> Verified:  # noqa: ARG002
        """Compare stored items with those derived from the facts, on one consistent state."""
        return Verified((), {})

    def mend(self, tx: Transaction, page: Page) -> Rebuilt:  # noqa: ARG002
        """Replace stored items by those derived from the facts."""
        return Rebuilt()

    def verify(self, page: Page) -> Verified:
        """Compare a page."""
        return self._graph.view(lambda tx: self.compare(tx, page))

    def rebuild(self, page: Page) -> Rebuilt:
        """Derive and store a page again."""
        return self._graph.transact(lambda tx: self.mend(tx, page))


def _equal(a: Any, b: Any) -> bool:
    """Return whether two values are equal, but for the rounding of numbers."""
    return a == b or (
        (isinstance(a, float) or isinstance(b, float))
        and isinstance(a, float | int)
        and isinstance(b, float | int)
        and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    )
