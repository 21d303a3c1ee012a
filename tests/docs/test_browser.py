"""What Neo4j Browser is given: a style for every label and edge, and queries that run."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from uuid import uuid4

import pytest
from neo4j import GraphDatabase, Record

from graphmem import Memory, Settings
from graphmem.cli.demonstration import ASKED, logs
from graphmem.seeding import seed, sources
from graphmem.store.queries import catalog
from tests.contract.populating import DAY, populate
from tests.docs.test_reference import edges_of_the_page, hold, read, section
from tests.neo4j.patience import patiently
from tests.neo4j.server import Found

ROOT = Path(__file__).resolve().parents[2]
BROWSER = catalog().folder / "browser"
SAVED = (BROWSER / "saved-queries.cypher").read_text()
QUERIES = [text for text in SAVED.split(";\n") if text.strip()]
EVERY = 5
"""One in so many episodes of the demo is enough: they come in rounds of eight."""


def test_every_label_has_a_style() -> None:
    nodes = section(read("graph.md"), "## Nodes")
    style = (BROWSER / "graphmem.grass").read_text(encoding="utf-8")
    labels = re.findall(r"^### (\w+)$", nodes, re.MULTILINE)
    assert sorted(re.findall(r"^node\.(\w+) ", style, re.MULTILINE)) == sorted(labels)
    plain = {"RAN", "ATTEMPTED", "HAS_STEP"}
    styled = re.findall(r"^relationship\.(\w+) ", style, re.MULTILINE)
    assert sorted(styled) == sorted(set(edges_of_the_page()) - plain)


def as_browser_reads(style: str) -> list[tuple[str, dict[str, str]]]:
    """Return the rules of a style as Browser 5 reads them: it knows no comments, and only single
    quotes keep a brace from ending a rule."""
    rules, selector, body, inside, quoted = [], "", "", False, False
    for char in style:
        if char == "'":
            quoted = not quoted
        elif char == "{" and not quoted:
            inside = True
        elif char == "}" and not quoted:
            rules.append((selector, body))
            selector, body, inside = "", "", False
        elif inside:
            body += char
        else:
            selector += char.strip()
    return [
        (
            name,
            {key.strip(): value.strip() for key, value in re.findall(r"([^:;]+):([^:;]+)", text)},
        )
        for name, text in rules
    ]


def test_browser_reads_the_style_as_it_is_meant() -> None:
    text = (BROWSER / "graphmem.grass").read_text(encoding="utf-8")
    rules = as_browser_reads(text)
    assert len(dict(rules)) == len(rules) == sum(bool(line) for line in text.splitlines())
    for name, properties in rules:
        assert re.fullmatch(r"(node|relationship)(\.\w+)?", name)
        assert "color" in properties
        caption = properties.get("caption", "")
        assert caption.count("{") == caption.count("}")
        assert caption == "<type>" or "{" in caption or name.startswith("relationship.")
    assert dict(rules)["relationship.OUTCOME"]["caption"] == "{successes} of {trials}"


def body(text: str) -> str:
    """Return a saved query without its comments."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def thinned(folder: Path) -> Path:
    """Write some of the demo's episodes to a log of their own."""
    log = folder / "some.jsonl"
    with log.open("w", encoding="utf-8") as file:
        for path in logs():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                file.writelines(islice(lines, 1, None, EVERY))
    return log


@pytest.mark.neo4j
def test_those_that_need_nothing_show_the_demo(neo4j: Found, tmp_path: Path) -> None:
    """With the parameters that stand there, but for ids: those of the memory have its namespace."""
    ns = f"browser-{uuid4().hex}"
    log = thinned(tmp_path)
    with Memory.open("memory:", settings=Settings(embedder="hashing")) as own:
        seed(own, sources(map(str, logs())))
        own.policies.learn_episodes()
        for found in re.findall(r'=> "([0-9a-f]{32})"', SAVED):
            assert own.show(found).id == found, "an id of the demo in the namespace default"
    settings = Settings(user=neo4j.user, password=neo4j.password, embedder="hashing")
    with Memory.open(neo4j.uri, namespace=ns, settings=settings) as memory:
        seed(memory, sources([str(log)]))
        memory.policies.learn_episodes()
        memory.recall(ASKED)
        ids = {
            "id": memory.episodes(limit=1)[0].id,
            "policy": memory.policies.list(limit=1)[0].id,
        }
        with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:
            empty = []
            for text in QUERIES:
                if "//   needs " in text:
                    continue
                given = dict(re.findall(r'^//   :param (\w+) => "(.*)"$', text, re.MULTILINE))
                asked = {**given, **{name: ids[name] for name in given.keys() & ids}, "ns": ns}
                if not patiently(lambda: driver.execute_query(body(text), asked).records):  # noqa: B023
                    empty.append(text.strip().partition("\n")[0])
            driver.execute_query("MATCH (n) WHERE n.ns = $ns DETACH DELETE n", {"ns": ns})
    assert empty == []


@pytest.mark.neo4j
def test_each_saved_query_shows_something(neo4j: Found) -> None:
    """Of a memory that holds something of each kind."""
    ns = f"browser-{uuid4().hex}"
    settings = Settings(user=neo4j.user, password=neo4j.password, embedder="hashing")
    with Memory.open(neo4j.uri, namespace=ns, settings=settings) as memory:
        populate(memory, "shown")
        hold(memory, DAY)
        with GraphDatabase.driver(neo4j.uri, auth=(neo4j.user, neo4j.password)) as driver:

            def rows(text: str, given: Mapping[str, object] | None = None) -> list[Record]:
                asked = {"ns": ns, **(given or {})}
                return patiently(lambda: driver.execute_query(text, asked).records)

            empty = []
            for text in QUERIES:
                names = re.findall(r"^//   :param (\w+) =>", text, re.MULTILINE)
                used = set(re.findall(r"\$(\w+)", body(text)))
                assert used - {"ns"} == set(names) - {"ns"}
                # One of the nodes that the query begins with has what is asked for.
                given: list[dict[str, object]] = [{}]
                for name in set(names) - {"ns"}:
                    asked = re.search(rf"\w:(\w+) {{[^}}]*?(\w+): \${name}\b", text)
                    assert asked
                    label, key = asked.groups()
                    found = rows(f"MATCH (n:{label} {{ns: $ns}}) RETURN DISTINCT n.{key} AS value")
                    given = [one | {name: row["value"]} for one in given for row in found]
                if not any(rows(body(text), one) for one in given):
                    empty.append(text.strip().partition("\n")[0])
            rows("MATCH (n) WHERE n.ns = $ns DETACH DELETE n")
    assert empty == []
