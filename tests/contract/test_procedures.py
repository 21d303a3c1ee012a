"""Procedures for Cypher users run, return what their headers say, and stay in their namespace.

And the store that runs them does what its port says.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from graphmem.store import schema
from graphmem.store.port import Row, Store, Transaction
from graphmem.store.queries import TYPES, Query, adhoc, catalog
from graphmem.testing import StoreConformance
from tests.conftest import Opener
from tests.contract.calling import Asked, arguments, populate
from tests.contract.teaching import tamper

OFFERED: dict[str, list[Query]] = {}
"""What Cypher users can call, by subject; methods reach the rest, see test_methods.py."""
for offered in catalog():
    if offered.install:
        OFFERED.setdefault(offered.name.partition(".")[0], []).append(offered)
SILENT = {"analysis.no_alternative", "analysis.disputed_strategies", "analysis.became"}
"""These need a longer history for an answer; the tests of analysis have one."""
UNCHANGING = {"policies.open_states", "predictions.expire", "predictions.drop_about"}
"""These find nothing to do: what they look for is there, or is not."""
EVERYTHING = adhoc(
    "MATCH (n) WHERE n.ns = $ns OPTIONAL MATCH (n)-[r]->(m) "
    "RETURN n.id AS id, labels(n) AS labels, properties(n) AS held, type(r) AS edge, "
    "properties(r) AS held_by_it, m.id AS other"
)
Graph = Counter[tuple[str, str]]
"""Each id with what is there under it."""


@dataclass(frozen=True)
class Pair:
    """Two namespaces of one store with the same words in them, and what they hold."""

    ours: Memory
    theirs: Memory
    held: dict[str, Graph]
    asked: dict[str, Asked]


@pytest.fixture(scope="module")
def pairs() -> Iterator[dict[str, Pair]]:
    """Pairs of populated memories, one an engine: making them takes longer than most tests."""
    pairs: dict[str, Pair] = {}
    yield pairs
    for pair in pairs.values():
        pair.ours.close()
        pair.theirs.close()


@pytest.fixture
def kept(
    engine: str,
    settings: Settings,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    pairs: dict[str, Pair],
) -> Pair:
    """Two namespaces that tests leave as they are; the last test checks that they did."""
    if engine not in pairs:
        if engine == "embedded":
            url = str(tmp_path_factory.mktemp("two") / "memory.graph")
        else:
            url = request.getfixturevalue("url")
        own = f"test-{uuid4().hex[:12]}"
        ours, theirs = (
            Memory.open(url, namespace=name, settings=settings) for name in (own, f"{own}-other")
        )
        populate(ours, "ours")
        populate(theirs, "theirs")
        held = {one.namespace: everything(one) for one in (ours, theirs)}
        assert all(held.values())
        asked = {one.namespace: Asked(one) for one in (ours, theirs)}
        pairs[engine] = Pair(ours, theirs, held, asked)
    return pairs[engine]


def everything(memory: Memory, tx: Transaction | None = None) -> Graph:
    found = tx.run if tx else memory.store.read
    return Counter(
        (row["id"], repr(_sorted(row))) for row in found(EVERYTHING, ns=memory.namespace)
    )


def _sorted(value: Any) -> Any:
    return sorted((k, _sorted(v)) for k, v in value.items()) if isinstance(value, dict) else value


class _UndoneError(Exception):
    """Ends a transaction of which nothing is to stay."""


def tried(
    pair: Pair, query: Query, given: dict[str, Any], looked_at: Memory
) -> tuple[list[Row], bool]:
    """Run a procedure; return its rows and whether a namespace was changed, and undo it.

    One that reads cannot write (see TestStore), so that nothing needs to be looked at.
    """
    if query.mode == "read":
        return pair.ours.store.read(query, **given), False
    found: list[Row] = []
    after = Graph()

    def work(tx: Transaction) -> None:
        found[:] = tx.run(query, **given)
        after.clear()
        after.update(everything(looked_at, tx))
        raise _UndoneError

    with contextlib.suppress(_UndoneError):
        pair.ours.store.transact(work)
    return found, after != pair.held[looked_at.namespace]


each_subject = pytest.mark.parametrize("subject", sorted(OFFERED))


@pytest.mark.every_case
@each_subject
def test_procedures_answer_in_their_namespace_alone(subject: str, kept: Pair) -> None:
    """Aimed at the other's nodes from our namespace, nothing comes back or changes."""
    ours, theirs = kept.ours, kept.theirs
    foreign = {identity for identity, _ in kept.held[theirs.namespace]} - {
        identity for identity, _ in kept.held[ours.namespace]
    }
    for query in OFFERED[subject]:
        given = arguments(query, ours.namespace, kept.asked[theirs.namespace])
        rows, changed = tried(kept, query, given, theirs)
        assert not changed, query.name
        shown = repr(rows)
        assert not [identity for identity in foreign if identity in shown], query.name
        assert "theirs/" not in shown, query.name


