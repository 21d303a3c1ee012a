"""Lessons: conclusions from the strategies, errors and sentences of episodes.

Two strategies can be merged: they then count as one wherever lessons are read. Recorded data does
not change, so that a merge can be undone exactly. A merged strategy points to its whole (the edge
``MERGED_INTO``, and the property ``merged_into`` with its id), and reading procedures add up the
strategies of one whole.
"""

from __future__ import annotations

from graphmem.errors import ValidationError
from graphmem.graph.graph import Transaction
from graphmem.graph.lookup import find_strategy
from graphmem.lessons.general_rules import Consolidator, renew_preferred

__all__ = ["Lessons"]


class Lessons(Consolidator):
    """Reads the lessons of one namespace, consolidates them, merges strategies: ``memory.lessons``.

    ``docs/explanation/lessons.md`` explains the counts and the thresholds of lessons.
    """

    def merge(self, strategy: str, other: str) -> str:
        """Count a second strategy as the first (texts or ids) wherever lessons are read.

        Recorded data does not change, and :meth:`unmerge` undoes it. An episode that used both
        counts twice.

        Return the id of the whole, which stands for both.

        Raises:
            NotFoundError: there is no such strategy.
            ValidationError: they are merged already, or the first is merged into another.
        """
        return self._graph.transact(lambda tx: self._merge(tx, strategy, other))

    def _merge(self, tx: Transaction, strategy: str, other: str) -> str:
        given = {"strategy": strategy, "other": other}
        ids = sorted({find_strategy(tx, *item)["id"] for item in given.items()})
        tx.run("maintenance.lock_strategies", ids=ids)
        whole, part = (find_strategy(tx, *item) for item in given.items())
        if whole["id"] == part["id"]:
            raise ValidationError("other", other, "is the same strategy", "name two strategies")
        # A whole points to itself.
        if whole["merged_into"] not in (None, whole["id"]):
            remedy = "name that one, or unmerge it"
            raise ValidationError("strategy", strategy, "was merged into another", remedy)
        if part["merged_into"] not in (None, part["id"]):
            raise ValidationError("other", other, "was merged already", "unmerge it first")
        tx.run("lessons.merge", whole=whole["id"], part=part["id"])
        renew_preferred(tx)
        return str(whole["id"])

    def unmerge(self, strategy: str) -> int:
        """Undo the merging of a strategy: it and those merged into it count separately again.

        Return the number of strategies that had been merged.

        Raises:
            NotFoundError: there is no such strategy.
        """

        def work(tx: Transaction) -> int:
            identity = find_strategy(tx, "strategy", strategy)["id"]
            tx.run("maintenance.lock_strategies", ids=[identity])
            rows = tx.run("lessons.unmerge", ids=[identity])
            renew_preferred(tx)
            return sum(int(row["unmerged"]) for row in rows)

        return self._graph.transact(work)
