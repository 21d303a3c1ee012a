"""The nodes and edges of a namespace, label by label, as they lie in the graph."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

from graphmem.store.paging import pages
from graphmem.store.port import Row, Transaction
from graphmem.store.queries import adhoc, procedure

PAGE = 1_000  # nodes that are read at once
_NODE = re.compile(r"CREATE \((\w+):(\w+) ")
_SET = re.compile(r"SET (\w+) \+= \{(.*?)\}", re.DOTALL)
_NAME = re.compile(r"(\w+):")


@cache
def labels() -> dict[str, tuple[str, ...]]:
    """Return the labels of a namespace, and what nodes of each may hold."""
    text = procedure("schema.properties").text
    held = {node: tuple(_NAME.findall(names)) for node, names in _SET.findall(text)}
    known = {label: held[node] for node, label in _NODE.findall(text)}
    return {"Agent": ("ns", "created_at", "name"), **known}  # which is always created whole


@cache
def naming() -> tuple[str, ...]:
    """Return statements that name what nodes may hold, label by label, and do not run."""
    return tuple(
        f"EXPLAIN MATCH (n:{label}) RETURN {', '.join(f'n.{name}' for name in names)}"
        for label, names in labels().items()
        if label != "Agent"
    )


def ids(tx: Transaction, label: str, ns: str) -> list[str]:
    """Return the ids of the nodes of a label, in order."""
    query = adhoc(f"MATCH (n:{label}) WHERE n.ns = $ns RETURN n.id AS id ORDER BY id")
    return [row["id"] for row in tx.run(query, ns=ns)]


def nodes(tx: Transaction, label: str, known: list[str]) -> Iterator[Row]:
    """Yield what nodes of a label hold, with their ids."""
    columns = ", ".join(f"n.{name} AS {name}" for name in ("id", *labels()[label]))
    query = adhoc(f"MATCH (n:{label}) WHERE n.id IN $ids RETURN {columns} ORDER BY id")
    for page in pages(known, PAGE):
        yield from tx.run(query, ids=page)


def edges(tx: Transaction, label: str, known: list[str]) -> Iterator[Row]:
    """Yield the edges from nodes of a label: {id, type, label, other, held}."""
    query = adhoc(
        f"MATCH (n:{label})-[r]->(m) WHERE n.id IN $ids RETURN n.id AS id, type(r) AS type, "
        "labels(m)[0] AS label, m.id AS other, properties(r) AS held ORDER BY id, type, other"
    )
    for page in pages(known, PAGE):
        yield from tx.run(query, ids=page)


def empty_nodes(label: str, name: str, ids: list[str]) -> str:
    """Return the statement that gives nodes an empty list."""
    return f"MATCH (n:{label}) WHERE n.id IN {json.dumps(ids)} SET n.{name} = [];"


def empty_edges(kind: str, name: str) -> str:
    """Return the statement that gives edges without a property an empty list."""
    return f"MATCH ()-[r:{kind}]->() WHERE r.{name} IS NULL SET r.{name} = [];"
