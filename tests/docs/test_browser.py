"""What Neo4j Browser is given: a style for every label and edge, and queries that run."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice, product
from pathlib import Path
from uuid import uuid4

import pytest
from neo4j import GraphDatabase, Record

from graphmem import Memory, Settings
from graphmem.cli.learning import ASKED, logs
from graphmem.seeding import seed, sources
from graphmem.store.queries import catalog
from tests.contract.calling import populate
from tests.docs.test_reference import edges_of_the_page, hold, read, section
from tests.neo4j.server import Found, patiently

BROWSER = catalog().folder / "browser"
STYLE = (BROWSER / "graphmem.grass").read_text(encoding="utf-8")
SAVED = (BROWSER / "saved-queries.cypher").read_text(encoding="utf-8")
QUERIES = [text for text in SAVED.split(";\n") if text.strip()]
EVERY = 5
"""One in so many episodes of the demo is enough: they come in rounds of eight."""

Rows = Callable[..., list[Record]]


def test_every_label_has_a_style() -> None:
    nodes = section(read("graph.md"), "## Nodes")
    labels = re.findall(r"^### (\w+)$", nodes, re.MULTILINE)
    assert sorted(re.findall(r"^node\.(\w+) ", STYLE, re.MULTILINE)) == sorted(labels)
    plain = {"RAN", "ATTEMPTED", "HAS_STEP"}
    styled = re.findall(r"^relationship\.(\w+) ", STYLE, re.MULTILINE)
    assert sorted(styled) == sorted(set(edges_of_the_page()) - plain)


def test_browser_reads_the_style_as_it_is_meant() -> None:
    """Browser 5 knows no comments, and only single quotes keep a brace from ending a rule."""
    rules = re.findall(r"^([\w.]+) \{((?:'[^']*'|[^'{}])*)\}$", STYLE, re.MULTILINE)
    assert len(dict(rules)) == len(rules) == sum(bool(line) for line in STYLE.splitlines())
    for name, text in rules:
        assert "color: " in text
        [caption] = re.findall(r"caption: '(.*?)'", text) or [""]
        assert caption.count("{") == caption.count("}")
        assert caption == "<type>" or "{" in caption or name.startswith("relationship.")
    assert "caption: '{successes} of {trials}'" in dict(rules)["relationship.OUTCOME"]


def body(text: str) -> str:
    """Return a saved query without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


@pytest.fixture
def memory(neo4j: Found) -> Iterator[Memory]:
    """A memory in a namespace of its own on a server."""
    settings = Settings(user=neo4j.user, password=neo4j.password, embedder="hashing")
    with Memory.open(neo4j.uri, namespace=f"browser-{uuid4().hex}", settings=settings) as memory:
        yield memory


@pytest.fixture
def rows(neo4j: Found, memory: Memory) -> Iterator[Rows]:
    """Run a query as Browser does, in the namespace of the memory, which ends empty."""
    with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:

        def run(text: str, given: Mapping[str, object] | None = None) -> list[Record]:
            asked = {**(given or {}), "ns": memory.namespace}
            return patiently(lambda: driver.execute_query(body(text), asked).records)

        yield run
        run("MATCH (n) WHERE n.ns = $ns DETACH DELETE n")


@pytest.mark.neo4j
def test_those_that_need_nothing_show_the_demo(memory: Memory, rows: Rows, tmp_path: Path) -> None:
    """With the parameters that stand there, but for ids: those of the memory have its namespace."""
    log = tmp_path / "some.jsonl"
    with log.open("w", encoding="utf-8") as file:
        for path in logs():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                file.writelines(islice(lines, 1, None, EVERY))
    with Memory.open("memory:", settings=Settings(embedder="hashing")) as own:
        seed(own, sources(map(str, logs())))
        for found in re.findall(r'=> "([0-9a-f]{32})"', SAVED):
            assert own.show(found).id == found, "an id of the demo in the namespace default"
    seed(memory, sources([str(log)]))
    memory.policies.learn_episodes()
    memory.recall(ASKED)
    ids = {"id": memory.episodes(limit=1)[0].id, "policy": memory.policies.list(limit=1)[0].id}
    empty = []
    for text in QUERIES:
        given = dict(re.findall(r'^//   :param (\w+) => "(.*)"$', text, re.MULTILINE))
        asked = {name: ids.get(name, value) for name, value in given.items()}
        if "//   needs " not in text and not rows(text, asked):
            empty.append(text.strip().partition("\n")[0])
    assert empty == []


@pytest.mark.neo4j
def test_each_saved_query_shows_something(memory: Memory, rows: Rows) -> None:
    """Of a memory that holds something of each kind."""
    populate(memory, "shown")
    hold(memory)
    empty = []
    for text in QUERIES:
        names = set(re.findall(r"^//   :param (\w+) =>", text, re.MULTILINE)) - {"ns"}
        assert set(re.findall(r"\$(\w+)", body(text))) - {"ns"} == names
        # One of the nodes that the query begins with has what is asked for.
        values = []
        for name in sorted(names):
            asked = re.search(rf"\w:(\w+) {{[^}}]*?(\w+): \${name}\b", text)
            assert asked
            label, key = asked.groups()
            found = rows(f"MATCH (n:{label} {{ns: $ns}}) RETURN DISTINCT n.{key} AS value")
            values.append([(name, row["value"]) for row in found])
        if not any(rows(text, dict(given)) for given in product(*values)):
            empty.append(text.strip().partition("\n")[0])
    assert empty == []
