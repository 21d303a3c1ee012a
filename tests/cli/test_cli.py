"""The command line, run as a person runs it: a process, its output and its exit code."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from graphmem import Memory, Settings
from graphmem.cli.main import cli
from graphmem.errors import SeedingError
from graphmem.seeding import Format, detect
from graphmem.seeding.jsonl import dump
from tests.faults.learner import BATCH, content, environment, episode, learning

HUSH = {"GRAPHMEM_PASSWORD": "hush"}  # of no server
CODE = "from graphmem.cli import main; main()"


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``graphmem`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        **options,
    )


class Done:
    """What a command did: ``code``, ``out``, ``err``."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run ``graphmem`` to its end. No command ever shows a traceback by itself."""
    process = start(*arguments, stdin=subprocess.PIPE, env={**os.environ, **env})
    out, err = process.communicate(text if isinstance(text, bytes) else text.encode(), timeout=60)
    done = Done(process.returncode, out, err)
    assert "Traceback" not in done.err, done.err
    return done


def good(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run a command that must succeed and has nothing to complain of."""
    done = run(*arguments, text=text, **env)
    assert (done.code, done.err) == (0, "")
    return done


def lines(*numbers: int) -> bytes:
    """Episodes as a log of graphmem's own format."""
    return "".join(dump(episode(number)) + "\n" for number in numbers).encode()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "runs.graph")


@pytest.fixture
def seeded(url: str) -> str:
    """A memory of 30 episodes."""
    with Memory.open(url) as memory:
        memory.learn_many([episode(number) for number in range(30)])
    return url


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 12 episodes."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines(*range(12)))
    return file


# Every command on real input


def test_init_creates_a_memory_once(url: str) -> None:
    assert "is ready (schema version 1)" in good("--url", url, "init").out
    assert good("--url", url, "--json", "init").json == {"url": url, "schema_version": 1}


def test_learn_and_learn_again(url: str) -> None:
    command = ("learn", "refund a flight", "ask first", "refund", "--success", "--agent", "anna",
               "--started-at", "2026-05-01T10:00:00Z", "--source-key", "run/1")  # fmt: skip
    assert "learned episode" in good("--url", url, *command).out
    assert "known already" in good("--url", url, *command).out
    again = good("--url", url, "--json", *command).json
    assert again["created"] is False

    [row] = good("--url", url, "--json", "evidence", "refund").json
    assert (row["id"], row["agent"], row["success"]) == (again["episode_id"], "anna", True)


def test_strategies_as_table_and_json(seeded: str) -> None:
    table = good("--url", seeded, "strategies").out
    assert "ask first" in table
    assert "15 of 20" in table

    rows = good("--url", seeded, "--json", "strategies", "--limit", "2").json
    assert len(rows) == 2
    assert rows[0]["trials"] == 20
    assert {"text", "mean", "lower", "upper", "status", "agents"} <= rows[0].keys()
    assert good("--url", seeded, "--json", "strategies", "--task", "no such task").json == []
    assert "nothing is known" in good("--url", seeded, "strategies", "--agent", "nobody").out


def test_evidence_as_table_and_json(seeded: str) -> None:
    assert len(good("--url", seeded, "--json", "evidence", "ask first").json) == 5
    assert "agent 1" in good("--url", seeded, "evidence", "ask first", "--limit", "20").out
    assert "no episode" in good("--url", seeded, "evidence", "no such strategy").out


def test_stats_as_table_and_json(seeded: str) -> None:
    found = good("--url", seeded, "--json", "stats").json
    assert (found["episodes"], found["steps"], found["strategies"]) == (30, 60, 3)
    assert found["url"] == seeded
    assert "2026-01-01" in good("--url", seeded, "stats").out


