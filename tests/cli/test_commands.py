"""What all commands share: options, help, exit codes, names, tables; and those of the first day."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterator
from inspect import cleandoc
from operator import attrgetter
from pathlib import Path

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphmem import Memory
from graphmem.cli.learning import logs
from graphmem.cli.main import _NOW, cli
from graphmem.cli.printing import print_table
from graphmem.store.port import SCHEMA_VERSION
from tests.cli.running import complaint, good, run, start

# The first day


def test_init_creates_a_memory_once(url: str) -> None:
    assert f"is ready (schema version {SCHEMA_VERSION})" in good("--url", url, "init").out
    told = good("--url", url, "--json", "init").json
    assert told == {"url": url, "schema_version": SCHEMA_VERSION}


def test_learn_and_learn_again(url: str) -> None:
    command = ("learn", "refund a flight", "ask first", "refund", "--success", "--agent", "anna",
               "--started-at", "2026-05-01T10:00:00Z", "--source-key", "run/1")  # fmt: skip
    assert "learned episode" in good("--url", url, *command).out
    assert "known already" in good("--url", url, *command).out
    again = good("--url", url, "--json", *command).json
    assert again["created"] is False
    [row] = good("--url", url, "--json", "list", "episodes", "--strategy", "refund").json
    assert (row["id"], row["agent"], row["success"]) == (again["episode_id"], "anna", True)


def test_settle_an_outcome_that_comes_later(url: str) -> None:
    good("--url", url, "learn", "refund a flight", "refund", "--success", "--source-key", "run/1")
    told = ("settle", "run/1", "--failure", "--error", "charged twice")
    settled = good("--url", url, "--json", *told).json
    assert (settled["changed"], settled["former"][0]["success"]) == (True, True)
    assert "known already" in good("--url", url, *told).out
    [row] = good("--url", url, "--json", "list", "episodes").json
    assert (row["success"], row["error"]) == (False, "charged twice")
    assert "run/2" in complaint("--url", url, "settle", "run/2", "--success")
    undecided = complaint("--url", url, "settle", "run/1")
    assert "success: the outcome is unknown" in undecided


def test_demo_needs_nothing_but_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one of its logs: it is run twice."""
    monkeypatch.setattr("graphmem.cli.learning.logs", lambda: logs()[-1:])
    few = ("demo", "--questions", "12")
    shown = good("--json", *few, GRAPHMEM_URL=str(tmp_path / "untouched.graph")).json
    assert shown["verified"] is True
    assert shown["seeded"]["created"] > 0
    assert shown["seeded"]["refused"] == 0
    assert all(shown["best"].values())
    table = good(*few).out
    best = next(iter(shown["best"].values()))[0]
    assert best["text"][:20] in table
    assert f"{best['successes']} of {best['trials']}" in table

    agents = shown["learned"]["agents"]
    assert {len(one["right"]) for one in agents.values()} == {12}
    assert agents["fixed"]["rate"] <= agents["ceiling"]["rate"]
    for one in agents.values():
        assert f"{one['last_third']:.0%}" in table
    assert "It now chooses for" in table
    assert list(tmp_path.iterdir()) == []


def test_query_as_table_json_and_csv(seeded: str) -> None:
    cypher = (
        "MATCH (s:Strategy) WHERE s.ns = $ns AND s.trials >= $at_least "
        "RETURN s.text AS text, s.trials AS trials ORDER BY text"
    )
    expected = [{"text": text, "trials": 20} for text in ("ask first", "just do it", "look it up")]

    query = ("query", "-e", cypher, "-p", "at_least=5")
    found = {"rows": expected, "truncated": False}
    assert good("--url", seeded, "--json", *query).json == found
    assert "look it up" in good("--url", seeded, *query).out
    rows = csv.DictReader(io.StringIO(good("--url", seeded, *query, "--csv").out))
    assert [row["text"] for row in rows] == [row["text"] for row in expected]
    assert "no rows" in good("--url", seeded, "query", "-e", cypher, "-p", "at_least=99").out
    named = good("--url", seeded, "--json", "query", "what_works").json["rows"]
    assert [row["trials"] for row in named] == [20, 20, 20]


def test_procedures_are_listed_and_printed(url: str) -> None:
    rows = good("--json", "procedures", "list").json
    assert "learning.best" in [row["name"] for row in rows]
    assert "analysis.what_works" in good("procedures", "list", "--subject", "analysis").out
    assert "MATCH (s:Strategy)" in good("procedures", "list", "learning.best").out
    assert good("--json", "procedures", "list", "learning.best").json["mode"] == "read"


# General options


def test_general_options_stand_before_or_after_a_command(seeded: str) -> None:
    before = good("--url", seeded, "--json", "list", "strategies", "--limit", "1").json
    assert good("list", "strategies", "--limit", "1", "--url", seeded, "--json").json == before
    inner = good("--url", seeded, "--json", "policies", "crystallize").json
    assert good("policies", "--url", seeded, "crystallize", "--json").json == inner


