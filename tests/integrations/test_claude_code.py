"""Hooks of Claude Code: what they give a session, and what they learn from its transcript."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.integrations import claude_code
from graphmem.integrations.claude_code import (
    Call,
    Terms,
    Work,
    answer,
    last_run,
    learn_session,
    parse_statement,
    task_of,
    without_statement,
    works,
)
from graphmem.integrations.outcomes import Run, judge_of
from tests.integrations.claude_code_session import BEGIN, SESSION, Session, fixing

PYTEST = Terms(test_command="pytest")


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path / f"{SESSION}.jsonl")


def counts(memory: Memory) -> dict[str, tuple[int, int]]:
    return {row.text: (row.successes, row.trials) for row in memory.strategies(limit=50)}


def unjudged(memory: Memory) -> list[str]:
    return sorted(row["task"] for row in memory.query("attempts.abandoned"))


# What a session teaches


def test_the_last_run_of_the_test_command_says_the_outcome(
    memory: Memory, session: Session
) -> None:
    fixing(session)
    learned = learn_session(memory, session.ended(), PYTEST)
    assert (learned.learned, learned.unjudged, learned.problems) == (2, 1, [])
    assert counts(memory) == {
        "Read > Bash > Edit": (1, 1), "Read": (1, 1), "Edit": (1, 1), "Bash": (1, 2),
    }  # fmt: skip
    assert unjudged(memory) == ["explain what it does"]
    assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}  # no prompt waits for that

    [evidence] = memory.episodes(strategy="Read > Bash > Edit")
    assert (evidence.task, evidence.agent) == ("fix the failing date test", "claude-code")
    assert evidence.at is not None
    assert 0 < (evidence.at - BEGIN).total_seconds() < 20
    steps = memory.query(
        "MATCH (e:Episode {id: $id})-[:HAS_STEP]->(s) WHERE toString(e.ns) = $ns "
        "RETURN s.action_type AS tool, s.error AS error, s.observation AS seen ORDER BY s.index",
        id=evidence.id,
    )
    assert [(row["tool"], row["seen"], row["error"]) for row in steps] == [
        ("Read", "def parse(text): ...", None), ("Bash", None, "Exit code 1\n1 failed"),
        ("Edit", "ok", None), ("Bash", "12 passed", None),
    ]  # fmt: skip

    again = learn_session(memory, session.ended(), PYTEST)
    assert (again.learned, again.known, again.unjudged, memory.stats().episodes) == (0, 2, 1, 2)
    assert unjudged(memory) == ["explain what it does"]

    # The session is taken up again, and the user says how it went.
    session.prompt("graphmem: success\nnow sort the imports")
    session.calls("Edit", {"file_path": "days.py"})
    session.prompt("graphmem: 0.25")
    session.says("Noted.")
    later = learn_session(memory, session.ended(), PYTEST)
    assert (later.learned, later.known, later.unjudged, later.problems) == (2, 2, 0, [])
    assert (unjudged(memory), counts(memory)["no tools"]) == ([], (1, 1))
    assert counts(memory)["Edit"] == (1, 2)
    assert memory.episodes(strategy="Edit")[0].task == "now sort the imports"
    assert memory.verify().ok


def test_the_prompt_gets_what_is_known_of_it(memory: Memory, session: Session) -> None:
    asked = session.asked("fix the failing date test")
    assert answer(asked, PYTEST, lambda _: memory) is None  # nothing is known
    for number in range(4):
        again = Session(session.path.with_name(f"{number}.jsonl"), f"session-{number}")
        fixing(again)
        learn_session(memory, again.ended(), PYTEST)
    said = answer(asked, PYTEST, lambda _: memory)
    assert isinstance(said, dict)
    assert said["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    text = said["hookSpecificOutput"]["additionalContext"]
    assert "mean score 1.00 (4 episodes)" in text
    assert ": Bash" not in text  # each run used it, which is no advice
    short = answer(asked, Terms(max_tokens=1), lambda _: memory)
    assert short is None


def test_without_a_statement_nothing_is_counted(unstored: Memory, session: Session) -> None:
    fixing(session)  # its last command worked, and nothing else says anything
    learned = learn_session(unstored, session.ended(), Terms())
    assert (learned.learned, learned.unjudged, unstored.stats().episodes) == (0, 3, 0)
    assert counts(unstored) == {}


def test_an_evaluator_says_the_outcome_unless_the_user_does(
    unstored: Memory, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixing(session)
    session.prompt("graphmem: failure")
    seen: list[Run] = []

    def short(run: Run) -> float | None:
        seen.append(run)
        return 0.75 if len(run.steps) < 3 else None

    monkeypatch.setattr("graphmem.integrations.claude_code.judge_of", lambda _: judge_of(short))
    learned = learn_session(unstored, session.ended(), Terms(outcome="short", agent="ada"))
    assert (learned.learned, learned.unjudged, counts(unstored)["Bash"]) == (2, 1, (1, 1))
    assert counts(unstored)["no tools"] == (0, 1)  # the user said failure
    assert unstored.episodes(strategy="Bash")[0].agent == "ada"
    assert [run.task for run in seen] == ["fix the failing date test", "rename the module to days"]
    assert (seen[0].answer, seen[0].metadata["gitBranch"]) == ("The test passes now.", "main")


def test_an_evaluator_that_fails_says_nothing(
    unstored: Memory, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixing(session)

    def broken(run: Run) -> Any:
        if "rename" in run.task:
            raise OSError("no judge")
        return "good" if "explain" in run.task else 1.0

    judge = judge_of(broken)
    monkeypatch.setattr("graphmem.integrations.claude_code.judge_of", lambda _: judge)
    learned = learn_session(unstored, session.ended(), Terms(outcome="broken"))
    assert (learned.learned, learned.unjudged) == (1, 1)
    assert learned.problems[0] == "prompt 2: the evaluator raised OSError: no judge"
    assert learned.problems[1].startswith("prompt 3: outcome: must be True, False")


def test_texts_are_shortened_and_made_whole(unstored: Memory, session: Session) -> None:
    session.prompt("read \ud83d it" + " all" * 3_000 + " why?")
    session.calls("Read", {"file_path": "x", "deep": ["\udc00"]}, "long " * 2_000)
    session.calls("Write", {"content": "w" * 9_000, "many": ["m" * 30_000]}, [{"text": "done"}])
    session.prompt("graphmem: success")
    learned = learn_session(unstored, session.ended(), Terms())
    assert (learned.learned, learned.problems) == (1, [])
    [task] = unstored.query("MATCH (t:Task) WHERE toString(t.ns) = $ns RETURN t.description AS d")
    assert len(task["d"]) <= 2_000
    assert task["d"].endswith(" all why?")
    steps = unstored.query(
        "MATCH (s:Step) WHERE toString(s.ns) = $ns "
        "RETURN s.action AS a, s.observation AS o ORDER BY s.index"
    )
    assert all(len(str(value)) < 11_000 for row in steps for value in row.values())
    assert steps[0]["o"].endswith("more characters)")
    assert steps[1]["o"] == "done"


# What is a prompt


def prompts(session: Session) -> list[str]:
    with session.path.open("rb") as lines:
        return [work.prompt for work in works(lines, [])]


def test_what_others_put_into_a_transcript_is_no_prompt(session: Session) -> None:
    session.prompt("one")
    session.says("yes")
    session.prompt("a hint", isMeta=True)
    session.prompt("what was said", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    session.prompt("look here", origin={"kind": "task-notification"})
    session.prompt("a scheduled event", promptSource="system")
    session.prompt("of a subagent", isSidechain=True)
    session.says("in a subagent", isSidechain=True)
    session.prompt("<bash-input>ls</bash-input>")
    session.prompt("<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>")
    session.prompt("<local-command-stdout>Set model</local-command-stdout>")
    session.prompt([{"type": "text", "text": "[Request interrupted by user]"}])
    session.line("system", None, subtype="compact_boundary", content="Conversation compacted")
    session.line("attachment", None, attachment={"type": "date_change"})
    session.prompt([
        {"type": "text", "text": "<ide_opened_file>The user opened x</ide_opened_file>"},
        {"type": "text", "text": "two"},
        {"type": "image", "source": {"type": "base64", "data": "AA=="}},
    ])  # fmt: skip
    session.prompt("<command-name>/deploy</command-name>\n<command-args>staging</command-args>")
    session.prompt("<system-reminder>be kind</system-reminder>three")
    assert prompts(session) == ["one", "two", "/deploy staging", "three"]


def test_damaged_lines_are_told(unstored: Memory, session: Session) -> None:
    fixing(session)
    with session.path.open("a") as file:
        file.write('[1]\n\n{"type": "user", "message"\n' + "[" * 100_000 + "\n")
        file.write('{"type": "user"}\n{"type": "user", "message": {"content": 5}}\n')
        file.write('{"type": "assistant", "message": {"content": [5, {"type": "tool_use"}]}}\n')
        file.write('{"type": "user", "timestamp": "soon", "message": {"content": "undated"}}\n')
        file.write('{"type": "assistant", "message": {"model": 5, "content": null}}\n')
    learned = learn_session(unstored, session.ended(), PYTEST)
    assert (learned.learned, learned.unjudged, len(learned.problems)) == (2, 1, 2)
    assert learned.problems[0].startswith("prompt 4: started_at")
    assert "3 lines" in learned.problems[1]


def test_what_was_not_replied_to_is_no_task(unstored: Memory, session: Session) -> None:
    session.prompt("/clear")
    session.prompt("do it")
    session.says("done")
    session.prompt("and this")
    session.prompt("graphmem: success")
    learn_session(unstored, session.ended(), Terms())
    [row] = unstored.episodes(strategy="no tools")
    assert (row.task, row.success) == ("do it", True)


# What states an outcome


@pytest.mark.parametrize(("prompt", "task", "said"), [
    ("graphmem: success", "", True), ("  GraphMem:  Failure \n", "", False),
    ("graphmem: 0.5", "", 0.5), ("graphmem: failure\nthen do this", "then do this", False),
    ("graphmem: sucess", "", None), ("graphmem: 7", "", None),
    ("use graphmem: success", "use graphmem: success", None),
    ("graphmem: it is a success", "graphmem: it is a success", None),
])  # fmt: skip
def test_a_line_of_a_prompt_states_the_outcome(prompt: str, task: str, said: object) -> None:
    assert task_of(prompt) == task
    assert repr(parse_statement(without_statement(prompt)[1])) == repr(said)


def ran(*commands: tuple[str, int | str]) -> Work:
    def call(command: str, code: int | str) -> Call:
        said = f"Exit code {code}" if isinstance(code, int) and code else str(code)
        return Call("Bash", {"command": command}, said, failed=code != 0)

    return Work(1, "t", {}, None, None, [call(*command) for command in commands])


@pytest.mark.parametrize(("command", "code", "how"), [
    ("pytest", 0, True), ("cd app && pytest", 1, False),
    ("cd app\nCI=1 pytest > out.txt 2>&1", 2, False), ("pytest \\\n  -q", 0, True),
    ("pytest # all of them", 0, True), ("(cd app && pytest)", 0, True),
    # It is not said how it ended.
    ("make && pytest", 1, None), ("pytest | tail -5", 0, None), ("pytest || true", 0, None),
    ("pytest; echo done", 0, None), ("pytest &", 0, None), ("! pytest", 0, None),
    ("pytest", "The user doesn't want to proceed with this tool use.", None), ("pytest", 127, None),
    # It is another command.
    ("echo pytest", 0, None), ("pytest-watch", 0, None),
])  # fmt: skip
def test_a_run_of_the_test_counts_where_its_exit_tells(
    command: str, code: int | str, how: bool | None
) -> None:
    told = last_run(ran((command, code)), "pytest")
    assert (None if isinstance(told, str) else told) is how


def test_the_last_run_of_the_test_counts(session: Session) -> None:
    assert last_run(ran(("pytest", 1), ("pytest", 0), ("ls", 0)), "pytest") is True
    assert last_run(ran(("pytest", 0), ("pytest", 1)), "pytest") is False
    hidden = last_run(ran(("pytest", 0), ("pytest | tail", 0)), "pytest")
    assert hidden == "the line with 'pytest' does not end as the command does"
    assert last_run(ran(("uv run pytest -x", 0)), "uv run pytest") is True
    assert last_run(ran(), "pytest") is None
    for more in (  # it was stopped, goes on, or its failing is no error
        {"stdout": "1c1", "interrupted": False},
        {"stdout": "", "returnCodeInterpretation": "No matches found"},
        {"stdout": "", "interrupted": True},
        {"backgroundTaskId": "b1"},
    ):
        session.prompt("test it")
        session.calls("Bash", {"command": "pytest"}, "", more=more)
    session.prompt("test it")
    session.runs("pytest", toolDenialKind="user-rejected")
    with session.path.open("rb") as lines:
        told = [last_run(work, "pytest") for work in works(lines, [])]
    assert told == [True, *["'pytest' was stopped, or goes on"] * 4]


def test_a_test_that_fails_without_an_exit_code_is_told(unstored: Memory, session: Session) -> None:
    session.prompt("test it")
    session.calls("Bash", {"command": "pytest"}, "the tool failed", error=True)
    learned = learn_session(unstored, session.ended(), PYTEST)
    assert (learned.learned, learned.unjudged) == (0, 1)
    [problem] = learned.problems
    assert problem.startswith("prompt 1: 'pytest' ended in an error without an exit code")


def test_a_transcript_is_a_regular_file_of_limited_size(
    unstored: Memory, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixing(session)
    os.mkfifo(pipe := tmp_path / "pipe")
    monkeypatch.setattr(claude_code, "MOST", 3_000)
    cases = (pipe, "no regular file"), (Path("/dev/zero"), "no regular file")
    for path, told in (*cases, (session.path, "has more than 3,000 b")):
        given = session.ended() | {"transcript_path": str(path)}
        learned = learn_session(unstored, given, PYTEST)
        assert (learned.learned, len(learned.problems)) == (0, 1)
        assert told in learned.problems[0]
