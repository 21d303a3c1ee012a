"""Success rates from trials; the formulas are procedures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from graphmem.graph.graph import Reader
from graphmem.store.port import Row

Counts = tuple[int, int]  # trials and successes

PRIOR = (1.0, 1.0)  # successes and failures of the Beta prior of a mean (Laplace)
ESTABLISHED_ABOVE, REFUTED_BELOW = 0.6, 0.4
"""What is established has its lower bound above, what is refuted its upper bound below.

``cypher/formulas.cypher`` has the same defaults.
"""
LATEST = 32  # how many latest outcomes are kept, in which a change can be found
HEURISTIC_ABOVE = 0.5  # a heuristic, or an anti-pattern, is shown while its posterior mean is above


def rates_of(
    reader: Reader, counts: Iterable[Counts], name: str = "rates.weigh", **params: Any
) -> dict[Counts, Row]:
    """Return the rows of ``rates.weigh`` (mean, bounds, status) or ``rates.more`` by counts."""
    rows = [{"trials": trials, "successes": won} for trials, won in sorted(set(counts))]
    rated = reader.read(name, rows=rows, **params) if rows else []
    return {(row.pop("trials"), row.pop("successes")): row for row in rated}
