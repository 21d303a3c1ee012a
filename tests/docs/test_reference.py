"""The reference says what the code does: nothing is missing, and nothing is made up."""

from __future__ import annotations

import contextlib
import gzip
import json
import re
import typing
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest
from pydantic import JsonValue

from graphmem import Episode, Memory, Settings, Step, StrategyUse, models
from graphmem.cli.main import cli
from graphmem.errors import ValidationError
from graphmem.models import MistakeCard, ModelSettings, Tags
from graphmem.models.events import EventKind
from graphmem.seeding import formats, jsonl
from tests.faults.model_server import rules, serving

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
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


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads((REFERENCE / "episode.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A memory in which every label, edge and property occurs."""
    moment = datetime(2025, 3, 3, tzinfo=UTC)
    step = Step(
        action={"a": 1},
        observation="o",
        reward=1.0,
        error="e",
        state={},
        next_state={},
        terminal=True,
    )
    with Memory.open("memory:", settings=Settings()) as memory:
        memory.learn(
            "t",
            [StrategyUse("a", shown=True, explore="greedy", candidates={"a": 1.0}), "b"],
            task_key="k",
            task_type="type",
            score=0.9,
            reward=2.0,
            error="e",
            feedback="f",
            summary="s",
            started_at=moment,
            ended_at=moment,
            duration=1.0,
            source_key="1",
            steps=[step],
        )
        memory.learn_many(
            [{"task": "u", "strategy": "a", "score": 1.0, "source": "x", "extra": {"a": 1}}]
        )
        learn_policies(memory, moment)
        learn_lessons(memory, moment)
        say(memory, moment)
        with contextlib.suppress(KeyboardInterrupt), memory.attempt("t", task_type="type"):
            raise KeyboardInterrupt
        import_file(memory, tmp_path_factory.mktemp("files"))
        find_general_rules(memory)
        fit_strengths(memory)
        hold(memory, moment)
        find_similar(memory)
        yield memory


def hold(memory: Memory, moment: datetime) -> None:
    """Make every node and edge of levels, with all of their properties."""
    memory.levels.default("agent")
    memory.levels.put("task:t:shared", ttl=1, capacity=1, purpose="p")
    memory.levels.put("task:t:shared", ttl=2, capacity=1, purpose="p")
    memory.levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=moment)
    memory.levels.put_lens("agent:agent:lens", "task:t:shared", tags=Tags(any_of=["t"]), max_age=1)
    memory.levels.add("agent:agent:sensory", "text")
    record: JsonValue = {"task": "t", "task_type": "type", "success": True}
    memory.levels.add("agent:agent:sensory", record)
    memory.levels.add("agent:agent:sensory", {"fact": "f", "domain": "d"})
    memory.levels.pull("agent:agent:working", "events:agent")
    memory.levels.tick()
    memory.levels.maintain(at=datetime.now(UTC) + timedelta(minutes=10))
    memory.levels.add("task:t:shared", {"a": 1}, tags=["t"], key="k", metadata={"a": 1}, at=moment)


def find_similar(memory: Memory) -> None:
    """Draw edges between strategies and between tasks; the last ones wait."""
    for name in ("refund a flight", "refund the flight", "book a train"):
        memory.learn(name, name, success=True)
        if name.startswith("refund the"):
            memory.upkeep.relink("hashing")


def fit_strengths(memory: Memory) -> None:
    """Make the node of strengths that predictions are drawn together with."""
    memory.learn_many(
        {
            "task": "chance",
            "strategy": "toss",
            "success": number % 2 == 0,
            "source_key": str(-number),
        }
        for number in range(100)
    )
    memory.calibrate()


def learn_lessons(memory: Memory, moment: datetime) -> None:
    """Make every node and edge of lessons, with all of their properties."""
    card = {
        "type": "m",
        "bad_decision": "b",
        "worker": "w",
        "correct_decision": "c",
        "evidence": "e",
        "lesson": "l",
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
                "mistake_cards": [{**card, "extra": {"a": 1}}],
                "ended_at": moment + timedelta(days=day),
            }
            for day in range(5)
        )
    memory.learn("lessons", "best", success=True)
    memory.lessons.merge("good", "best")


