"""Every procedure by itself, on both engines: it runs, it returns what its header says, and it
neither reads nor writes outside its namespace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Settings
from graphmem.errors import QueryError
from graphmem.store.port import Transaction
from graphmem.store.queries import TYPES, Query, adhoc, catalog
from tests.conftest import Opener
from tests.contract.populating import STORE_WIDE, arguments, ids, populate, variants

PROCEDURES = [
    pytest.param(
        query.wanting(*options) if query.options else query,
        id=f"{query.name} {len(options)} {options[0]}" if options else query.name,
    )
    for query in catalog()
    if query.mode != "schema"
    for options in variants(query)
]
ANSWERING = (
    *("maintenance.derive", "maintenance.stored", "analysis."),
    *("lessons_maintenance.derive", "lessons_maintenance.stored", "explaining."),
)
"""Of what begins so each has an answer here."""
CHANGING = ("lessons", "erasing.", "learning.add")
"""Of what begins so and writes each has something to do here, but for UNCHANGING."""
UNCHANGING = {
    *("lessons.lock_strategies", "lessons_maintenance.lock_rules"),
    *("lessons_maintenance.lock_mistakes", "lessons_maintenance.drop_rules"),
    *("lessons_maintenance.drop_mistakes", "lessons.release"),
    *("lessons.trim_heuristic_evidence", "lessons.trim_anti_pattern_evidence"),
    *("lessons.trim_recent", "lessons.clear_preferred"),
}
"""These lock, or remove what is not there while others have done their part."""
SILENT = {
    *("analysis.getting_worse", "analysis.no_alternative", "analysis.disputed_strategies"),
    "calibration.similar",
}
"""These need a longer history for an answer; test_analysis.py has one."""
INDEXED = {
    *("search.near_strategies", "search.near_tasks"),
    *("search.strategies_by_words", "search.tasks_by_words"),
}
"""A server's indexes span namespaces: these mark which of their answers are one's own."""
EVERYTHING = adhoc(
    """
    MATCH (n) WHERE n.ns = $ns
    OPTIONAL MATCH (n)-[r]->(m)
    RETURN n.id AS id, labels(n)[0] AS label, type(r) AS edge, m.id AS other, m.ns AS ns,
           reduce(said = '', x IN [n.text, n.trials, n.successes, n.credit_sum, n.score_sum,
                  n.last_used_at,
                  n.name, n.key, n.description, n.created_at, n.content_hash, n.index,
                  r.trials, r.count, r.weight, r.rank, r.agent, n.q, n.updates, n.confidence,
                  n.last, n.unrecorded, n.seq, n.position, n.consumer, n.claimed_at, n.status,
                  n.error, n.reads, n.active, n.features, n.phase, r.held, r.steps, size(n.pending),
                  n.deliveries, n.category, n.fact, n.user, r.statement, n.min_occurrences,
                  size(n.share_with), n.rest, r.position, n.verdict, n.worked,
                  n.stamp, n.renewals, r.supports, n.failed, n.occurrences, size(n.types), n.seen,
                  n.lesson, n.merged_into, n.type, n.error_class, n.episodes, r.at, r.as_success,
                  r.lift, r.similarity, r.embedder, n.kind, n.dimensions, n.similar, n.words,
                  size(n.embedding), n.embedded, n.gain] |
                  said + coalesce(toString(x), '-') + ' ') AS held
    ORDER BY id, edge, other, r.agent, r.at, r.rank, r.as_success
    """
)


@pytest.fixture
def two(opened: Opener) -> tuple[Memory, Memory]:
    """Two namespaces of one store with the same words in them."""
    ours = opened()
    theirs = opened(f"{ours.namespace}-other")
    populate(ours, "ours")
    populate(theirs, "theirs")
    return ours, theirs


@pytest.fixture(scope="module")
def once() -> Iterator[dict[str, tuple[Memory, Memory]]]:
    """Pairs of populated memories, one an engine: making them takes longer than most tests."""
    pairs: dict[str, tuple[Memory, Memory]] = {}
    yield pairs
    for memory in (memory for pair in pairs.values() for memory in pair):
        memory.close()


@pytest.fixture
def kept(
    engine: str,
    settings: Settings,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    once: dict[str, tuple[Memory, Memory]],
) -> tuple[Memory, Memory]:
    """Two namespaces of one store with the same words in them, which tests leave as they are."""
    if engine not in once:
        if engine == "embedded":
            url = str(tmp_path_factory.mktemp("two") / "memory.graph")
        else:
            url = request.getfixturevalue("url")
        own = f"test-{uuid4().hex[:12]}"
        ours, theirs = (
            Memory.open(url, namespace=name, settings=settings) for name in (own, f"{own}-other")
        )
        once[engine] = (ours, theirs)
        populate(ours, "ours")
        populate(theirs, "theirs")
    return once[engine]


def skip_other_engines(query: Query, memory: Memory) -> None:
    if query.engine not in (None, memory.store.capabilities.engine):
        pytest.skip(f"only {query.engine} can run it")


class _UndoneError(Exception):
    """Ends a transaction of which nothing is to stay."""


Graph = list[dict[str, Any]]


def tried(
    memory: Memory, query: Query, given: dict[str, Any], *look: str
) -> tuple[Graph, list[Graph]]:
    """Run a procedure; return its rows and what it leaves in some namespaces, and undo it."""
    if query.mode == "read":
        rows = memory.store.read(query, **given)
        return rows, [memory.store.read(EVERYTHING, ns=ns) for ns in look]
    found: list[Graph] = []
    seen: list[list[Graph]] = []

    def work(tx: Transaction) -> None:
        found.append(tx.run(query, **given))
        seen.append([tx.run(EVERYTHING, ns=ns) for ns in look])
        raise _UndoneError

    with contextlib.suppress(_UndoneError):
        memory.store.transact(work)
    return found[-1], seen[-1]


@pytest.mark.parametrize("query", PROCEDURES)
def test_a_procedure_stays_in_its_namespace(query: Query, kept: tuple[Memory, Memory]) -> None:
    ours, theirs = kept
    skip_other_engines(query, ours)
    before = theirs.store.read(EVERYTHING, ns=theirs.namespace)
    assert before
    # Aimed at the other's nodes from our namespace: nothing may come back or change.
    given = arguments(query, ours.namespace, theirs)
    rows, (after, mine) = tried(ours, query, given, theirs.namespace, ours.namespace)

    assert after == before
    if query.name in STORE_WIDE:
        return
    if query.name in INDEXED:
        own_ids = {row["id"] for row in rows if row["own"]}
        assert own_ids <= {row["id"] for row in mine}
        return
    own = {row["id"] for row in mine}
    foreign = {row["id"] for row in before} - own
    shown = repr(rows)
    assert not [identity for identity in foreign if identity in shown]
    assert "theirs/" not in shown


@pytest.mark.parametrize("query", PROCEDURES)
def test_a_procedure_returns_what_its_header_says(
    query: Query, kept: tuple[Memory, Memory]
) -> None:
    ours, _ = kept
    skip_other_engines(query, ours)
    before = ours.store.read(EVERYTHING, ns=ours.namespace)
    given = arguments(query, ours.namespace, ours)
    rows, (after,) = tried(ours, query, given, ours.namespace)

    for row in rows:
        assert list(row) == list(query.returns)
        for name, value in row.items():
            assert value is None or isinstance(value, TYPES[query.returns[name]]), (name, value)
    if query.name.startswith(ANSWERING) and query.name not in SILENT:
        assert rows
    if query.mode == "write" and query.name.startswith(CHANGING):
        assert (after != before) is (query.name not in UNCHANGING), "it was given nothing to do"
    assert ours.store.read(EVERYTHING, ns=ours.namespace) == before  # for the next test


@hypothesis.settings(max_examples=15)
@hypothesis.given(data=st.data())
def test_what_one_namespace_does_another_does_not_see(
    data: st.DataObject, opened: Opener, two: tuple[Memory, Memory]
) -> None:
    """Random calls of the library in one namespace leave the other as it is."""
    ours, theirs = two
    before = theirs.store.read(EVERYTHING, ns=theirs.namespace)
    stats = theirs.stats().model_dump(exclude={"snapshot_age"})
    for number in range(data.draw(st.integers(1, 4))):
        action = data.draw(st.sampled_from(["learn", "erase", "rebuild", "read"]))
        if action == "learn":
            key = data.draw(st.sampled_from(["theirs/0", "ours/0", f"new/{number}"]))
            ours.learn_many(
                [
                    {
                        "task": "shared task",
                        "strategy": data.draw(st.sampled_from(["shared a", "own"])),
                        "success": data.draw(st.booleans()),
                        "source_key": key,
                    }
                ],
                on_error="collect",
            )
        elif action == "erase":
            for identity in ids(ours, "Episode")[:1]:
                ours.upkeep.erase(identity)
        elif action == "rebuild":
            ours.upkeep.rebuild()
        else:
            shown = repr([ours.strategies(), ours.evidence("shared a"), ours.verify()])
            assert not [row["id"] for row in before if row["id"] in shown]
    assert theirs.store.read(EVERYTHING, ns=theirs.namespace) == before
    assert theirs.stats().model_dump(exclude={"snapshot_age"}) == stats


def test_a_statement_that_is_no_cypher_is_a_clear_error(memory: Memory) -> None:
    memory.upkeep.initialize()
    with pytest.raises(QueryError):
        memory.query("MATCH (s:Strategy RETURN s")


def test_both_engines_get_the_same_text() -> None:
    """No procedure has a version for one engine only, but those that ask a server's indexes."""
    for query in catalog():
        if query.mode == "schema":
            continue
        assert (query.engine == "neo4j") is query.name.startswith("search.")
    folder = catalog().folder
    assert not (folder / "neo4j").exists()
    assert not (folder / "embedded").exists()
