"""``graphmem policies``, ``crystallize`` and ``events``: in tables, lines, JSON and pictures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory, fingerprint
from graphmem.models import Event
from tests.cli.running import good, run, start

DEPLOY = {"task": "deploy", "replicas": 3}
MAY = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def learned(url: str) -> str:
    """Two actions with values, one that was only observed, and one of another agent."""
    with Memory.open(url) as memory:
        policies = memory.policies
        for place in range(10):
            policies.update(DEPLOY, "run", 1.0, next_state={"task": "check"}, success=place != 3, at=MAY)  # noqa: E501  # fmt: skip
        policies.update(DEPLOY, "wait", -1.0, spec={"for": 60}, terminal=True, at=MAY)
        policies.signal(DEPLOY, "run", 0.75)
        policies.observe(DEPLOY, "page $x$ 写", False)
        time.sleep(0.002)  # events of one millisecond come in the order of their agents
        policies.update(DEPLOY, "run", 5.0, terminal=True, agent="ada")
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
    good("--url", url, "policies", "observe", *pairs, "act", "--success", "yes")
    features = {"a": True, "b": [1, None], "c": "NaN", "d": "x=y", "e": "", "f": {"g": 1.5}}
    shown = good("--url", url, "--json", "policies", "show", *pairs).json
    assert shown[0]["features"] == {**features, "h": "12:30"}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (("deploy",), "give JSON, a fingerprint"),
        (("task=deploy", "staging"), "give JSON, a fingerprint"),
        (("=deploy",), "give JSON, a fingerprint"),
        (("task=deploy", "task=test"), "'task' is given twice"),
        (('{"task": ',), "is not JSON"),
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
    for command in ("best", "show"):
        done = run("--url", learned, "policies", command, *state)
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
    assert good("--url", learned, "--json", "policies", "show", "task=unheard_of").json == []
    assert "nothing is known" in good("--url", learned, "policies", "show", "task=unheard_of").out
    assert good("--url", learned, "--json", "policies", "list", "--agent", "eve").json == []
    assert "no policies yet" in good("--url", learned, "policies", "list", "--agent", "eve").out


def test_best_says_where_actions_were_only_observed(url: str) -> None:
    observe = ("policies", "observe", "task=deploy", "run", "--success")
    assert "1 of 1" in good("--url", url, *observe, "yes").out
    assert "worked in 1 of 2 trials" in good("--url", url, *observe, "no").out
    shown = good("--url", url, "policies", "best", "task=deploy").out
    assert "no action has a value in this state (agent default); 1 known without one" in shown
    assert good("--url", url, "--json", "policies", "best", "task=deploy").json is None


def test_list_as_table_and_json(learned: str) -> None:
    shown = good("--url", learned, "policies", "list").out
    assert "replicas=3 task=deploy" in shown
    assert 'wait {"for": 60}' in shown
    rows = good("--url", learned, "--json", "policies", "list").json
    values = [row["q"] for row in rows if row["updates"]]
    assert len(rows) == 4
    assert values == sorted(values, reverse=True)
    assert len(good("--url", learned, "--json", "policies", "list", "--limit", "1").json) == 1
    [ada] = good("--url", learned, "--json", "policies", "list", "--agent", "ada").json
    assert (ada["action"], ada["q"]) == ("run", 0.5)


def test_show_as_table_and_json(learned: str) -> None:
    show = ("policies", "show", "task=deploy", "replicas=3")
    shown = good("--url", learned, *show).out
    assert shown.startswith("state replicas=3 task=deploy\n")
    for text in ("9 of 10", "0 of 1", "0.60 to 0.98", "tentative", "0.625", "no signals", "ada"):
        assert text in shown
    assert "then" not in shown
    assert "then" in good("--url", learned, *show, "--at", "2026-06-01T00:00:00Z").out

    rows = good("--url", learned, "--json", *show).json
    assert len(rows) == 4
    rows = good("--url", learned, "--json", *show, "--action", "run").json
    assert [row["agent"] for row in rows] == ["ada", "default"]  # ada's is of today
    rows = good("--url", learned, "--json", *show, "--action", "run", "--stored").json
    assert [row["agent"] for row in rows] == ["default", "ada"]
    [row] = good("--url", learned, "--json", *show, "--action", "run", "--agent", "ada").json
    assert (row["q"], row["trials"]) == (0.5, 0)
    assert row["score"] == pytest.approx(0.5 * 0.01**-0.1)


# Learning


def test_update_learns_a_step(url: str) -> None:
    update = ("policies", "update", "task=deploy", "replicas=3", "run")
    shown = good("--url", url, *update, "--reward", "1", "--terminal", "--success", "yes").out
    assert shown.startswith("value 0.1 (TD error 1), event 1 of agent default, policy ")
    again = (*update, "--reward", "-1", "--alpha", "0.5", "--gamma", "1")
    done = good("--url", url, "--json", *again, "--next-max-q", "2", "--success", "no").json
    found = policy(url, "run")
    assert (done["policy_id"], done["seq"]) == (found.id, 2)
    assert (done["q"], done["td_error"]) == (pytest.approx(0.55), pytest.approx(0.9))
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
    observe = ("policies", "observe", "task=deploy", "replicas=3", "run", "--success", "yes")
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
    strict = ("policies", "crystallize", "--min-events", "7", "--threshold", "0.5", "--z", "1")
    shown = good("--url", url, *strict).out
    assert "1 taken back" in shown
    assert "Taken back" in shown
    assert "7 of 7 at z 1 is the least that passes 0.5 (7 trials are asked for)" in shown
    assert "0 created" in good("--url", url, "policies", "crystallize", "--agent", "nobody").out
    good("--url", url, "verify")


# Events


def test_tail_prints_a_line_for_an_event(learned: str) -> None:
    lines = good("--url", learned, "events", "tail").out.splitlines()
    assert len(lines) == 14
    by_kind = {line.split("  ")[3]: line for line in lines[:-1]}
    assert "default  11  transition  wait" in by_kind["transition"]
    assert 'wait {"for": 60} in replicas=3 task=deploy: reward -1, the last step' in lines[10]
    state = fingerprint({"task": "check"})
    assert lines[0].endswith(f"run in replicas=3 task=deploy: reward 1, then state {state}, worked")
    assert by_kind["signal"].endswith(": signal 0.75")
    assert by_kind["outcome"].endswith(": did not work")
    assert lines[-1].split("  ")[1:4] == ["ada", "1", "transition"]


def test_tail_names_every_kind(url: str) -> None:
    with Memory.open(url) as memory:
        policies = memory.policies
        policies.set_q(DEPLOY, "run", 0.25)
        ids = [policies.observe(DEPLOY, action, True) for action in ("run", "wait")]
        for _ in range(5):
            policies.observe(DEPLOY, "run", True)
        memory.policies.crystallize()
        memory.policies.crystallize(min_events=50)
        policies.link(*ids)
        policies.strengthen(*ids)
        policies.weaken(*ids, factor=0.5)
        policies.unlink(*ids)
        episode = memory.learn("t", "s", success=True).episode_id
        gone = memory.learn("t", "s", success=False).episode_id
        memory.upkeep.erase(gone)
    lines = good("--url", url, "events", "tail").out.splitlines()
    shown = {line.split("  ")[3]: "  ".join(line.split("  ")[4:]) for line in lines}
    state = "replicas=3 task=deploy"
    both = f"run in {state} with wait in {state}"
    assert shown == {
        "set": f"run in {state}: value 0.25",
        "outcome": f"run in {state}: worked",
        "crystallized": f"run in {state}: lower bound 0.609657",
        "taken_back": f"run in {state}: lower bound 0.609657",
        "linked": f"{both}: weight 0.1",
        "strengthened": f"{both}: weight + 0.05",
        "weakened": f"{both}: weight * 0.5",
        "unlinked": both,
        "episode": episode,
        "erased": "",
    }


def test_tail_as_json_lines(learned: str) -> None:
    text = good("--url", learned, "--json", "events", "tail", "--limit", "3").out
    found = [Event.model_validate_json(line) for line in text.splitlines()]
    assert [event.kind for event in found] == ["signal", "outcome", "transition"]
    text = good("--url", learned, "--json", "events", "tail", "--agent", "ada").out
    assert [json.loads(line)["seq"] for line in text.splitlines()] == [1]
    shown = good("--url", learned, "events", "tail", "--agent", "eve").out
    assert shown == "there are no events yet\n"
    assert good("--url", learned, "--json", "events", "tail", "--agent", "eve").out == ""


@contextmanager
def following(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = start(*arguments)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_follow_prints_what_comes_until_ctrl_c(url: str) -> None:
    good("--url", url, "policies", "observe", "n=0", "act", "--success", "yes")
    with following("--url", url, "--json", "events", "tail", "--follow", "--limit", "1") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = [json.loads(process.stdout.readline())["seq"]]
        for place in (1, 2):
            good("--url", url, "policies", "observe", f"n={place}", "act", "--success", "yes")
        other = ("policies", "observe", "n=3", "act", "--success", "no", "--agent", "new")
        good("--url", url, *other)
        seen += [json.loads(process.stdout.readline())["seq"] for _ in range(3)]
        assert seen == [1, 2, 3, 1]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"", b"")


def consume(url: str, *arguments: str, group: str = "audit", consumer: str = "one") -> list[Any]:
    named = ("--group", group, "--consumer", consumer)
    text = good("--url", url, "events", "consume", *named, *arguments).out
    return [json.loads(line) for line in text.splitlines()]


def pending(url: str, group: str = "audit") -> dict[str, int]:
    """How many events each consumer of a group holds."""
    with Memory.open(url) as memory:
        held = Counter[str]()
        for item in memory.events.pending(group):
            held[item.consumer] += item.count
        return dict(held)


def test_consume_gives_each_event_once_to_a_group(learned: str) -> None:
    first = consume(learned, "--limit", "5")
    rest = consume(learned, consumer="two")
    assert (len(first), len(rest)) == (5, 9)
    assert len({event["id"] for event in first + rest}) == 14
    assert consume(learned) == []
    assert pending(learned) == {}
    assert len(consume(learned, group="another")) == 14


def test_consume_without_ack_leaves_them_pending(learned: str) -> None:
    taken = consume(learned, "--limit", "4", "--no-ack")
    assert pending(learned) == {"one": 4}
    assert consume(learned, "--reclaim", "3600", "--no-ack", "--limit", "1", consumer="two") != []
    assert pending(learned) == {"one": 4, "two": 1}

    back = consume(learned, "--reclaim", "0", "--limit", "1", consumer="two")
    assert {event["id"] for event in taken} < {event["id"] for event in back}
    assert [event["deliveries"] for event in back] == [2, 2, 2, 2, 2, 1]
    assert pending(learned) == {}


def test_a_broken_pipe_acknowledges_nothing(learned: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    named = ("--group", "audit", "--consumer", "one")
    process = start("--url", learned, "events", "consume", *named, stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert err == b""
    assert sum(pending(learned).values()) == 14
    assert len(consume(learned, "--reclaim", "0")) == 14


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_acknowledges_nothing(learned: str) -> None:
    named = ("--group", "audit", "--consumer", "one")
    with Path("/dev/full").open("wb") as full:
        process = start("--url", learned, "events", "consume", *named, stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"No space left" in err
    assert sum(pending(learned).values()) == 14


# Pictures


@pytest.mark.parametrize(("name", "magic"), [("p.png", b"\x89PNG"), ("p.SVG", b"<?xml")])
def test_show_draws_a_picture(learned: str, tmp_path: Path, name: str, magic: bytes) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / name
    show = ("policies", "show", "task=deploy", "replicas=3", "--plot", str(file))
    assert f"drawn in {file}\n" in good("--url", learned, *show).out
    assert file.read_bytes().startswith(magic)
    assert len(file.read_bytes()) > 10_000
    assert len(good("--url", learned, "--json", *show).json) == 4


def test_a_picture_of_values_without_trials_and_of_many_actions(url: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    with Memory.open(url) as memory:
        for place in range(30):
            memory.policies.set_q(DEPLOY, f"act {place}", place / 10)
        memory.policies.update(DEPLOY, "act 29", 1.0, terminal=True, record=False)
    file = tmp_path / "p.svg"
    show = ("policies", "show", "task=deploy", "replicas=3", "--plot", str(file))
    shown = good("--url", url, *show).out
    assert f"drawn in {file}; 1 update made without a record: missing" in shown
    assert file.exists()


def test_of_nothing_no_picture_is_drawn(learned: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "p.png"
    show = ("policies", "show", "task=unheard_of", "--plot", str(file))
    assert good("--url", learned, *show).out == "nothing is known of this\n"
    assert not file.exists()


def test_without_matplotlib_the_remedy_is_named(learned: str, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError")
    show = ("policies", "show", "task=deploy", "--plot", str(tmp_path / "p.png"))
    done = run("--url", learned, *show, PYTHONPATH=str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert done.err == "Error: --plot needs matplotlib; pip install matplotlib\n"


def test_a_picture_that_cannot_be_written_exits_with_1(learned: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "no such folder" / "p.png"
    show = ("policies", "show", "task=deploy", "replicas=3", "--plot", str(file))
    done = run("--url", learned, *show)
    assert (done.code, done.out) == (1, "")
    assert "no such folder" in done.err


# Wrong usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("policies", "best", "a=1", "--explore", "greedy"), "--explore"),
        (("policies", "best", "a=1", "--at", "noon"), "not an ISO 8601"),
        (("policies", "best", "a=1", "--at", "2026-05-01T09:00"), "time zone"),
        (("policies", "best", "a=1", "--stored", "--at", "2026-05-01T09:00Z"), "at: does"),
        (("policies", "best", "a=1", "--agent", " "), "agent: must not be empty"),
        (("policies", "list", "--limit", "0"), "--limit"),
        (("policies", "show", "a=1", "--plot", "p.gif"), ".png or .svg"),
        (("policies", "update", "a=1", "--reward", "1", "--terminal"), "STATE"),
        (("policies", "update", "a=1", "x", "--terminal"), "--reward"),
        (("policies", "update", "a=1", "x", "--reward", "1"), "one of --next"),
        (
            ("policies", "update", "a=1", "x", "--reward", "1", "--terminal", "--next", "b=1"),
            "one of",
        ),
        (("policies", "update", "a=1", "x", "--reward", "1", "--next", "b"), "--next 'b'"),
        (("policies", "update", "a=1", "x", "--reward", "nan", "--terminal"), "reward: "),
        (
            ("policies", "update", "a=1", "x", "--reward", "1", "--terminal", "--alpha", "0"),
            "alpha: ",
        ),
        (
            ("policies", "update", "a=1", "x", "--reward", "1", "--terminal", "--gamma", "2"),
            "gamma: ",
        ),
        (
            ("policies", "update", "a=1", "x", "--reward", "1", "--terminal", "--spec", "{"),
            "--spec",
        ),
        (
            ("policies", "update", "a=1", "x", "--reward", "1", "--terminal", "--success", "so"),
            "yes",
        ),
        (("policies", "observe", "a=1", "x"), "--success"),
        (("policies", "observe", "a=1", " ", "--success", "no"), "action: must not be empty"),
        (("policies", "crystallize", "--threshold", "1"), "threshold: input should be less than 1"),
        (("policies", "crystallize", "--min-events", "0"), "min_events: "),
        (("policies", "crystallize", "--z", "nan"), "z: input should be"),
        (("events", "tail", "--limit", "0"), "--limit"),
        (("events", "consume", "--group", "g"), "--consumer"),
        (("events", "consume", "--group", " ", "--consumer", "c"), "group: must not be empty"),
        (("events", "consume", "--group", "g", "--consumer", "c", "--reclaim", "-1"), "--reclaim"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_exits_with_2(learned: str, arguments: tuple[str, ...], message: str) -> None:
    done = run("--url", learned, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    with Memory.open(learned) as memory:
        assert memory.events.positions() == {"ada": 1, "default": 13}


def test_where_there_is_no_memory_asking_makes_none(url: str) -> None:
    for command in (
        ("policies", "best", "a=1"),
        ("policies", "list"),
        ("policies", "show", "a=1"),
        ("policies", "crystallize"),
        ("events", "tail"),
        ("events", "consume", "--group", "g", "--consumer", "c"),
    ):
        done = run("--url", url, *command)
        assert (done.code, done.out) == (2, "")
        assert "no memory at" in done.err
    assert not Path(url).exists()


def test_beside_a_writer_they_show_a_snapshot(
    learned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmem.store.embedded.LEASE_IDLE", 600.0)
    with Memory.open(learned) as memory:
        memory.policies.observe(DEPLOY, "run", True)
        for command in (("policies", "list"), ("policies", "show", "task=x"), ("events", "tail")):
            done = run("--url", learned, *command)
            assert done.code == 0
            assert "a snapshot" in done.err
        began = time.monotonic()
        done = run("--url", learned, "--wait", "0.2", "policies", "crystallize")
        assert (done.code, done.out) == (1, "")
        assert str(os.getpid()) in done.err
        assert time.monotonic() - began < 60
