"""Reads the transcript of a session: JSON lines, to which Claude Code only adds.

A line of the user is a prompt, or holds results of tools. Lines that do not come from the user
(subagents, hooks, summaries, output of local commands) are no prompts. What a user states, and the
last run of a test command, say how a prompt went.
"""

from __future__ import annotations

import json
import re
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from graphmem.errors import StorageError
from graphmem.text.words import text_of

MOST = 64_000_000
"""Most bytes of a transcript."""
_ADDED = re.compile(
    r"<(?:ide_\w+|system-reminder|user-prompt-submit-hook)>.*?</[\w-]+>\s*", re.DOTALL
)
_NO_PROMPT = re.compile(
    r"<(?:bash-|local-command-|task-notification|teammate-message|user-memory-input)"
    r"|\[Request interrupted|Caveat: The messages below|This session is being continued from"
)
_UNTOLD = ("interrupted", "backgroundTaskId", "returnCodeInterpretation")
_NAME = re.compile(r"<command-name>\s*(/?\S+?)\s*</command-name>")
_ARGUMENTS = re.compile(r"<command-args>(.*?)</command-args>", re.DOTALL)


@dataclass
class Call:
    """One call of a tool, and its result."""

    name: str
    input: dict[str, Any]
    text: str | None = None
    failed: bool = False
    untold: bool = False
    """Whether its end is unknown: it was stopped, goes on, or a failure is no error of it."""


