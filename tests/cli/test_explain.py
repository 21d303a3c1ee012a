"""The command that says why something is believed, as a person uses it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.cli.explain import draw
from graphmem.kinds import ITEM_KINDS
from tests.cli.running import good, run

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A memory in which refunding works less and less, with a rule that has the same text."""
    url = str(tmp_path / "airline.graph")
    with Memory.open(url) as memory:
        for number in range(9):
            memory.learn(
                "cancel a flight",
                "refund",
                success=number < 6,
                agent="ada" if number < 5 else "grace",
                error=None if number < 6 else f"fare {number} is not refundable",
                ended_at=MONDAY + timedelta(days=number),
                source_key=str(number),
            )
        memory.learn_many(
            [{"task": "cancel a flight", "strategy": [], "score": 0.9, "successes": ["ask"]}]
        )
    return url


def test_it_says_why_and_what_would_change_it(url: str) -> None:
    text = good("--url", url, "explain", "refund").out
    assert text.startswith('strategy "refund"\n  why: 6 of 9 trials worked')
    for part in (
        "since: 2026-05-04 to 2026-05-12",
        "trend: falls by 0.40 (4 of 4 earlier, 2 of 5 from 2026-05-08 on",
        "fare 8 is not refundable",
        '5 of 5 (0.57 to 1.00)  "ada"',
        "in a row: established",
        "in a row: refuted",
    ):
        assert part in text
    narrow = good("--url", url, "explain", "refund", COLUMNS="50").out
    assert narrow.split() == text.split()
    assert max(map(len, narrow.splitlines())) <= 50 < max(map(len, text.splitlines()))
    assert not [line for line in narrow.splitlines() if line != line.rstrip()]
    [episode] = good("--url", url, "--json", "episodes", "--limit", "1").json
    shown = good("--url", url, "show", episode["id"], COLUMNS="50").out
    assert max(map(len, shown.splitlines())) <= 50
    as_grace = good("--url", url, "explain", "refund", "--agent", "grace").out
    assert "1 of 4 trials worked" in as_grace
    assert good("--url", url, "explain", "refund").out == text


def test_json_has_all_of_it(url: str) -> None:
    found = good("--url", url, "--json", "explain", "refund").json
    assert (found["kind"], found["why"]["trials"]) == ("strategy", 9)
    assert found["since"]["dated"] == len(found["course"]) == 9
    again = good("--url", url, "--json", "explain", found["id"]).json
    assert again == found


@pytest.mark.parametrize("kind", ITEM_KINDS)
def test_kinds_are_told_apart(url: str, kind: str) -> None:
    item = {"rule": "ask", "policy": "go"}.get(kind, "refund")
    if kind in ("heuristic", "policy"):
        done = run("--url", url, "explain", item, "--kind", kind)
        assert (done.code, done.out) == (2, "")
        shown = {"heuristic": "fits several: heuristic ", "policy": "no policy 'go' in namespace"}
        assert shown[kind] in done.err
    else:
        assert good("--url", url, "explain", item, "--kind", kind).out.startswith(
            f'{kind} "{item}"'
        )


def test_the_query_can_be_run_as_it_is_printed(url: str, tmp_path: Path) -> None:
    printed = good("--url", url, "explain", "refund", "--cypher").out
    assert printed.endswith(";\n")
    (file := tmp_path / "refund.cypher").write_text(printed)
    rows = good("--url", url, "--json", "query", "--file", str(file)).json["rows"]
    parts = {row["part"]: row["paths"] for row in rows}
    assert len(parts["evidence"]) == len(parts["tasks"]) == 8  # five for, three against
    as_json = good("--url", url, "--json", "explain", "refund", "--cypher").json
    assert f"{as_json['cypher']};\n" == printed


def test_the_picture(url: str, tmp_path: Path) -> None:
    for name in ("rate.png", "rate.svg"):
        file = tmp_path / name
        done = good("--url", url, "explain", "refund", "--plot", str(file))
        assert done.out.endswith(f"drawn in {file}\n")
        assert file.stat().st_size > 5_000
    assert "later half" in (tmp_path / "rate.svg").read_text()
    with Memory.open(url) as memory:
        for item, expected in (("ask", "no evidence has a date"), ("fare", "one day")):
            memory.learn("t", "fare", success=True, ended_at=MONDAY, source_key="one day")
            draw(memory.explain(item), file := tmp_path / f"{item}.svg")
            assert (expected in file.read_text()) is (item == "ask")
    refused = run("--url", url, "explain", "refund", "--plot", "rate.pdf")
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("", "item: must not be empty"),
        ("x" * 10_001, "at most 10,000 characters"),
        ("refunds", "the nearest strategies are 'refund'"),
        ("nothing like it", "`graphmem strategies`"),
    ],
)
def test_what_cannot_be_explained_is_refused(url: str, item: str, expected: str) -> None:
    done = run("--url", url, "explain", item)
    assert (done.code, done.out) == (2, "")
    assert expected in done.err
    assert len(done.err.splitlines()) == 1


def test_bytes_that_are_no_text_are_refused(url: str) -> None:
    done = run("--url", url, "explain", "a\udcff")
    assert (done.code, done.out) == (2, "")
    assert "lone surrogate" in done.err
