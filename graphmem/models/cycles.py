"""Cycles: hours, days or months in which something happens more often than by chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from graphmem.models.fields import Output

Kind = Literal["hour of day", "day of week", "week of month", "month of year"]
Only = Literal["success", "failure"]

BUCKETS: Mapping[Kind, tuple[str, ...]] = {
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
"""The names of the buckets of each kind."""

PERIODS: Mapping[Kind, float] = {
    "hour of day": 86_400.0,
    "day of week": 604_800.0,
    "week of month": 2_592_000.0,
    "month of year": 31_536_000.0,
}
"""The period of each kind in seconds: a day, a week, 30 days, 365 days."""


class Cycle(Output):
    """A detected cycle.

    ``buckets`` are the counts of events, ``expected`` the counts of an even spread; ``p_value`` is
    corrected for multiple tests. ``phase`` is the middle of the peak in seconds of
    :func:`graphmem.policies.cycles.clock`. ``only`` says whether only successes or only failures
    were counted. ``id`` is None if the cycle is not stored.
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
    """Index of the bucket that exceeds its expected count most; the first if several tie."""
    timezone: str
    events: int
    only: Only | None = None

    @property
    def when(self) -> str:
        """The peak in words, such as "Monday" or "09:00"."""
        return BUCKETS[self.kind][self.peak]


class CycleTest(Output):
    """One test: the counts, the expected counts, and the result or why there is none."""

    kind: Kind
    buckets: tuple[int, ...]
    expected: tuple[float, ...]
    chi2: float | None = None
    p_value: float | None = None
    """From the chi-squared distribution, not corrected."""
    p_corrected: float | None = None
    """Corrected for the number of tests."""
    tested: bool
    reason: str | None = None


class CycleReport(Output):
    """The answer of ``examine``: the cycles, all tests, and the facts that were not counted.

    ``undated`` facts have no date. ``unjudged`` facts have no success or failure; they are skipped
    only if ``only`` is given.
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
