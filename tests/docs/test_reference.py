"""The reference says what the code does: nothing is missing, and nothing is made up."""

from __future__ import annotations

import gzip
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from graphmem import Episode, Memory, Settings, Step, StrategyUse
from graphmem.cli.main import cli
from graphmem.errors import ValidationError
from graphmem.models.episodes import MistakeCard
from graphmem.models.fields import MAX_KEY, MAX_STEPS, MAX_STRATEGIES, MAX_TEXT
from graphmem.models.policies import EventKind
from graphmem.seeding import formats, jsonl
from tests.docs.completing import complete

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
OWN = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
PAGES = [*OWN, *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_NODE = {"id", "ns", "created_at"}
ENGINES_OWN = {"title", "type"}
"""Properties that the embedded engine adds to every node."""
TYPED = {"Task", "Episode", "Heuristic", "Mistake", "Tally"}
"""Labels with a property `type` of graphmem's own."""


def read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of its level or above."""
    level = heading.index(" ")
    found: list[str] | None = None
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if found is None:
            found = [] if line.rstrip() == heading else None
        elif not fenced and re.match(rf"#{{1,{level}}} ", line):
            break
        else:
            found.append(line)
    assert found, f"no section {heading!r}"
    return "".join(found)


def walk(group: click.Group, path: str = "graphmem") -> Iterator[tuple[str, click.Command]]:
    """Yield all commands in a group, by their names."""
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from walk(command, f"{path} {name}")


def test_pages_are_tidy() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        titles = re.findall(r"^# ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
        assert len(titles) == 1, page
        assert len(re.findall(r"^ *```", text, re.MULTILINE)) % 2 == 0, page
        assert not re.search(r"/(?:work|tmp|root|home)/", text), f"{page}: a path of some machine"
        assert not re.search(r"^\S.* :   ", text, re.MULTILINE), f"{page}: a term in its definition"


def test_every_setting_and_option_that_a_page_names_is_there() -> None:
    known = {"-h", "--help"}
    for _, command in [("", cli), *walk(cli)]:
        for parameter in command.params:
            known |= {*parameter.opts, *parameter.secondary_opts}
    others = {"require_neo4j", "complete"}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        settings = {name.lower() for name in re.findall(r"\b_?GRAPHMEM_([A-Z0-9_]+)\b", text)}
        assert settings - others <= set(Settings.model_fields), page
        for line in re.findall(r"^ *\$ (graphmem .*)", text, re.MULTILINE):
            bare = re.sub(r"'[^']*'|\"[^\"]*\"|\|.*", "", line)
            assert set(re.findall(r" (--[a-z][\w-]*)", bare)) <= known, f"{page}: {line}"


def test_every_place_that_contributing_names_is_there() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"`((?:graphmem|cypher|tests|docs)/[\w/.]*)`", text)
    assert places
    for place in places:
        assert (ROOT / place).exists(), place
    packages = section(text, "## Where to find what").partition("| package")[2]
    cells = re.findall(r"^\| (`.*?) \|", packages, re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)/`", cell)}
    there = {path.parent.name for path in (ROOT / "graphmem").glob("*/__init__.py")}
    assert named == there


def test_the_first_page_names_all_pages() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = set(re.findall(r"[\w/-]+\.md", navigation)) - {"index.md"}
    of_python = {page.removeprefix("reference/") for page in pages if "/python/" in page}
    assert {page for page in of_python if f"({page}" not in read("python.md")} == set()
    others = {page for page in pages if "/python/" not in page}
    assert {page for page in others if f"({page})" not in index} == set()


def test_every_kind_of_event_is_there() -> None:
    table = read("python/events.md").partition(":::")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert set(named) == set(typing.get_args(EventKind))


def test_the_limits_are_those_of_the_models() -> None:
    table = read("python/inputs.md").partition("Limits:")[2]
    rows = [row for row in table.splitlines() if row.startswith("| ") and "at most" not in row]
    numbers = [row.split("|")[2].strip() for row in rows[:4]]
    limits = (MAX_KEY, MAX_TEXT, MAX_STRATEGIES, MAX_STEPS)
    assert numbers == [f"{limit:,}" for limit in limits]


def test_every_format_and_field_is_there() -> None:
    rows = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \|", read("formats.md"), re.MULTILINE)
    assert set(rows) == set(formats())
    text = section(read("formats.md"), "## jsonl")
    for model in (Episode, Step, StrategyUse, MistakeCard):
        for name in model.model_fields:
            assert f"`{name}`" in text, name


class TestSchema:
    PLAIN: typing.ClassVar[dict[str, Any]] = {"task": "t", "strategy": "s", "success": True}

    def test_is_that_of_the_model(self) -> None:
        schema = json.loads(read("episode.schema.json"))
        assert schema == jsonl.schema()
        jsonschema.Draft202012Validator.check_schema(schema)

    @pytest.mark.parametrize(
        "wrong",
        [
            {"success": "yes"},
            {"score": 1.5},
            {"outcome": "fine"},
            {"strategy": {"text": "s", "candidates": {"s": 1.5}}},
            {"task": "t" * 10_001},
            {"mistake_cards": [{"lesson": "l"}]},
        ],
    )
    def test_refuses_what_the_model_refuses(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(self.PLAIN | wrong, jsonl.schema())
        with pytest.raises(ValidationError):
            Episode.from_json(json.dumps(self.PLAIN | wrong))

    def test_takes_the_logs_of_this_project(self) -> None:
        validator = jsonschema.Draft202012Validator(jsonl.schema())
        logs = sorted((ROOT / "seeds" / "logs").glob("*.jsonl.gz"))
        assert logs
        for log in logs:
            with gzip.open(log, "rt", encoding="utf-8") as lines:
                for _, line in zip(range(50), lines, strict=False):
                    validator.validate(json.loads(line))


@pytest.fixture(scope="module")
def graph() -> Iterator[Memory]:
    """A memory in which every label, edge and property occurs."""
    with Memory.open("memory:", settings=Settings(embedder="hashing")) as memory:
        complete(memory)
        yield memory


def names_in(text: str) -> set[str]:
    """Return the names in code, without the remarks in parentheses."""
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text)))


def edges_of_the_page() -> dict[str, tuple[str, str]]:
    """Return where each edge leads, and its properties."""
    rows = re.findall(r"^\| ([A-Z_]+) \| (.*?) \| ?(.*?) \|", read("graph.md"), re.MULTILINE)
    return {kind: (leads, properties) for kind, leads, properties in rows}


class TestGraph:
    def test_every_label_and_property(self, graph: Memory) -> None:
        found: dict[str, set[str]] = {}
        for row in graph.query("MATCH (n) RETURN labels(n) AS labels, keys(n) AS names"):
            assert len(row["labels"]) == 1
            found.setdefault(row["labels"][0], set()).update(row["names"])
        nodes = section(read("graph.md"), "## Nodes")
        assert set(re.findall(r"^### (.+)$", nodes, re.MULTILINE)) == set(found)
        for label, names in found.items():
            own = ENGINES_OWN - {"type"} if label in TYPED else ENGINES_OWN
            paragraphs = section(nodes, f"### {label}").split("\n\n")
            listed = names_in(next(text for text in paragraphs if text.strip().startswith("`")))
            assert listed == names - own - EVERY_NODE, label

    def test_every_edge_and_property(self, graph: Memory) -> None:
        found: dict[str, set[str]] = {}
        ends: dict[str, set[str]] = {}
        for row in graph.query(
            "MATCH (a)-[r]->(b) "
            "RETURN type(r) AS type, keys(r) AS names, labels(a) AS a, labels(b) AS b"
        ):
            found.setdefault(row["type"], set()).update(row["names"])
            ends.setdefault(row["type"], set()).add(f"{row['a'][0]} → {row['b'][0]}")
        page = edges_of_the_page()
        assert {kind: set(leads.split(", ")) for kind, (leads, _) in page.items()} == ends
        for kind, (_, properties) in page.items():
            assert names_in(properties) == found[kind] - ENGINES_OWN, kind
