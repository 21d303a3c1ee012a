"""Temporal discovery: hours, days, weeks and months in which something happens more often.

Events are counted by local time and compared with an even spread by Pearson's chi-squared test;
p-values are corrected for the number of tests. If there is too little evidence for a test, the
report says so. The test assumes independent events; a retry after a minute is not independent, so
an episode counts once. It compares with an even spread over time, not with the times of trials: an
action that is only done on Mondays works, and fails, only on Mondays.
"""

from __future__ import annotations

import math
from calendar import isleap, monthrange
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, Field

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_flag
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import HasId, find_subject, subject_ids
from graphmem.ids import from_millis, node_id, to_millis
from graphmem.models.fields import Input, checked
from graphmem.models.policies import (
    BUCKETS,
    PERIODS,
    Cycle,
    CycleKind,
    CycleReport,
    CycleTest,
    Only,
)
from graphmem.notebook import Listed
from graphmem.numerics import chi_squared_tail
from graphmem.printable import counted
from graphmem.store.port import Row

AMPLITUDE = 0.5  # the bonus of a cycle to a value at its peak; half a period later it is subtracted
AT_LEAST = 3  # fewest events for a test
MEAN_EXPECTED = 1.0
"""Average events that a bucket needs for the chi-squared approximation to hold at .05 (Roscoe &
Byars 1971, JASA 66:755-759; Koehler & Larntz 1980, JASA 75:336-344, require fewer)."""
PERIODS_COVERED = 2  # periods that the events must span: one period shows no repetition

_DAY = 86_400
_START = datetime(1970, 1, 1)  # on the wall clock of the given zone
_THURSDAY = 3  # the weekday of that date
_MONTHS = (0, *accumulate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))
"""Days of a year of 365 before each month."""

Subject = str | HasId | Sequence[datetime]
_Dates = tuple[AwareDatetime, ...]


class Question(Input):
    """The arguments of ``examine``."""

    timezone: str
    alpha: Annotated[float, Field(gt=0, lt=1)]
    at_least: Annotated[int, Field(ge=1)]
    only: Only | None

    def counts(self, row: Row) -> bool:
        """Return whether a fact {at, success} counts, if it has a date."""
        return self.only is None or row["success"] is (self.only == "success")


