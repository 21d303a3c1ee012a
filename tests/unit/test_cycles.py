"""The statistics of cycles: counting, testing, correcting, and the clocks that follow them."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem.config import Settings
from graphmem.errors import ValidationError
from graphmem.graph.graph import Graph
from graphmem.models.policies import BUCKETS, PERIODS, CycleKind, CycleReport, CycleTest
from graphmem.policies.cycles import (
    Cycles,
    bucket_of,
    chi_squared,
    clock,
    clocks,
    corrected,
    count,
    local_time,
    peak_of,
    phase_of,
)
from graphmem.store import open_store
from tests.conftest import of_peers

PARIS = ZoneInfo("Europe/Paris")
MONDAY = datetime(2025, 1, 6, 9, tzinfo=UTC)


def examine(dates: list[Any], **options: Any) -> CycleReport:
    """Datetimes need no memory: nothing is read, nothing stored."""
    settings = Settings()
    store = open_store("memory:", settings)
    return Cycles(Graph(store, "dates", settings)).examine(dates, **options)


def by_kind(report: CycleReport) -> dict[CycleKind, CycleTest]:
    return {test.kind: test for test in report.tests}


def weekly(number: int, **step: float) -> list[datetime]:
    """So many Mondays."""
    return [MONDAY + timedelta(weeks=week, **step) for week in range(number)]


# The peers' numbers


def test_the_statistic_is_the_peers() -> None:
    for case in of_peers("popoto", "chi_squared_uniform"):
        observed, mean = case["observed"], case["expected_per_bucket"]
        if mean > 0:  # the peer answers 0.0, a perfect fit, to an expectation that cannot be
            found = chi_squared(observed, [mean] * len(observed))
            assert found == pytest.approx(case["expect"], rel=1e-12)


def test_the_cycles_are_the_peers() -> None:
    """The peer looks at days of the week, weeks of the month and months of the year.

    It has no hours of the day. In its data the hour moves on by one each week, so the longer series
    have a cycle of hours that only this library sees; so hours are left out of this comparison.
    """
    for case in of_peers("popoto", "temporal_discovery"):
        good = [stamp for stamp in case["timestamps"] if isinstance(stamp, int)]
        report = examine([datetime.fromtimestamp(stamp, UTC) for stamp in good])

        found = [cycle for cycle in report.cycles if cycle.kind != "hour of day"]
        assert [[cycle.period, cycle.amplitude, cycle.phase] for cycle in found] == case[
            "expect_cycles"
        ], case["name"]
        test = by_kind(report)["day of week"]
        assert list(test.buckets) == case.get("buckets_mon_first", list(test.buckets))
        if "chi2" in case and test.reason is None:
            assert test.chi2 == pytest.approx(case["chi2"], rel=1e-12)


# Counting by local time


def test_nine_in_the_morning_is_one_hour_all_the_year() -> None:
    """Summer time moves the clock against UTC, but nobody's morning."""
    mornings = [
        (datetime(2025, 1, 1, 9) + timedelta(days=day)).replace(tzinfo=PARIS) for day in range(365)
    ]
    [cycle] = examine(mornings, timezone="Europe/Paris").cycles
    assert (cycle.kind, cycle.when, cycle.buckets[9]) == ("hour of day", "09:00", 365)

    utc = by_kind(examine(mornings))["hour of day"]
    assert (utc.buckets[7], utc.buckets[8]) == (210, 155)
    late = [moment.replace(hour=22) for moment in weekly(20)]
    for timezone, day in (("UTC", "Monday"), ("Asia/Tokyo", "Tuesday")):
        assert examine(late, timezone=timezone).cycles[0].when == day


@hypothesis.given(
    first=st.dates(), length=st.integers(0, 900), kind=st.sampled_from(list(PERIODS)[2:])
)
def test_expected_counts_are_those_of_the_days_whatever_the_window(
    first: Any, length: int, kind: CycleKind
) -> None:
    start = datetime(first.year, first.month, first.day)
    hypothesis.assume(start < datetime(9997, 1, 1))
    days = [start + timedelta(days=day) for day in range(length + 1)]
    test = count(kind, days)
    assert test.expected == pytest.approx(test.buckets)
    assert sum(test.expected) == pytest.approx(len(days))


# What is tested


@pytest.mark.parametrize(
    ("dates", "reasons"),
    [
        ([], dict.fromkeys(PERIODS, "too little evidence: 0 events with a date")),
        (weekly(1), dict.fromkeys(PERIODS, "too little evidence: 1 event with a date")),
        (weekly(2), dict.fromkeys(PERIODS, "too little evidence: 2 events with a date")),
        (
            [MONDAY + timedelta(minutes=minute) for minute in range(100)],
            {
                "hour of day": "the events span 1 day, two periods are 2",
                "day of week": "the events span 1 day, two periods are 14",
                "week of month": "the events span 1 day, two periods are 60",
                "month of year": "the events span 1 day, two periods are 730",
            },
        ),
        (
            weekly(20),
            {
                "hour of day": "too little evidence: 20 events with a date for 24 buckets",
                "day of week": None,
                "week of month": None,
                "month of year": "the events span 134 days, two periods are 730",
            },
        ),
    ],
    ids=["none", "one", "two", "one morning", "20 Mondays"],
)
def test_a_test_that_would_not_be_valid_is_not_made_and_says_why(
    dates: list[datetime], reasons: dict[CycleKind, str | None]
) -> None:
    report = examine(dates)
    assert {test.kind: test.reason for test in report.tests} == reasons
    for test in report.tests:
        untested = test.reason is not None
        assert (test.chi2 is None, test.p_value is None) == (untested, untested)
    assert report.events == len(dates)