def say(memory: Memory, moment: datetime) -> None:
    """Make every node and edge of preferences, knowledge and scopes, with all properties."""
    for day in range(2):
        memory.people.prefer("user", "category", f"text {day}", at=moment + timedelta(days=day))
    first = memory.people.know("domain", "fact")
    memory.people.know("domain", "other", user="user", contradicts=first, at=moment)
    memory.scopes.set("agent", can_learn=["type"], min_occurrences=2)


def import_file(memory: Memory, folder: Path) -> None:
    """Make the nodes and edges of an imported file, with all of their properties."""
    (file := folder / "agent_memory.json").write_text(
        json.dumps({"episodes": [{"task_id": "t", "score": 1}], "rules": ["r"]})
    )
    memory.upkeep.import_(file, "sentinel")


def learn_policies(memory: Memory, moment: datetime) -> None:
    """Make every node and edge around policies, with all of their properties."""
    policies = memory.policies
    policies.learn_episodes()
    go = policies.update(
        {"x": 1}, "go", 1.0, next_state={"x": 2}, next_actions=2, success=True, at=moment
    ).policy_id
    policies.update({"x": 1}, "go", 1.0, next_max_q=0.5, spec={"far": True})
    for week in range(12):
        later = moment + timedelta(weeks=week)
        stay = policies.observe({"x": 1}, "stay", True, at=later)
        memory.learn("weekly", "c", success=True, ended_at=later)
    policies.signal({"x": 1}, "go", 0.9)
    policies.strengthen(go, stay)
    for subject in (stay, "c"):
        assert memory.cycles.discover(subject, only="success")
    for subject in (go, "a", "anything"):
        known = memory.predictions.expect(
            subject, probability=0.5, outcome={"a": 1}, at=moment, due=moment + timedelta(days=1)
        )
        memory.predictions.resolve(known.id, actual={"a": 1})
    list(memory.events.consume("group", "consumer", limit=3))
    policies.best({"x": 1})
    memory.strategies()
    memory.upkeep.flush()


def find_general_rules(memory: Memory) -> None:
    """Make rules over all tasks, by repetition and by a model."""
    memory.learn_many(
        {
            "task": f"general {number % 2}",
            "task_type": "work",
            "strategy": ["general"],
            "score": 0.9,
            "source_key": f"general {number}",
        }
        for number in range(4)
    )
    said = {"verdict": "WORKS", "text": "said", "episodes": [1]}
    with serving(rules(said)) as server:
        report = memory.lessons.consolidate(
            ModelSettings(base_url=server.url, name="any"), force=True
        )
    assert (report.rules, report.model_rules) == (1, 1)


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
    limits = (models.MAX_KEY, models.MAX_TEXT, models.MAX_STRATEGIES, models.MAX_STEPS)
    assert numbers == [f"{limit:,}" for limit in limits]


class TestCommandLine:
    @staticmethod
    def walk(
        group: click.Group, path: tuple[str, ...] = ("graphmem",)
    ) -> Iterator[tuple[str, click.Command]]:
        for name, command in group.commands.items():
            yield " ".join((*path, name)), command
            if isinstance(command, click.Group):
                yield from TestCommandLine.walk(command, (*path, name))

    def test_no_option_is_made_up(self) -> None:
        known = {"-h", "--help"}
        for _, command in [("", cli), *self.walk(cli)]:
            for parameter in command.params:
                known |= {*parameter.opts, *parameter.secondary_opts}
        for page in PAGES[3:]:
            text = page.read_text(encoding="utf-8")
            for line in re.findall(r"^\$ (graphmem .*)", text, re.MULTILINE):
                bare = re.sub(r"'[^']*'|\"[^\"]*\"|\|.*", "", line)
                options = set(re.findall(r" (--[a-z][\w-]*)", bare))
                assert options <= known, f"{page.name}: {line}"


