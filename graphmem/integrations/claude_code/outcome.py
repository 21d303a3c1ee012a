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
