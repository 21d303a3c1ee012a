"""Text of others on a terminal: no command prints a character that a terminal obeys."""

from __future__ import annotations

import json
import os
import pty
import re
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory, Step
from graphmem.cli.parts import KINDS
from graphmem.models.episodes import MistakeCard
from tests.cli.running import call, shown_on, start

NASTY = "\x1b[31m\x1b]0;own\x07\r\x08\x7f\x9b31m\x85\u202e\u2066\u200b\ufeff\U000e0041\u2028\t"
"""Colours, a title, a bell, going back, C1, direction, nothing, tags, another end of a line."""
EVERY = f"a{NASTY}z"
OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
DAY = datetime(2026, 5, 1, tzinfo=UTC)


def check(*texts: str) -> None:
    for text in texts:
        found = {char for char in text if unicodedata.category(char) in OBEYED} - {"\n"}
        assert not found, (found, text[:400])


def printed(*arguments: str) -> tuple[str, str]:
    """Run a command; return what it printed, which is checked."""
    done = call(*arguments)
    check(done.out, done.err)
    return done.out, done.err


def fill(memory: Memory, nasty: str) -> None:
    names = ("agent", "task_type", "task_key", "error", "feedback", "summary", "source")
    texts: dict[str, Any] = {name: f"{name} {nasty}" for name in names}
    step = Step(
        action_type=f"act {nasty}",
        action={nasty: nasty},
        observation=nasty,
        error=nasty,
        state={"at": nasty},
        reward=1.0,
        terminal=True,
    )
    for number in range(4):
        memory.learn(
            f"task {nasty}",
            [f"one {nasty}", f"two {nasty}"],
            success=number > 1,
            source_key=f"{number} {nasty}",
            started_at=DAY + timedelta(days=number),
            steps=[step],
            extra={nasty: nasty},
            **texts,
        )
    of_card = ("type", "worker", "correct_decision", "evidence", "lesson")
    said: dict[str, Any] = {name: f"{name} {nasty}" for name in of_card}
    memory.learn_many([{
        "task": f"task {nasty}", "strategy": [], "success": False, "agent": f"agent {nasty}",
        "successes": [f"well {nasty}"], "mistakes": [f"badly {nasty}"],
        "mistake_cards": [MistakeCard(**said, extra={nasty: nasty})],
    }])  # fmt: skip
    memory.policies.update(
        {"at": nasty}, f"act {nasty}", 1.0, terminal=True, agent=f"agent {nasty}", at=DAY
    )
    memory.policies.learn_episodes()
    memory.scopes.set(f"agent {nasty}", can_learn=["*"])
    memory.predictions.expect(f"one {nasty}", probability=0.5)


