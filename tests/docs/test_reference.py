"""The reference says what the code does: nothing is missing, and nothing is made up.

The memory in which everything occurs is filled here, too.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import runpy
import tomllib
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graphmem import Episode, Memory, Settings, Step, StrategyUse, Tags
from graphmem.cli.main import cli
from graphmem.errors import ValidationError
from graphmem.models.episodes import MistakeCard
from graphmem.models.fields import MAX_KEY, MAX_STEPS, MAX_STRATEGIES, MAX_TEXT
from graphmem.models.policies import EventKind
from graphmem.seeding import formats, jsonl
from tests.cli.test_commands import walk
from tests.contract.calling import HERE, ids, populate
from tests.faults.model_server import rules, serving

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
OWN = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
PAGES = [*OWN, *sorted(DOCS.rglob("*.md"))]
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
    index = (DOCS / "index.md").read_text(encoding="utf-8")
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
    with serving(rules({"verdict": "WORKS", "text": "x", "episodes": [1]})) as server:
        asked = Settings(embedder="hashing", model_base_url=server.url, model_name="any")
        with Memory.open("memory:", settings=asked) as memory:
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


AT = datetime(2025, 3, 3, tzinfo=UTC)


def complete(memory: Memory) -> None:
    """Fill the memory; the last texts wait for their vectors."""
    populate(memory, "all")
    # An episode with all fields, and an attempt that was interrupted.
    memory.learn(
        "t",
        [StrategyUse("a", shown=True), "failed"],
        success=True,
        feedback="f",
        user="u",
        summary="s",
        started_at=AT,
        ended_at=AT,
        duration=1.0,
        steps=[
            Step(action={"a": 1}, observation="o", state={"a": 1}),
            Step(action="failed", error="e"),
        ],
    )
    with contextlib.suppress(KeyboardInterrupt), memory.attempt("t", task_type="type"):
        raise KeyboardInterrupt
    # One strategy fails where another works, and a model concludes something.
    card: dict[str, Any] = {
        **dict.fromkeys(("type", "bad_decision", "worker", "correct_decision"), "x"),
        "extra": {"a": 1},
    }
    for score, strategy in ((0.1, "bad"), (0.9, "good")):
        memory.learn_many(
            {
                "task": "lessons",
                "strategy": strategy,
                "score": score,
                "error": "e",
                "successes": ["do"],
                "mistakes": ["do not"],
                "mistake_cards": [card],
                "ended_at": AT + timedelta(days=day),
            }
            for day in range(5)
        )
    assert memory.lessons.consolidate(True, force=True).model_rules == 1
    # Updates with all arguments, cycles of successes, and predictions that are resolved.
    update = memory.policies.update
    go = update(HERE, "go", 1.0, next_state={"x": 2}, next_actions=2, at=AT).policy_id
    update(HERE, "go", 1.0, next_max_q=0.5)
    for week in range(12):
        memory.learn("weekly", "c", success=True, ended_at=AT + timedelta(weeks=week))
    assert memory.cycles.examine("c", only="success", keep=True).cycles
    for subject in (go, "a", "anything"):
        expected = memory.predictions.expect(
            subject, probability=0.5, outcome={"a": 1}, at=AT, due=AT + timedelta(days=1)
        )
        memory.predictions.resolve(expected.id, actual={"a": 1})
    assert ids(memory, "Cycle")
    hold(memory)
    memory.scopes.set("agent", can_learn=["type"], min_occurrences=2)
    memory.people.know("domain", "fact", at=AT, valid_from=AT, valid_to=AT + timedelta(days=9))
    memory.strategies()
    memory.upkeep.flush()
    memory.upkeep.relink("hashing")
    memory.learn("book a train", "book a train", success=True)


def hold(memory: Memory) -> None:
    """Fill levels with what flows, becomes an episode or a fact, and is compared."""
    levels = memory.levels
    levels.default("agent")
    for ttl in (1, 2):
        levels.put("task:t:shared", ttl=ttl, capacity=1, purpose="p")
    levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=AT)
    levels.put_lens("agent:agent:lens", "task:t:shared", tags=Tags(any_of=["t"]), max_age=1)
    levels.add("agent:agent:sensory", "text")
    levels.add("agent:agent:sensory", {"task": "t", "task_type": "type", "success": True})
    levels.add("agent:agent:sensory", {"fact": "f", "domain": "d"})
    levels.tick()
    levels.maintain(at=datetime.now(UTC) + timedelta(minutes=10))
    levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=AT)


EXTRA = re.compile(r"pip install (?:-e )?[\"'`]*(graphmem|\.)\[([a-z0-9,-]+)\]")


def test_each_promise_names_a_test() -> None:
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, f"no test: {row}"
        for file, name in named:
            code = (ROOT / file).read_text(encoding="utf-8")
            assert re.search(rf"^ *def {name}\(", code, re.MULTILINE), f"{file} has no {name}"


def test_every_extra_can_be_installed_from_a_clone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"])
    for folder, kind in (("docs", "*.md"), ("graphmem", "*.py"), ("examples", "*.*")):
        for path in [ROOT / "README.md", *(ROOT / folder).rglob(kind)]:
            for source, named in EXTRA.findall(path.read_text(encoding="utf-8")):
                assert source == ".", f"{path.name}: {named}"
                assert set(named.split(",")) <= extras, f"{path.name}: {named}"


TEXTS = {
    "td-learning.svg": ("alpha 0.1", "Wilson bounds", "crystallized", "threshold 0.6"),
    "late-successes.svg": ("Wilson bounds", "confidence (all trials), at the end 0.04"),
}


def test_the_pictures_are_drawn_and_shown(tmp_path: Path) -> None:
    plots = runpy.run_path(str(DOCS / "plots.py"), run_name="plots")
    assert {file.name for file in plots["main"](tmp_path)} == set(TEXTS)
    pages = "".join(page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md"))
    for name, texts in TEXTS.items():
        assert f"]({name})" in pages
        for folder in (tmp_path, DOCS / "explanation"):
            picture = (folder / name).read_text(encoding="utf-8")
            assert all(f">{text}" in picture for text in texts), folder


def test_late_successes_move_the_confidence_little_and_a_window_much() -> None:
    belief = runpy.run_path(str(DOCS / "plots.py"), run_name="plots")["beliefs"]()[-1]
    assert belief.confidence == pytest.approx(4 / 102)
    assert belief.lower < belief.confidence < belief.upper < 0.09
    assert belief.window == 0.75
