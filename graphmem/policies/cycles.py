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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate
from typing import get_args
from zoneinfo import ZoneInfo

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_choice, check_flag, check_text
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import HasId, find_subject, subject_ids
from graphmem.ids import from_millis, node_id
from graphmem.models.cycles import (
    BUCKETS,
    PERIODS,
    Correction,
    Cycle,
    CycleReport,
    CycleTest,
    Kind,
    Only,
)
from graphmem.notebook.frames import Listed
from graphmem.numerics import chi_squared_tail
from graphmem.store.port import Row

AMPLITUDE = 0.5
"""The bonus of a cycle to a value at its peak; half a period later it is subtracted."""
AT_LEAST = 3
"""Fewest events for a test."""
MEAN_EXPECTED = 1.0
"""Average events that a bucket needs for the chi-squared approximation to hold at .05 (Roscoe &
Byars 1971, JASA 66:755-759; Koehler & Larntz 1980, JASA 75:336-344, require fewer)."""
PERIODS_COVERED = 2
"""Periods that the events must span: one period shows no repetition."""

_DAY = 86_400
_START = datetime(1970, 1, 1)  # on the wall clock of the given zone
_THURSDAY = 3  # the weekday of that date
_MONTHS = (0, *accumulate((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)))
"""Days of a year of 365 before each month."""


Subject = str | HasId | Sequence[datetime]


