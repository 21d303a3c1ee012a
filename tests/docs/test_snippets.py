"""Every example of the documentation runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from neo4j import GraphDatabase

from graphmem import Memory, Settings
from graphmem.store import installing
from tests.docs.snippets import CONSOLE, Runner, blocks, commands, same
from tests.neo4j.jars import locked
from tests.neo4j.patience import patiently
from tests.neo4j.server import Found

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
    runner = Runner(folder, environment, given)
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
