"""No procedure that is given ids looks at a whole label: an index that is lost is a red test."""

from __future__ import annotations

from typing import Any

import pytest

from graphmem import Episode, Memory
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


@pytest.mark.parametrize("engine", ["embedded"])
def test_the_work_of_a_learn_does_not_grow_with_the_history(memory: Memory) -> None:
    """The engine counts its work; ten times the history may not cost more of it."""
    read = [query for query in BY_ID if query.mode == "read" and "derive" not in query.name]
    assert len(read) > 8
    _fill(memory, 0, 300)
    _fill(memory, 300, 6_000)
    session = memory.store._writer.session  # type: ignore[attr-defined]
    [one] = memory.query(
        "MATCH (e:Episode)-[:USED]->(s:Strategy) MATCH (e)-[:ATTEMPTED]->(t:Task) "
        "MATCH (a:Agent)-[:RAN]->(e) RETURN e.id AS id, s.id AS strategy, t.id AS task, "
        "a.id AS agent LIMIT 1"
    )
    for query in read:
        given = {name: _sample(query, name) for name in query.params} | {"ns": memory.namespace}
        given |= {
            name: value
            for name, value in {
                "ids": list(one.values()),
                "id": one["id"],
                "tasks": [one["task"]],
                "strategy": one["strategy"],
                "task_type": None,
                "agent": None,
            }.items()
            if name in query.params
        }
        session.cypher(query.text, params=given, max_work_units=3_000)


def _fill(memory: Memory, start: int, stop: int) -> None:
    memory.learn_many(
        Episode(
            task=f"task {number}",
            strategy=f"strategy {number}",
            agent=f"agent {number}",
            success=True,
            source_key=str(number),
        )
        for number in range(start, stop)
    )
