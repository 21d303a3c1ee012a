"""The store port: one statement that is undone, the last of a transaction, and optional lines."""

from __future__ import annotations

from itertools import combinations

import pytest

from graphmem import Memory
from graphmem.errors import StoreError
from graphmem.store import schema
from graphmem.store.port import Row, Transaction
from graphmem.store.queries import adhoc, catalog
from tests.contract.populating import learned, populate

CREATE = adhoc("CREATE (a:Agent {id: $id, ns: $ns}) RETURN a.id AS id", "write")
FORGET = (
    adhoc("MATCH (y:Tally) WHERE y.ns = $ns DETACH DELETE y", "write"),
    adhoc("MATCH (t:Task) WHERE t.ns = $ns REMOVE t.successes", "write"),
    adhoc("MATCH (h:Heuristic) WHERE h.ns = $ns REMOVE h.odds", "write"),
    adhoc("MATCH (p:AntiPattern) WHERE p.ns = $ns REMOVE p.odds, p.successes", "write"),
)
"""What a graphmem before schema version 6 did not keep."""
AGENTS = adhoc("MATCH (a:Agent) WHERE a.ns = $ns RETURN a.id AS id ORDER BY id")


class _EndError(Exception):
    """Ends a transaction."""


def agents(memory: Memory) -> list[str]:
    return [row["id"] for row in memory.store.read(AGENTS, ns=memory.namespace)]


def test_an_attempt_that_fits_stays(memory: Memory) -> None:
    rows = memory.store.attempt(CREATE, bool, id=f"a {memory.namespace}", ns=memory.namespace)
    assert rows == [{"id": f"a {memory.namespace}"}]
    assert agents(memory) == [f"a {memory.namespace}"]


def test_an_attempt_that_does_not_fit_is_undone_or_told(memory: Memory) -> None:
    """Nobody else writes an embedded memory: there the statement itself sees to it."""

    def never(_: list[Row]) -> bool:
        return False

    given = {"id": f"a {memory.namespace}", "ns": memory.namespace}
    if memory.store.capabilities.server:
        assert memory.store.attempt(CREATE, never, **given) == []
        assert agents(memory) == []
    else:
        with pytest.raises(StoreError):
            memory.store.attempt(CREATE, never, **given)


@pytest.mark.parametrize("before", [0, 2])
def test_the_last_statement_belongs_to_its_transaction(memory: Memory, before: int) -> None:
    def work(tx: Transaction) -> list[Row]:
        assert tx.run(AGENTS, ns=memory.namespace) == []
        for number in range(before):
            tx.run(CREATE, id=f"{number} {memory.namespace}", ns=memory.namespace)
        return tx.finish(CREATE, id=f"last {memory.namespace}", ns=memory.namespace)

    assert memory.store.transact(work) == [{"id": f"last {memory.namespace}"}]
    assert len(agents(memory)) == before + 1


def test_what_fails_before_the_last_statement_leaves_nothing(memory: Memory) -> None:
    def work(tx: Transaction) -> None:
        tx.run(CREATE, id=f"a {memory.namespace}", ns=memory.namespace)
        raise _EndError

    with pytest.raises(_EndError):
        memory.store.transact(work)
    assert agents(memory) == []


def test_every_choice_of_optional_lines_is_a_statement() -> None:
    """A server plans each alone, and all of them, in test_plans.py and test_procedures.py."""
    query = catalog()["learning.add"]
    with Memory.open("memory:", namespace="ours") as memory:
        populate(memory, "ours")
        for count in range(len(query.options) + 1):
            for options in combinations(query.options, count):
                variant = query.wanting(*options)
                given = learned(variant, "ours", memory)
                given["task"] = "nowhere"  # so that it writes nothing
                assert memory.store.write(variant, **given) == []


def test_counts_that_an_older_version_did_not_keep_are_derived(memory: Memory) -> None:
    populate(memory, "older")
    expected = memory.predict("shared task", "shared a")
    for forget in FORGET:
        memory.store.write(forget, ns=memory.namespace)
    assert memory.verify().differences

    schema.upgrade(memory.store.read, memory.store.write)

    assert not memory.verify().differences
    assert memory.predict("shared task", "shared a") == expected