def test_a_missing_namespace_is_named_with_those_that_are_there(seeded: str) -> None:
    missing = complaint("--url", seeded, "--namespace", "typo", "list")
    assert "no namespace 'typo' in this memory; there are: default" in missing
    airline = ("--url", seeded, "--namespace", "airline")
    good(*airline, "learn", "a task", "a way", "--success")
    assert good(*airline, "--json", "list").json["strategies"] == 1
    assert "there are: airline, default" in run("--url", seeded, "--namespace", "x", "list").err


# Exit codes


def test_a_traceback_is_shown_with_debug_only(seeded: str) -> None:
    process = start("--debug", "--url", seeded, "query", "-e", "MATCH (n RETURN n")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"Traceback" in err


# Names and help


def walk(group: click.Group, path: str = "graphmem") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands in a group, by their names."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from walk(command, f"{path} {name}")


COMMANDS = {
    tuple(path.split()[1:]): command
    for path, command in walk(cli)
    if not isinstance(command, click.Group)
}


def test_there_are_few_commands() -> None:
    assert len(cli.commands) <= 28
    assert len(COMMANDS) <= 52


@pytest.mark.parametrize("old", _NOW)
def test_an_old_name_says_what_to_type_now(old: str) -> None:
    told = complaint(*old.split(), "--limit", "3")
    [now] = re.findall(rf"`graphmem {old}` is now `([\w. -]+)", told)
    if now.startswith("memory."):
        with Memory.open("memory:") as memory:
            assert callable(attrgetter(now.removeprefix("memory."))(memory))
        return
    words = now.removeprefix("graphmem ").split()
    assert {tuple(words[:1]), tuple(words[:2])} & COMMANDS.keys(), now


def test_no_command_is_answered_with_the_help_alone() -> None:
    for group in ((), ("lessons",)):
        told = complaint(*group, COLUMNS="60")
        assert told.startswith(f"Usage: {' '.join(['graphmem', *group])} [OPTIONS]")
        assert "Error" not in told
        assert "..." not in told.partition("\n")[2]


def examples(path: tuple[str, ...]) -> list[list[str]]:
    """The arguments of the command lines under "Example:" in the help of a command."""
    _, _, text = cleandoc(COMMANDS[path].help or "").partition("\n\b\nExample")
    joined = text.partition(":")[2].replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if "graphmem" in line]
    return [shlex.split(re.split(" [<>] ", line.partition("graphmem ")[2])[0]) for line in lines]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_is_explained_and_has_an_example_that_parses(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.get_short_help_str()
    for parameter in command.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name
    text = good(*path, "--help").out
    assert "Usage: graphmem" in text
    assert max(map(len, text.splitlines())) <= 100
    assert examples(path)
    for words in examples(path):
        context = cli.make_context("graphmem", list(words))
        group: click.Group = cli
        rest = [*context._protected_args, *context.args]
        for name in path:
            found, inner, rest = group.resolve_command(context, rest)
            assert (found, inner) == (name, group.commands[name])
            if isinstance(inner, click.Group):
                group = inner
            else:
                group.commands[name].make_context(name, rest, parent=context)


def test_every_part_of_a_memory_is_a_group_or_within_one(unstored: Memory) -> None:
    parts = {name for name in vars(unstored) if not name.startswith("_")}
    within = {"scopes", "predictions", "cycles", "store", "namespace", "settings"}
    assert parts - within <= cli.commands.keys()


HEADS = ("episode", "task", "worked", "95 % bounds", "best strategy", "last used")
ROWS = [
    ("0123456789abcdef" * 2, "You are yara_garcia_1905 and want to [b]change[/b] a flight",
     "4 of 4", "0.51 to 1.00", "update_reservation_passengers", ""),
    ("fedcba9876543210" * 2, "You are Sophia Silva", "91 of 94", "0.91 to 0.99", "none", ""),
]  # fmt: skip


@pytest.mark.parametrize("width", range(40, 200, 8))
def test_names_and_numbers_stay_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(HEADS, ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    for piece in ("0123456789ab", "91 of 94", "0.51 to 1.00", "[b]change[/b]", "none"):
        assert piece in "\n".join(lines)
    assert ("update_reservation_passengers" in "\n".join(lines)) is (width > 44)
    assert ("─" in "".join(lines)) is (width >= 100)
    assert ("0123456789abcdef" * 2 in "\n".join(lines)) is (width >= 120)


CELLS = st.text(st.characters(exclude_categories=["C", "Z"]) | st.sampled_from(" _"), max_size=60)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4), width=st.integers(16, 200))
def test_nothing_is_lost_in_any_width(
    rows: list[tuple[str, ...]],
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_table(("one", "another", "last"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert not [line for line in lines if line != line.rstrip()]
    shown = re.sub(r"[ ─]", "", "".join(lines))
    for char in "".join(map("".join, rows)).replace(" ", "").replace("─", ""):
        assert char in shown
