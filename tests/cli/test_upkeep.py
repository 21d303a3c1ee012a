"""``graphmem upkeep``: verify, rebuild, erase, forget, export and import."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.store.queries import adhoc
from tests.cli.running import CODE, complaint, good, run, shown_on, start

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
BOTH = ("--older-than", "90", "--below-confidence", "0.3")
PRESSING = f"""
import signal
from rich.progress import Progress

update = Progress.update


def pressing(bar, *given, **more):
    update(bar, *given, **more)
    if more["completed"]:
        bar.refresh()
        signal.raise_signal(signal.SIGINT)


Progress.update = pressing
{CODE}
"""
"""Presses Ctrl-C when the bar says how far it is."""


def episodes(url: str) -> int:
    """Return how many episodes there are; all numbers must follow from them."""
    assert good("--url", url, "--json", "upkeep", "verify").json["ok"] is True
    return int(good("--url", url, "--json", "list").json["episodes"])


class TestVerify:
    def test_a_good_memory(self, seeded: str) -> None:
        text = good("--url", seeded, "upkeep", "verify").out
        assert text.startswith("all numbers follow from the facts (30 episodes, 3 strategies, ")
        assert re.search(r"\d+ results of a strategy on a task, ", text)
        assert not re.search("outcome|tallies|recent,|similar[,)]", text)
        assert "strategies           3\n" in good("--url", seeded, "upkeep", "rebuild").out
        assert good("--url", seeded, "--json", "upkeep", "rebuild").json["removed"] == 0

    def test_a_difference_exits_with_1_and_can_be_mended(self, url: str) -> None:
        with Memory.open(url) as memory:
            memory.learn_many(
                {"task": "t", "strategy": f"s{n}", "success": True, "source_key": str(n)}
                for n in range(130)
            )
            damage = "MATCH (s:Strategy) SET s.successes = 7, s.trials = 9"
            memory.store.transact(lambda tx: tx.run(adhoc(damage, "write")))
        done = run("--url", url, "upkeep", "verify")
        assert done.code == 1
        assert done.out.startswith("260 differences; `graphmem upkeep rebuild`")
        assert "differing      260 strategies\n" in done.out
        found = run("--url", url, "--json", "upkeep", "verify").json
        assert (found["ok"], len(found["differences"]), found["more"]) == (False, 100, 160)
        good("--url", url, "upkeep", "rebuild")
        assert episodes(url) == 130

    def test_ctrl_c_ends_it_and_its_progress_bar(self, url: str) -> None:
        with Memory.open(url) as memory:
            memory.learn_many(
                {"task": f"t{n % 9}", "strategy": f"s{n % 7}", "success": True} for n in range(6000)
            )
        terminal, end = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-c", PRESSING, "--url", url, "upkeep", "verify"],
            stdout=subprocess.PIPE,
            stderr=end,
        )
        os.close(end)
        shown = shown_on(terminal)
        out, _ = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, b"")
        assert re.search(rb"verifying .* \d+/30000.*stopped", shown, re.DOTALL), shown


class TestErase:
    @pytest.fixture
    def aged(self, url: str) -> str:
        """Six old failures of grace, one old success and one failure of today of ada."""
        with Memory.open(url) as memory:
            for day in range(6):
                at = LONG_AGO + timedelta(days=day)
                memory.learn("t", "guess", success=False, agent="grace", ended_at=at)
            memory.learn("t", "ask first", success=True, agent="ada", ended_at=LONG_AGO)
            memory.learn("t", "hope", success=False, agent="ada", error="no luck")
            memory.people.prefer("ann", "seat", "on the aisle")
            memory.people.know("refunds", "they take five days", user="ann")
        return url

    def test_an_episode_an_agent_and_a_user(self, aged: str) -> None:
        [row] = good("--url", aged, "--json", "list", "episodes", "--limit", "1").json
        erase = ("--url", aged, "upkeep", "erase")
        [report] = good("--json", *erase, row["id"], "--yes").json
        assert (report["episode_id"], report["steps"], episodes(aged)) == (row["id"], 0, 7)
        text = good(*erase, "--agent", "grace", "--yes").out
        for part in (
            "agent               grace", "episodes            6", "files written anew  yes",
        ):  # fmt: skip
            assert part in text
        assert episodes(aged) == 1
        text = good(*erase, "--user", "ann", "--yes").out
        assert "preferences         1\nknowledge           1\n" in text

    def test_a_dry_run_says_what_forgetting_then_does(self, aged: str) -> None:
        forget = ("--url", aged, "upkeep", "forget", *BOTH)
        dry = good("--json", *forget, "--dry-run").json
        assert (dry["dry_run"], dry["episodes"], dry["compacted"]) == (True, 6, False)
        text = good(*forget, "--dry-run").out
        assert text.startswith("dry run        yes\nbefore         20")
        assert "episodes       6\n" in text
        assert good("--json", *forget, "--any", "--dry-run").json["episodes"] == 7
        assert episodes(aged) == 8
        kept = good("--json", *forget[:4], "--dry-run", GRAPHMEM_KEEP="3 episodes").json
        assert kept["episodes"] == 5
        text = good(*forget, "--yes").out
        assert "episodes            6\n" in text
        assert "files written anew  yes\n" in text
        assert "episodes" not in good(*forget, "--yes").out
        assert episodes(aged) == 2

    def test_on_a_terminal_they_ask(self, aged: str) -> None:
        forget, erase = ("upkeep", "forget", *BOTH), ("upkeep", "erase", "--agent", "ada")
        for command, question in (
            (forget, "Forget 6 episodes for good?"),
            (erase, "Erase all of agent 'ada' for good?"),
        ):
            code, out = self.answer(aged, *command, answer=b"n\n")
            assert (code, question in out) == (130, True)
        assert episodes(aged) == 8
        for command in (forget, erase):
            code, out = self.answer(aged, *command, answer=b"y\n")
            assert (code, "files written anew" in out) == (0, True)
        assert episodes(aged) == 0

    @staticmethod
    def answer(url: str, *arguments: str, answer: bytes) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        process = start("--url", url, *arguments, stdin=theirs)
        os.close(theirs)
        os.write(ours, answer)
        out, _ = process.communicate(timeout=60)
        os.close(ours)
        return process.returncode, out.decode()


class TestExchange:
    FILE: dict[str, Any] = {  # noqa: RUF012
        "episode_log": [
            {"task_id": "t", "score": 0.9, "successes": ["look first"], "steps": 3},
            {"task_id": "t", "score": 0.2, "mistakes": ["guessed"], "odd": [1, 1.0]},
        ],
        "counter": 2,
    }

    def test_a_backup_is_a_memory_and_fills_a_new_one(self, seeded: str, tmp_path: Path) -> None:
        monday, restored = str(tmp_path / "monday"), str(tmp_path / "restored.graph")
        text = good("--url", seeded, "upkeep", "export", monday).out
        assert re.fullmatch(rf"path +{monday}\nbytes +\d+\nnodes +\d+\n", text)
        assert episodes(monday) == 30
        report = good("--url", restored, "--json", "upkeep", "import", monday).json
        assert (report["path"], episodes(restored)) == (restored, 30)
        assert complaint("--url", seeded, "upkeep", "export", monday, code=1)

    def test_a_sentinel_file_goes_in_and_comes_out(self, url: str, tmp_path: Path) -> None:
        (file := tmp_path / "agent_memory.json").write_text(json.dumps(self.FILE))
        import_ = ("--url", url, "upkeep", "import", "--format", "sentinel", str(file))
        text = good(*import_).out
        assert "kept           counter\n" in text
        assert "created        2\n" in text
        again = good("--json", *import_).json
        assert (again["created"], again["skipped"], again["kept"]) == (0, 2, ["counter"])

        good("--url", url, "learn", "t", "s", "--success")
        copy = tmp_path / "copy.json"
        export = ("--url", url, "upkeep", "export", "--format", "sentinel", str(copy))
        assert re.search(r"derived .*task_rules", good(*export).out)
        good(*export, "--document", "agent_memory")
        assert json.loads(copy.read_text()) == self.FILE

    def test_lines_go_out_and_come_in(self, seeded: str, tmp_path: Path) -> None:
        lines, other = tmp_path / "all.jsonl", str(tmp_path / "other.graph")
        with Memory.open(seeded) as memory:
            for _ in range(2):
                with memory.attempt("t", agent="ada") as attempt:
                    pass
        text = good("--url", seeded, "upkeep", "export", "--format", "jsonl", str(lines)).out
        assert "attempts without an outcome  2\n" in text
        import_ = ("--url", other, "upkeep", "import", "--format", "jsonl", str(lines))
        imported = good("--json", *import_).json
        assert (imported["created"], imported["abandoned"], episodes(other)) == (30, 2, 30)
        lines.write_text(re.sub('"success": ?true', '"success":false', lines.read_text()))
        done = run(*import_)
        assert done.code == 1
        assert "\nRefused\n" in done.out
        text = good("--url", seeded, "upkeep", "erase", str(attempt.episode_id), "--yes").out
        assert "attempts without an outcome  1\n" in text

    def test_of_a_wrong_file_nothing_is_learned(self, url: str, tmp_path: Path) -> None:
        wrong = '{"episode_log": [{"task_id": "t", "score": 2}]}'
        (file := tmp_path / "agent_memory.json").write_text(wrong)
        import_ = ("--url", url, "upkeep", "import", "--format", "sentinel", str(file))
        assert "episode_log.0.score" in complaint(*import_)
        assert not Path(url).exists() or episodes(url) == 0
