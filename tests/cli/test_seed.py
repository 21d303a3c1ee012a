"""Seeding from the command line: where logs come from, their formats, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.errors import SeedingError
from graphmem.search import vectors
from graphmem.seeding.formats import Format, detect
from tests.cli.running import complaint, good, lines, run, start
from tests.faults.learner import content, episode
from tests.seeding.samples import TAU


def seed(url: str, *arguments: str, text: bytes = b"") -> Any:
    options = ("--on-error", "ignore")
    return good("--url", url, "--json", "seed", *arguments, *options, text=text).json


def test_seeding_twice_learns_once(url: str, log: Path) -> None:
    assert seed(url, str(log))["created"] == 12
    again = seed(url, str(log))
    assert (again["created"], again["skipped"], again["refused"]) == (0, 12, 0)
    with Memory.open(url) as memory:
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        links = memory.query("MATCH (:Task {ns: $ns})-[l:SIMILAR_TO]->() RETURN count(l) AS n")
        assert links[0]["n"] > 0
    table = good("--url", url, "seed", str(log)).out
    assert "0 episodes learned, 12 known already, 0 refused, from 1 file" in table


def test_embedding_can_wait_and_is_told_of_then(
    url: str, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done = run("--url", url, "seed", str(log), "--no-link")
    assert done.code == 0
    assert re.search(r"not embedded: \d+ texts; `graphmem upkeep relink` links them", done.err)
    monkeypatch.setattr(vectors, "MANY", 3)
    with Memory.open(url) as memory:
        waiting = sum(memory.upkeep.pending().values())
        memory.recall("refund a flight")
        assert f"{waiting} texts have no vector yet" in caplog.text
        caplog.clear()
        memory.recall("refund a flight")
        assert caplog.text == ""


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
    assert good("--url", url, "upkeep", "verify").code == 0


def test_a_dry_run_shows_the_first_records_and_stores_nothing(url: str, log: Path) -> None:
    for limit, shown in (((), 5), (("--limit", "2"), 2)):
        out = good("--url", url, "seed", str(log), "--dry-run", *limit).out
        assert out.count(f"{log}, record ") == shown
    assert "no memory" in run("--url", url, "list").err


def test_seeding_with_a_limit_and_an_agent(url: str, log: Path) -> None:
    assert seed(url, str(log), "--limit", "5")["created"] == 5
    other = ("--url", url, "--namespace", "n", "--json")
    assert good(*other, "seed", str(log), "--agent", "zoe").json["created"] == 12
    [row] = good(*other, "list", "strategies", "--limit", "1").json
    assert row["agents"] == ["zoe"]


def test_the_format_is_found_by_content(url: str, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps([TAU]))
    (tmp_path / "three.json").write_bytes(lines(0))
    report = seed(url, str(tmp_path / "*.json"))
    assert (report["files"], report["created"], report["refused"]) == (2, 2, 0)
    texts = {row["text"] for row in good("--url", url, "--json", "list", "strategies").json}
    assert {"writes: cancel_x", "ask first"} <= texts
    (file := tmp_path / "strange.json").write_bytes(b"\x00\x01\xfe\xff" * 500)
    told = complaint("--url", url, "seed", str(file), code=1)
    for part in (str(file), "--format", "jsonl", "tau-bench"):
        assert part in told


def test_content_that_fits_several_formats_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
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
        b'{"task": "t", "strategy": "s", "success": true, "colour": "red"}',
        b'{"task": "t", "strategy": "s", "success": true',
        b"\xff\xfe\x00",
        episode(0)
        .model_dump_json(exclude_defaults=True)
        .replace("true", "false")
        .replace("page 0", "page 1")
        .encode(),
    ]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(lines(0) + b"\n" + b"\n".join(bad) + b"\n" + lines(1))

    report, written = refusals(url, file)
    assert (report["created"], report["refused"]) == (2, len(bad))
    assert [item["record"] for item in written] == list(range(3, 3 + len(bad)))
    assert {item["file"] for item in written} == {str(file)}
    fields = [item["field"] for item in written]
    assert (fields[0], fields[1], fields[4]) == ("success", "colour", "source_key")
    assert all(item["reason"] and len(item["reason"]) < 1_000 for item in written)

    shown = run("--url", url, "seed", str(file))
    assert shown.code == 1
    assert f"{len(bad)} refused" in shown.out
    assert "colour" in shown.out
    assert good("--url", url, "--json", "list").json["episodes"] == 2


def test_refusals_that_are_alike_are_shown_once(url: str, tmp_path: Path) -> None:
    pending = [b'{"task": "t%d", "strategy": "s"}\n' % number for number in range(30)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"".join(pending))
    (tmp_path / "c.jsonl").write_bytes(lines(0) + b"no log\n")
    logs = [str(tmp_path / f"{name}.jsonl") for name in "abc"]
    shown = run("--url", url, "seed", *logs, "--format", "jsonl", COLUMNS="400")
    first, other = (line.split() for line in shown.out.splitlines() if ".jsonl" in line)
    assert (first[:2], first[-1]) == ([logs[0], "1"], "59")
    assert (other[:2], other[-1]) == ([logs[2], "2"], "log\\n')")
    assert shown.out.splitlines()[-1] == "--refused FILE lists all"
    assert len(seed(url, str(tmp_path / "a.jsonl"))["refusals"]) == 30


def test_a_seeding_that_was_killed_can_be_run_again(tmp_path: Path) -> None:
    (file := tmp_path / "big.jsonl").write_bytes(lines(*range(3_000)))
    clean, killed = str(tmp_path / "clean.graph"), str(tmp_path / "killed.graph")
    seed(clean, str(file))

    with seeding(killed, range(2_999)) as process:  # and waits for the last one
        process.kill()
        process.wait()
    assert process.returncode == -signal.SIGKILL

    report = seed(killed, str(file))
    assert report["created"] + report["skipped"] == 3_000
    assert 0 < report["skipped"] < 3_000
    with Memory.open(clean) as one, Memory.open(killed) as other:
        assert content(other) == content(one)
        assert other.verify().ok


@contextmanager
def seeding(url: str, numbers: Iterable[int]) -> Iterator[subprocess.Popen[bytes]]:
    """Seed from a pipe that does not end before the block; it has begun to learn."""
    process = start("--url", url, "seed", "-", stdin=subprocess.PIPE)
    pipe = process.stdin
    assert pipe

    def feed() -> None:
        with contextlib.suppress(OSError):  # nobody reads any more
            for number in numbers:
                pipe.write(lines(number))
            pipe.flush()

    feeding = threading.Thread(target=feed)
    feeding.start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and _size(Path(url) / "graph.kgl-wal") < 200_000:
        time.sleep(0.002)
    try:
        yield process
    finally:
        process.kill()
        feeding.join()
        with contextlib.suppress(OSError):
            pipe.close()
        process.stdin = None
        process.communicate()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_interrupting_a_seeding_says_so_and_keeps_what_was_learned(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.graph")
    with seeding(url, itertools.count()) as process:
        process.send_signal(signal.SIGINT)
        assert process.stderr
        err = process.stderr.read()
        process.wait()
    assert process.returncode == 130
    assert b"stopped" in err
    assert b"Traceback" not in err
    assert good("--url", url, "--json", "list").json["episodes"] % 100 == 0
