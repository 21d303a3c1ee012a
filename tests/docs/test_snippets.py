"""Every example of the documentation and of ``examples/`` runs, and prints what is said there.

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
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from neo4j import GraphDatabase

from graphmem import Memory, Settings
from graphmem.store import installing
from tests.cli.running import run
from tests.neo4j.jars import locked, run_merged
from tests.neo4j.server import Found, patiently

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
    made = []
    for command, output in found:
        code = _EXIT.search(text := "\n".join(command))
        made.append(Command(text, "\n".join(output), int(code[1]) if code else 0))
    return made


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
    """Runs the blocks of one page, in order, in this folder and one Python namespace."""

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
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")

    def _python(self, block: Block) -> None:
        claims = [claim[1] for line in block.text.splitlines() if (claim := _CLAIM.match(line))]
        printed = io.StringIO()
        code = compile("\n" * block.line + self._real(block.text), "<page>", "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, self.names)  # noqa: S102 - our own pages
        self._compare("\n".join(claims), printed.getvalue(), block.text)

    def _console(self, command: Command) -> None:
        text = self._real(command.text)
        if _ALONE.fullmatch(text):
            done = run(*shlex.split(text, comments=True)[1:])
            printed, code = done.out + done.err, done.code
        else:
            ran = run_merged(["bash", "-c", text], ".", TIMEOUT)
            printed, code = ran.stdout, ran.returncode
        self._compare(command.expected, printed, command.text)
        assert code == command.code, f"{command.text} ended with {code}"

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


ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVER = "neo4j://localhost:7687"
NAMESPACES = ("airline", "docs")
"""The namespaces that pages use on a server; they are emptied before and after."""


def _needs_server(page: Path) -> bool:
    return any(
        SERVER in block.text and block.language in ("python", *CONSOLE)
        for block in blocks(page.read_text(encoding="utf-8"))
    )


def _parameters() -> Iterator[object]:
    for page in PAGES:
        marks = [pytest.mark.neo4j] if _needs_server(page) else []
        yield pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks)


@pytest.mark.parametrize("page", list(_parameters()))
def test_page(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path / "home"),
        "XDG_DATA_HOME": str(tmp_path / "home" / "data"),
        "TERM": "dumb",
    }
    given: dict[str, str] = {}
    if _needs_server(page):
        found: Found = request.getfixturevalue("neo4j")
        environment |= {"GRAPHMEM_USER": found.user, "GRAPHMEM_PASSWORD": found.password}
        given[SERVER] = found.uri
        _empty(found)
        request.addfinalizer(lambda: _empty(found))
        if _installs(page):
            _check_apoc(found)
            alone = contextlib.ExitStack()
            alone.enter_context(locked(request.getfixturevalue("procedures_lock")))
            request.addfinalizer(alone.close)
            request.addfinalizer(lambda: _uninstall(found))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "seeds").symlink_to(ROOT / "seeds")
    monkeypatch.chdir(folder)
    runner = Runner(given)
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        try:
            runner.run(block)
        except AssertionError as error:
            raise AssertionError(f"{where}: {error}") from None
        except Exception as error:
            raise AssertionError(f"{where}: {error!r}") from error


def _installs(page: Path) -> bool:
    return f"{SERVER} procedures install\n" in page.read_text(encoding="utf-8")


def _check_apoc(found: Found) -> None:
    """Pass over a page that installs procedures where the server cannot have them."""
    with GraphDatabase.driver(found.uri, auth=(found.user, found.password)) as driver:
        text = "SHOW PROCEDURES YIELD name WHERE name = 'apoc.custom.installProcedure' RETURN name"
        there = patiently(lambda: driver.execute_query(text).records)
    if not there:
        if os.environ.get("GRAPHMEM_REQUIRE_NEO4J") == "1":
            pytest.fail("the Neo4j has no APOC Extended")
        pytest.skip("the Neo4j has no APOC Extended")


def _uninstall(found: Found) -> None:
    settings = Settings(user=found.user, password=found.password)
    with Memory.open(found.uri, settings=settings) as memory:
        installing.uninstall(memory.store)


def _empty(found: Found) -> None:
    with GraphDatabase.driver(found.uri, auth=(found.user, found.password)) as driver:
        text = "MATCH (n) WHERE n.ns IN $names DETACH DELETE n"
        patiently(lambda: driver.execute_query(text, names=list(NAMESPACES)))


def test_what_a_page_says_is_compared_with_what_is_printed() -> None:
    for expected, printed in (
        ("a  b", "a b\n\n"),
        ("id ... end", "id 12 34 end"),
        ("a\n...\nb", "a\nb"),
        ("a\n...\nb", "a\nx\ny\nb"),
        (" ──── ", "──"),
    ):
        assert same(expected, printed)
    for expected, printed in (
        ("", "a"),
        ("a", ""),
        ("a", "a\nb"),
        ("a ... b", "a\nb"),
        ("1.5", "1x5"),
    ):
        assert not same(expected, printed)
    first, second = commands("$ cat > f <<'END'\nx\nEND\n$ a \\\n  b  # exit 2\nout\n")
    assert (first.text, first.expected, first.code) == ("cat > f <<'END'\nx\nEND", "", 0)
    assert (second.text, second.expected, second.code) == ("a \\\n  b  # exit 2", "out", 2)


FOLDER = Path(__file__).resolve().parents[2] / "examples"
EXAMPLES = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_in_a_folder(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "runs.graph")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    claims = [
        line.strip().removeprefix("# ->")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith("# ->")
    ]
    assert claims, f"{path.name} does not say what it prints"
    assert same("\n".join(claims), done.stdout), done.stdout
