"""Searching the visible part of a memory: it looks at more until enough of it is visible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphmem.graph.access import View
from graphmem.graph.graph import Graph

if TYPE_CHECKING:
    from graphmem.store.port import Near, SearchIndex, Vector

_GROWTH = 4
"""Factor for looking at more, if too little may be read."""


@dataclass(slots=True)
class Seen:
    """The nodes of a label in a view, among those that a search finds."""

    graph: Graph
    index: SearchIndex
    label: str
    vector: Vector
    limit: int
    view: View
    _known: set[str] = field(default_factory=set)
    _there: set[str] = field(default_factory=set)

    def near(self, found: Near) -> Near:
        """Return the nearest nodes; ``found`` are those of the whole memory."""
        return self._enough(found, self._nearest)

    def matching(self, said: Sequence[str], found: Near) -> Near:
        """Return the nodes that match words best; ``found`` are those of the whole memory."""
        return self._enough(
            found, lambda size: self.index.matching(self.label, said, self.vector, size)
        )

    def _enough(self, found: Near, more: Callable[[int], Near]) -> Near:
        size, most = self.limit, self.index.count(self.label)
        while True:
            ids = [key for key, _ in found if key not in self._known]
            self._known.update(ids)
            if self.label == "Task":
                self._there.update(self.view.tasks(self.graph, ids))
            else:
                self._there.update(self.view.strategies(self.graph, ids))
            seen = [pair for pair in found if pair[0] in self._there]
            if len(seen) >= self.limit or len(found) < size or size >= most:
                return seen[: self.limit]
            size *= _GROWTH
            found = more(size)

    def _nearest(self, size: int) -> Near:
        if size <= _GROWTH**2 * self.limit:
            return self.index.near(self.label, self.vector, size)
        held, matrix = self.index.matrix(self.label, self.view.all_of(self.graph, self.label))
        from graphmem.arrays import np, product

        scores: list[float] = []
        if held:  # few of many: as exact as the index
            exact = product(matrix.astype(np.float64), self.vector.astype(np.float64))
            scores = exact.tolist()
        pairs = [(key, round(score, 6)) for key, score in zip(held, scores, strict=True)]
        return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[: self.limit]