class Cycles:
    """Detects and stores the cycles of policies and strategies: ``memory.cycles``."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def discover(
        self,
        subject: Subject,
        *,
        timezone: str = "UTC",
        alpha: float = 0.05,
        correction: Correction = "holm",
        at_least: int = AT_LEAST,
        only: Only | None = None,
    ) -> Listed[Cycle]:
        """Detect the cycles of a subject, replace its stored cycles by them, and return them.

        Stored cycles change the values of policies over time. Cycles of datetimes and of failures
        are returned, but not stored: a value must not peak when its action fails.

        Args:
            subject: a policy, its id, a strategy's id or text, or datetimes with time zones.
            timezone: the time zone of hours and days, by its IANA name.
            alpha: significance level; a cycle has a corrected p-value below this.
            correction: correction for multiple tests: "holm" (step-down, Holm 1979) or
                "bonferroni".
            at_least: fewest events for a test.
            only: count only successes or only failures.

        Raises:
            ValidationError: an argument is wrong.
            NotFoundError: there is no such policy or strategy.
        """
        question = Question.of(timezone, alpha, correction, at_least, only)
        keep = only != "failure" and not isinstance(subject, list | tuple)
        return Listed(self._examine(subject, question, keep=keep).cycles)

    def examine(
        self,
        subject: Subject,
        *,
        timezone: str = "UTC",
        alpha: float = 0.05,
        correction: Correction = "holm",
        at_least: int = AT_LEAST,
        only: Only | None = None,
        keep: bool = False,
    ) -> CycleReport:
        """Return all tests, including impossible ones; with ``keep``, store the cycles.

        Arguments and errors are those of :meth:`discover`.
        """
        check_flag("keep", keep)
        question = Question.of(timezone, alpha, correction, at_least, only)
        return self._examine(subject, question, keep=keep)

    def list(self, subject: str | HasId | None = None) -> Listed[Cycle]:
        """Return the stored cycles of a policy or strategy, or of all.

        Raises:
            NotFoundError: there is no such policy or strategy.
        """
        subjects = None if subject is None else [self._identity(subject)]
        rows = self._graph.read("cycles.list", subjects=subjects)
        kinds = [*PERIODS]
        rows.sort(key=lambda row: (row["subject"], row["timezone"], kinds.index(row["kind"])))
        return Listed([Cycle(**row) for row in rows])

    def renew(self, tx: Transaction, subjects: Sequence[str] | None = None) -> int:
        """Recompute stored cycles with their stored arguments, in a transaction; return the number.

        For all subjects, or for those with given ids. Cycles that the facts no longer show are
        removed.
        """
        names = ("subject", "timezone", "alpha", "correction", "at_least", "only")
        rows = tx.run("cycles.list", subjects=subjects)
        total = 0
        for subject, *given in dict.fromkeys(tuple(row[name] for name in names) for row in rows):
            report = self._replace(tx, subject, Question.of(*given))
            total += len(report.cycles) if report else 0
        return total

    def _examine(self, subject: Subject, question: Question, *, keep: bool) -> CycleReport:
        if isinstance(subject, list | tuple):
            for name, given in (("keep", keep), ("only", question.only)):
                if given:
                    raise ValidationError(name, given, "needs a policy or a strategy", "leave out")
            return question.answer(None, _dates(subject))
        if keep and question.only == "failure":
            raise ValidationError(
                "only",
                question.only,
                "is not kept, for values would rise when things fail",
                "leave out",
            )
        identity = self._identity(subject)
        if not keep:
            return question.answer_rows(identity, self._graph.read("cycles.dates", ids=[identity]))
        report = self._graph.transact(lambda tx: self._replace(tx, identity, question))
        if report is None:  # erased meanwhile
            raise self._unknown(identity)
        return report

    def _identity(self, subject: object) -> str:
        """Return the id of an existing policy or strategy."""
        ids = subject_ids(
            self._graph.ns,
            subject,
            "policy, strategy or list of datetimes",
            "give a policy, its id, or the id or text of a strategy",
        )
        subject_row = find_subject(self._graph, ids)
        if subject_row is None:
            raise self._unknown(ids[0])
        return str(subject_row["id"])

    def _replace(self, tx: Transaction, identity: str, question: Question) -> CycleReport | None:
        """Examine a subject and replace its cycles; return None if the subject does not exist."""
        zone = question.zone.key
        ids = {kind: node_id(self._graph.ns, "Cycle", identity, kind, zone) for kind in PERIODS}
        if not tx.run("cycles.clear", id=identity, ids=sorted(ids.values()))[0]["locked"]:
            return None
        dates = tx.run("cycles.dates", ids=[identity])
        report = question.answer_rows(identity, dates)
        cycles = tuple(cycle.model_copy(update={"id": ids[cycle.kind]}) for cycle in report.cycles)
        if cycles:
            rows = [
                {
                    **cycle.model_dump(exclude={"subject"}),
                    "buckets": list(cycle.buckets),
                    "expected": list(cycle.expected),
                    "alpha": float(question.alpha),
                    "correction": question.correction,
                    "at_least": question.at_least,
                    "created_at": max(row["at"] for row in dates if question.counts(row)),
                }
                for cycle in cycles
            ]
            tx.run("cycles.store", subject=identity, rows=rows)
        return report.model_copy(update={"cycles": cycles})

    def _unknown(self, subject: str) -> NotFoundError:
        return NotFoundError(f"no policy or strategy {subject!r} in namespace {self._graph.ns!r}")


@dataclass(frozen=True, slots=True)
class Question:
    """The checked arguments of ``examine``."""

    zone: ZoneInfo
    alpha: float
    correction: Correction
    at_least: int
    only: Only | None

    @classmethod
    def of(
        cls, timezone: str, alpha: float, correction: Correction, at_least: int, only: Only | None
    ) -> Question:
        """Return a question, or raise a ValidationError that names the wrong argument."""
        if type(alpha) not in (int, float) or not 0 < alpha < 1:
            raise ValidationError("alpha", alpha, "must be between 0 and 1", "0.05 is usual")
        check_choice("correction", correction, get_args(Correction))
        if type(at_least) is not int or at_least < 1:
            raise ValidationError("at_least", at_least, "must be a whole number from 1")
        if only is not None:
            check_choice("only", only, get_args(Only))
        return cls(zone_of(timezone), alpha, correction, at_least, only)

    def counts(self, row: Row) -> bool:
        """Return whether a dated fact counts for this question."""
        return row["at"] is not None and (
            self.only is None or row["success"] is (self.only == "success")
        )

    def answer_rows(self, subject: str, rows: Iterable[Row]) -> CycleReport:
        """Return the report for the facts ({at, success}) about a subject."""
        facts = [
            row
            for row in rows
            if self.only is None or row["success"] in (None, self.only == "success")
        ]
        dates = [moment for row in facts if self.counts(row) and (moment := from_millis(row["at"]))]
        unjudged = sum(self.only is not None and row["success"] is None for row in facts)
        undated = len(facts) - len(dates) - unjudged
        return self.answer(subject, dates, undated=undated, unjudged=unjudged)

    def answer(
        self, subject: str | None, dates: Sequence[datetime], undated: int = 0, unjudged: int = 0
    ) -> CycleReport:
        """Return the report for dates."""
        local = [local_time(moment, self.zone) for moment in dates]
        tests = [count(kind, local, self.at_least) for kind in PERIODS]
        raw = [test.p_value for test in tests if test.p_value is not None]
        p_values = iter(corrected(raw, self.correction))
        tests = [
            test.model_copy(update={"p_corrected": next(p_values)}) if test.tested else test
            for test in tests
        ]
        found = [test for test in tests if test.tested and (test.p_corrected or 0.0) < self.alpha]
        return CycleReport(
            subject=subject,
            cycles=tuple(self._cycle(subject, test) for test in found),
            tests=tuple(tests),
            events=len(dates),
            undated=undated,
            unjudged=unjudged,
            timezone=self.zone.key,
            only=self.only,
            alpha=self.alpha,
        )

    def _cycle(self, subject: str | None, test: CycleTest) -> Cycle:
        peak = peak_of(test.buckets, test.expected)
        return Cycle(
            subject=subject,
            kind=test.kind,
            period=PERIODS[test.kind],
            amplitude=AMPLITUDE,
            phase=phase_of(test.kind, peak),
            p_value=test.p_corrected or 0.0,
            chi2=test.chi2 or 0.0,
            buckets=test.buckets,
            expected=test.expected,
            peak=peak,
            timezone=self.zone.key,
            events=sum(test.buckets),
            only=self.only,
        )


# Counting and testing


def count(kind: Kind, local: Sequence[datetime], at_least: int = AT_LEAST) -> CycleTest:
    """Count local times by bucket and test them against an even spread, if that is valid.

    Hours of the day and days of the week have equal expectations. Weeks of the month and months of
    the year are expected in proportion to their days between the first and the last event.
    """
    buckets = [0] * len(BUCKETS[kind])
    for moment in local:
        buckets[bucket_of(kind, moment)] += 1
    days = (max(local).date() - min(local).date()).days + 1 if local else 0
    expected = _expected(kind, local, len(buckets))
    reason = _too_little(kind, len(local), days, sum(map(bool, expected)), at_least)
    counted = {"kind": kind, "buckets": tuple(buckets), "expected": tuple(expected)}
    if reason is not None:
        return CycleTest(**counted, tested=False, reason=reason)
    pairs = [pair for pair in zip(buckets, expected, strict=True) if pair[1]]
    statistic = math.fsum((seen - mean) ** 2 / mean for seen, mean in pairs)
    p_value = chi_squared_tail(statistic, len(pairs) - 1)
    return CycleTest(**counted, chi2=statistic, p_value=p_value, tested=True)


def chi_squared_uniform(observed: Sequence[int], expected_per_bucket: float) -> float:
    """Return Pearson's chi-squared statistic of counts against one expected count.

    Raises:
        ValidationError: there are no counts, one is negative or not a number, or the expected count
            is not over 0.
    """
    if not observed:
        raise ValidationError("observed", observed, "is empty", "give a count for each bucket")
    for index, value in enumerate(observed):
        if not _is_number(value) or value < 0:
            raise ValidationError(f"observed.{index}", value, "is not a count")
    if not _is_number(expected_per_bucket) or expected_per_bucket <= 0:
        raise ValidationError("expected_per_bucket", expected_per_bucket, "must be a number over 0")
    return math.fsum((value - expected_per_bucket) ** 2 for value in observed) / expected_per_bucket


def corrected(p_values: Sequence[float], correction: Correction = "holm") -> list[float]:
    """Return p-values corrected for their number, in the same order, at most 1.

    Holm's step-down method (Holm 1979, Scand. J. Statist. 6:65-70) controls the same error rate as
    Bonferroni's with more power.
    """
    tests = len(p_values)
    if correction == "bonferroni":
        return [min(1.0, p * tests) for p in p_values]
    order = sorted(range(tests), key=lambda index: p_values[index])
    steps = [p_values[index] * (tests - rank) for rank, index in enumerate(order)]
    adjusted = dict(zip(order, accumulate(steps, max), strict=True))
    return [min(1.0, adjusted[index]) for index in range(tests)]


def peak_of(buckets: Sequence[int], expected: Sequence[float]) -> int:
    """Return the bucket that exceeds its expectation most, in standard deviations.

    With equal expectations that is the fullest bucket; if several tie, the first.
    """
    over = [
        (seen - mean) / math.sqrt(mean) if mean else -math.inf
        for seen, mean in zip(buckets, expected, strict=True)
    ]
    return over.index(max(over))


def bucket_of(kind: Kind, local: datetime) -> int:
    """Return the index of the bucket that a local time falls in."""
    return {
        "hour of day": local.hour,
        "day of week": local.weekday(),
        "week of month": (local.day - 1) // 7,
        "month of year": local.month - 1,
    }[kind]


def _expected(kind: Kind, local: Sequence[datetime], buckets: int) -> list[float]:
    if not local:
        return [0.0] * buckets
    if kind in ("hour of day", "day of week"):
        return [len(local) / buckets] * buckets
    days = [0] * buckets
    for first, last in _months(min(local).date(), max(local).date()):
        if kind == "month of year":
            days[first.month - 1] += last.day - first.day + 1
            continue
        for week in range(buckets):
            days[week] += max(0, min(7 * week + 7, last.day) - max(7 * week, first.day - 1))
    return [len(local) * share / sum(days) for share in days]


def _months(first: date, last: date) -> Iterator[tuple[date, date]]:
    """Yield the first and last day of each month, limited to the range between two dates."""
    while first <= last:
        length = _month_length(first)
        end = min(last, first.replace(day=length))
        yield first, end
        if end == last:  # never asks for a month after 9999-12
            return
        first = end + timedelta(days=1)


def _too_little(kind: Kind, events: int, days: int, buckets: int, at_least: int) -> str | None:
    """Return why a test would not be valid, or None."""
    if events < at_least:
        return f"too little evidence: {events} dated event{'' if events == 1 else 's'}"
    needed = PERIODS_COVERED * round(PERIODS[kind] / _DAY)
    if days < needed:
        return f"the events span {days} day{'' if days == 1 else 's'}, two periods are {needed}"
    if events < MEAN_EXPECTED * buckets:
        return f"too little evidence: {events} dated events for {buckets} buckets"
    return None


def _dates(given: Sequence[object]) -> list[datetime]:
    """Return the datetimes unchanged, after checking each."""
    dates = []
    for index, value in enumerate(given):
        name = f"subject.{index}"
        if not isinstance(value, datetime):
            raise ValidationError(name, value, "is not a datetime", "leave it out")
        if value.utcoffset() is None:
            remedy = "give one, for instance datetime.now(timezone.utc)"
            raise ValidationError(name, value, "has no time zone", remedy)
        dates.append(value)
    return dates


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


# Clocks: the position of a time within a period


def clocks(moment: datetime, timezones: Iterable[str]) -> list[Row]:
    """Return the value of :func:`clock` for each kind and zone: {kind, timezone, clock}."""
    return [
        {"kind": kind, "timezone": timezone, "clock": clock(kind, timezone, moment)}
        for timezone in timezones
        for kind in PERIODS
    ]


def clock(kind: Kind, timezone: str, moment: datetime) -> float:
    """Return the position in a period in seconds, for ``cos(2 pi (clock - phase) / period)``.

    Hours and weekdays: local wall-clock seconds since 1970-01-01 00:00 local time, so that 09:00
    stays 09:00 when summer time begins. Weeks of the month: the elapsed part of the local month,
    scaled to 30 days. Months of the year: the elapsed part of the local year, scaled to 365 days.

    Raises:
        ValidationError: the zone or the kind is unknown, or the time has no zone.
    """
    if kind not in PERIODS:
        raise ValidationError("kind", kind, "is unknown", f"give one of {', '.join(PERIODS)}")
    local = local_time(_dates([moment])[0], zone_of(timezone))
    if kind in ("hour of day", "day of week"):
        return (local - _START).total_seconds()
    if kind == "week of month":
        start = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        days = _month_length(local)
    else:
        start = local.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
        days = 366 if isleap(local.year) else 365
    return (local - start).total_seconds() / (days * _DAY) * PERIODS[kind]


def phase_of(kind: Kind, peak: int) -> float:
    """Return the middle of a bucket in seconds of :func:`clock`."""
    match kind:
        case "hour of day":
            return peak * 3600.0 + 1800.0
        case "day of week":
            return (peak - _THURSDAY) % 7 * float(_DAY) + _DAY / 2
        case "week of month":
            return (7 * peak + min(7 * peak + 7, 30)) / 2 * _DAY
        case "month of year":
            return (_MONTHS[peak] + _MONTHS[peak + 1]) / 2 * _DAY


def zone_of(timezone: str) -> ZoneInfo:
    """Return the time zone of a name.

    Raises:
        ValidationError: there is no such zone.
    """
    check_text("timezone", timezone)
    try:
        return ZoneInfo(timezone)
    except (LookupError, ValueError, TypeError, AttributeError, OSError):
        raise ValidationError(
            "timezone",
            timezone,
            "is not a known time zone",
            "give a name such as 'Europe/Paris' (pip install tzdata where the system has none)",
        ) from None


def local_time(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return the wall-clock time of a zone at a moment, without time zone.

    Raises:
        ValidationError: the result is outside of the years 1 to 9999.
    """
    try:
        return moment.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        raise ValidationError(
            "moment", moment, f"is outside years 1 to 9999 in {zone.key}"
        ) from None


def _month_length(day: date) -> int:
    return monthrange(day.year, day.month)[1]
