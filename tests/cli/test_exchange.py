"""export and import from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from tests.cli.running import good, run

FILE: dict[str, Any] = {
    "episodes": [
        {"task_id": "t", "score": 0.9, "successes": ["look first"], "steps": 3},
        {"task_id": "t", "score": 0.2, "mistakes": ["guessed"], "odd": [1, 1.0]},
    ],
    "counter": 2,
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (file := tmp_path / "agent_memory.json").write_text(json.dumps(FILE))
    return file


def test_a_sentinel_file_goes_in_and_comes_out(url: str, file: Path, tmp_path: Path) -> None:
    told = good("--url", url, "upkeep", "import", "--format", "sentinel", str(file)).out
    assert "2 episodes learned, 0 known already" in told
    assert "not learned: counter" in told
    again = good("--url", url, "--json", "upkeep", "import", "--format", "sentinel", str(file)).json
    assert (again["created"], again["skipped"], again["kept"]) == (0, 2, ["counter"])

    copy = tmp_path / "copy.json"
    report = good(
        "--url", url, "--json", "upkeep", "export", "--format", "sentinel", str(copy)
    ).json
    assert (report["episodes"], report["derived"], report["kept"]) == (2, [], ["counter"])
    assert json.loads(copy.read_text()) == FILE

    good("--url", url, "learn", "t", "s", "--success")
    told = good("--url", url, "upkeep", "export", "--format", "sentinel", str(copy)).out
    assert "derived from them: task_rules" in told
    good(
        *("--url", url, "upkeep", "export", "--format", "sentinel", str(copy)),
        *("--document", "agent_memory"),
    )
    assert json.loads(copy.read_text()) == FILE


def test_lines_go_out_and_come_in(seeded: str, tmp_path: Path) -> None:
    lines, other = tmp_path / "all.jsonl", str(tmp_path / "other.graph")
    told = good("--url", seeded, "upkeep", "export", "--format", "jsonl", str(lines)).out
    assert "30 episodes written to" in told
    assert good("--url", other, "--json", "upkeep", "import", "--format", "jsonl", str(lines)).json[
        "created"
    ] == (30)
    assert good("--url", other, "verify").code == 0
    stats = [good("--url", one, "--json", "stats").json for one in (seeded, other)]
    for one in stats:
        del one["url"]
    assert stats[0] == stats[1]


def test_what_the_memory_refuses_is_told(url: str, tmp_path: Path) -> None:
    good("--url", url, "learn", "t", "s", "--success", "--source-key", "1")
    (lines := tmp_path / "all.jsonl").write_text(
        '{"task": "t", "strategy": "s", "success": false, "source_key": "1"}\n'
    )
    done = run("--url", url, "upkeep", "import", "--format", "jsonl", str(lines))
    assert done.code == 1
    assert "1 refused" in done.out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"episodes": [', "cut off or damaged"),
        ('{"episodes": [], "version": 9}', "upgrade graphmem"),
        ('{"episodes": [{"task_id": "t", "score": 2}]}', "episodes.0.score"),
        ("[]", "is not a Sentinel file"),
    ],
)
def test_a_wrong_file_is_told_and_nothing_is_learned(
    content: str, problem: str, url: str, file: Path
) -> None:
    file.write_text(content)
    done = run("--url", url, "upkeep", "import", "--format", "sentinel", str(file))
    assert done.code in (1, 2)
    assert problem in done.err
    assert file.read_text() == content
    assert not Path(url).exists() or good("--url", url, "--json", "stats").json["episodes"] == 0


def test_wrong_usage_is_told(url: str, file: Path, tmp_path: Path) -> None:
    for arguments, problem in (
        (("upkeep", "import", str(file)), "Missing option '--format'"),
        (("upkeep", "import", "--format", "xml", str(file)), "is not one of 'sentinel', 'jsonl'"),
        (
            ("upkeep", "import", "--format", "jsonl", "--document", "x", str(file)),
            "is for Sentinel files",
        ),
        (("upkeep", "export", "--format", "sentinel", str(file)), "no memory at"),
    ):
        done = run("--url", url, *arguments)
        assert done.code == 2
        assert problem in done.err
    good("--url", url, "init")
    for arguments, problem in (
        (
            ("upkeep", "export", "--format", "jsonl", "--document", "x", str(file)),
            "is for Sentinel files",
        ),
        (("upkeep", "export", "--format", "sentinel", "--document", "x", str(file)), "no file 'x'"),
        (("upkeep", "export", "--format", "sentinel", str(tmp_path)), "is a folder"),
        (("upkeep", "export", "--format", "mermaid", "-"), "give the name of a file"),
    ):
        done = run("--url", url, *arguments)
        assert done.code in (1, 2)
        assert problem in done.err
    assert json.loads(file.read_text()) == FILE


def test_attempts_without_an_outcome_are_told_of(url: str, tmp_path: Path) -> None:
    lines, other = str(tmp_path / "all.jsonl"), str(tmp_path / "other.graph")
    with Memory.open(url) as memory:
        for _ in range(2):
            with memory.attempt("t", agent="ada") as attempt:
                pass
    told = good("--url", url, "upkeep", "export", "--format", "jsonl", lines).out
    assert "2 attempts without an outcome written to it" in told
    told = good("--url", other, "upkeep", "import", "--format", "jsonl", lines).out
    assert "2 attempts without an outcome stored" in told
    told = good("--url", url, "upkeep", "erase", str(attempt.episode_id), "--yes").out
    assert f"erased {attempt.episode_id}, an attempt without an outcome" in told
    told = good("--url", url, "upkeep", "erase", "--agent", "ada", "--yes").out
    assert "0 predictions, and 1 attempt without an outcome" in told
    told = good("--url", other, "upkeep", "forget", "--older-than", "0", "--yes").out
    assert "and 2 attempts without an outcome" in told