class Cycles:
    """Detects and stores the cycles of policies and strategies: ``memory.cycles``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def examine(
        self,
        subject: Subject,
        *,
        timezone: str = "UTC",
        alpha: float = 0.05,
        at_least: int = AT_LEAST,
        only: Only | None = None,
        keep: bool = False,
    ) -> CycleReport:
        """Return the cycles of a subject, and all tests, including impossible ones.

        Cycles that are kept change the values of policies over time.

        Args:
            subject: a policy, its id, a strategy's id or text, or datetimes with time zones.
            timezone: the time zone of hours and days, by its IANA name.
            alpha: significance level; a cycle has a p-value below this, corrected for multiple
                tests (step-down; Holm 1979, Scand. J. Statist. 6:65-70).
            at_least: fewest events for a test.
            only: count only successes or only failures.
            keep: replace the stored cycles of the subject by those that are found. Cycles of
                datetimes and of failures cannot be kept: a value must not peak when its action
                fails.

        Raises:
            NotFoundError: there is no such policy or strategy.
        """
        check_flag("keep", keep)
        question = Question.from_arguments(locals())
        if isinstance(subject, list | tuple):
            for name, given in (("keep", keep), ("only", only)):
                if given:
                    raise ValidationError(name, given, "needs a policy or a strategy", "leave out")
            dates = checked("subject", tuple(subject), _Dates)
            facts = [{"at": to_millis(moment), "success": None} for moment in dates]
            return make_report(None, facts, question)
        if keep and only == "failure":
            problem = "is not kept, for values would rise when things fail"
            raise ValidationError("only", only, problem, "leave out")
        identity = self._identity(subject)
        if not keep:
            return make_report(identity, self._graph.read("cycles.dates", ids=[identity]), question)
        report = self._graph.transact(lambda tx: self._replace(tx, identity, question))
        if report is None:  # erased meanwhile
            raise self._unknown(identity)
        return report

    def list(self, subject: str | HasId | None = None) -> Listed[Cycle]:
        """Return the stored cycles of a policy or strategy, or of all.

        Raises:
            NotFoundError: there is no such policy or strategy.
        """
        subjects = None if subject is None else [self._identity(subject)]
        return Listed([Cycle(**row) for row in self._graph.read("cycles.list", subjects=subjects)])

    def renew(self, tx: Transaction, subjects: Sequence[str] | None = None) -> int:
        """Find the stored cycles of all subjects, or of some, anew; return how many are left."""
        rows = tx.run("cycles.list", subjects=subjects)
        asked = dict.fromkeys((row["subject"], Question.from_arguments(row)) for row in rows)
        reports = [self._replace(tx, subject, question) for subject, question in asked]
        return sum(len(report.cycles) for report in reports if report)

    def _identity(self, subject: object) -> str:
        ids = subject_ids(self._graph.ns, subject)
        if (row := find_subject(self._graph, ids)) is None:
            raise self._unknown(ids[0])
        return str(row["id"])

    def _replace(self, tx: Transaction, identity: str, question: Question) -> CycleReport | None:
        """Examine a subject and replace its cycles; return None if the subject does not exist."""
        zone = question.timezone
        ids = {kind: node_id(tx.ns, "Cycle", identity, kind, zone) for kind in PERIODS}
        if not tx.run("cycles.clear", id=identity, ids=sorted(ids.values()))[0]["locked"]:
            return None
        facts = tx.run("cycles.dates", ids=[identity])
        report = make_report(identity, facts, question)
        cycles = tuple(cycle.model_copy(update={"id": ids[cycle.kind]}) for cycle in report.cycles)
        dates = [row["at"] for row in facts if row["at"] is not None and question.counts(row)]
        how = question.model_dump() | {"correction": "holm", "created_at": max(dates, default=None)}
        if rows := [cycle.model_dump(mode="json") | how for cycle in cycles]:
            tx.run("cycles.store", subject=identity, rows=rows)
        return report.model_copy(update={"cycles": cycles})

    def _unknown(self, subject: str) -> NotFoundError:
        return NotFoundError(f"no policy or strategy {subject!r} in namespace {self._graph.ns!r}")


def make_report(subject: str | None, facts: Sequence[Row], question: Question) -> CycleReport:
    """Return the report for the facts {at, success} about a subject."""
    zone = zone_of(question.timezone)
    dates = [from_millis(row["at"]) for row in facts if question.counts(row)]
    local = [local_time(moment, zone) for moment in dates if moment]
    tests = [count(kind, local, question.at_least) for kind in PERIODS]
    p_values = iter(corrected([test.p_value for test in tests if test.p_value is not None]))
    tests = [
        test if test.reason else test.model_copy(update={"p_corrected": next(p_values)})
        for test in tests
    ]
    asked = question.model_dump(include={"timezone", "only"})
    cycles = [
        Cycle(
            **test.model_dump(include={"kind", "chi2", "buckets", "expected"}),
            subject=subject,
            period=PERIODS[test.kind],
            amplitude=AMPLITUDE,
            phase=phase_of(test.kind, peak),
            p_value=test.p_corrected,
            peak=peak,
            events=len(local),
            **asked,
        )
        for test in tests
        if test.p_corrected is not None and test.p_corrected < question.alpha
        for peak in [peak_of(test.buckets, test.expected)]
    ]
    return CycleReport(
        subject=subject,
        cycles=tuple(cycles),
        tests=tuple(tests),
        events=len(local),
        undated=len(dates) - len(local),
        unjudged=sum(row["success"] is None for row in facts) if question.only else 0,
        **asked,
    )


def count(kind: CycleKind, local: Sequence[datetime], at_least: int = AT_LEAST) -> CycleTest:
    """Count local times by bucket and test them against an even spread, if that is valid."""
    size = len(BUCKETS[kind])
    counts = Counter(bucket_of(kind, moment) for moment in local)
    buckets = [counts[place] for place in range(size)]
    expected = _expected(kind, local, size)
    pairs = [pair for pair in zip(buckets, expected, strict=True) if pair[1]]
    tested: dict[str, Any] = {"reason": _too_little(kind, local, len(pairs), at_least)}
    if tested["reason"] is None:
        statistic = chi_squared(*zip(*pairs, strict=True))
        tested |= {"chi2": statistic, "p_value": chi_squared_tail(statistic, len(pairs) - 1)}
    return CycleTest(kind=kind, buckets=tuple(buckets), expected=tuple(expected), **tested)


def chi_squared(observed: Sequence[int], expected: Sequence[float]) -> float:
    """Return Pearson's chi-squared statistic of counts against expected counts over 0."""
    pairs = zip(observed, expected, strict=True)
    return math.fsum((seen - mean) ** 2 / mean for seen, mean in pairs)


