"""``graphmem upkeep erase`` and ``forget``: what they ask, what they take, and what they say."""

from __future__ import annotations

import os
import pty
from datetime import UTC, datetime, timedelta

import pytest

from graphmem import Memory
from tests.cli.running import good, run, start

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BOTH = ("--older-than", "90", "--below-confidence", "0.3")


@pytest.fixture
def aged(url: str) -> str:
    """Six old failures of grace, one old success and one failure of today of ada."""
    with Memory.open(url) as memory:
        for day in range(6):
            memory.learn(
                "t", "guess", success=False, agent="grace", ended_at=LONG_AGO + timedelta(days=day)
            )
        memory.learn("t", "ask first", success=True, agent="ada", ended_at=LONG_AGO)
        memory.learn("t", "hope", success=False, agent="ada", error="no luck")
        memory.people.prefer("ann", "seat", "on the aisle")
        memory.people.know("refunds", "they take five days", user="ann")
    return url


def episodes(url: str) -> int:
    found = good("--url", url, "--json", "stats").json["episodes"]
    assert good("--url", url, "--json", "verify").json["ok"] is True
    return int(found)


def answer(url: str, *arguments: str, said: bytes) -> tuple[int, str]:
    """Run a command on a terminal, and answer what it asks."""
    ours, theirs = pty.openpty()
    process = start("--url", url, *arguments, stdin=theirs)
    os.close(theirs)
    os.write(ours, said)
    out, _ = process.communicate(timeout=60)
    os.close(ours)
    return process.returncode, out.decode()


def test_a_dry_run_says_what_forgetting_then_does(aged: str) -> None:
    command = ("--url", aged, "--json", "upkeep", "forget", *BOTH)
    dry = good(*command, "--dry-run").json
    assert (dry["dry_run"], dry["episodes"], dry["compacted"]) == (True, 6, False)
    assert episodes(aged) == 8
    real = good(*command, "--yes").json
    assert (real["dry_run"], real["compacted"]) == (False, True)
    for name in ("episodes", "steps", "removed", "episode_ids"):
        assert real[name] == dry[name]
    assert episodes(aged) == 2


def test_what_forgetting_says(aged: str) -> None:
    ask = ("--url", aged, "upkeep", "forget", *BOTH)
    dry = good(*ask, "--dry-run").out
    assert dry.startswith("would forget 6 episodes with 0 steps from before 20")
    assert "1 Strategy" in dry
    told = good(*ask, "--yes").out
    assert told.startswith("forgot 6 episodes with 0 steps from before 20")
    assert "nothing of it is left" in told
    assert good(*ask, "--yes").out.startswith("forgot 0 episodes")


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ("--agent ada --older-than 90 --below-confidence 0.3", 0),
        ("--agent grace --older-than 90 --below-confidence 0.3", 6),
        ("--older-than 90", 7),
        ("--older-than 90 --below-confidence 0.1", 0),
        ("--below-confidence 0.4", 7),
        ("--older-than 36500", 0),
    ],
)
def test_what_is_forgotten(aged: str, options: str, count: int) -> None:
    report = good("--url", aged, "--json", "upkeep", "forget", "--dry-run", *options.split()).json
    assert report["episodes"] == count


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--agent ada",
        "--older-than any",
        "--older-than -1",
        "--older-than nan",
        "--older-than long",
        "--below-confidence 2",
        "--below-confidence nan",
    ],
)
def test_conditions_that_make_no_sense_exit_with_2(aged: str, options: str) -> None:
    done = run("--url", aged, "upkeep", "forget", "--yes", *options.split())
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err


def test_erasing_an_agent(aged: str) -> None:
    told = good("--url", aged, "upkeep", "erase", "--agent", "grace", "--yes").out
    assert told.startswith("erased agent grace with 6 episodes, 0 steps and 0 predictions")
    assert "nothing of it is left" in told
    assert episodes(aged) == 2
    missing = run("--url", aged, "upkeep", "erase", "--agent", "grace", "--yes")
    assert (missing.code, missing.out) == (2, "")
    assert "no agent 'grace'" in missing.err


def test_erasing_a_user(aged: str) -> None:
    told = good("--url", aged, "upkeep", "erase", "--user", "ann", "--yes").out
    assert told.startswith("erased user ann with 1 preference and 1 fact that nobody else stated\n")
    assert good("--url", aged, "--json", "people", "preferences", "ann").json == []
    assert episodes(aged) == 8
    missing = run("--url", aged, "--json", "upkeep", "erase", "--user", "ann", "--yes")
    assert (missing.code, missing.out) == (2, "")
    assert "no user 'ann'" in missing.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("upkeep", "erase", "--yes"),
        ("upkeep", "erase", "0" * 32, "--agent", "ada", "--yes"),
        ("upkeep", "erase", "--agent", "ada", "--user", "ann", "--yes"),
        ("upkeep", "erase", "--agent", "ada"),
        ("upkeep", "erase", "--user", "ann"),
        ("upkeep", "forget", *BOTH),
        ("upkeep", "forget", "--yes"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_undone_needs_one_thing_and_a_yes(
    aged: str, arguments: tuple[str, ...]
) -> None:
    for options in ((), ("--json",)):
        done = run("--url", aged, *options, *arguments)
        assert (done.code, done.out) == (2, "")
        assert "Error" in done.err
    assert episodes(aged) == 8


def test_on_a_terminal_they_ask(aged: str) -> None:
    code, out = answer(aged, "upkeep", "forget", *BOTH, said=b"n\n")
    assert (code, "Forget 6 episodes for good?" in out) == (130, True)
    code, out = answer(aged, "upkeep", "erase", "--agent", "ada", said=b"n\n")
    assert (code, "Erase all of agent 'ada' for good?" in out) == (130, True)
    assert episodes(aged) == 8
    code, out = answer(aged, "upkeep", "forget", *BOTH, said=b"y\n")
    assert (code, "forgot 6 episodes" in out) == (0, True)
    code, out = answer(aged, "upkeep", "erase", "--agent", "ada", said=b"y\n")
    assert (code, "erased agent ada" in out) == (0, True)
    assert episodes(aged) == 0