def test_query_as_table_json_and_csv(seeded: str, tmp_path: Path) -> None:
    cypher = "MATCH (s:Strategy) WHERE s.ns = $ns AND s.trials >= $at_least RETURN s.text AS text, s.trials AS trials ORDER BY text"  # noqa: E501
    (file := tmp_path / "ask.cypher").write_text(cypher)
    expected = [{"text": text, "trials": 20} for text in ("ask first", "just do it", "look it up")]

    asked = ("query", "-e", cypher, "-p", "at_least=5")
    assert good("--url", seeded, "--json", *asked).json == expected
    assert "look it up" in good("--url", seeded, *asked).out
    rows = csv.DictReader(io.StringIO(good("--url", seeded, *asked, "--csv").out))
    assert [row["text"] for row in rows] == [row["text"] for row in expected]
    from_file = ("query", "--file", str(file), "-p", "at_least=5")
    assert good("--url", seeded, "--json", *from_file).json == expected
    stdin = ("--json", "query", "--file", "-", "-p", "at_least=99")
    assert good("--url", seeded, *stdin, text=cypher).json == []
    assert "no rows" in good("--url", seeded, "query", "-e", cypher, "-p", "at_least=99").out
    named = good("--url", seeded, "--json", "query", "what_works").json
    assert [row["trials"] for row in named] == [20, 20, 20]


def test_verify_rebuild_and_erase(seeded: str) -> None:
    assert "all numbers follow from the facts" in good("--url", seeded, "verify").out
    assert good("--url", seeded, "--json", "verify").json["ok"] is True
    assert "3 strategies" in good("--url", seeded, "rebuild").out
    assert good("--url", seeded, "--json", "rebuild").json["removed"] == 0

    [episode_id] = [
        row["id"] for row in good("--url", seeded, "--json", "evidence", "ask first").json[:1]
    ]
    refused = run("--url", seeded, "erase", episode_id)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert run("--url", seeded, "--json", "erase", episode_id).code == 2

    [report] = good("--url", seeded, "--json", "erase", episode_id, "--yes").json
    assert (report["episode_id"], report["steps"]) == (episode_id, 2)
    assert good("--url", seeded, "--json", "stats").json["episodes"] == 29
    assert good("--url", seeded, "verify").code == 0
    missing = run("--url", seeded, "erase", episode_id, "--yes")
    assert (missing.code, episode_id in missing.err) == (2, True)


def test_verify_exits_with_1_on_a_difference(seeded: str) -> None:
    import kglite

    session = kglite.open_session(f"{seeded}/graph.kgl", durable="normal")
    session.execute("MATCH (s:Strategy) WHERE s.text = 'ask first' SET s.successes = 1")
    session.close()

    done = run("--url", seeded, "verify")
    assert done.code == 1
    assert "graphmem rebuild" in done.out
    report = run("--url", seeded, "--json", "verify")
    assert (report.code, report.json["ok"]) == (1, False)
    assert report.json["differences"][0]["field"] == "successes"
    good("--url", seeded, "rebuild")
    good("--url", seeded, "verify")


def test_demo_needs_nothing_but_itself(tmp_path: Path) -> None:
    shown = good("--json", "demo", GRAPHMEM_URL=str(tmp_path / "untouched.graph")).json
    assert shown["verified"] is True
    assert shown["seeded"]["created"] > 0
    assert shown["seeded"]["refused"] == 0
    assert all(shown["best"].values())
    table = good("demo").out
    best = next(iter(shown["best"].values()))[0]
    assert best["text"][:20] in table
    assert f"{best['successes']} of {best['trials']}" in table
    assert list(tmp_path.iterdir()) == []


def test_formats_and_procedures(url: str) -> None:
    names = [row["name"] for row in good("--json", "formats").json]
    assert {"jsonl", "tau-bench", "intercode"} <= set(names)
    assert "tau-bench" in good("formats").out
    assert "strategy" in good("formats", "--schema").json["properties"]
    listed = good("--json", "procedures", "list").json
    assert "learning.best" in [row["name"] for row in listed]
    assert "analysis.what_works" in good("procedures", "list", "--subject", "analysis").out
    shown = good("procedures", "show", "learning.best")
    assert "MATCH (s:Strategy)" in shown.out
    assert good("--json", "procedures", "show", "learning.best").json["mode"] == "read"
    assert run("procedures", "show", "no.such").code == 2


