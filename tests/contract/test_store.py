"""The store port, optional lines of statements, and counts of older versions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from graphmem import Memory
from graphmem.store import schema
from graphmem.store.port import Row, Store
from graphmem.store.queries import Query, adhoc, catalog
from graphmem.testing import StoreConformance
from tests.conftest import Opener
from tests.contract.populating import populate

FORGET = (
    adhoc("MATCH (y:Tally) WHERE y.ns = $ns DETACH DELETE y", "write"),
    adhoc("MATCH (t:Task) WHERE t.ns = $ns REMOVE t.successes", "write"),
    adhoc(
        "MATCH (s:Strategy)-[o:OUTCOME]->() WHERE s.ns = $ns "
        "REMOVE o.latest, s.latest, s.effective_trials, s.effective_successes",
        "write",
    ),
    adhoc("MATCH (h:Heuristic) WHERE h.ns = $ns REMOVE h.odds", "write"),
    adhoc("MATCH (p:AntiPattern) WHERE p.ns = $ns REMOVE p.odds, p.successes", "write"),
)
"""What a graphmem before schema version 7 did not keep."""
KEPT = adhoc(
    "MATCH (a:Preference) WHERE a.ns = $ns WITH collect(a) AS kept "
    "WITH head(kept) AS one, last(kept) AS other CREATE (one)-[:SUPERSEDES]->(other)",
    "write",
)
"""What one before 10 kept."""


class TestStore(StoreConformance):
    @pytest.fixture
    def store(self, opened: Opener) -> Store:
        return opened(embedder="hashing").store


SAMPLES: dict[str, object] = {
    "list": [],
    "integer": 1,
    "float": 1.0,
    "boolean": True,
    "map": {},
    "string": "nowhere",
}


def test_every_pair_of_optional_lines_is_a_statement() -> None:
    """As none, each alone and all; the task is not there, so that nothing is written."""
    query = catalog()["learning.add"]
    with Memory.open("memory:") as memory:
        for count in (0, 1, 2, len(query.options)):
            for options in combinations(query.options, count):
                variant = query.wanting(*options)
                given = {name: SAMPLES[param.type] for name, param in variant.params.items()}
                assert memory.store.write(variant, **given) == []


def test_counts_that_an_older_version_did_not_keep_are_derived(memory: Memory) -> None:
    populate(memory, "older")
    expected = memory.predict("shared task", "shared a")
    for forget in FORGET:
        memory.store.write(forget, ns=memory.namespace)
    memory.store.write(KEPT, ns=memory.namespace)
    assert memory.verify().differences

    def read(query: Query, /, **given: Any) -> list[Row]:
        """Of a server, where others' namespaces are, only this one."""
        rows = memory.store.read(query, **given)
        return [row for row in rows if row.get("namespace", memory.namespace) == memory.namespace]

    schema.upgrade(read, memory.store.write)

    assert not memory.verify().differences
    assert memory.predict("shared task", "shared a") == expected
    assert not memory.query("MATCH (p)-[:SUPERSEDES]->() WHERE p.ns = $ns RETURN p.id AS id")
