"""Every command, run as a person runs it: its output, its exit codes and its help."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from graphmem import Memory
from graphmem.cli.main import cli
from graphmem.store.queries import adhoc
from tests.cli.forking import CODE
from tests.cli.running import HUSH, good, run, start

# Every command on real input


def test_init_creates_a_memory_once(url: str) -> None:
    assert "is ready (schema version 6)" in good("--url", url, "init").out
    assert good("--url", url, "--json", "init").json == {"url": url, "schema_version": 6}


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
    assert "`graphmem tasks`" in good("--url", seeded, "strategies", "--task", "no such").out


def test_communities_and_pictures_of_the_graph(seeded: str, tmp_path: Path) -> None:
    good("--url", seeded, "learn", "t", "one way", "another way", "--success")
    assert "one way" in good("--url", seeded, "communities").out
    groups = good("--url", seeded, "--json", "communities").json
    assert {"one way", "another way"} in [set(group["strategies"]) for group in groups]
    assert run("--url", seeded, "communities", "--resolution", "0").code == 2
    export = ("--url", seeded, "upkeep", "export", "--format")
    report = good("--json", *export, "graphml", str(tmp_path / "x.graphml")).json
    assert report["nodes"] > 2
    near = ("--around", "one way", "--kind", "strategy", "--hops", "2")
    said = good(*export, "mermaid", str(tmp_path / "x.mmd"), *near).out
    assert said.startswith("2 nodes and 1 edge written to ")
    refused = run(*export, "mermaid", str(tmp_path / "x.mmd"), "--limit", "2")
    assert refused.code == 2
    assert "--around ITEM (an id or a text), --kind KIND or --limit NUMBER" in refused.err


def test_evidence_as_table_and_json(seeded: str) -> None:
    assert len(good("--url", seeded, "--json", "evidence", "ask first").json) == 5
    assert "agent 1" in good("--url", seeded, "evidence", "ask first", "--limit", "20").out
    assert "no episode" in good("--url", seeded, "evidence", "no such strategy").out


def test_episodes_tasks_and_what_has_an_id(seeded: str) -> None:
    table = good("--url", seeded, "episodes", "--failure", "--limit", "3").out
    assert "just do it" in table
    assert "no episode fits" in good("--url", seeded, "episodes", "--agent", "nobody").out
    rows = good("--url", seeded, "--json", "episodes", "--strategy", "ask first").json
    assert len(rows) == 20
    assert all("ask first" in row["strategies"] for row in rows)

    assert "best strategy" in good("--url", seeded, "tasks", "--sort", "worst").out
    assert "no task fits" in good("--url", seeded, "tasks", "--task-type", "none").out
    tasks = good("--url", seeded, "--json", "tasks").json
    assert sum(row["trials"] for row in tasks) == 30

    shown = good("--url", seeded, "show", rows[0]["id"][:12]).out
    assert shown.startswith(f"episode {rows[0]['id']}")
    assert "ask first" in shown
    assert "observation" in shown  # of its steps
    for columns, letters in (("120", 32), ("80", 12)):
        table = good("--url", seeded, "episodes", "--limit", "1", COLUMNS=columns).out
        assert f"{rows[0]['id'][:letters]} " in table  # in one piece
    strategy = good("--url", seeded, "--json", "strategies", "--limit", "1").json[0]
    assert (
        f"more: graphmem explain {strategy['id']}"
        in good("--url", seeded, "show", strategy["id"]).out
    )
    missing = run("--url", seeded, "show", "0" * 32)
    assert (missing.code, missing.out) == (2, "")
    assert "nothing in namespace" in missing.err
    assert "`graphmem explain` takes the text of a strategy" in missing.err
    assert "`graphmem strategies` lists" in good("--url", seeded, "evidence", "typo").out


def test_general_options_stand_before_or_after_a_command(seeded: str) -> None:
    before = good("--url", seeded, "--json", "strategies", "--limit", "1").json
    assert good("strategies", "--limit", "1", "--url", seeded, "--json").json == before
    inner = good("--url", seeded, "--json", "lessons", "heuristics").json
    assert good("lessons", "--url", seeded, "heuristics", "--json").json == inner
    own = good("stats", "--url", seeded, "--namespace", "default", "--json").json
    assert own["episodes"] == 30


def test_a_namespace_that_is_not_there_is_told_with_those_that_are(seeded: str) -> None:
    missing = run("--url", seeded, "--namespace", "typo", "strategies")
    assert (missing.code, missing.out) == (2, "")
    assert "no namespace 'typo' in this memory; there are: default" in missing.err
    good("--url", seeded, "--namespace", "airline", "learn", "a task", "a way", "--success")
    assert len(good("--url", seeded, "--namespace", "airline", "--json", "strategies").json) == 1
    assert "there are: airline, default" in run("--url", seeded, "--namespace", "x", "stats").err


def test_tables_are_as_wide_as_columns_says(seeded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = good("--url", seeded, "strategies").out.splitlines()
        assert max(map(len, lines)) <= width
        assert not [line for line in lines if line != line.rstrip()]
        assert width < 80 or "15 of 20" in "\n".join(lines)
        assert not [line for line in lines if "…" in line]


def test_no_command_is_answered_with_the_help_alone() -> None:
    for group in ((), ("lessons",)):
        ran = run(*group, COLUMNS="60")
        assert (ran.code, ran.out) == (2, "")
        assert ran.err.startswith(f"Usage: {' '.join(['graphmem', *group])} [OPTIONS]")
        assert "Error" not in ran.err
        assert "..." not in ran.err.partition("\n")[2]


def test_stats_as_table_and_json(seeded: str) -> None:
    found = good("--url", seeded, "--json", "stats").json
    assert (found["episodes"], found["steps"], found["strategies"]) == (30, 60, 3)
    assert found["url"] == seeded
    shown = good("--url", seeded, "stats").out
    assert "2026-01-01" in shown
    assert f"pairs used together   {found['co_occurrences']}\n" in shown


@pytest.mark.parametrize(
    ("arguments", "meant", "other"),
    [
        (("strategies", "--limt", "3"), "Did you mean '--limit'?", "--wait"),
        (("query", "outcoms"), "no query 'outcoms'; did you mean outcomes? there are agents, ", ""),
        (("query", "analysis.what_work"), "did you mean what_works", ""),
        (("query", "xyz"), "no query 'xyz'; there are agents, ", "did you mean"),
        (
            ("query", "outcomes"),
            "parameter task (string) is missing; in the shell --param task=",
            "",
        ),
        (("query",), "`graphmem procedures list --subject analysis`", "did you mean"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_misspelt_name_is_told_with_those_like_it(
    seeded: str, arguments: tuple[str, ...], meant: str, other: str
) -> None:
    ran = run("--url", seeded, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert meant in ran.err
    assert not other or other not in ran.err


def test_query_as_table_json_and_csv(seeded: str, tmp_path: Path) -> None:
    cypher = "MATCH (s:Strategy) WHERE s.ns = $ns AND s.trials >= $at_least RETURN s.text AS text, s.trials AS trials ORDER BY text"  # noqa: E501
    (file := tmp_path / "ask.cypher").write_text(cypher)
    expected = [{"text": text, "trials": 20} for text in ("ask first", "just do it", "look it up")]

    asked = ("query", "-e", cypher, "-p", "at_least=5")
    found = {"rows": expected, "truncated": False}
    assert good("--url", seeded, "--json", *asked).json == found
    assert "look it up" in good("--url", seeded, *asked).out
    rows = csv.DictReader(io.StringIO(good("--url", seeded, *asked, "--csv").out))
    assert [row["text"] for row in rows] == [row["text"] for row in expected]
    from_file = ("query", "--file", str(file), "-p", "at_least=5")
    assert good("--url", seeded, "--json", *from_file).json == found
    stdin = ("--json", "query", "--file", "-", "-p", "at_least=99")
    assert good("--url", seeded, *stdin, text=cypher).json["rows"] == []
    assert "no rows" in good("--url", seeded, "query", "-e", cypher, "-p", "at_least=99").out
    named = good("--url", seeded, "--json", "query", "what_works").json["rows"]
    assert [row["trials"] for row in named] == [20, 20, 20]


def test_verify_rebuild_and_erase(seeded: str) -> None:
    said = good("--url", seeded, "verify").out
    assert said.startswith("all numbers follow from the facts (30 episodes, 3 strategies, ")
    assert re.search(r"\d+ results of a strategy on a task, ", said)
    assert not re.search("outcome|tallies|recent,|similar[,)]", said)
    assert good("--url", seeded, "--json", "verify").json["ok"] is True
    assert "3 strategies" in good("--url", seeded, "upkeep", "rebuild").out
    assert good("--url", seeded, "--json", "upkeep", "rebuild").json["removed"] == 0

    [episode_id] = [
        row["id"] for row in good("--url", seeded, "--json", "evidence", "ask first").json[:1]
    ]
    refused = run("--url", seeded, "upkeep", "erase", episode_id)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert run("--url", seeded, "--json", "upkeep", "erase", episode_id).code == 2

    [report] = good("--url", seeded, "--json", "upkeep", "erase", episode_id, "--yes").json
    assert (report["episode_id"], report["steps"]) == (episode_id, 2)
    assert good("--url", seeded, "--json", "stats").json["episodes"] == 29
    assert good("--url", seeded, "verify").code == 0
    missing = run("--url", seeded, "upkeep", "erase", episode_id, "--yes")
    assert (missing.code, episode_id in missing.err) == (2, True)


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
"""Presses Ctrl-C when it has said how far it is."""


def test_verify_says_how_far_it_is_until_ctrl_c(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.graph")
    with Memory.open(url) as memory:
        memory.learn_many(
            {"task": f"t{n % 9}", "strategy": f"s{n % 7}", "success": True, "source_key": str(n)}
            for n in range(6_000)
        )
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PRESSING, "--url", url, "verify"], stdout=subprocess.PIPE, stderr=end
    )
    os.close(end)
    said = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while data := os.read(terminal, 4_096):
            said += data
    os.close(terminal)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert re.search(rb"verifying [\d,]+ of 30,000 facts.*stopped", said, re.DOTALL), said


def test_verify_exits_with_1_on_a_difference(seeded: str) -> None:
    import kglite

    session = kglite.open_session(f"{seeded}/graph.kgl", durable="normal")
    session.execute("MATCH (s:Strategy) WHERE s.text = 'ask first' SET s.successes = 1")
    session.close()
    Path(seeded, "graph.kgl-manifest").unlink()  # it is of the file before

    done = run("--url", seeded, "verify")
    assert done.code == 1
    assert "graphmem upkeep rebuild" in done.out
    report = run("--url", seeded, "--json", "verify")
    assert (report.code, report.json["ok"]) == (1, False)
    assert report.json["differences"][0]["field"] == "successes"
    good("--url", seeded, "upkeep", "rebuild")
    good("--url", seeded, "verify")


def test_verify_says_how_many_differences_it_does_not_show(tmp_path: Path) -> None:
    url = str(tmp_path / "runs.graph")
    with Memory.open(url) as memory:
        memory.learn_many(
            {"task": "t", "strategy": f"s{n}", "success": True, "source_key": str(n)}
            for n in range(130)
        )
        damage = "MATCH (s:Strategy) SET s.successes = 7, s.trials = 9"
        memory.store.transact(lambda tx: tx.run(adhoc(damage, "write")))
    done = run("--url", url, "verify")
    assert done.code == 1
    assert "260 differences (260 strategies)" in done.out
    assert "and 210 more" in done.out
    told = run("--url", url, "--json", "verify").json
    assert (len(told["differences"]), told["more"]) == (100, 160)
    assert told["differing"] == {"strategies": 260}


def test_demo_needs_nothing_but_itself(tmp_path: Path) -> None:
    few = ("demo", "--questions", "40")
    shown = good("--json", *few, GRAPHMEM_URL=str(tmp_path / "untouched.graph")).json
    assert shown["verified"] is True
    assert shown["seeded"]["created"] > 0
    assert shown["seeded"]["refused"] == 0
    assert all(shown["best"].values())
    picture = tmp_path / "curve.svg"
    table = good(*few, "--plot", str(picture)).out
    best = next(iter(shown["best"].values()))[0]
    assert best["text"][:20] in table
    assert f"{best['successes']} of {best['trials']}" in table

    agents = shown["learned"]["agents"]
    assert {len(one["right"]) for one in agents.values()} == {40}
    assert agents["fixed"]["rate"] <= agents["ceiling"]["rate"]
    for one in agents.values():
        assert f"{one['last_third']:>14.0%} {one['rate']:>5.0%}" in table
    assert "It now chooses for" in table
    assert "right among the latest" in picture.read_text(encoding="utf-8")
    assert list(tmp_path.iterdir()) == [picture]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--questions", "0"), "'--questions'"),
        (("--plot", "x.gif"), "give a name that ends in .png or .svg"),
    ],
)
def test_demo_refuses_before_it_works(arguments: tuple[str, ...], said: str) -> None:
    refused = run("demo", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


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


# Exit codes


@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("--no-such-option", "stats"),
        ("learn", "only a task"),
        ("seed",),
        ("upkeep", "erase", "--yes"),
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


def test_a_traceback_is_shown_with_debug_only(seeded: str) -> None:
    process = start("--debug", "--url", seeded, "query", "-e", "MATCH (n RETURN n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" in err


# Help


def commands(group: click.Group = cli, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


COMMANDS = dict(commands())


def test_every_verb_and_part_of_a_memory_is_a_command() -> None:
    with Memory.open("memory:") as memory:
        parts = {name for name in vars(memory) if not name.startswith("_")}
    verbs = {name for name in dir(Memory) if not name.startswith("_")}
    python_alone = {
        "open",
        "close",
        "learn_many",
        "record_episode",
        *("attempt", "current_attempt", "remember", "watch"),  # they are about code
        "to_networkx",  # its twin is `upkeep export`
        "store",
        "namespace",
        "settings",
    }
    assert (verbs | parts) - python_alone <= {path[0] for path in COMMANDS}


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
