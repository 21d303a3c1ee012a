"""``graphmem policies``: what to do in a state, predictions, and cycles in time."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory, fingerprint
from tests.cli.policies import DEPLOY, teach
from tests.cli.running import good, run


@pytest.fixture
def learned(url: str) -> str:
    teach(url)
    return url


def policy(url: str, action: str, **more: str) -> Any:
    with Memory.open(url) as memory:
        return memory.policies.get(DEPLOY, action, **more)


# The ways to name a state


@pytest.mark.parametrize(
    "state",
    [
        ('{"replicas": 3, "task": "deploy"}',),
        ("task=deploy", "replicas=3"),
        ("replicas=3", 'task="deploy"'),
        (fingerprint(DEPLOY),),
    ],
    ids=" ".join,
)
def test_a_state_is_json_or_pairs_or_a_fingerprint(learned: str, state: tuple[str, ...]) -> None:
    assert good("--url", learned, "--json", "policies", "best", *state).json["action"] == "run"


def test_a_value_that_is_no_json_is_text(url: str) -> None:
    pairs = ("a=true", "b=[1, null]", "c=NaN", "d=x=y", "e=", 'f={"g": 1.5}', "h=12:30")
    good("--url", url, "policies", "update", *pairs, "act", "--success", "yes")
    features = {"a": True, "b": [1, None], "c": "NaN", "d": "x=y", "e": "", "f": {"g": 1.5}}
    state = [word for pair in pairs for word in ("--state", pair)]
    shown = good("--url", url, "--json", "list", "policies", *state).json
    assert shown[0]["features"] == {**features, "h": "12:30"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (("deploy",), "give JSON, a fingerprint"),
        (("task=deploy", "staging"), "give JSON, a fingerprint"),
        (("=deploy",), "give JSON, a fingerprint"),
        (("task=deploy", "task=test"), "'task' is given twice"),
        (('{"task": ',), "is no JSON"),
        (('{"task": NaN}',), "NaN is not a JSON number"),
        (("0123456789ABCDEF",), "fingerprint"),
        (("0123456789abcdef0",), "fingerprint"),
        ((), "STATE"),
    ],
    ids=str,
)
def test_what_is_no_state_is_wrong_usage(
    learned: str, state: tuple[str, ...], message: str
) -> None:
    done = run("--url", learned, "policies", "best", *state)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


# Asking


def test_best_as_table_and_json(learned: str) -> None:
    best = ("policies", "best", "task=deploy", "replicas=3")
    shown = good("--url", learned, *best).out
    assert "run" in shown
    assert "9 of 10" in shown
    found = good("--url", learned, "--json", *best).json
    assert (found["action"], found["agent"], found["updates"]) == ("run", "default", 10)
    assert good("--url", learned, "--json", *best, "--agent", "ada").json["q"] == 0.5
    assert good("--url", learned, "--json", *best, "--explore", "ucb").json["action"] == "wait"
    assert "run" in good("--url", learned, *best, "--agent", "ada", "--explore", "epsilon").out

    later = (*best, "--at", "2026-08-01T00:00:00Z")
    assert "value then" in good("--url", learned, *later).out
    aged = good("--url", learned, "--json", *later).json
    assert 0 < aged["score"] < aged["q"] == found["q"]


def test_nothing_known_is_one_line_and_null(learned: str) -> None:
    unknown = ("policies", "best", "task=unheard_of")
    shown = good("--url", learned, *unknown, "--agent", "ada").out
    assert shown == "nothing is known of this state (agent ada)\n"
    assert good("--url", learned, "--json", *unknown).json is None


def test_best_says_where_actions_were_only_observed(url: str) -> None:
    observe = ("policies", "update", "task=deploy", "run", "--success")
    assert "1 of 1" in good("--url", url, *observe, "yes").out
    assert "worked in 1 of 2 trials" in good("--url", url, *observe, "no").out
    shown = good("--url", url, "policies", "best", "task=deploy").out
    assert "no action has a value in this state (agent default); 1 known without one" in shown
    assert good("--url", url, "--json", "policies", "best", "task=deploy").json is None


def test_policies_are_listed_by_value_or_by_state(learned: str) -> None:
    shown = good("--url", learned, "list", "policies").out
    assert "replicas=3 task=deploy" in shown
    assert 'wait {"for": 60}' in shown
    rows = good("--url", learned, "--json", "list", "policies").json
    values = [row["q"] for row in rows if row["updates"]]
    assert len(rows) == 4
    assert values == sorted(values, reverse=True)
    state = ("--state", "task=deploy", "--state", "replicas=3")
    here = good("--url", learned, "--json", "list", "policies", *state).json
    assert {row["id"] for row in here} == {row["id"] for row in rows}
    [ada] = good("--url", learned, "--json", "list", "policies", *state, "--agent", "ada").json
    assert (ada["action"], ada["q"], ada["trials"]) == ("run", 0.5, 0)
    assert "policy " in good("--url", learned, "explain", ada["id"]).out


# Learning


def test_update_learns_a_step(url: str) -> None:
    update = ("policies", "update", "task=deploy", "replicas=3", "run")
    shown = good("--url", url, *update, "--reward", "1", "--terminal", "--success", "yes").out
    assert shown.startswith("value 0.1 (TD error 1), event 1 of agent default, policy ")
    again = (*update, "--reward", "-1")
    done = good("--url", url, "--json", *again, "--next-max-q", "2", "--success", "no").json
    found = policy(url, "run")
    assert (done["policy_id"], done["seq"]) == (found.id, 2)
    assert (done["q"], done["td_error"]) == (pytest.approx(0.18), pytest.approx(0.8))
    assert (found.q, found.updates, found.trials, found.successes) == (done["q"], 2, 2, 1)


def test_update_takes_the_best_of_the_next_state(url: str) -> None:
    with Memory.open(url) as memory:
        memory.policies.set_q({"task": "check", "ok": True}, "look", 10.0, agent="ada")
    update = ("policies", "update", json.dumps(DEPLOY), "run", "--reward", "0.5", "--agent", "ada")
    after = ('{"task": "check", "ok": true}',), ("task=check", "ok=true")
    for place, state in enumerate([*after, (fingerprint({"task": "check", "ok": True}),)]):
        named = [word for part in state for word in ("--next", part)]
        spec = ("--spec", json.dumps({"try": place}))
        assert good("--url", url, "--json", *update, *named, *spec).json["td_error"] == 10.0
    assert policy(url, "run", agent="ada") is None
    with Memory.open(url) as memory:
        assert memory.policies.get(DEPLOY, "run", spec={"try": 2}, agent="ada") is not None


def test_observe_counts_and_keeps_the_value(learned: str) -> None:
    before = policy(learned, "run")
    observe = ("policies", "update", "task=deploy", "replicas=3", "run", "--success", "yes")
    found = good("--url", learned, "--json", *observe).json
    assert (found["id"], found["q"]) == (before.id, before.q)
    assert (found["successes"], found["trials"]) == (10, 11)
    with_spec = good("--url", learned, "--json", *observe, "--spec", "[1]", "--agent", "bob").json
    assert (with_spec["spec"], with_spec["agent"], with_spec["trials"]) == ([1], "bob", 1)


# Crystallizing


def test_crystallize_says_what_it_did_and_what_is_missing(url: str) -> None:
    with Memory.open(url) as memory:
        for action, successes, failures in (("run", 6, 0), ("wait", 3, 0), ("page", 1, 1)):
            for place in range(successes + failures):
                memory.policies.observe(DEPLOY, action, place < successes)
    shown = good("--url", url, "policies", "crystallize").out
    assert shown.startswith("1 created, 0 updated, 0 taken back, 0 kept as they are, 2 below\n")
    assert shown.endswith("6 of 6 at z 1.96 is the least that passes 0.6\n")
    below = shown[shown.index("The nearest of those below") :]
    assert below.index("wait") < below.index("page")
    for text in ("replicas=3 task=deploy", "3 of 3", "0.438", "0.162"):
        assert text in below

    report = good("--url", url, "--json", "policies", "crystallize").json
    assert (report["kept"], report["below_count"], report["needed"]) == (1, 2, 6)
    assert [item["more"] for item in report["below"]][:1] == [3]
    strict = ("policies", "crystallize", "--threshold", "0.9")
    shown = good("--url", url, *strict).out
    assert "1 taken back" in shown
    assert "Taken back" in shown
    assert "at z 1.96 is the least that passes 0.9" in shown
    assert "0 created" in good("--url", url, "policies", "crystallize", "--agent", "nobody").out
    good("--url", url, "upkeep", "verify")


# Predictions


@pytest.fixture
def foreseen(url: str) -> str:
    """A memory with nine resolved predictions, one open, and one that is due."""
    outcomes = [(0.9, True)] * 4 + [(0.9, False)] + [(0.2, False)] * 3 + [(0.2, True)]
    with Memory.open(url) as memory:
        memory.learn("refund", "ask $first$, then 写", success=True)
        for probability, happened in outcomes:
            made = memory.predictions.expect("ask $first$, then 写", probability=probability)
            memory.predictions.resolve(made.id, happened=happened)
    due = ("--due", "2026-05-01T10:00:00Z", "--key", "due")
    good("--url", url, "policies", "expect", "night build", "--outcome", '{"m": 12}', *due)
    good("--url", url, "policies", "expect", "night build", "--probability", "0.7")
    return url


def test_expect_and_resolve(url: str) -> None:
    expect = ("--url", url, "--json", "policies", "expect", "x", "--agent", "ada")
    made = good(*expect, "--probability", "0.75").json
    assert (made["kind"], made["agent"], made["status"]) == ("free", "ada", "open")
    done = good("--url", url, "policies", "resolve", made["id"], "--happened", "no")
    assert done.out == "error 0.750, it did not happen\n"
    made = good(*expect, "--outcome", '{"minutes": 10, "green": true}').json
    actual = ("--actual", '{"minutes": 20, "green": true}')
    done = good("--url", url, "--json", "policies", "resolve", made["id"], *actual)
    assert (done.json["error"], done.json["happened"]) == (0.25, True)


def test_a_key_is_stored_once(url: str) -> None:
    expect = ("--url", url, "policies", "expect", "x", "--key", "run 1", "--probability")
    first, again = good(*expect, "0.5").out, good(*expect, "0.5").out
    assert again == first.replace("stored", "known already:")
    other = run(*expect, "0.6")
    assert (other.code, other.out, "run 1" in other.err) == (2, "", True)


def test_predictions_are_listed_and_expire(foreseen: str) -> None:
    every = good("--url", foreseen, "list", "predictions").out
    assert every.count("did not happen") == 4
    for part in ("ask $first$, then 写", "open, due 2026-05-01", '{"m": 12}'):
        assert part in every
    waiting = good("--url", foreseen, "list", "predictions", "--status", "open").out
    assert waiting.count("night build") == 2
    assert good("--url", foreseen, "policies", "expire").out == "1 prediction expired\n"
    assert good("--url", foreseen, "--json", "policies", "expire").json == {"expired": 0}
    assert "expired" in good("--url", foreseen, "list", "predictions").out


def test_reliability_in_words_and_as_a_picture(foreseen: str, tmp_path: Path) -> None:
    reliability = ("--url", foreseen, "policies", "reliability")
    shown = good(*reliability).out
    for part in (
        "0.9 to 1 ",
        "4 of 5",
        "5 of 9 happened (base rate 0.556)",
        "Brier score 0.179 (always saying the base rate: 0.247)",
        "expected calibration error 0.078",
    ):
        assert part in shown
    found = good("--json", *reliability, "--bins", "2").json
    assert [one["count"] for one in found["bins"]] == [4, 5]
    for name, magic, subject in (
        ("r.png", b"\x89PNG", ()),
        ("r.SVG", b"<?xml", ("--subject", "x")),
    ):
        file = tmp_path / name
        shown = good(*reliability, *subject, "--plot", str(file)).out
        assert f"drawn in {file}" in shown
        assert file.read_bytes().startswith(magic)
    assert "no prediction with a probability was resolved yet" in shown


def test_a_picture_needs_matplotlib_and_a_folder(foreseen: str, tmp_path: Path) -> None:
    reliability = ("--url", foreseen, "policies", "reliability", "--plot")
    lost = run(*reliability, str(tmp_path / "no such folder" / "r.png"))
    assert (lost.code, lost.out, "no such folder" in lost.err) == (1, "", True)
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    done = run(*reliability, str(tmp_path / "r.png"), PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: --plot needs matplotlib; pip install matplotlib\n"


# Cycles


@pytest.fixture
def weekly(url: str) -> str:
    """A memory in which something works on Mondays and fails on Fridays; one try has no date."""
    monday = datetime(2025, 1, 6, 9, tzinfo=UTC)
    with Memory.open(url) as memory:
        for week in range(30):
            for day in (0, 4):
                at = monday + timedelta(weeks=week, days=day)
                memory.learn("report", "ask", success=day == 0, ended_at=at)
        memory.learn_many([{"task": "report", "strategy": "ask", "success": True}])
    return url


def test_cycles_as_table_and_json(weekly: str) -> None:
    cycles = ("--url", weekly, "policies", "cycles", "ask")
    shown = good(*cycles).out
    for part in (
        *("day of week", "Monday", "09:00"),
        "not tested: month of year (the events span 208 days, two periods are 730)",
        "60 events with a date, 1 without; times in UTC",
    ):
        assert part in shown
    failing = good(*cycles, "--only", "failure").out
    assert "Friday" in failing
    assert "30 failures with a date, 0 without" in failing
    assert "18:00" in good(*cycles, "--timezone", "Asia/Tokyo").out
    report = good("--json", *cycles).json
    assert [cycle["kind"] for cycle in report["cycles"]] == ["hour of day", "day of week"]


def test_cycles_are_stored_where_that_is_wanted(weekly: str) -> None:
    cycles = ("--url", weekly, "policies", "cycles", "ask")
    good(*cycles)
    assert good("--url", weekly, "--json", "list", "cycles").json == []
    good(*cycles, "--store")
    stored = good("--url", weekly, "--json", "list", "cycles", "--about", "ask").json
    assert {one["kind"] for one in stored} == {"day of week", "hour of day"}


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("best", "a=1", "--explore", "greedy"), "--explore"),
        (("best", "a=1", "--at", "noon"), "not an ISO 8601"),
        (("best", "a=1", "--at", "2026-05-01T09:00"), "time zone"),
        (("update", "a=1", "--reward", "1", "--terminal"), "STATE"),
        (("update", "a=1", "x"), "give --reward NUMBER, or --success yes or no alone"),
        (("update", "a=1", "x", "--terminal", "--success", "yes"), "--success yes or no alone"),
        (("update", "a=1", "x", "--reward", "1"), "one of --next"),
        (("update", "a=1", "x", "--reward", "1", "--terminal", "--next", "b=1"), "one of"),
        (("update", "a=1", "x", "--reward", "1", "--next", "b"), "--next 'b'"),
        (("update", "a=1", "x", "--reward", "nan", "--terminal"), "reward: "),
        (("update", "a=1", "x", "--reward", "1", "--terminal", "--spec", "{"), "--spec"),
        (("update", "a=1", "x", "--reward", "1", "--terminal", "--success", "so"), "yes"),
        (("update", "a=1", " ", "--success", "no"), "action: must not be empty"),
        (("crystallize", "--threshold", "1"), "threshold: input should be less than 1"),
        (("cycles", "nobody knows this"), "no policy or strategy"),
        (("cycles", "a", "--only", "both"), "--only"),
        (("expect", "x"), "nothing is expected"),
        (("expect", "x", "--probability", "2"), "probability"),
        (("expect", "x", "--outcome", "{"), "'--outcome': '{' is not JSON"),
        (("expect", "x", "--outcome", "[1]"), "is not a JSON object"),
        (("expect", "x", "--outcome", '{"a": NaN}'), "NaN is not a JSON number"),
        (("resolve", "x"), "give --actual JSON, --happened yes or --happened no"),
        (("resolve", "x", "--happened", "yes"), "no prediction 'x'"),
        (("reliability", "--bins", "0"), "--bins"),
        (("reliability", "--plot", "r.gif"), ".png or .svg"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_wrong_usage(learned: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", learned, "policies", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    with Memory.open(learned) as memory:
        assert memory.events.positions() == {"ada": 1, "default": 13}


def test_beside_a_writer_they_show_a_snapshot(
    learned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmem.store.embedded_sessions.wanted", lambda _: False)
    with Memory.open(learned) as memory:
        memory.policies.observe(DEPLOY, "run", True)
        for command in (("list", "policies"), ("events", "tail")):
            done = run("--url", learned, *command)
            assert done.code == 0
            assert "a snapshot" in done.err
        done = run("--url", learned, "--wait", "0.2", "policies", "crystallize")
        assert (done.code, done.out) == (1, "")
        assert str(os.getpid()) in done.err
