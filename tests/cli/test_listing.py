"""``graphmem list`` and ``graphmem explain``: what a memory holds, and why it is believed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.cli.list import KINDS
from graphmem.kinds import ITEM_KINDS
from tests.cli.running import good, run

MONDAY = datetime(2026, 5, 4, 9, tzinfo=UTC)


@pytest.fixture
def taught(url: str) -> str:
    """A memory with something of each kind."""
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
        for number in range(4):
            memory.learn_many(
                [{**guess, "success": False, "error": f"no booking {number}", "agent": "grace"}]
            )
        for key in ("1", "2"):
            memory.learn_many(
                [
                    {
                        **guess,
                        "strategy": [],
                        "score": 0.2,
                        "agent": "grace",
                        "mistakes": ["took the first booking"],
                        "mistake_cards": [card],
                        "source_key": key,
                    }
                ]
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
    "anti-patterns": ((), ("guess", "no booking <number>", "4 of 4", "ask first", "+0.73")),
    "rules": (("--task", "refund a flight"), ("[AVOID] took the first booking", "0.750")),
    "mistakes": (("--owner", "grace"), ("wrong booking", "numbers are not names")),
    "scores": (("--task", "refund a flight"), ("0.900", "refunded on day 0", "grace")),
    "predictions": (("--status", "open"), ("the build", "75%", "open")),
    "knowledge": (("--about", "refunds"), ("they take five days", "ann", "1.000")),
    "preferences": (("--user", "ann"), ("seat", "on the aisle", "yes")),
    "scopes": ((), ("grace", "sql_*")),
    "levels": (("--owner", "ada"), ("agent:ada:working", "agent:ada:stm")),
    "lenses": (("--owner", "ada"), ("agent:ada:working", "3")),
    "communities": ((), ("one way", "another way", "2 of 2")),
    "cycles": (("--about", "ask first"), ("no cycle is stored",)),
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
        (("episodes", "--agent", "nobody"), "no episode fits"),
        (("strategies", "--task", "no such"), "--task takes a key or the whole wording"),
        (("strategies", "--agent", "nobody"), "nothing is known of this yet"),
        (("tasks", "--task-type", "none"), "no task fits"),
        (("policies", "--state", "x=2"), "there are no such policies"),
        (("heuristics", "--min-confidence", "0.91"), "no such heuristics"),
        (("anti-patterns", "--agent", "ada"), "no such anti-patterns"),
        (("rules", "--task", "another"), "no rule holds here yet"),
        (("mistakes", "--owner", "nobody"), "no such mistakes"),
        (("scores", "--task", "another"), "nothing is known of this task"),
        (("preferences", "--user", "bob"), "no such preferences"),
        (("levels", "--owner", "bob"), "there are no levels"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_nothing_is_a_sentence_and_an_empty_list(
    taught: str, arguments: tuple[str, ...], nothing: str
) -> None:
    assert nothing in good("--url", taught, "list", *arguments).out
    assert good("--url", taught, "--json", "list", *arguments).json == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kinds",), "is not one of 'episodes', 'tasks', "),
        (("tasks", "--strategy", "x"), "`list tasks` does not take --strategy; these do: episodes"),
        (("scopes", "--failure"), "`list scopes` does not take --success; these do: episodes"),
        (("--agent", "ada"), "`list` without a KIND does not take --agent; these do: episodes, "),
        (("scores",), "`list scores` needs --task TASK"),
        (("preferences",), "`list preferences` needs --user USER"),
        (("strategies", "--like", "guess", "--agent", "ada"), "--like stands alone"),
        (("strategies", "--like", "no such"), "`graphmem list strategies` shows them"),
        (("policies", "--state", "x"), "--state 'x': give JSON, a fingerprint"),
        (("heuristics", "--min-confidence", "2"), "min_confidence"),
        (("episodes", "--since", "2026-05-04"), "has no time zone"),
        (("episodes", "--limit", "0"), "--limit"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_an_option_that_does_not_fit_is_refused(
    taught: str, arguments: tuple[str, ...], message: str
) -> None:
    done = run("--url", taught, "list", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_strategies_like_a_text_come_with_their_similarity(taught: str) -> None:
    shown = good("--url", taught, "list", "strategies", "--like", "one way").out
    assert shown.index("another way") < shown.index("guess")
    assert "similarity" in shown
    [nearest] = good(
        "--url", taught, "--json", "list", "strategies", "--like", "one way", "--limit", "1"
    ).json
    assert nearest["text"] == "another way"


def test_an_anti_pattern_that_is_usual_is_marked(taught: str) -> None:
    assert "warned of" not in good("--url", taught, "list", "anti-patterns").out
    with Memory.open(taught) as memory:
        for number in range(4):
            error = "no seat" if number % 2 else None
            memory.learn("sit", "look", success=error is None, task_type="seat", error=error)
            memory.learn("sit", "leap", success=False, task_type="seat")
    seats = good("--url", taught, "list", "anti-patterns", "--task-type", "seat").out
    assert "2 of 4" in seats
    assert "recall and choose leave it out" in seats


def test_pooled_heuristics_name_what_was_counted_with_them(taught: str) -> None:
    pooled = ("heuristics", "--pooled", "--task-type", "refund")
    [row] = good("--url", taught, "--json", "list", *pooled).json
    assert row["pooled_trials"] >= row["trials"]


# Explain


def test_a_belief_is_explained_by_its_text_and_its_id(taught: str) -> None:
    text = good("--url", taught, "explain", "ask first").out
    assert text.startswith('strategy "ask first"\n  why: 8 of 8 trials worked')
    for part in ("since: 2026-05-04 to 2026-05-11", "refunded", '8 of 8 (0.68 to 1.00)  "ada"'):
        assert part in text or part == "refunded"
    found = good("--url", taught, "--json", "explain", "ask first").json
    assert (found["kind"], found["why"]["trials"], found["since"]["dated"]) == ("strategy", 8, 8)
    for length in (32, 6):
        assert good("--url", taught, "explain", found["id"][:length]).out == text
    as_bob = run("--url", taught, "explain", "ask first", "--agent", "bob")
    assert (as_bob.code, "that agent 'bob' may read" in as_bob.err) == (2, True)
    expected = good("--url", taught, "explain", "ask first", "--task", "refund a flight").out
    assert 'on "refund a flight": expected ' in expected


def test_what_has_no_verdict_is_shown_with_fields_and_links(taught: str) -> None:
    [episode] = good(
        "--url", taught, "--json", "list", "episodes", "--agent", "ada", "--limit", "1"
    ).json
    shown = good("--url", taught, "explain", episode["id"][:12]).out
    assert shown.startswith(f"episode {episode['id']}\n  ended at         2026-05-11")
    assert "strategy ask first (" in shown
    [task] = good("--url", taught, "--json", "list", "tasks", "--limit", "1").json
    more = f"more: graphmem list episodes --task {task['id']}\n"
    assert good("--url", taught, "explain", task["id"]).out.endswith(more)
    refused = run("--url", taught, "explain", task["id"], "--agent", "ada")
    assert (refused.code, refused.out) == (2, "")
    assert "--agent is not for a task, which has no verdict" in refused.err


def test_narrow_screens_lose_nothing(taught: str) -> None:
    text = good("--url", taught, "explain", "ask first").out
    narrow = good("--url", taught, "explain", "ask first", COLUMNS="50").out
    assert narrow.split() == text.split()
    assert max(map(len, narrow.splitlines())) <= 50 < max(map(len, text.splitlines()))
    for columns, letters in (("120", 32), ("80", 12)):
        latest = ("list", "episodes", "--agent", "ada", "--limit", "1")
        [row] = good("--url", taught, "--json", *latest).json
        table = good("--url", taught, *latest, COLUMNS=columns).out
        assert f"{row['id'][:letters]} " in table  # in one piece


@pytest.mark.parametrize("kind", ITEM_KINDS)
def test_a_kind_is_asked_for(taught: str, kind: str) -> None:
    item = {"rule": "took the first booking", "anti-pattern": "guess", "policy": "go"}.get(
        kind, "ask first"
    )
    done = run("--url", taught, "explain", item, "--kind", kind)
    if kind == "policy":
        assert (done.code, "no policy 'go' in namespace" in done.err) == (2, True)
    else:
        assert done.out.startswith(f'{kind} "{item}"')


def test_the_query_can_be_run_as_it_is_printed(taught: str, tmp_path: Path) -> None:
    printed = good("--url", taught, "explain", "ask first", "--cypher").out
    assert printed.endswith(";\n")
    (file := tmp_path / "ask.cypher").write_text(printed)
    rows = good("--url", taught, "--json", "query", "--file", str(file)).json["rows"]
    parts = {row["part"]: row["paths"] for row in rows}
    assert len(parts["evidence"]) == 5
    as_json = good("--url", taught, "--json", "explain", "ask first", "--cypher").json
    assert f"{as_json['cypher']};\n" == printed


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("", "item: must not be empty"),
        ("x" * 10_001, "at most 10,000 characters"),
        ("ask firsts", "the nearest strategies are 'ask first'"),
        ("nothing like it", "`graphmem list KIND`"),
        ("0" * 32, "has an id '000"),
        ("a\udcff", "lone surrogate"),
    ],
)
def test_what_cannot_be_explained_is_refused(taught: str, item: str, message: str) -> None:
    done = run("--url", taught, "explain", item)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert len(done.err.splitlines()) == 1