@dataclass
class Work:
    """What was done for one prompt."""

    number: int
    prompt: str
    record: dict[str, Any]
    """The line of the prompt."""
    started_at: datetime | None
    ended_at: datetime | None
    calls: list[Call] = field(default_factory=list)
    answer: str | None = None
    model: str | None = None
    replied: bool = False


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a transcript.

    Raises:
        StorageError: it is no regular file, or too large.
    """
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise StorageError(f"{path} is no regular file, so it is no transcript")
    if about.st_size > MOST:
        raise StorageError(f"{path} has more than {MOST:,} bytes, so it is not learned")
    with path.open("rb") as file:
        yield from file


def works(lines: Iterable[bytes], refused: list[int]) -> Iterator[Work]:
    """Yield what was done for each prompt, in order; add the numbers of damaged lines."""
    current: Work | None = None
    number = 0
    open_calls: dict[str, Call] = {}
    for entry in _entries(lines, refused):
        message = entry.get("message")
        if entry.get("isSidechain") or not isinstance(message, dict):
            continue
        content = message.get("content")
        listed = content if isinstance(content, list) else []
        blocks = [block for block in listed if isinstance(block, dict)]
        if entry.get("type") == "assistant" and current is not None:
            _reply(current, message, blocks, open_calls)
        elif entry.get("type") == "user":
            for block in blocks:
                _result(block, entry, open_calls)
            prompt = _prompt(entry, content, blocks)
            if prompt is not None:
                if current is not None:
                    yield current
                number += 1
                at = _moment(entry)
                current = Work(number, prompt, entry, at, at)
        if current is not None and (at := _moment(entry)):
            current.ended_at = max(current.ended_at or at, at)
    if current is not None:
        yield current


def _entries(lines: Iterable[bytes], refused: list[int]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = json.loads(line)
            if b"\\u" in line:  # it may hold lone surrogates, which cannot be stored
                entry = json.loads(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            entry = None
        if isinstance(entry, dict):
            yield entry
        else:
            refused.append(number)


def _reply(
    work: Work, message: dict[str, Any], blocks: list[dict[str, Any]], calls: dict[str, Call]
) -> None:
    work.replied = True
    model = message.get("model")
    if isinstance(model, str) and model != "<synthetic>":
        work.model = model
    for block in blocks:
        name, given, text = block.get("name"), block.get("input"), block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            work.answer = text
        elif block.get("type") == "tool_use" and isinstance(name, str) and name.strip():
            call = Call(name, given if isinstance(given, dict) else {})
            work.calls.append(call)
            calls[str(block.get("id"))] = call


def _result(block: dict[str, Any], entry: dict[str, Any], calls: dict[str, Call]) -> None:
    call = calls.pop(str(block.get("tool_use_id")), None)
    if call is None or block.get("type") != "tool_result":
        return
    call.text = text_of(block.get("content"))
    call.failed = bool(block.get("is_error"))
    more = entry.get("toolUseResult")
    marks = [more.get(name) for name in _UNTOLD] if isinstance(more, dict) else []
    call.untold = any((*marks, entry.get("toolDenialKind"), call.input.get("run_in_background")))


def _prompt(entry: dict[str, Any], content: Any, blocks: list[dict[str, Any]]) -> str | None:
    """Return what the user asked in a line, None if it is no prompt."""
    origin = entry.get("origin")
    if (
        any(entry.get(mark) for mark in ("isMeta", "isCompactSummary", "isVisibleInTranscriptOnly"))
        or (isinstance(origin, dict) and origin.get("kind", "human") != "human")
        or entry.get("promptSource") == "system"
        or any(block.get("type") == "tool_result" for block in blocks)
    ):
        return None
    text = _ADDED.sub("", text_of(content)).strip()
    if named := _NAME.search(text):
        arguments = _ARGUMENTS.search(text)
        text = f"/{named[1].lstrip('/')} {arguments[1] if arguments else ''}".strip()
    return None if not text or _NO_PROMPT.match(text) else text


def _moment(entry: dict[str, Any]) -> datetime | None:
    try:
        moment = datetime.fromisoformat(entry["timestamp"])
    except (KeyError, TypeError, ValueError):
        return None
    return moment if moment.tzinfo else None


_LINE = re.compile(r"(?im)^[ \t]*graphmem:[ \t]*(\S+)[ \t]*$")
_FAILED = re.compile(r"(?:Error: )?Exit code (\d+)")
_ABOVE = 125
"""Greater exit codes say that a command was not found, or was ended."""
_BEFORE = ("cd", "source", ".", "export", "set")
"""Commands before a test that are not likely to be what failed."""
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")


def without_statement(prompt: str) -> tuple[str, str | None]:
    """Return a prompt without its lines ``graphmem: ...``, and what the last of them says."""
    said = _LINE.findall(prompt)
    return _LINE.sub("", prompt).strip(), said[-1] if said else None


def parse_statement(said: str | None) -> bool | float | None:
    """Return the outcome that a line states (success, failure, a score), or None."""
    if said is None:
        return None
    word = said.lower()
    if word in ("success", "failure"):
        return word == "success"
    try:
        score = float(word)
    except ValueError:
        return None
    return score if 0 <= score <= 1 else None


def last_run(work: Work, command: str) -> bool | str | None:
    """Return how the last run of a test command ended; or why it does not tell; None: none ran.

    A run tells if the exit status of its line is that of the command: the command comes last, is
    not piped into another program, and does not run in the background.
    """
    words = shlex.split(command)
    for call in reversed(work.calls):
        line = call.input.get("command")
        if call.name == "Bash" and isinstance(line, str) and (how := _how_it_runs(line, words)):
            if how == "hidden":
                return f"the line with {command!r} does not end as the command does"
            if call.text is None or call.untold:
                return f"{command!r} was stopped, or goes on"
            if not call.failed:
                return True
            code = _FAILED.match(call.text)
            if how == "alone" and code and 0 < int(code[1]) <= _ABOVE:
                return False
            return f"{command!r} ended in an error without an exit code of its own"
    return None


def _how_it_runs(text: str, words: Sequence[str]) -> str | None:
    """Return how a command runs the words: ``alone``, ``after`` others, ``hidden``, or None."""
    lexer = shlex.shlex(text.replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    commands: list[list[str]] = [[]]
    between: set[str] = set()
    comment = False
    try:
        for token in lexer:
            if token and not token.strip("();|&\n"):
                comment = comment and "\n" not in token
                between.add(token.strip("();\n"))
                commands.append([])
            elif comment or token.startswith("#"):
                comment = True
            elif commands[-1] or not _ASSIGNED.match(token):
                commands[-1].append(token)
    except ValueError:  # quotes that do not end
        return "hidden" if words[0] in text else None
    commands = [command for command in commands if command]
    runs = [command[: len(words)] == [*words] for command in commands]
    if not any(runs):
        return None
    if not runs[-1] or between & {"||", "&", "|", "|&"}:
        return "hidden"
    return "alone" if all(command[0] in _BEFORE for command in commands[:-1]) else "after"
