"""The kinds of derived items: how each is named and keyed, derived, stored and compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphmem.models import Difference
from graphmem.queries import procedure
from graphmem.store.port import Row, Transaction

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Kind:
    """One kind of derived item: how it is named, keyed, and which nodes it hangs on."""

    name: str
    label: str
    key: tuple[str, ...]
    needs_half_life: bool = False
    edges: bool = False

    def derive(
        self, tx: Transaction, ns: str, ids: Sequence[str], half_life: float, **only: Any
    ) -> list[Row]:
        """Return the items as the facts say; ``only`` narrows edges (``task``, ``others``)."""
        extra = {"half_life": half_life} if self.needs_half_life else {}
        query = procedure(f"maintenance.derive_{self.name}")
        return tx.run(query, ns=ns, ids=list(ids), **extra, **only)

    def stored(self, tx: Transaction, ns: str, ids: Sequence[str]) -> list[Row]:
        """Return the items as they are stored."""
        return tx.run(procedure(f"maintenance.stored_{self.name}"), ns=ns, ids=list(ids))

    def put(
        self, tx: Transaction, ns: str, ids: Sequence[str], rows: list[Row], **only: Any
    ) -> int:
        """Store the items in place of what is there; return how many."""
        if self.edges:
            tx.run(procedure(f"maintenance.clear_{self.name}"), ns=ns, ids=list(ids), **only)
        if not rows:
            return 0
        written = tx.run(procedure(f"maintenance.put_{self.name}"), ns=ns, rows=rows)
        return int(written[0]["written"])


STRATEGIES = Kind("strategies", "Strategy", ("id",))
OUTCOMES = Kind("outcomes", "Strategy", ("strategy", "task", "agent"), edges=True)
CO_OCCURRENCES = Kind(
    "co_occurrences", "Strategy", ("low", "high"), needs_half_life=True, edges=True
)
TASKS = Kind("tasks", "Task", ("id",))
AGENTS = Kind("agents", "Agent", ("id",))
KINDS = (STRATEGIES, OUTCOMES, CO_OCCURRENCES, TASKS, AGENTS)
LABELS = ("Strategy", "Task", "Agent")
# Derived stream by stream, see derivation.py.
POLICIES = Kind("policies", "Policy", ("id",))
POLICY_LINKS = Kind("policy_links", "Policy", ("low", "high"), edges=True)


def plural(label: str) -> str:
    """Return a label as procedures name its nodes."""
    return {"Strategy": "strategies", "Task": "tasks", "Agent": "agents"}[label]


def key_of(kind: Kind, row: Row) -> str:
    """Return what an item is known by among those of its kind."""
    return " ".join(str(row[name]) for name in kind.key)


def differences_of(
    kind: Kind, stored: dict[str, Row], expected: dict[str, Row]
) -> Iterator[Difference]:
    """Yield where stored items are not as they should be; numbers may differ by 1e-9."""
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
            if name not in kind.key and name != "uses" and not _same(was[name], value):
                yield Difference(
                    kind=kind.name, key=key, field=name, stored=was[name], expected=value
                )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) or isinstance(b, float):
        return (
            a is not None
            and b is not None
            and math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        )
    return bool(a == b)
