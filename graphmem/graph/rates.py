"""Success rates from trials; the formulas are procedures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from graphmem.graph.graph import Reader
from graphmem.models.forecasts import Change
from graphmem.store.port import Row

Counts = tuple[int, int]  # trials and successes

PRIOR = (1.0, 1.0)  # successes and failures of the Beta prior of a mean (Laplace)
ESTABLISHED_ABOVE, REFUTED_BELOW = 0.6, 0.4
"""What is established has its lower bound above, what is refuted its upper bound below.

``cypher/formulas.cypher`` has the same defaults.
"""
LATEST = 32  # how many latest outcomes are kept, in which a change can be found
HEURISTIC_ABOVE = 0.5  # a heuristic, or an anti-pattern, is shown while its posterior mean is above


def mean_of(successes: float, trials: float) -> float:
    """Return the posterior mean of a rate."""
    return (successes + PRIOR[0]) / (trials + sum(PRIOR))


def rates_of(
    reader: Reader, counts: Iterable[Counts], name: str = "rates.weigh", **params: Any
) -> dict[Counts, Row]:
    """Return the rows of ``rates.weigh`` (mean, bounds, status) or ``rates.more`` by counts."""
    rows = [{"trials": trials, "successes": won} for trials, won in sorted(set(counts))]
    rated = reader.read(name, rows=rows, **params) if rows else []
    return {(row.pop("trials"), row.pop("successes")): row for row in rated}


def follow(
    reader: Reader,
    rows: Sequence[Row],
    key: str,
    rate: str,
    changes: Mapping[str, Change],
    count: Callable[[Row, Change], Counts] = lambda _, made: made.counts_since,
) -> list[Row]:
    """Return rows of strategies (ids in ``key``) as they hold now, the best first.

    Where a strategy changed, the bounds, the mean (in ``rate``) and the status are those of its
    present run, whose outcomes ``count`` counts; ``change`` tells the rest.
    """
    found = [(row, changes.get(row[key])) for row in rows]
    since = [count(row, made) if made else None for row, made in found]
    rated = rates_of(reader, filter(None, since))
    told: list[Row] = []
    for (row, made), counts in zip(found, since, strict=True):
        now: Row = {"change": made}
        if counts:
            rates = rated[counts]
            now |= {name: rates[name] for name in ("lower", "upper", "status")}
            now[rate] = rates["mean"]
        told.append(row | now)
    return sorted(told, key=lambda row: (-row["lower"], -row[rate], row["id"]))