COMMANDS: tuple[tuple[str, ...], ...] = (
    *(("list",), *(("list", kind) for kind in KINDS if not KINDS[kind].required)),
    ("list", "strategies", "--task", "task_key @"), ("list", "policies", "--state", "at=@"),
    ("list", "preferences", "--user", "@"), ("explain", "one @"), ("recall", "task @"),
    ("context", "task @", "--agent", "agent @"), ("predict", "task @", "one @"), ("calibrate",),
    ("evaluate", "--strategy", "@"), ("doctor",), ("doctor", "settings"),
    ("lessons", "consolidate", "--force"), ("policies", "best", "at=@"),
    ("events", "tail"), ("query", "what_works"),
    ("query", "-e", "MATCH (s:Step) RETURN s.observation AS `x@`, s.action AS y"),
    ("query", "--csv", "-e", "MATCH (e:Episode) RETURN e.source_key AS k, e.summary AS s"),
    ("upkeep", "verify"), ("upkeep", "forget", "--older-than", "0", "--dry-run"),
    # What is wrong is named with what was given.
    ("@",), ("--@", "list"), ("list", "@"), ("list", "strategies", "--limit", "@"),
    ("list", "strategies", "@"), ("explain", "none @"), ("query", "@"), ("query", "-e", "MATCH @"),
    ("query", "what_works", "-p", "@"),
    ("learn", "t", "s", "--score", "1", "--started-at", "@"),
    ("learn", "task @", "other @", "--success", "--source-key", "0 @", "--agent", "agent @"),
    ("policies", "by", "@"), ("seed", "none @"), ("seed", "--format", "@", "-"),
    ("procedures", "list", "@"), ("upkeep", "export", "--format", "jsonl", "none @/x"),
    ("upkeep", "import", "--format", "jsonl", "none @"), ("upkeep", "import", "none @"),
    ("upkeep", "import", "--format", "@", "x"), ("--namespace", "@", "list"),
    ("--url", "mysql://@", "list"), ("--url", "none @", "list"), ("--url", "neo4j://@", "list"),
    ("--wait", "@", "list"), ("--debug", "query", "-e", "MATCH @"),
    ("upkeep", "erase", "@", "--yes"),
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A memory full of nasty texts, in a folder with a nasty name."""
    folder = tmp_path_factory.mktemp("hostile") / f"runs {EVERY}.graph"
    with Memory.open(folder) as memory:
        fill(memory, EVERY)
    return str(folder)


@pytest.mark.parametrize("as_json", [False, True], ids=["plain", "json"])
def test_no_command_prints_what_a_terminal_obeys(
    hostile: str, as_json: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHMEM_EMBEDDER", "hashing")
    monkeypatch.setenv("GRAPHMEM_PASSWORD", "hush")
    options = ["--json"] if as_json else []
    texts = 0
    for command in COMMANDS:
        given = [part.replace("@", EVERY) for part in command]
        out, err = printed("--url", hostile, *options, *given)
        assert out or err, command
        texts += "31m" in out
        if as_json and out and "--csv" not in command and "tail" not in command:
            json.loads(out)
    assert texts > 15  # the texts themselves were there
    rows = json.loads(printed("--url", hostile, "--json", "list", "strategies")[0])
    assert f"one {EVERY.strip()}" in {row["text"] for row in rows}


def test_files_with_nasty_names(tmp_path: Path) -> None:
    (folder := tmp_path / f"logs {EVERY}").mkdir()
    url = str(tmp_path / "runs.graph")
    line = {"task": "t", "strategy": EVERY, "success": EVERY, EVERY: 1}
    bad = json.dumps(line) + '\n{"task": "t", "strategy": []}'
    (folder / f"{EVERY}.jsonl").write_text(bad)
    (folder / f"{EVERY}.json").write_text("nothing known")
    export = str(folder / f"out {EVERY}")
    for command in (
        ("seed", str(folder)), ("--json", "seed", str(folder / f"{EVERY}.jsonl")),
        ("seed", str(folder / f"{EVERY}.jsonl"), "--refused", "-"), ("seed", str(folder / "none*")),
        ("seed", str(folder / f"{EVERY}.jsonl"), "--refused", str(folder / f"refused {EVERY}")),
        ("upkeep", "export", "--format", "jsonl", export),
        ("upkeep", "import", "--format", "jsonl", str(folder / f"{EVERY}.jsonl")),
        ("upkeep", "import", "--format", "sentinel", str(folder / f"{EVERY}.json")),
        ("--url", str(folder / f"{EVERY}.json"), "list"),
    ):  # fmt: skip
        assert any(printed("--url", url, *command)), command
    check((folder / f"refused {EVERY}").read_text())
    os.mkfifo(folder / f"pipe {EVERY}")
    printed("--url", url, "upkeep", "import", "--format", "jsonl", str(folder / f"pipe {EVERY}"))


def test_on_a_terminal_only_our_own_styling_is_obeyed(hostile: str, tmp_path: Path) -> None:
    """Tables, and the bar of seeding, whose description is the name of a file."""
    log = tmp_path / f"[red]{EVERY}.jsonl"
    log.write_text(json.dumps({"task": EVERY, "strategy": EVERY, "success": EVERY}) + "\n")
    for command in (("list", "strategies"), ("seed", str(log)), ("seed", "none @"), ("doctor",)):
        given = [part.replace("@", EVERY) for part in command]
        ours, theirs = pty.openpty()
        terminal = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
        ends = {"stdout": theirs, "stderr": theirs}
        process = start("--url", hostile, *given, env=terminal, **ends)
        os.close(theirs)
        text = shown_on(ours).decode()
        process.wait(60)
        assert "\x1b]0" not in text
        assert "\x1b[31m\x1b" not in text
        check(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", text))


SECRET = "s3cr3t"  # noqa: S105 - of nobody
WITH_PASSWORDS = """
neo4j://u:{}@127.0.0.1:1 bolt://u:{}@127.0.0.1:1/x?y=z#w neo4j://{}@127.0.0.1:1
neo4j://u:a/{}@127.0.0.1:1 neo4j://u:a?{}@h neo4j://u:a#{}@h neo4j://u:a@{}@h
neo4j://u:[{}@h neo4j://u:{}]@h neo4j://u:{}@[::1 neo4j://u:{}@h:x neo4j://u:{}@h:99999
neo4j://u:{}@ neo4j://u:{}@/x neo4j://u:{} neo4j:///u:{}@h neo4j:u:{}@h neo4j:/u:{}@h u:{}@h
//u:{}@h redis://u:{}@h neo4j//u:{}@h neo4j://u:%zz{}@h neo4j://u:\u2100{}@h
neo4j://h?password={} http://u:{}@h NEO4J+S://u:{}@127.0.0.1:1 neo4j://u:%ff{}@h
"""
URLS = (*WITH_PASSWORDS.split(), "neo4j://u: {}@h", "neo4j://u:\n{}@h")


@pytest.mark.parametrize("url", URLS)
def test_no_command_prints_the_password_of_a_url(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = url.format(SECRET)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRAPHMEM_WAIT", "0")
    commands = (
        ("--debug", "list"), ("--json", "doctor"), ("doctor", "settings"),
        ("--json", "doctor", "settings"),
    )  # fmt: skip
    for command in (*commands, ("doctor",), ("init",)):
        assert SECRET not in "".join(printed("--url", given, *command))
    monkeypatch.setenv("GRAPHMEM_URL", given)
    for command in commands:
        out, err = printed(*command)
        assert out or err
        assert SECRET not in out + err
    assert list(tmp_path.iterdir()) == []


def test_no_complaint_about_an_argument_tells_the_password_of_a_url() -> None:
    for password in (SECRET, f"a@{SECRET}@b", f"it's{SECRET}"):
        url = f"neo4j://u:{password}@h"
        for wrong in (("--wait", url, "list"), ("explain", "a", url), ("events", url)):
            _, err = printed(*wrong)
            assert "neo4j://***@h" in err
            assert SECRET not in err