def corrected(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's method, in the same order, at most 1."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    steps = [p_values[index] * (len(order) - rank) for rank, index in enumerate(order)]
    adjusted = dict(zip(order, accumulate(steps, max), strict=True))
    return [min(1.0, adjusted[index]) for index in range(len(order))]


def peak_of(buckets: Sequence[int], expected: Sequence[float]) -> int:
    """Return the first bucket that exceeds its expectation most, in standard deviations."""
    over = [
        (seen - mean) / math.sqrt(mean) if mean else -math.inf
        for seen, mean in zip(buckets, expected, strict=True)
    ]
    return over.index(max(over))


def bucket_of(kind: CycleKind, local: datetime) -> int:
    """Return the index of the bucket that a local time falls in."""
    return {
        "hour of day": local.hour,
        "day of week": local.weekday(),
        "week of month": (local.day - 1) // 7,
        "month of year": local.month - 1,
    }[kind]


def _expected(kind: CycleKind, local: Sequence[datetime], buckets: int) -> list[float]:
    """Return the counts of an even spread; weeks and months by their days in the time covered."""
    import numpy as np

    if not local or kind in ("hour of day", "day of week"):
        return [len(local) / buckets] * buckets
    first, last = (np.datetime64(moment.date(), "D") for moment in (min(local), max(local)))
    days = np.arange(first, last + 1)
    months = days.astype("M8[M]")
    weekly = kind == "week of month"
    places = (days - months).astype(int) // 7 if weekly else months.astype(int) % 12
    return [len(local) * int(n) / len(days) for n in np.bincount(places, minlength=buckets)]


def _too_little(
    kind: CycleKind, local: Sequence[datetime], buckets: int, at_least: int
) -> str | None:
    """Return why a test would not be valid, or None."""
    events = len(local)
    if events < at_least:
        return f"too little evidence: {counted(events, 'event')} with a date"
    days = (max(local).date() - min(local).date()).days + 1
    needed = PERIODS_COVERED * round(PERIODS[kind] / _DAY)
    if days < needed:
        return f"the events span {days} day{'' if days == 1 else 's'}, two periods are {needed}"
    if events < MEAN_EXPECTED * buckets:
        return f"too little evidence: {events} events with a date for {buckets} buckets"
    return None


def clocks(moment: datetime, timezones: Iterable[str]) -> list[Row]:
    """Return the value of :func:`clock` for each kind and zone: {kind, timezone, clock}."""
    return [
        {"kind": kind, "timezone": timezone, "clock": clock(kind, timezone, moment)}
        for timezone in timezones
        for kind in PERIODS
    ]


def clock(kind: CycleKind, timezone: str, moment: datetime) -> float:
    """Return the position in a period in seconds, for ``cos(2 pi (clock - phase) / period)``.

    Hours and weekdays: local wall-clock seconds since 1970-01-01 00:00 local time, so that 09:00
    stays 09:00 when summer time begins. Weeks of the month: the elapsed part of the local month,
    scaled to 30 days. Months of the year: the elapsed part of the local year, scaled to 365 days.
    """
    local = local_time(moment, zone_of(timezone))
    if kind in ("hour of day", "day of week"):
        return (local - _START).total_seconds()
    start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    days = monthrange(local.year, local.month)[1]
    if kind == "month of year":
        start, days = start.replace(month=1), 366 if isleap(local.year) else 365
    return (local - start).total_seconds() / (days * _DAY) * PERIODS[kind]


def phase_of(kind: CycleKind, peak: int) -> float:
    """Return the middle of a bucket in seconds of :func:`clock`."""
    return {
        "hour of day": peak * 3600.0 + 1800.0,
        "day of week": ((peak - _THURSDAY) % 7 + 0.5) * _DAY,
        "week of month": (7 * peak + min(7 * peak + 7, 30)) / 2 * _DAY,
        "month of year": sum(_MONTHS[peak : peak + 2]) / 2 * _DAY,
    }[kind]


def zone_of(timezone: str) -> ZoneInfo:
    """Return the time zone of a name, or raise ValidationError."""
    try:
        return ZoneInfo(timezone)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        remedy = "give a name such as 'Europe/Paris' (pip install tzdata where the system has none)"
        raise ValidationError("timezone", timezone, "is not a known time zone", remedy) from None


def local_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall-clock time of a zone at a moment, without time zone."""
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        problem = f"is outside years 1 to 9999 in {zone.key}"
        raise ValidationError("moment", moment, problem) from None
