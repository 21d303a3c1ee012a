"""What Neo4j Browser is given: a style for every label and edge, and queries that run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from neo4j import GraphDatabase, Record

from graphmem import Memory, Settings
from graphmem.store.queries import catalog
from tests.contract.populating import DAY, populate
from tests.docs.test_reference import hold
from tests.neo4j.patience import patiently
from tests.neo4j.server import Found

ROOT = Path(__file__).resolve().parents[2]
BROWSER = catalog().folder / "browser"
QUERIES = [
    text for text in (BROWSER / "saved-queries.cypher").read_text().split(";\n") if text.strip()
]


def test_every_label_has_a_style() -> None:
    page = (ROOT / "docs" / "reference" / "graph.md").read_text(encoding="utf-8")
    style = (BROWSER / "graphmem.grass").read_text(encoding="utf-8")
    nodes, edges = page.partition("## Nodes")[2].split("## Edges")
    labels = re.findall(r"^### (\w+)$", nodes, re.MULTILINE)
    assert sorted(re.findall(r"^node\.(\w+) ", style, re.MULTILINE)) == sorted(labels)
    types = re.findall(r"^### (\w+)$", edges, re.MULTILINE)
    plain = {"RAN", "ATTEMPTED", "HAS_STEP"}
    styled = re.findall(r"^relationship\.(\w+) ", style, re.MULTILINE)
    assert sorted(styled) == sorted(set(types) - plain)


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
                lines = [line for line in text.strip().splitlines() if not line.startswith("//")]
                names = re.findall(r"^//   :param (\w+) =>", text, re.MULTILINE)
                used = set(re.findall(r"\$(\w+)", "\n".join(lines)))
                assert used - {"ns"} == set(names) - {"ns"}
                # One of the nodes that the query begins with has what is asked for.
                given: list[dict[str, object]] = [{}]
                for name in set(names) - {"ns"}:
                    asked = re.search(rf"\w:(\w+) {{[^}}]*?(\w+): \${name}\b", text)
                    assert asked
                    label, key = asked.groups()
                    found = rows(f"MATCH (n:{label} {{ns: $ns}}) RETURN DISTINCT n.{key} AS value")
                    given = [one | {name: row["value"]} for one in given for row in found]
                if not any(rows("\n".join(lines), one) for one in given):
                    empty.append(text.strip().partition("\n")[0])
            rows("MATCH (n) WHERE n.ns = $ns DETACH DELETE n")
    assert empty == []