class TestFormats:
    def test_every_format_has_a_row(self) -> None:
        rows = re.findall(r"^\| \[`([\w-]+)`\]\(#\1\) \|", read("formats.md"), re.MULTILINE)
        assert set(rows) == set(formats())

    def test_every_field_of_a_line_is_there(self) -> None:
        text = section(read("formats.md"), "## jsonl")
        for model in (Episode, Step, StrategyUse, MistakeCard):
            for name in model.model_fields:
                assert f"`{name}`" in text, name


GOOD = [
    {"task": "t", "strategy": "s", "success": True},
    {"task": "t", "strategy": [], "success": True},
    {
        "task": "t",
        "strategy": [],
        "score": 0.9,
        "successes": ["do"],
        "mistakes": ["do not"],
        "mistake_cards": [{"type": "m", "extra": {"a": 1}}],
    },
    {"task": "t", "strategy": ["a", {"text": "b", "credit": 0.5, "shown": None}], "score": 1},
    {
        "task": "t",
        "strategy": {"text": "a", "explore": "own", "candidates": {"a": 0.25, "b": 0.75}},
        "score": 1,
    },
    {
        "task": "t",
        "strategy": "s",
        "score": 0.5,
        "ended_at": "2025-03-03T09:30:00Z",
        "steps": [{"action": {"any": ["json", None]}, "state": {"x": 1}, "terminal": True}],
        "extra": {"free": [1, 2]},
    },
]
BAD = [
    {"task": "t", "success": True},
    {"task": "t", "strategy": "s", "success": "yes"},
    {"task": "t", "strategy": "s", "score": 1.5},
    {"task": "t", "strategy": "s", "success": True, "outcome": "fine"},
    {"task": "t", "strategy": {"text": "s", "credit": 2}, "success": True},
    {"task": "t", "strategy": {"text": "s", "propensity": 0}, "success": True},
    {"task": "t", "strategy": {"text": "s", "candidates": {"s": 1.5}}, "success": True},
    {"task": "t", "strategy": "s", "success": True, "steps": [{"tool": "x"}]},
    {"task": "t" * 10_001, "strategy": "s", "success": True},
    {"task": "t", "strategy": "s", "success": True, "mistake_cards": [{"lesson": "l"}]},
    {"task": "t", "strategy": "s", "success": True, "mistakes": "do not"},
]
BEYOND = [
    {"task": "t", "strategy": "s"},
    {"task": "t", "strategy": ["s", "s"], "success": True},
    {"task": "t", "strategy": "s", "success": True, "ended_at": "2025-03-03T09:30:00"},
]
"""What the schema cannot say, as formats.md tells."""


class TestSchema:
    def test_is_that_of_the_model(self, schema: Any) -> None:
        assert schema == jsonl.schema()
        jsonschema.Draft202012Validator.check_schema(schema)

    @pytest.mark.parametrize("line", GOOD)
    def test_takes_what_the_model_takes(self, schema: Any, line: dict[str, Any]) -> None:
        jsonschema.validate(line, schema, jsonschema.Draft202012Validator)
        Episode.from_json(json.dumps(line))

    @pytest.mark.parametrize("line", BAD)
    def test_refuses_what_the_model_refuses(self, schema: Any, line: dict[str, Any]) -> None:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(line, schema, jsonschema.Draft202012Validator)
        with pytest.raises(ValidationError):
            Episode.from_json(json.dumps(line))

    @pytest.mark.parametrize("line", BEYOND)
    def test_the_model_refuses_more(self, line: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            Episode.from_json(json.dumps(line))

    def test_takes_the_logs_of_this_project(self, schema: Any) -> None:
        validator = jsonschema.Draft202012Validator(schema)
        logs = sorted((ROOT / "seeds" / "logs").glob("*.jsonl.gz"))
        assert logs
        for log in logs:
            with gzip.open(log, "rt", encoding="utf-8") as lines:
                for _, line in zip(range(50), lines, strict=False):
                    validator.validate(json.loads(line))


EVERY_NODE = {"id", "ns", "created_at"}


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_is_tidy(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"/(?:work|tmp|root|home)/", text), "a path of somebody's machine"
    assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0
    assert not re.search(r"^\S.* :   ", text, re.MULTILINE), "a definition beside its term"
    if page.suffix == ".md" and page.parent != ROOT:
        assert len(re.findall(r"^# ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.M)) == 1