def test_config_says_where_each_value_comes_from(url: str) -> None:
    rows = good("--url", url, "--json", "config", GRAPHMEM_Z="1.64", **HUSH).json
    found = {row["setting"]: (row["value"], row["from"]) for row in rows}
    assert found["GRAPHMEM_Z"] == (1.64, "environment")
    assert found["GRAPHMEM_URL"] == (url, "--url")
    assert found["GRAPHMEM_WAIT"] == (5.0, "default")
    assert "hush" not in json.dumps(rows)
    assert "hush" not in good("config", **HUSH).out


def test_the_namespace_and_url_may_come_from_the_environment(url: str) -> None:
    good("learn", "t", "s", "--success", GRAPHMEM_URL=url, GRAPHMEM_NAMESPACE="team")
    both = {"GRAPHMEM_URL": url, "GRAPHMEM_NAMESPACE": "team"}
    assert good("--json", "stats", **both).json["episodes"] == 1
    assert good("--url", url, "--json", "stats").json["episodes"] == 0
    assert good("--url", url, "--namespace", "team", "--json", "stats").json["episodes"] == 1
    overridden = good("--namespace", "other", "--json", "stats", **both).json
    assert (overridden["namespace"], overridden["episodes"]) == ("other", 0)


# Exit codes


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("--no-such-option", "stats"),
        ("learn", "only a task"),
        ("seed",),
        ("erase", "--yes"),
        ("query",),
        ("query", "what_works", "-e", "RETURN 1 AS one"),
        ("query", "no_such_query"),
        ("query", "--file", "no-such-file.cypher"),
        ("query", "what_works", "-p", "nonsense"),
        ("query", "what_works", "-p", "no_such_parameter=1"),
        ("strategies", "--limit", "0"),
        ("learn", "t", "s"),
        ("learn", "t", "s", "--score", "1.5"),
        ("learn", "t", "s", "--score", "nan"),
        ("learn", "t", "s", "--success", "--reward", "inf"),
        ("learn", "t", "s", "s", "--success"),
        ("learn", " ", "s", "--success"),
        ("learn", "t", "s", "--success", "--started-at", "yesterday"),
        ("learn", "t", "s", "--success", "--started-at", "2026-05-01T10:00:00"),
        ("seed", "--format", "no-such-format", "-"),
        ("--wait", "-1", "stats"),
        ("--wait", "nan", "stats"),
        ("--namespace", " spaced ", "stats"),
        ("--url", "mysql://localhost", "stats"),
        ("--url", "", "stats"),
        ("--url", "neo4j://127.0.0.1:1", "stats"),  # no password
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_what_is_wrong(
    seeded: str, arguments: tuple[str, ...]
) -> None:
    done = run(*arguments, GRAPHMEM_URL=seeded)
    assert (done.code, done.out) == (2, "")
    assert "Error" in done.err
    assert len(done.err) < 1_000
    assert good("--url", seeded, "--json", "stats").json["episodes"] == 30


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "-e", "CREATE (n:Strategy {id: '1'})"),
        ("query", "-e", "MATCH (n RETURN n"),
        ("seed", "no-such-file.jsonl"),
        ("seed", "no-such-folder/*.jsonl"),
        ("seed", "-", "--refused", "no-such-folder/refused.jsonl"),
        ("--url", "bolt://127.0.0.1:1", "stats"),
    ],
    ids=" ".join,
)
def test_a_failure_exits_with_1(seeded: str, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, GRAPHMEM_URL=seeded, **HUSH)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("Error: ")
    assert good("--url", seeded, "--json", "stats").json["episodes"] == 30


def test_a_bad_setting_in_the_environment_is_named(seeded: str) -> None:
    for value in ("abc", "-1", "nan"):
        done = run("--url", seeded, "stats", GRAPHMEM_Z=value)
        assert done.code == 2
        assert "GRAPHMEM_Z" in done.err
        assert value in done.err


