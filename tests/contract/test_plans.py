"""No procedure that is given ids looks at a whole label: an index that is lost is a red test."""

from __future__ import annotations

import re
from typing import Any

import pytest

from graphmem import Memory
from graphmem.queries import Query, catalog

# What has to look at all of a namespace, by its purpose.
WHOLE = {
    "learning.best",
    "learning.find_tasks",
    "maintenance.ids",
    "maintenance.episode_ids",
    "maintenance.stats",
    "maintenance.namespaces",
}
SCANS = {"AllNodesScan", "NodeByLabelScan", "DirectedAllRelationshipsScan"}
BY_ID = [
    query
    for query in catalog()
    if query.mode != "schema"
    and query.name not in WHOLE
    and query.name.split(".")[0] in ("learning", "maintenance")
]


@pytest.mark.neo4j
@pytest.mark.parametrize("query", BY_ID, ids=lambda query: query.name)
@pytest.mark.parametrize("engine", ["neo4j"])
def test_the_server_finds_nodes_by_index(query: Query, memory: Memory) -> None:
    memory.initialize()
    driver = memory.store._driver  # type: ignore[attr-defined]
    with driver.session() as session:
        given: dict[str, Any] = {name: _sample(query, name) for name in query.params}
        plan = session.run(f"EXPLAIN {query.text}", given).consume().plan
    assert not SCANS & set(_operators(plan)), plan["args"]["string-representation"]


def _sample(query: Query, name: str) -> Any:
    return {"list": [], "integer": 1, "float": 1.0, "boolean": True, "map": {}, "string": "x"}[
        query.params[name].type
    ]


def _operators(plan: dict[str, Any]) -> list[str]:
    own = plan["operatorType"].partition("@")[0]
    return [own, *(name for child in plan.get("children", ()) for name in _operators(child))]


SCANNED = re.compile(r"\{id: \w[\w.]*\}\)\n(?:WITH (?:row, )?\w )?WHERE ")


@pytest.mark.parametrize("query", list(catalog()), ids=lambda query: query.name)
def test_the_embedded_engine_is_not_led_to_scan(query: Query) -> None:
    """It looks at every node of a label where a condition is fused with a match by an unwound id.

    Its plans and its count of work do not show that, so the text is looked at: either
    ``WHERE n.id IN $ids AND n.ns = $ns``, or ``WITH n, n.ns AS ns WHERE ns = $ns``.
    """
    assert not SCANNED.search(query.text)


def test_the_form_that_scans_is_found() -> None:
    for text in (
        "UNWIND $ids AS id\nMATCH (e:Episode {id: id})\nWHERE e.ns = $ns",
        "UNWIND $rows AS row\nMATCH (e:Episode {id: row.id})\nWITH row, e WHERE e.ns = $ns",
    ):
        assert SCANNED.search(text)
