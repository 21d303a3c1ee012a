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
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from graphmem.errors import NotFoundError, ValidationError
from graphmem.graph.arguments import check_flag, check_text, checked_number
from graphmem.graph.graph import Graph, Transaction
from graphmem.graph.lookup import HasId, find_subject, subject_ids
from graphmem.ids import from_millis, node_id, to_millis
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
from graphmem.models.fields import Input
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
        keep = only != "failure" and not isinstance(subject, list | tuple)
        report = self.examine(
            subject,
            timezone=timezone,
            alpha=alpha,
            correction=correction,
            at_least=at_least,
            only=only,
            keep=keep,
        )
        return Listed(report.cycles)

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
        question = Question(
            timezone=timezone, alpha=alpha, correction=correction, at_least=at_least, only=only
        )
        if isinstance(subject, list | tuple):
            for name, given in (("keep", keep), ("only", only)):
                if given:
                    raise ValidationError(name, given, "needs a policy or a strategy", "leave out")
            rows = [{"at": to_millis(moment), "success": None} for moment in _dates(subject)]
            return question.answer(None, rows)
        if keep and only == "failure":
            problem = "is not kept, for values would rise when things fail"
            raise ValidationError("only", only, problem, "leave out")
        identity = self._identity(subject)
        if not keep:
            return question.answer(identity, self._graph.read("cycles.dates", ids=[identity]))
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
        rows = self._graph.read("cycles.list", subjects=subjects)
        kinds = [*PERIODS]
        rows.sort(key=lambda row: (row["subject"], row["timezone"], kinds.index(row["kind"])))
        return Listed([Cycle(**row) for row in rows])

    def renew(self, tx: Transaction, subjects: Sequence[str] | None = None) -> int:
        """Recompute stored cycles with their stored arguments, in a transaction; return the number.

        For all subjects, or for those with given ids. Cycles that the facts no longer show are
        removed.
        """
        rows = tx.run("cycles.list", subjects=subjects)
        names = tuple(Question.model_fields)
        asked = dict.fromkeys((row["subject"], *(row[name] for name in names)) for row in rows)
        total = 0
        for subject, *given in asked:
            question = Question(**dict(zip(names, given, strict=True)))
            report = self._replace(tx, subject, question)
            total += len(report.cycles) if report else 0
        return total

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
        ids = {kind: node_id(tx.ns, "Cycle", identity, kind, question.timezone) for kind in PERIODS}
        if not tx.run("cycles.clear", id=identity, ids=sorted(ids.values()))[0]["locked"]:
            return None
        dates = tx.run("cycles.dates", ids=[identity])
        report = question.answer(identity, dates)
        cycles = tuple(cycle.model_copy(update={"id": ids[cycle.kind]}) for cycle in report.cycles)
        if cycles:
            latest = max(row["at"] for row in dates if question.counts(row))
            rows = [
                {
                    **cycle.model_dump(exclude={"subject"}),
                    "buckets": list(cycle.buckets),
                    "expected": list(cycle.expected),
                    **question.model_dump(),
                    "created_at": latest,
                }
                for cycle in cycles
            ]
            tx.run("cycles.store", subject=identity, rows=rows)
        return report.model_copy(update={"cycles": cycles})

    def _unknown(self, subject: str) -> NotFoundError:
        return NotFoundError(f"no policy or strategy {subject!r} in namespace {self._graph.ns!r}")


class Question(Input):
    """The arguments of ``examine``."""

    timezone: str
    alpha: Annotated[float, Field(gt=0, lt=1)]
    correction: Correction
    at_least: Annotated[int, Field(ge=1)]
    only: Only | None

    def model_post_init(self, _: object, /) -> None:
        """Check the time zone."""
        zone_of(self.timezone)

    def counts(self, row: Row) -> bool:
        """Return whether a fact {at, success} has a date and counts."""
        return row["at"] is not None and (
            self.only is None or row["success"] is (self.only == "success")
        )

    def answer(self, subject: str | None, facts: Sequence[Row]) -> CycleReport:
        """Return the report for the facts {at, success} about a subject."""
        zone = zone_of(self.timezone)
        dates = [from_millis(row["at"]) for row in facts if self.counts(row)]
        unjudged = sum(self.only is not None and row["success"] is None for row in facts)
        others = sum(row["success"] is (self.only == "failure") for row in facts if self.only)
        local = [local_time(moment, zone) for moment in dates if moment]
        tests = [count(kind, local, self.at_least) for kind in PERIODS]
        raw = [test.p_value for test in tests if test.p_value is not None]
        p_values = iter(corrected(raw, self.correction))
        tests = [
            test.model_copy(update={"p_corrected": next(p_values)}) if test.tested else test
            for test in tests
        ]
        return CycleReport(
            subject=subject,
            cycles=tuple(
                self._cycle(subject, test)
                for test in tests
                if test.p_corrected is not None and test.p_corrected < self.alpha
            ),
            tests=tuple(tests),
            events=len(dates),
            undated=len(facts) - len(dates) - unjudged - others,
            unjudged=unjudged,
            timezone=self.timezone,
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
            timezone=self.timezone,
            events=sum(test.buckets),
            only=self.only,
        )


def count(kind: Kind, local: Sequence[datetime], at_least: int = AT_LEAST) -> CycleTest:
    """Count local times by bucket and test them against an even spread, if that is valid."""
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
    for index, value in enumerate(observed):
        checked_number(f"observed.{index}", value, 0)
    if not observed or not checked_number("expected_per_bucket", expected_per_bucket, 0):
        name = "expected_per_bucket" if observed else "observed"
        raise ValidationError(name, expected_per_bucket if observed else observed, "must be over 0")
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
    """Return the counts of an even spread; weeks and months by their days in the time covered."""
    if not local or kind in ("hour of day", "day of week"):
        return [len(local) / buckets] * buckets
    from graphmem.arrays import np

    first, last = (np.datetime64(moment.date(), "D") for moment in (min(local), max(local)))
    days = np.arange(first, last + 1)
    months = days.astype("M8[M]")
    places = (
        (days - months).astype(int) // 7 if kind == "week of month" else months.astype(int) % 12
    )
    shares = np.bincount(places, minlength=buckets)
    return [len(local) * int(share) / len(days) for share in shares]


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
        days = monthrange(local.year, local.month)[1]
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
