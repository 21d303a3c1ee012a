"""``graphmem cycles``: what happens when, in a table, as JSON and as a picture."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import good, run

MONDAY = datetime(2025, 1, 6, 9, tzinfo=UTC)


@pytest.fixture
def weekly(url: str) -> str:
    """A memory in which something works on Mondays and fails on Fridays; one try has no date."""
    with Memory.open(url) as memory:
        for week in range(30):
            for day in (0, 4):
                memory.learn(
                    "report",
                    "ask $first$, then 写",
                    success=day == 0,
                    ended_at=MONDAY + timedelta(weeks=week, days=day),
                )
        undated = {"task": "report", "strategy": "ask $first$, then 写", "success": True}
        memory.learn_many([undated])
    return url


def test_cycles_as_a_table(weekly: str) -> None:
    shown = good("--url", weekly, "cycles", "ask $first$, then 写").out
    assert "day of week" in shown
    assert "Monday" in shown
    assert "09:00" in shown
    assert "not tested: month of year (the events span 208 days, two periods are 730)" in shown
    assert "60 events with a date, 1 without; times in UTC" in shown

    failing = good("--url", weekly, "cycles", "ask $first$, then 写", "--only", "failure").out
    assert "Friday" in failing
    assert "30 failures with a date, 0 without" in failing

    japan = ("--timezone", "Asia/Tokyo")
    assert "18:00" in good("--url", weekly, "cycles", "ask $first$, then 写", *japan).out
    strict = good("--url", weekly, "cycles", "ask $first$, then 写", "--alpha", "1e-300").out
    assert "no cycle was found" in strict


def test_cycles_as_json(weekly: str) -> None:
    report = good("--url", weekly, "--json", "cycles", "ask $first$, then 写").json
    assert [cycle["kind"] for cycle in report["cycles"]] == ["hour of day", "day of week"]
    assert [test["tested"] for test in report["tests"]] == [True, True, True, False]
    assert (report["events"], report["undated"], report["timezone"]) == (60, 1, "UTC")
    assert sum(report["tests"][0]["buckets"]) == 60


def test_looking_stores_nothing_and_store_does(weekly: str) -> None:
    stored = ("query", "-e", "MATCH (c:Cycle) WHERE c.ns = $ns RETURN c.kind AS kind ORDER BY kind")
    good("--url", weekly, "cycles", "ask $first$, then 写")
    assert good("--url", weekly, "--json", *stored).json["rows"] == []

    good("--url", weekly, "cycles", "ask $first$, then 写", "--store")
    kinds = [row["kind"] for row in good("--url", weekly, "--json", *stored).json["rows"]]
    assert kinds == ["day of week", "hour of day"]


def test_too_little_evidence_is_an_answer(url: str) -> None:
    good("--url", url, "learn", "t", "s", "--success", "--started-at", "2026-05-01T10:00:00Z")
    shown = good("--url", url, "cycles", "s").out
    assert "no cycle was found" in shown
    assert shown.count("too little evidence: 1 dated event)") == 4


@pytest.mark.parametrize(("name", "magic"), [("c.png", b"\x89PNG"), ("c.SVG", b"<?xml")])
def test_a_picture_is_drawn(weekly: str, tmp_path: Path, name: str, magic: bytes) -> None:
    file = tmp_path / name
    done = good("--url", weekly, "cycles", "ask $first$, then 写", "--plot", str(file))
    assert f"drawn in {file}" in done.out
    assert file.read_bytes().startswith(magic)
    assert len(file.read_bytes()) > 10_000
    asked = ("cycles", "ask $first$, then 写", "--plot", str(file))
    assert good("--url", weekly, "--json", *asked).json["events"] == 60


def test_without_matplotlib_the_remedy_is_named(weekly: str, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    asked = ("cycles", "ask $first$, then 写", "--plot", str(tmp_path / "c.png"))
    done = run("--url", weekly, *asked, PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: --plot needs matplotlib; pip install matplotlib\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody knows this",), "no policy or strategy"),
        (("ask $first$, then 写", "--timezone", "Mars"), "timezone: is not a known time zone"),
        (("ask $first$, then 写", "--alpha", "2"), "alpha: must be between 0 and 1"),
        (("ask $first$, then 写", "--only", "both"), "--only"),
        (("ask $first$, then 写", "--only", "failure", "--store"), "only: is not kept"),
        (("ask $first$, then 写", "--plot", "cycles.gif"), ".png or .svg"),
        ((), "SUBJECT"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_usage_exits_with_2(weekly: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", weekly, "cycles", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_a_picture_that_cannot_be_written_exits_with_1(weekly: str, tmp_path: Path) -> None:
    file = tmp_path / "no such folder" / "c.png"
    done = run("--url", weekly, "cycles", "ask $first$, then 写", "--plot", str(file))
    assert (done.code, done.out) == (1, "")
    assert "no such folder" in done.err
