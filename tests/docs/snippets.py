"""Runs the code blocks of a page and compares what they print with what the page says.

The conventions are described in CONTRIBUTING.md, under "How the documentation is run".
"""

from __future__ import annotations

import contextlib
import difflib
import io
import itertools
import os
import re
import shlex
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.running import run

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<head>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```$", re.M | re.S
)
_TITLE = re.compile(r'title="([^"]+)"')
_CLAIM = re.compile(r"^\s*# -> ?(.*)$")
_EXIT = re.compile(r"# exit (\d+)$")
_HEREDOC = re.compile(r"<<'?(\w+)'?")
_ALONE = re.compile(r"graphmem [^$`|&;<>*?~(){}\\\n]*")
"""A command that bash would only pass on: it runs in this process, which is quicker."""
_ELLIPSIS = "..."
TIMEOUT = 400

CONSOLE = ("console", "shell")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its title, its text, and the line where it stands."""

    language: str
    title: str | None
    text: str
    line: int


@dataclass(frozen=True)
class Command:
    """A command of a console block, what it should print, and how it should end."""

    text: str
    expected: str
    code: int


def blocks(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for match in _FENCE.finditer(page):
        title = _TITLE.search(match["head"])
        yield Block(
            language=match["head"].split(" ")[0].strip(),
            title=title[1] if title else None,
            text=textwrap.dedent(match["body"]),
            line=page[: match.start()].count("\n") + 1,
        )


def commands(text: str) -> list[Command]:
    """Return the commands of a console block with their output."""
    found: list[tuple[list[str], list[str]]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = [line[2:]]
            while command[-1].endswith("\\"):
                command.append(next(lines))
            if heredoc := _HEREDOC.search(line):
                command.append(next(lines))
                while command[-1] != heredoc[1]:
                    command.append(next(lines))
            found.append((command, []))
        elif found:
            found[-1][1].append(line)
        elif line.strip():
            raise AssertionError(f"a console block begins with '$ ', not with {line!r}")
    return [_command("\n".join(command), "\n".join(output)) for command, output in found]


def _command(text: str, expected: str) -> Command:
    code = _EXIT.search(text)
    return Command(text, expected, int(code[1]) if code else 0)


def same(expected: str, printed: str) -> bool:
    """Return whether a text is what a page says.

    White space counts as one space, blank lines and the length of rules do not count; ``...``
    stands for any text, on a line of its own for any lines.
    """
    pattern = ""
    for line in _normal(expected).splitlines():
        if line == _ELLIPSIS:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in line.split(_ELLIPSIS)) + r"\n"
    return re.fullmatch(pattern, _normal(printed)) is not None


def _normal(text: str) -> str:
    lines = (re.sub(r"─+", "─", " ".join(line.split())) for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)


@dataclass
class Runner:
    """Runs the blocks of one page, in order, in one folder and one Python namespace."""

    folder: Path
    environment: Mapping[str, str]
    given: Mapping[str, str] = field(default_factory=dict)
    """What stands in a page, and what takes its place when it runs."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__docs__"})

    def run(self, block: Block) -> None:
        """Run a block, or write the file that it shows; other blocks are passed over."""
        if block.language == "python" and block.title is None:
            self._python(block)
        elif block.language in CONSOLE:
            for command in commands(block.text):
                self._console(command)
        elif block.title:
            path = self.folder / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")

    def _python(self, block: Block) -> None:
        claims = [claim[1] for line in block.text.splitlines() if (claim := _CLAIM.match(line))]
        printed = io.StringIO()
        code = compile("\n" * block.line + self._real(block.text), "<page>", "exec")
        with contextlib.redirect_stdout(printed), contextlib.chdir(self.folder):
            exec(code, self.names)  # noqa: S102 - our own pages
        self._compare("\n".join(claims), printed.getvalue(), block.text)

    def _console(self, command: Command) -> None:
        text = self._real(command.text)
        printed, code = self._alone(text) if _ALONE.fullmatch(text) else self._by_bash(text)
        self._compare(command.expected, printed, command.text)
        assert code == command.code, f"{command.text} ended with {code}"

    def _alone(self, text: str) -> tuple[str, int]:
        with contextlib.chdir(self.folder):
            done = run(*shlex.split(text, comments=True)[1:])
        return done.out + done.err, done.code

    def _by_bash(self, text: str) -> tuple[str, int]:
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.folder,
            env={**os.environ, **self.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            timeout=TIMEOUT,
            check=False,
        )
        return done.stdout, done.returncode

    def _compare(self, expected: str, printed: str, what: str) -> None:
        for shown, real in self.given.items():
            printed = printed.replace(real, shown)
        if not same(expected, printed):
            says, prints = _normal(expected).splitlines(), _normal(printed).splitlines()
            lines = difflib.unified_diff(says, prints, "the page", "printed", n=1, lineterm="")
            raise AssertionError("\n".join([what, *itertools.islice(lines, 40)]))

    def _real(self, text: str) -> str:
        for shown, real in self.given.items():
            text = text.replace(shown, real)
        return text