# Corrections


def test_the_threshold_counts_only_tests_that_were_made_and_is_not_reached_by_being_equal() -> None:
    made = by_kind(examine(weekly(20)))
    assert made["day of week"].p_corrected == pytest.approx(2 * (made["day of week"].p_value or 0))
    assert made["hour of day"].p_corrected is None
    dates = [*weekly(8), *(moment + timedelta(days=1) for moment in weekly(4))]
    p = by_kind(examine(dates))["day of week"].p_corrected
    assert p is not None
    assert not examine(dates, alpha=p).cycles
    assert examine(dates, alpha=math.nextafter(p, 1)).cycles
    assert examine(random.Random(3).sample(dates, len(dates))) == examine(dates)
    assert [cycle.when for cycle in examine(weekly(8)).cycles] == ["Monday"]
    assert not examine(weekly(8), at_least=9).cycles


def test_holm() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]
    # Holm (1979): .005 * 4, .01 * 3, .03 * 2, and .04 * 1, which may not be less than that before.
    assert corrected(p_values) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected([0.6, 0.7]) == [1.0, 1.0]
    assert corrected([]) == []


# Peaks, phases and clocks


def test_the_peak_is_what_stands_out_most_and_the_first_of_a_tie() -> None:
    assert peak_of([10, 0, 10], [6.7, 6.7, 6.7]) == 0
    # Three of two expected stand out more than eight of seven.
    assert peak_of([8, 7, 3], [7.0, 7.0, 2.0]) == 2
    assert peak_of([0, 5, 5], [0.0, 5.0, 5.0]) == 1


@pytest.mark.parametrize("timezone", ["UTC", "Europe/Paris", "America/New_York"])
@pytest.mark.parametrize("kind", PERIODS)
def test_a_clock_shows_the_phase_in_the_middle_of_the_bucket(
    kind: CycleKind, timezone: str
) -> None:
    """The wave of a cycle is highest in its own bucket, and lower in all others."""
    zone = ZoneInfo(timezone)
    heights: dict[int, list[float]] = {}
    for hour in range(365 * 24):
        moment = datetime(2025, 1, 1, 0, 30, tzinfo=UTC) + timedelta(hours=hour)
        place = bucket_of(kind, local_time(moment, zone))
        peak = len(BUCKETS[kind]) // 2
        angle = 2 * math.pi * (clock(kind, timezone, moment) - phase_of(kind, peak)) / PERIODS[kind]
        heights.setdefault(place, []).append(math.cos(angle))
    tops = {place: max(found) for place, found in heights.items()}
    assert max(tops, key=lambda place: tops[place]) == peak
    assert tops[peak] == pytest.approx(1, abs=2e-3)


def test_clocks_of_calendars() -> None:
    noon = datetime(2024, 2, 15, 12, tzinfo=UTC)  # a leap year
    assert clock("week of month", "UTC", noon) == pytest.approx(14.5 / 29 * 2_592_000)
    assert clock("month of year", "UTC", noon) == pytest.approx(45.5 / 366 * 31_536_000)
    assert clock("day of week", "UTC", datetime(1970, 1, 1, tzinfo=UTC)) == 0
    shown = clocks(noon, ["UTC", "Asia/Tokyo"])
    assert [(row["kind"], row["timezone"]) for row in shown] == [
        (kind, timezone) for timezone in ("UTC", "Asia/Tokyo") for kind in PERIODS
    ]
    assert shown[4]["clock"] - shown[0]["clock"] == 9 * 3600
    assert clocks(noon, []) == []


# Wrong arguments


def test_times_that_cannot_be_placed_are_refused() -> None:
    for bad in ("abc", None, 1736121600, "2025-01-06T00:00:00Z"):
        with pytest.raises(ValidationError, match=r"subject\.1: must be a date and time"):
            examine([MONDAY, bad])  # the peer leaves such timestamps out and does not say so
    with pytest.raises(ValidationError, match=r"subject\.0: .* give a time zone"):
        examine([datetime(2025, 1, 6)])
    with pytest.raises(ValidationError, match="outside years 1 to 9999"):
        examine([datetime(9999, 12, 31, 23, tzinfo=UTC)], timezone="Asia/Tokyo")
    for wrong in ({"only": "success"}, {"keep": True}):  # a datetime can neither work nor keep it
        with pytest.raises(ValidationError, match=next(iter(wrong))):
            examine(weekly(5), **wrong)
    assert examine([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)] * 30).events