@pytest.mark.every_case
@each_subject
def test_procedures_return_what_their_headers_say(subject: str, kept: Pair) -> None:
    ours = kept.ours
    for query in OFFERED[subject]:
        given = arguments(query, ours.namespace, kept.asked[ours.namespace])
        rows, changed = tried(kept, query, given, ours)
        for row in rows:
            assert list(row) == list(query.returns), query.name
            for name, value in row.items():
                kind = TYPES[query.returns[name]]
                assert value is None or isinstance(value, kind), (query.name, name, value)
        if query.mode == "read":
            assert bool(rows) is (query.name not in SILENT), query.name
        else:
            nothing = query.name in UNCHANGING
            assert changed is not nothing, f"{query.name} was given nothing to do"


def test_they_all_left_everything_as_it_was(kept: Pair) -> None:
    """The tests above look at what a procedure does before it is undone."""
    for one in (kept.ours, kept.theirs):
        assert kept.held[one.namespace] == everything(one)


def test_both_engines_get_the_same_text() -> None:
    """No procedure has a version for one engine only, but those that ask a server's indexes."""
    for query in catalog():
        if query.mode == "schema":
            continue
        assert (query.engine == "neo4j") is query.name.startswith("search.")
    folder = catalog().folder
    assert not (folder / "neo4j").exists()
    assert not (folder / "embedded").exists()


# The store port, optional lines of statements, and counts of older versions

FORGET = (
    "MATCH (y:Tally) WHERE y.ns = $ns DETACH DELETE y",
    "MATCH (t:Task) WHERE t.ns = $ns REMOVE t.successes",
    "MATCH (s:Strategy)-[o:OUTCOME]->() WHERE s.ns = $ns "
    "REMOVE o.latest, s.latest, s.effective_trials, s.effective_successes",
    "MATCH (h:Heuristic) WHERE h.ns = $ns REMOVE h.odds",
    "MATCH (p:AntiPattern) WHERE p.ns = $ns REMOVE p.odds, p.successes",
)
"""What a graphmem before schema version 7 did not keep."""
KEPT = (
    "MATCH (a:Preference) WHERE a.ns = $ns WITH collect(a) AS kept "
    "WITH head(kept) AS one, last(kept) AS other CREATE (one)-[:SUPERSEDES]->(other)"
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
    for change in (*FORGET, KEPT):
        tamper(memory, change)
    assert memory.verify().differences

    def read(query: Query, /, **given: Any) -> list[Row]:
        """Of a server, where others' namespaces are, only this one."""
        rows = memory.store.read(query, **given)
        return [row for row in rows if row.get("namespace", memory.namespace) == memory.namespace]

    schema.upgrade(read, memory.store.write)

    assert not memory.verify().differences
    assert memory.predict("shared task", "shared a") == expected
    assert not memory.query("MATCH (p)-[:SUPERSEDES]->() WHERE p.ns = $ns RETURN p.id AS id")
