"""What a user states, and what the last run of a test command says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from graphmem.integrations.claude_code.transcript import Work

_LINE = re.compile(r"(?im)^[ \t]*graphmem:[ \t]*(\S+)[ \t]*$")
_FAILED = re.compile(r"(?:Error: )?Exit code (\d+)")
_ABOVE = 125
"""Greater exit codes say that a command was not found, or was ended."""
_SEPARATORS = ("&&", "||", ";", "|", "&", "|&", ";;")
_BEFORE = ("cd", "source", ".", "export", "set")
"""Commands before a test that are not likely to be what failed."""
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_OPENING = ("(", "{", "!")


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


def last_run(work: Work, command: str) -> bool | None:
    """Return how the last run of a test command ended, None if no run tells.

    A run tells if the exit status of its line is that of the command: the command comes last, is
    not piped into another program, and does not run in the background.
    """
    words = shlex.split(command)
    for call in reversed(work.calls):
        line = call.input.get("command")
        if call.name == "Bash" and isinstance(line, str) and (how := _how_it_runs(line, words)):
            if how == "hidden" or call.text is None or call.untold:
                return None
            if not call.failed:
                return True
            code = _FAILED.match(call.text)
            return False if how == "alone" and code and 0 < int(code[1]) <= _ABOVE else None
    return None


def _how_it_runs(text: str, words: Sequence[str]) -> str | None:
    """Return how a command runs the words: ``alone``, ``after`` others, ``hidden``, or None."""
    how: str | None = None
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            how = _in_line(line, words) or (how and "hidden")
        except ValueError:  # quotes over several lines
            how = "hidden" if how or words[0] in line else None
    return how


def _in_line(line: str, words: Sequence[str]) -> str | None:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    tokens = [*lexer]
    between = [token for token in tokens if token in _SEPARATORS]
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token in _SEPARATORS:
            parts.append([])
        else:
            parts[-1].append(token)
    background = between[-1:] == ["&"] and not parts[-1]
    parts = [part for part in parts if part]
    commands = [_command(part) for part in parts]
    runs = [command[: len(words)] == [*words] for command in commands]
    if not any(runs):
        return None
    opening = parts[-1][: len(parts[-1]) - len(commands[-1])]
    if (
        background
        or not runs[-1]
        or {"||", "&", "|", "|&"} & {*between}
        or {*_OPENING} & {*opening}
    ):
        return "hidden"
    return "alone" if all(part[:1] and part[0] in _BEFORE for part in commands[:-1]) else "after"


def _command(part: Sequence[str]) -> list[str]:
    """Return the words of a command without what opens it, and the variables set for it."""
    words = [*part]
    while words and (words[0] in _OPENING or _ASSIGNED.match(words[0])):
        words = words[1:]
    return words
