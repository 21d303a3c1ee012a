"""Cycles: when something happens more often than an even spread over time would have it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from graphmem.models.fields import Output

Kind = Literal["hour of day", "day of week", "week of month", "month of year"]
Only = Literal["success", "failure"]
Correction = Literal["holm", "bonferroni"]

BUCKETS: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {
        "hour of day": tuple(f"{hour:02}:00" for hour in range(24)),
        "day of week": (
            *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
            *("Saturday", "Sunday"),
        ),
        "week of month": ("days 1-7", "days 8-14", "days 15-21", "days 22-28", "days 29-31"),
        "month of year": (
            *("January", "February", "March", "April", "May", "June", "July"),
            *("August", "September", "October", "November", "December"),
        ),
    }
)
"""The buckets of each kind, in words."""

PERIODS: Mapping[Kind, float] = MappingProxyType(
    {
        "hour of day": 86_400.0,
        "day of week": 604_800.0,
        "week of month": 2_592_000.0,
        "month of year": 31_536_000.0,
    }
)
"""The period of each kind in seconds: a day, a week, 30 days, 365 days."""


class Cycle(Output):
    """A cycle that was found.

    ``buckets`` are the events counted, ``expected`` what an even spread would give; ``p_value`` is
    corrected for the other tests. ``phase`` says where in the period the middle of the peak
    lies, in seconds of :func:`graphmem.policies.cycles.clock`. ``only`` says whether successes or
    failures alone were counted, ``id`` is None where the cycle is not stored.
    """

    id: str | None = None
    subject: str | None = None
    kind: Kind
    period: float
    amplitude: float
    phase: float
    p_value: float
    chi2: float
    buckets: tuple[int, ...]
    expected: tuple[float, ...]
    peak: int
    """Index of the bucket that stands out most; the first of several."""
    timezone: str
    events: int
    only: Only | None = None

    @property
    def when(self) -> str:
        """The peak in words, such as "Monday" or "09:00"."""
        return BUCKETS[self.kind][self.peak]


class CycleTest(Output):
    """One test: what was counted and expected, what came of it, or why it was not made."""

    kind: Kind
    buckets: tuple[int, ...]
    expected: tuple[float, ...]
    chi2: float | None = None
    p_value: float | None = None
    """As the chi-squared distribution gives it, for this test by itself."""
    p_corrected: float | None = None
    """Corrected for the number of tests that were made."""
    tested: bool
    reason: str | None = None


class CycleReport(Output):
    """The answer of ``examine``: the cycles, all tests, and what could not be counted.

    ``undated`` facts have no date, ``unjudged`` ones neither worked nor failed (they matter only
    where successes or failures alone are counted).
    """

    subject: str | None = None
    cycles: tuple[Cycle, ...]
    tests: tuple[CycleTest, ...]
    events: int
    undated: int
    unjudged: int = 0
    timezone: str
    only: Only | None = None
    alpha: float