def test_where_there_is_no_memory_asking_says_how_to_make_one(url: str) -> None:
    for command in (("stats",), ("strategies",), ("verify",), ("evidence", "s"), ("rebuild",)):
        done = run("--url", url, *command)
        assert (done.code, done.out) == (2, "")
        assert "graphmem init" in done.err
    assert not Path(url).exists()


def test_a_traceback_is_shown_with_debug_only(seeded: str) -> None:
    process = start("--debug", "--url", seeded, "query", "-e", "MATCH (n RETURN n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("learn", b"task \xff", "s", "--success"),
        ("learn", "t", b"\xff", "--success"),
        ("strategies", "--task", b"\xff"),
        ("evidence", b"\xff"),
        ("erase", b"\xff", "--yes"),
        ("query", "-e", b"RETURN '\xff' AS x"),
        ("query", "what_works", "-p", b"limit=\xff"),
    ],
)
def test_bytes_that_are_no_text_are_refused_like_other_bad_values(
    seeded: str, arguments: tuple[str | bytes, ...]
) -> None:
    process = subprocess.run(
        [sys.executable, "-c", CODE, "--url", seeded, *arguments],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode in (1, 2)
    assert b"Traceback" not in process.stderr
    assert b"Error" in process.stderr


# Seeding


def seed(url: str, *arguments: str, text: bytes = b"") -> Any:
    return good("--url", url, "--json", "seed", *arguments, text=text).json


def test_seeding_twice_learns_once(url: str, log: Path) -> None:
    assert seed(url, str(log))["created"] == 12
    again = seed(url, str(log))
    assert (again["created"], again["skipped"], again["refused"]) == (0, 12, 0)
    table = good("--url", url, "seed", str(log)).out
    assert "0 episodes learned, 12 known already, 0 refused, from 1 file(s)" in table


def test_seeding_from_packed_files_folders_patterns_and_standard_input(
    url: str, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    (logs / "deep").mkdir(parents=True)
    (logs / "a.jsonl").write_bytes(lines(0, 1))
    (logs / "deep" / "b.jsonl.gz").write_bytes(gzip.compress(lines(2, 3, 4)))
    (logs / "notes.txt").write_text("not a log")
    (tmp_path / "c1.ndjson").write_bytes(lines(5))
    (tmp_path / "c2.ndjson").write_bytes(lines(6))

    assert seed(url, str(logs))["created"] == 5
    assert seed(url, str(tmp_path / "c*.ndjson"))["created"] == 2
    assert seed(url, "-", text=lines(7, 8))["created"] == 2
    assert seed(url, "-", text=gzip.compress(lines(9)))["created"] == 1
    everything = seed(url, str(logs), "-", str(tmp_path / "c?.ndjson"), text=lines(10))
    assert (everything["files"], everything["created"], everything["skipped"]) == (5, 1, 7)
    assert good("--url", url, "verify").code == 0


def test_seeding_with_limit_agent_and_batch_size(url: str, log: Path) -> None:
    assert seed(url, str(log), "--limit", "5", "--batch-size", "2")["created"] == 5
    other = good("--url", url, "--namespace", "n", "--json", "seed", str(log), "--agent", "zoe")
    assert other.json["created"] == 12
    [row] = good("--url", url, "--namespace", "n", "--json", "strategies", "--limit", "1").json
    assert row["agents"] == ["zoe"]


def test_a_blank_agent_is_refused(url: str, log: Path) -> None:
    done = run("--url", url, "seed", str(log), "--agent", " ")
    assert done.code == 2
    assert "agent" in done.err


TAU = [
    {
        "task_id": 1,
        "reward": 1.0,
        "info": {"task": {"instruction": "Cancel my flight."}},
        "traj": [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "a", "function": {"name": "cancel_reservation", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "cancelled"},
        ],
        "trial": 0,
    }
]  # fmt: skip
INTERCODE = {
    "0": {
        "environment": "sql",
        "task_id": 7,
        "query": "How many singers?",
        "turn_history": {"actions": ["SELECT 1"], "observations": ["[(1,)]"], "rewards": [1.0]},
        "summary": {"max_reward": 1.0},
    }
}


def test_the_format_is_found_by_content(url: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(TAU))
    (tmp_path / "two.json").write_text(json.dumps(INTERCODE))
    (tmp_path / "three.json").write_bytes(lines(0))
    report = seed(url, str(tmp_path / "*.json"))
    assert (report["files"], report["created"], report["refused"]) == (3, 3, 0)
    texts = {row["text"] for row in good("--url", url, "--json", "strategies").json}
    assert {"writes: cancel_reservation", "SELECT", "ask first"} <= texts


@pytest.mark.parametrize("text", [b"hello\n", b"\x00\x01\xfe\xff" * 500, b"[]", b"{}", b"12"])
def test_unknown_content_is_told_with_the_formats_there_are(
    url: str, tmp_path: Path, text: bytes
) -> None:
    (file := tmp_path / "strange.json").write_bytes(text)
    done = run("--url", url, "seed", str(file))
    assert done.code == 1
    assert str(file) in done.err
    for part in ("--format", "jsonl", "tau-bench"):
        assert part in done.err


def test_content_that_fits_several_formats_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {name: Format(name, "", lambda _: True, lambda *_: iter(())) for name in ("a", "b")}
    monkeypatch.setattr(sys.modules[detect.__module__], "formats", lambda: both)
    with pytest.raises(SeedingError, match=r"several formats fit.*--format \(a, b\)"):
        detect(b"...", "some.log")


def refusals(url: str, file: Path, *more: str) -> tuple[Any, list[dict[str, Any]]]:
    """Seed a file; return the report and what --refused wrote."""
    sink = file.parent / "refused.out"
    report = seed(url, str(file), "--refused", str(sink), *more)
    return report, [json.loads(line) for line in sink.read_text().splitlines()]


def test_bad_lines_are_reported_and_the_others_learned(url: str, tmp_path: Path) -> None:
    bad = [
        b'{"task": "t", "strategy": "s", "success": "Success"}',
        b'{"task": "t", "strategy": "s"}',
        b'{"task": "t", "strategy": "s", "score": 1.5}',
        b'{"task": "t", "strategy": "s", "success": true, "reward": NaN}',
        b'{"task": "t", "strategy": "s", "success": true, "colour": "red"}',
        b'{"task": "t", "strategy": "s", "success": true',
        b'["a list"]',
        b"\xff\xfe\x00",
        b'{"task": "t", "strategy": "s", "success": true, "self": 1}',
        b'{"task": "t", "strategy": "s", "success": true, "started_at": "2026-05-01T00:00:00"}',
        b'{"task": "t", "strategy": "s", "success": true, "extra": {"a": %s}}'
        % (b"[" * 5_000 + b"]" * 5_000),
        dump(episode(0)).replace("true", "false").replace("page 0", "page 1").encode(),
    ]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(lines(0) + b"\n" + b"\n".join(bad) + b"\n" + lines(1))

    report, written = refusals(url, file)
    assert (report["created"], report["refused"]) == (2, len(bad))
    assert [item["record"] for item in written] == list(range(3, 3 + len(bad)))
    assert report["refusals"] == written
    assert {item["file"] for item in written} == {str(file)}
    fields = [item["field"] for item in written]
    assert fields[:5] == ["success", "success", "score", "reward", "colour"]
    assert fields[8:10] == ["self", "started_at"]
    assert fields[11] == "source_key"
    assert all(item["reason"] and len(item["reason"]) < 1_000 for item in written)

    shown = good("--url", url, "seed", str(file)).out
    assert f"{len(bad)} refused" in shown
    assert "colour" in shown
    assert run("--url", url, "seed", str(file), "--strict").code == 1
    assert good("--url", url, "--json", "stats").json["episodes"] == 2


def test_strict_succeeds_where_nothing_was_refused(url: str, log: Path) -> None:
    assert good("--url", url, "seed", str(log), "--strict").code == 0


def packed(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def corrupt(data: bytes) -> bytes:
    middle = len(data) // 2
    wrong = bytes(byte ^ 0xFF for byte in data[middle : middle + 64])
    return data[:middle] + wrong + data[middle + 64 :]


@pytest.mark.parametrize("size", [40, 4_000], ids=["short", "long"])
@pytest.mark.parametrize(
    "damage",
    [
        lambda text: packed(text)[: len(packed(text)) // 2],
        lambda text: packed(text)[:-4],
        lambda text: corrupt(packed(text)),
        lambda text: packed(text)[:10] + b"\xff" * 64 + packed(text)[74:],
        lambda text: packed(text) + b"garbage",
    ],
    ids=["half", "without its end", "wrong inside", "wrong at the start", "more after it"],
)
def test_a_damaged_gzip_file_is_told(
    url: str, tmp_path: Path, size: int, damage: Callable[[bytes], bytes]
) -> None:
    (file := tmp_path / "runs.jsonl.gz").write_bytes(damage(lines(*range(size))))
    done = run("--url", url, "--json", "seed", str(file), "--strict")
    assert done.code == 1
    assert "gzip" in done.out + done.err
    assert str(file) in done.out + done.err
    if Path(url).exists():
        assert good("--url", url, "verify").code == 0


def test_truncated_json_keeps_the_runs_before_the_end(url: str, tmp_path: Path) -> None:
    runs = json.dumps([{**TAU[0], "task_id": number} for number in range(5)])
    (file := tmp_path / "runs.json").write_text(runs[:-200])
    report, [last] = refusals(url, file)
    assert report["created"] == 4
    assert (last["record"], last["field"]) == (5, "file")
    assert "cut off" in last["reason"]


@pytest.mark.parametrize("text", [b"", b"  \n\n"])
def test_an_empty_file_is_told(url: str, tmp_path: Path, text: bytes) -> None:
    (file := tmp_path / "empty.jsonl").write_bytes(text)
    report, [only] = refusals(url, file)
    assert (report["created"], only["field"], only["reason"]) == (0, "file", "is empty")


@pytest.mark.parametrize(
    "change",
    [
        {"reward": "n/a"},
        {"reward": None},
        {"traj": None},
        {"traj": "text"},
        {"traj": [5]},
        {"traj": [{"role": "assistant", "content": ["a", "list"]}]},
        {"traj": [{"role": "assistant", "content": "hi"}, {"role": "user", "content": {"a": 1}}]},
        {"traj": [{"role": "assistant", "tool_calls": [{"function": {"name": ""}}]}]},
        {"traj": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "t", "arguments": "{\"a\": NaN}"}}]}]},
        {"traj": [{"role": "assistant", "tool_calls": [
            {"function": {"name": "t", "arguments": "[" * 100_000}}]}]},
        {"info": 7},
        {"task_id": None, "info": None, "reward": {}},
    ],
    ids=lambda change: json.dumps(change)[:60],
)  # fmt: skip
def test_a_run_that_is_not_as_it_should_be_does_not_stop_the_others(
    url: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    """Refused or learned as far as it goes, but the file is read to its end."""
    runs = [TAU[0], {**TAU[0], "task_id": 2, **change}, {**TAU[0], "task_id": 3}]
    (file := tmp_path / "runs.json").write_text(json.dumps(runs))
    report = seed(url, str(file), "--format", "tau-bench")
    assert report["created"] + report["refused"] == 3
    assert report["created"] >= 2
    assert all(item["record"] == 2 for item in report["refusals"])


@pytest.mark.parametrize(
    "change",
    [
        {"summary": {"max_reward": "n/a"}},
        {"summary": None},
        {"query": 5},
        {"query": ""},
        {"turn_history": []},
        {"turn_history": {"actions": 5}},
        {"turn_history": {"actions": ["SELECT 1"], "rewards": ["n/a"]}},
        {"turn_history": {"actions": ["SELECT 1"], "observations": 5}},
        {"turn_history": {"actions": ["x" * 2_000_000]}},
        {"environment": 5},
    ],
    ids=lambda change: json.dumps(change)[:60],
)
def test_an_intercode_run_that_is_not_as_it_should_be_does_not_stop_the_others(
    url: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    good_one = INTERCODE["0"]
    runs = {"0": good_one, "1": {**good_one, **change}, "2": good_one}
    (file := tmp_path / "runs.json").write_text(json.dumps(runs))
    report = seed(url, str(file), "--format", "intercode")
    assert report["created"] + report["refused"] == 3
    assert report["created"] >= 2
    assert all(item["record"] == 2 for item in report["refusals"])


def test_a_seeding_that_was_killed_can_be_run_again(tmp_path: Path) -> None:
    (file := tmp_path / "big.jsonl").write_bytes(lines(*range(3_000)))
    clean, killed = str(tmp_path / "clean.graph"), str(tmp_path / "killed.graph")
    seed(clean, str(file))

    process = start("--url", killed, "seed", str(file), "--batch-size", "20")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _size(Path(killed) / "graph.kgl-wal") < 200_000:
        time.sleep(0.002)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL

    report = seed(killed, str(file))
    assert report["created"] + report["skipped"] == 3_000
    assert 0 < report["skipped"] < 3_000
    with Memory.open(clean) as one, Memory.open(killed) as other:
        assert content(other) == content(one)
        assert other.verify().ok


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_a_log_with_dates_keeps_them(url: str) -> None:
    assert seed(url, "-", text=lines(0, 5))["refused"] == 0
    stats = good("--url", url, "--json", "stats").json
    assert stats["first_at"] == "2026-01-01T00:00:00Z"
    assert stats["last_at"] == "2026-01-01T05:00:00Z"


def test_interrupting_a_seeding_says_so_and_keeps_what_was_learned(tmp_path: Path) -> None:
    (file := tmp_path / "big.jsonl").write_bytes(lines(*range(3_000)))
    url = str(tmp_path / "runs.graph")
    process = start("--url", url, "seed", str(file), "--batch-size", "20")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and _size(Path(url) / "graph.kgl-wal") < 200_000:
        time.sleep(0.002)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"stopped" in err
    assert b"Traceback" not in err
    assert good("--url", url, "--json", "stats").json["episodes"] % 20 == 0


# Help


def commands(group: click.Group = cli, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


def examples(command: click.Command) -> list[str]:
    """The command lines under "Example:" in the help of a command."""
    _, found, text = (command.help or "").partition("Example")
    joined = text.partition(":")[2].replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if "graphmem" in line] if found else []


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_an_example_that_parses(path: tuple[str, ...]) -> None:
    shown = examples(COMMANDS[path])
    assert shown
    for line in shown:
        words = shlex.split(line.partition(" > ")[0])
        words = words[words.index("graphmem") + 1 :]
        context = cli.make_context("graphmem", list(words), resilient_parsing=False)
        group: click.Group = cli
        rest = [*context._protected_args, *context.args]
        for name in path:
            found, command, rest = group.resolve_command(context, rest)
            assert command is not None
            assert (found, command) == (name, group.commands[name])
            if isinstance(command, click.Group):
                group = command
            else:
                command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_explained(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.get_short_help_str()
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name not in ("limit", "batch_size"):
            assert parameter.help, parameter.name
    text = good(*path, "--help").out
    assert "Usage: graphmem" in text
    assert max(map(len, text.splitlines())) <= 100


def test_help_and_version_load_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from graphmem.cli import main\n"
        "try:\n    main([sys.argv[1]])\n"
        "finally:\n"
        "    heavy = {'pydantic', 'kglite', 'neo4j', 'rich', 'ijson'} & sys.modules.keys()\n"
        "    print('loaded:', sorted(heavy))\n"
    )
    for option in ("--help", "--version"):
        answer = subprocess.run(
            [sys.executable, "-c", code, option], capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0
        assert "graphmem" in answer.stdout
        assert answer.stdout.splitlines()[-1] == "loaded: []"


# Other processes, pipes, and what is broken


def test_asking_beside_a_writing_process_works_and_says_that_it_is_a_snapshot(url: str) -> None:
    with learning(environment(url, "default", Settings()), 0, 2, "hold") as writer:
        writer.wait_for("done")
        done = run("--url", url, "--json", "stats")
        assert (done.code, done.json["episodes"]) == (0, 2 * BATCH)
        assert re.search(r"snapshot, \d+\.\d s old", done.err)
        for command in (("strategies",), ("verify",), ("evidence", "ask first"), ("doctor",)):
            beside = run("--url", url, *command)
            assert (beside.code, "snapshot" in beside.err) == (0, True)
        blocked = run("--url", url, "--wait", "0.2", "learn", "t", "s", "--success")
        assert blocked.code == 1
        assert str(writer.pid) in blocked.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("procedures", "list"),
        ("--json", "procedures", "list"),
        ("--json", "strategies"),
        ("stats",),
        ("query", "--csv", "-e", "UNWIND range(1, 5) AS x RETURN x"),
        ("query", "--csv", "-e", "UNWIND range(1, 100000) AS x RETURN x"),
        ("seed", "-", "--refused", "-"),
    ],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_no_error_to_shout_about(
    seeded: str, arguments: tuple[str, ...]
) -> None:
    """As in ``graphmem ... | head -1``, when head has had enough."""
    reading, writing = os.pipe()
    os.close(reading)
    process = start("--url", seeded, *arguments, stdout=writing, stdin=subprocess.PIPE)
    os.close(writing)
    _, err = process.communicate(b'{"task": 1, "strategy": 2}\n' * 3, timeout=60)
    assert b"Traceback" not in err
    assert b"Exception" not in err
    assert b"BrokenPipe" not in err
    assert process.returncode in (0, 1, -signal.SIGPIPE, 128 + signal.SIGPIPE)


def test_doctor_on_a_good_memory(seeded: str) -> None:
    findings = {item["check"]: item for item in good("--url", seeded, "--json", "doctor").json}
    assert all(item["ok"] for item in findings.values())
    assert "kglite" in findings["engine"]["found"]
    assert "default (30 episodes)" in findings["namespaces"]["found"]
    assert "WRONG" not in good("--url", seeded, "doctor").out


def test_doctor_where_there_is_no_memory(url: str) -> None:
    done = run("--url", url, "doctor")
    assert done.code == 1
    assert "graphmem init" in done.out
    assert not Path(url).exists()


def test_doctor_on_a_damaged_memory_and_on_other_things(seeded: str, tmp_path: Path) -> None:
    file = Path(seeded) / "graph.kgl"
    file.write_bytes(file.read_bytes()[:500])
    done = run("--url", seeded, "--json", "doctor")
    assert done.code == 1
    [wrong] = [item for item in done.json if not item["ok"]]
    assert "damaged" in wrong["found"]
    assert wrong["remedy"]

    (tmp_path / "notes.txt").write_text("dear diary")
    assert "WRONG" in run("--url", str(tmp_path / "notes.txt"), "doctor").out
    assert "WRONG" in run("--url", "bolt://127.0.0.1:1", "doctor", **HUSH).out


def test_odd_text_is_shown_without_control_characters(url: str) -> None:
    good("--url", url, "learn", "a\x1b[31m task", "tab\there\nand there", "--success")
    table = good("--url", url, "strategies").out
    assert "\x1b" not in table
    assert "\t" not in table
    assert good("--url", url, "--json", "strategies").json[0]["text"] == "tab\there\nand there"
    good("--url", url, "learn", "[bold]t[/bold]", "[red]s[/nonsense]", "--success")
    assert "[red]s[/nonsense]" in good("--url", url, "strategies").out


def test_output_is_utf8_whatever_the_locale(url: str) -> None:
    good("--url", url, "learn", "T\u00e2che", "\u7b56\u7565", "--success")
    for locale in ("C", "C.UTF-8", "POSIX"):
        table = good("--url", url, "strategies", LC_ALL=locale, PYTHONIOENCODING="")
        assert "\u7b56\u7565" in table.out
