"""``graphmem policies``: what to do in a state, predictions, and cycles in time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from graphmem import Memory, fingerprint
from tests.cli.running import DEPLOY, complaint, good


def policy(url: str, action: str, **more: Any) -> Any:
    with Memory.open(url) as memory:
        return memory.policies.get(DEPLOY, action, **more)


def test_the_best_action_of_a_state(learned: str) -> None:
    for state in (
        ('{"replicas": 3, "task": "deploy"}',),
        ("replicas=3", 'task="deploy"'),
        (fingerprint(DEPLOY),),
    ):
        found = good("--url", learned, "--json", "policies", "best", *state).json
        assert (found["action"], found["agent"], found["updates"]) == ("run", "default", 10)
    best = ("policies", "best", "task=deploy", "replicas=3")
    shown = good("--url", learned, *best).out
    assert "run" in shown
    assert "successes        9\n" in shown
    assert good("--url", learned, "--json", *best, "--agent", "ada").json["q"] == 0.5
    assert good("--url", learned, "--json", *best, "--explore", "ucb").json["action"] == "wait"
    assert "run" in good("--url", learned, *best, "--agent", "ada", "--explore", "epsilon").out

    later = (*best, "--at", "2026-08-01T00:00:00Z")
    aged = good("--url", learned, "--json", *later).json
    assert 0 < aged["score"] < aged["q"] == found["q"]

    unknown = ("policies", "best", "task=unheard_of")
    shown = good("--url", learned, *unknown, "--agent", "ada").out
    assert shown == "no action has a value in this state (agent ada)\n"
    assert good("--url", learned, "--json", *unknown).json is None


def test_a_value_that_is_no_json_is_text(url: str) -> None:
    pairs = ("a=true", "b=[1, null]", "c=NaN", "d=x=y", "e=", 'f={"g": 1.5}', "h=12:30")
    good("--url", url, "policies", "update", *pairs, "act", "--success", "yes")
    features = {"a": True, "b": [1, None], "c": "NaN", "d": "x=y", "e": "", "f": {"g": 1.5}}
    state = [word for pair in pairs for word in ("--state", pair)]
    shown = good("--url", url, "--json", "list", "policies", *state).json
    assert shown[0]["features"] == {**features, "h": "12:30"}


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

    with Memory.open(url) as memory:
        memory.policies.set_q({"task": "check", "ok": True}, "look", 10.0, agent="ada")
    of_ada = ("policies", "update", json.dumps(DEPLOY), "run", "--reward", "0.5", "--agent", "ada")
    more = ("--next", "task=check", "--next", "ok=true", "--spec", '{"try": 2}')
    assert good("--url", url, "--json", *of_ada, *more).json["td_error"] == 10.0
    assert policy(url, "run", spec={"try": 2}, agent="ada") is not None


def test_crystallize_says_what_it_did_and_what_is_missing(url: str) -> None:
    with Memory.open(url) as memory:
        for action, successes, failures in (("run", 6, 0), ("wait", 3, 0), ("page", 1, 1)):
            for place in range(successes + failures):
                memory.policies.observe(DEPLOY, action, place < successes)
    shown = good("--url", url, "policies", "crystallize").out
    assert "least that passes    6\n" in shown
    below = shown.partition("\nBelow\n")[2]
    assert "run" in shown.partition("\nCreated\n")[2].replace(below, "")
    assert below.index("wait") < below.index("page")
    for text in (fingerprint(DEPLOY), "3 of 3", "0.438", "0.162"):
        assert text in below

    report = good("--url", url, "--json", "policies", "crystallize").json
    assert (report["kept"], report["below_count"], report["needed"]) == (1, 2, 6)
    assert [item["more"] for item in report["below"]][:1] == [3]
    strict = ("policies", "crystallize", "--threshold", "0.9")
    assert "Taken back" in good("--url", url, *strict).out
    nobody = ("policies", "crystallize", "--agent", "nobody")
    assert good("--url", url, "--json", *nobody).json["created"] == []
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
    once = ("--url", url, "policies", "expect", "x", "--key", "run 1", "--probability")
    first, again = good(*once, "0.5").out, good(*once, "0.5").out
    assert again == first.replace("stored", "known already:")
    assert "run 1" in complaint(*once, "0.6")


def test_predictions_are_listed_and_expire(foreseen: str) -> None:
    every = good("--url", foreseen, "list", "predictions").out
    for part in ("ask $first$, then 写", "open", "2026-05-01 10:00", '{"m": 12}', "90%"):
        assert part in every
    waiting = good("--url", foreseen, "list", "predictions", "--status", "open").out
    assert waiting.count("night build") == 2
    assert good("--url", foreseen, "policies", "expire").out == "1 prediction expired\n"
    assert good("--url", foreseen, "--json", "policies", "expire").json == {"expired": 0}
    assert "expired" in good("--url", foreseen, "list", "predictions").out


def test_reliability_in_words(foreseen: str) -> None:
    reliability = ("--url", foreseen, "policies", "reliability")
    shown = " ".join(good(*reliability).out.split())
    for part in ("0.900 1.000 5 4 0.900 0.800", "count 9 happened 5 base rate 0.556 brier 0.179"):
        assert part in shown
    found = good("--json", *reliability).json
    assert [one["count"] for one in found["bins"]] == [0, 0, 4, 0, 0, 0, 0, 0, 0, 5]
    nothing = "no prediction with a probability was resolved yet\n"
    assert good(*reliability, "--subject", "x").out == nothing


# Cycles


def test_cycles_are_found_and_stored_where_that_is_wanted(url: str) -> None:
    """Something works on Mondays and fails on Fridays; one try has no date."""
    monday = datetime(2025, 1, 6, 9, tzinfo=UTC)
    with Memory.open(url) as memory:
        for week in range(30):
            for day in (0, 4):
                at = monday + timedelta(weeks=week, days=day)
                memory.learn("report", "ask", success=day == 0, ended_at=at)
        memory.learn_many([{"task": "report", "strategy": "ask", "success": True}])
    cycles = ("--url", url, "policies", "cycles", "ask")
    shown = good(*cycles).out
    for part in (
        *("day of week", "Monday", "09:00"),
        "not tested: month of year (the events span 208 days, two periods are 730)",
        *("events         60\n", "undated        1\n", "timezone       UTC\n"),
    ):
        assert part in shown
    failing = good(*cycles, "--only", "failure").out
    assert "Friday" in failing
    assert "events         30\n" in failing
    assert "18:00" in good(*cycles, "--timezone", "Asia/Tokyo").out
    report = good("--json", *cycles).json
    assert [cycle["kind"] for cycle in report["cycles"]] == ["hour of day", "day of week"]
    assert good("--url", url, "--json", "list", "cycles").json == []
    good(*cycles, "--store")
    stored = good("--url", url, "--json", "list", "cycles", "--about", "ask").json
    assert {one["kind"] for one in stored} == {"day of week", "hour of day"}
