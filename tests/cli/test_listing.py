"""``graphmem list`` and ``graphmem explain``: what a memory holds, and why it is believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from graphmem import Memory
from graphmem.cli.parts import KINDS
from tests.cli.running import complaint, good

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)


@pytest.fixture
def taught(url: str) -> str:
    with Memory.open(url) as memory:
        for day in range(8):
            memory.learn(
                "refund a flight",
                "ask first",
                score=0.9,
                task_type="refund",
                agent="ada",
                summary=f"refunded on day {day}",
                ended_at=MONDAY + timedelta(days=day),
            )
        guess = {"task": "refund a flight", "strategy": "guess", "task_type": "refund"}
        card = {"type": "wrong booking", "worker": "grace", "lesson": "numbers are not names"}
        graces = {**guess, "agent": "grace"}
        memory.learn_many(
            {**graces, "success": False, "error": f"no booking {number}"} for number in range(4)
        )
        said = {"score": 0.2, "mistakes": ["took the first booking"], "mistake_cards": [card]}
        memory.learn_many(
            {**graces, "strategy": [], **said, "source_key": key} for key in ("1", "2")
        )
        memory.learn("rebook", ["one way", "another way"], success=True, ended_at=MONDAY)
        memory.policies.update({"x": 1}, "go", 1.0, terminal=True)
        memory.predictions.expect("the build", probability=0.75)
        memory.people.prefer("ann", "seat", "on the aisle")
        memory.people.know("refunds", "they take five days", user="ann")
        memory.scopes.set("grace", can_learn=["sql_*"], share_with=["*"])
        memory.levels.default("ada")
        memory.levels.put_lens("agent:ada:late", "agent:ada:working", limit=3)
    return url


EXPECTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "episodes": (("--agent", "ada", "--limit", "1"), ("ask first", "2026-05-11 09:00", "yes")),
    "tasks": (("--sort", "worst"), ("refund a flight", "8 of 14", "best strategy", "8 of 8")),
    "strategies": (("--task", "rebook"), ("one way", "1 of 1", "0.21 to 1.00", "tentative")),
    "policies": (("--state", "x=1"), ("x=1", "go", "0.100")),
    "heuristics": (("--task-type", "refund"), ("ask first", "ada", "8 of 8", "established")),
    "anti-patterns": ((), ("guess", "no booking <number>", "4", "ask first", "0.733")),
    "rules": (("--task", "refund a flight"), ("[AVOID] took the first booking", "0.750")),
    "mistakes": (("--owner", "grace"), ("wrong booking", "numbers are not names")),
    "predictions": (("--status", "open"), ("the build", "75%", "open")),
    "knowledge": (("--about", "refunds"), ("they take five days", "ann", "1.000")),
    "preferences": (("--user", "ann"), ("seat", "on the aisle", "yes")),
    "scopes": ((), ("grace", "sql_*")),
    "levels": (("--owner", "ada"), ("agent:ada:working", "agent:ada:stm")),
    "lenses": (("--owner", "ada"), ("agent:ada:working", "3")),
    "cycles": (("--about", "ask first"), ("no cycles: `graphmem policies cycles",)),
}
"""Options, and what is shown with them, by kind."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_listed(taught: str, kind: str) -> None:
    options, parts = EXPECTED[kind]
    shown = good("--url", taught, "list", kind, *options).out
    for part in parts:
        assert part in shown
    rows = good("--url", taught, "--json", "list", kind, *options, "--limit", "1").json
    assert len(rows) == (kind != "cycles")


def test_without_a_kind_everything_is_counted(taught: str) -> None:
    counts = good("--url", taught, "--json", "list").json
    assert (counts["episodes"], counts["strategies"], counts["url"]) == (15, 4, taught)
    shown = good("--url", taught, "list").out
    assert "latest episode" in shown
    assert f"pairs used together  {counts['co_occurrences']}\n" in shown


@pytest.mark.parametrize(
    ("arguments", "nothing"),
    [
        (("episodes", "--agent", "nobody"), "no episodes"),
        (("strategies", "--task", "no such"), "--task takes a key or the whole wording"),
        (("strategies", "--agent", "nobody"), "no strategies"),
        (("tasks", "--task-type", "none"), "no tasks"),
        (("policies", "--state", "x=2"), "no policies"),
        (("heuristics", "--min-confidence", "0.91"), "no heuristics: one needs some trials"),
        (("anti-patterns", "--agent", "ada"), "no anti-patterns: one needs repeated"),
        (("rules", "--task", "another"), "no rules"),
        (("mistakes", "--owner", "nobody"), "no mistakes"),
        (("preferences", "--user", "bob"), "no preferences"),
        (("levels", "--owner", "bob"), "no levels"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_nothing_is_a_sentence_and_an_empty_list(
    taught: str, arguments: tuple[str, ...], nothing: str
) -> None:
    assert nothing in good("--url", taught, "list", *arguments).out
    assert good("--url", taught, "--json", "list", *arguments).json == []


# Explain


def test_a_belief_is_explained_by_its_text_and_its_id(taught: str) -> None:
    text = good("--url", taught, "explain", "ask first").out
    assert text.startswith('strategy "ask first"\n  why: 8 of 8 trials worked')
    for part in ("since: 2026-05-04 to 2026-05-11", '8 of 8 (0.68 to 1.00)  "ada"'):
        assert part in text
    found = good("--url", taught, "--json", "explain", "ask first").json
    assert (found["kind"], found["why"]["trials"], found["dated"]) == ("strategy", 8, 8)
    for length in (32, 6):
        assert good("--url", taught, "explain", found["id"][:length]).out == text
    expected = good("--url", taught, "explain", "ask first", "--task", "refund a flight").out
    assert 'on "refund a flight": expected ' in expected


def test_what_has_no_verdict_is_shown_with_fields_and_links(taught: str) -> None:
    of_ada = ("list", "episodes", "--agent", "ada", "--limit", "1")
    [episode] = good("--url", taught, "--json", *of_ada).json
    shown = good("--url", taught, "explain", episode["id"][:12]).out
    assert shown.startswith(f"episode {episode['id']}\nended at       2026-05-11")
    assert "strategy ask first (" in shown
    [task] = good("--url", taught, "--json", "list", "tasks", "--limit", "1").json
    assert good("--url", taught, "explain", task["id"]).out.startswith("task ")
    refused = complaint("--url", taught, "explain", task["id"], "--agent", "ada")
    assert "--as-of are not for a task, which has no verdict" in refused


def test_narrow_screens_show_the_beginning_of_an_id(taught: str) -> None:
    latest = ("list", "episodes", "--agent", "ada", "--limit", "1")
    [row] = good("--url", taught, "--json", *latest).json
    for columns, letters in (("120", 32), ("80", 12)):
        table = good("--url", taught, *latest, COLUMNS=columns).out
        assert f"{row['id'][:letters]} " in table  # in one piece


def test_a_kind_is_asked_for(taught: str) -> None:
    items = {"rule": "took the first booking", "anti-pattern": "guess", "heuristic": "ask first"}
    for kind, item in items.items():
        shown = good("--url", taught, "explain", item, "--kind", kind).out
        assert shown.startswith(f'{kind} "{item}"')
