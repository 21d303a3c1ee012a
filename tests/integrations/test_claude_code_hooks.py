"""The commands hooks: what they write into settings of Claude Code, and that they never fail."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from graphmem.errors import StorageError
from graphmem.integrations.claude_code import TIMEOUTS, with_hooks, write
from tests.cli.running import Done, complaint, good, run
from tests.faults.learner import environment, holding
from tests.integrations.claude_code_session import Session, fixing

COMMAND = "graphmem --url ./runs.graph hooks run claude-code"
INSTALL = ("hooks", "install", "claude-code")
UNINSTALL = ("hooks", "uninstall", "claude-code")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    return folder


def commands(file: Path) -> dict[str, list[str]]:
    hooks = json.loads(file.read_text(encoding="utf-8")).get("hooks", {})
    return {
        event: [hook["command"] for group in groups for hook in group["hooks"]]
        for event, groups in hooks.items()
    }


# Files of settings


def test_what_is_written_is_shown_first_and_can_be_undone(project: Path) -> None:
    file = project / ".claude" / "settings.json"
    shown = good(*INSTALL, "--dry-run", "--test-command", "uv run pytest").out
    assert "+" in shown
    assert not file.exists()

    assert run(*INSTALL).code == 2
    assert "confirm with --yes" in run(*INSTALL).err
    assert not file.exists()

    good("--url", "./runs.graph", *INSTALL, "--yes", "--test-command", "uv run pytest")
    wanted = f"{COMMAND} --test-command 'uv run pytest'"
    assert commands(file) == {"UserPromptSubmit": [wanted], "SessionEnd": [wanted]}
    again = good("--url", "./runs.graph", *INSTALL, "--test-command", "uv run pytest")
    assert "stays as it is" in again.out

    changed = good("--namespace", "team", "--json", *INSTALL, "--yes", "--agent", "ada").json
    assert (changed["file"], changed["changed"]) == (str(file), True)
    other = "graphmem --namespace team hooks run claude-code --agent ada"
    assert commands(file) == {"UserPromptSubmit": [other], "SessionEnd": [other]}

    good(*UNINSTALL, "--yes")
    assert json.loads(file.read_text()) == {}
    assert "stays as it is" in good(*UNINSTALL).out


def test_settings_of_the_user_name_whole_paths(project: Path, tmp_path: Path) -> None:
    good("--url", "./runs.graph", *INSTALL, "--user", "--yes")
    [command] = commands(tmp_path / "home" / ".claude" / "settings.json")["SessionEnd"]
    words = shlex.split(command)
    assert Path(words[0]).is_absolute()
    assert words[words.index("--url") + 1] == str(project / "runs.graph")
    good(*INSTALL, "--local", "--yes")
    assert "SessionEnd" in commands(project / ".claude" / "settings.local.json")
    good(*INSTALL, "--user", "--yes", CLAUDE_CONFIG_DIR=str(tmp_path / "own"))
    assert (tmp_path / "own" / "settings.json").exists()
    assert not (project / ".claude" / "settings.json").exists()


@pytest.mark.parametrize(("arguments", "said"), [
    ((*INSTALL, "--outcome", "stated", "--test-command", "pytest"), "not both"),
    ((*INSTALL, "--outcome", "nobody"), "no evaluator 'nobody'"),
    ((*INSTALL, "--test-command", "'"), "--test-command"),
    ((*INSTALL, "--test-command", " "), "--test-command is empty"),
    ((*INSTALL, "--user", "--local"), "not both"), (("--url", "memory:", *INSTALL), "forgets all"),
    (("--url", "neo4j://ann:hush@h:7687", *INSTALL), "set GRAPHMEM_USER"),
    (("hooks", "install", "vi"), "claude-code"),
])  # fmt: skip
def test_what_cannot_work_is_not_written(
    project: Path, arguments: tuple[str, ...], said: str
) -> None:
    told = complaint(*arguments, "--yes")
    assert said in told
    assert "hush" not in told
    assert not (project / ".claude").exists()


@pytest.mark.parametrize(("text", "said"), [
    ('{"a": 1,}', "is not JSON"), ('{\n  // mine\n  "a": 1\n}', "line 2"),
    ("[]", "is not an object"), ('{"hooks": []}', "in hooks"),
    ('{"hooks": {"SessionEnd": {}}}', "in hooks.SessionEnd"), ("[" * 100_000, "is not JSON"),
    (b"\xff\xfe{", "is not UTF-8"),
])  # fmt: skip
@pytest.mark.parametrize("command", [INSTALL, UNINSTALL])
def test_a_damaged_file_is_told_and_left(
    project: Path, command: tuple[str, ...], text: str | bytes, said: str
) -> None:
    file = project / ".claude" / "settings.json"
    file.parent.mkdir()
    before = text if isinstance(text, bytes) else text.encode()
    file.write_bytes(before)
    told = complaint(*command, "--yes")
    assert said in told
    assert str(file) in told
    assert file.read_bytes() == before


def test_only_hooks_of_graphmem_are_taken_out(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    ours = {"type": "command", "command": f"/opt/bin/{COMMAND}"}
    theirs = {"type": "command", "command": "say 'graphmem hooks are good'"}
    broken = {"type": "command", "command": "say 'graphmem hooks run claude-code"}
    end = [{"matcher": "clear", "hooks": [broken]}, {"hooks": "none"}]
    mixed = [{"hooks": [ours, theirs, ours]}, {"hooks": [ours]}, 5]
    before = {"UserPromptSubmit": mixed, "SessionEnd": end, "Stop": [{"hooks": [ours]}], "Other": 7}
    file.write_text(json.dumps({"hooks": before}, indent=1))
    write(file, *with_hooks(file, None))
    after = {"UserPromptSubmit": [{"hooks": [theirs]}, 5], "SessionEnd": end, "Other": 7}
    assert json.loads(file.read_text()) == {"hooks": after}


def test_a_file_that_changes_meanwhile_is_left(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    change = with_hooks(file, COMMAND)
    file.write_text('{"mine": 1}')
    with pytest.raises(StorageError, match="changed meanwhile"):
        write(file, *change)
    assert file.read_text() == '{"mine": 1}'


@pytest.mark.parametrize("indent", [None, 1, 4, "\t"])
@pytest.mark.parametrize(("newline", "end"), [("\n", "\n"), ("\r\n", "")])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_everything_else_stays_byte_for_byte(
    tmp_path: Path, indent: int | str | None, newline: str, end: str, ascii_only: bool
) -> None:
    theirs = [{"hooks": [{"type": "command", "command": "say é"}]}]
    for found in (
        {},
        {"b": [1, {"a": None}], "a": 'a"\\{}[],: \u2028'},
        {"z": 1, "hooks": {"Stop": theirs, "SessionEnd": theirs}, "a": "é"},
    ):
        file = tmp_path / "settings.json"
        text = json.dumps(found, indent=indent, ensure_ascii=ascii_only) + end
        before = text.replace("\n", newline).encode()
        file.write_bytes(before)
        write(file, *with_hooks(file, COMMAND))
        hooks = dict(found.get("hooks", {}))  # type: ignore[call-overload]
        for event, seconds in TIMEOUTS.items():
            hook = {"type": "command", "command": COMMAND, "timeout": seconds}
            hooks[event] = [*hooks.get(event, []), {"hooks": [hook]}]
        assert json.loads(file.read_text(encoding="utf-8")) == {**found, "hooks": hooks}
        assert with_hooks(file, COMMAND)[1].encode() == file.read_bytes()
        write(file, *with_hooks(file, None))
        assert file.read_bytes() == before


# What the hooks run


def hook(given: dict[str, Any] | str, *options: str, url: str = "runs.graph", **env: str) -> Done:
    text = given if isinstance(given, str) else json.dumps(given)
    done = run("--url", url, "hooks", "run", "claude-code", *options, text=text, **env)
    assert done.code == 0
    return done


def test_a_session_from_its_first_prompt_to_its_end(project: Path, tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl")
    away = {"CLAUDE_PROJECT_DIR": str(project)}
    os.chdir(tmp_path)  # Claude Code runs hooks in any folder
    first = hook(session.asked("fix the failing date test"), **away)
    assert (first.out, first.err, list(project.iterdir())) == ("", "", [])
    fixing(session)
    ended = hook(session.ended(), "--test-command", "pytest", **away)
    assert (ended.out, ended.err) == (
        "2 prompts learned, 0 known already, 1 without an outcome\n",
        "",
    )
    assert [path.name for path in project.iterdir()] == ["runs.graph"]
    asked = hook(session.asked("fix the failing date test"), **away)
    assert "mean score 1.00" in asked.json["hookSpecificOutput"]["additionalContext"]
    near = hook(session.asked("graphmem: sucess"), **away)
    assert "'sucess' is no outcome" in near.json["systemMessage"]


def test_the_file_of_settings_of_the_project_holds(project: Path, tmp_path: Path) -> None:
    (project / "graphmem.toml").write_text('url = "kept.graph"\n')
    session = Session(tmp_path / "s.jsonl")
    fixing(session)
    os.chdir(tmp_path)
    given = session.ended() | {"cwd": str(project)}
    good("hooks", "run", "claude-code", text=json.dumps(given))
    assert (project / "kept.graph").exists()


@pytest.mark.parametrize("text", [
    *("", "{", "[]", "{}", "[" * 100_000, "\0", '{"hook_event_name": "Stop"}'),
    '{"hook_event_name": "UserPromptSubmit", "prompt": 5}',
    '{"hook_event_name": "SessionEnd", "session_id": "s", "transcript_path": " "}',
])  # fmt: skip
def test_no_input_stops_a_session(project: Path, text: str) -> None:
    done = hook(text)
    assert done.out == ""
    assert done.err.startswith("graphmem: ")
    assert len(done.err.splitlines()) == 1


def test_nothing_stops_a_session(project: Path, tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl")
    fixing(session)
    prompt, ended = session.asked("fix the failing date test"), session.ended()
    closed = {"url": "bolt://127.0.0.1:1", "GRAPHMEM_PASSWORD": "hush"}
    answers = {
        "No such file": hook(ended | {"transcript_path": "/nowhere.jsonl"}),
        "unknown scheme": hook(prompt, url="http://h"),
        "no password": hook(prompt, url="neo4j://127.0.0.1:1"),
        "cannot be reached": hook(prompt, **closed),
        "GRAPHMEM_Z": hook(prompt, GRAPHMEM_Z="-1"),
        "No such option": hook(prompt, "--no-such-option"),
        "no evaluator": hook(ended, "--outcome", "nobody"),
        "'x' is not a valid float": run("--wait", "x", "hooks", "run", "claude-code"),
    }
    for said, done in answers.items():
        assert (done.code, done.out) == (0, ""), said
        assert said in done.err
    assert run("hooks", "run").code == 2  # that is no hook


def test_a_memory_that_another_process_writes(project: Path, tmp_path: Path) -> None:
    session = Session(tmp_path / "s.jsonl")
    fixing(session)
    waiting = {"GRAPHMEM_WAIT": "0.1"}
    url = str(project / "runs.graph")
    with holding(environment(url)) as holder:
        ended = hook(session.ended(), "--test-command", "pytest", url=url, **waiting)
        assert ended.out == ""
        assert "writes this memory" in ended.err
        assert len(ended.err.splitlines()) == 1
        asked = hook(session.asked("task 3"), url=url, **waiting)
        assert "just do it" in asked.json["hookSpecificOutput"]["additionalContext"]
        holder.let_go()
        holder.finish()
    later = hook(session.ended(), "--test-command", "pytest", url=url)
    assert later.out.startswith("2 prompts learned")
