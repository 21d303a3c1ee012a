"""Every procedure by itself, on both engines: it runs, it returns what its header says, and it
neither reads nor writes outside its namespace."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from graphmem.errors import ReadOnlyError
from graphmem.store.port import Transaction
from graphmem.store.queries import TYPES, Query, adhoc, catalog, procedure
from tests.contract.populating import STORE_WIDE, Asked, arguments, populate, variants

SUBJECTS: dict[str, list[Query]] = {}  # all procedures by their subjects
for _query in catalog():
    if _query.mode != "schema":
        SUBJECTS.setdefault(_query.name.partition(".")[0], []).append(_query)
ANSWERING = (
    *("maintenance.derive", "maintenance.stored", "analysis."),
    *("lessons_maintenance.derive", "lessons_maintenance.stored", "explaining."),
    *("shares.take", "shares.set", "shares.weigh"),
)
"""Of what begins so each has an answer here."""
CHANGING = ("lessons", "erasing.", "shares.", "learning.add")
"""Of what begins so and writes each has something to do here, but for UNCHANGING."""
UNCHANGING = {
    *("shares.weigh_anti_patterns", "shares.weigh_strategies", "shares.weigh_tallies"),
    *("lessons_maintenance.drop_rules", "lessons_maintenance.drop_mistakes"),
    "lessons_maintenance.hold_rules",
    *("lessons.trim_heuristics", "lessons.trim_anti_patterns", "lessons.trim_tasks"),
    "lessons.clear_preferred",
}
"""These lock, or remove what is not there while others have done their part."""
SILENT = {
    *("analysis.no_alternative", "analysis.disputed_strategies"),
    *("analysis.became", "calibration.similar"),
}
"""These need a longer history for an answer; the tests of analysis have one."""
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


Graph = list[dict[str, Any]]


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


def everything(memory: Memory) -> Graph:
    return memory.store.read(EVERYTHING, ns=memory.namespace)


class _UndoneError(Exception):
    """Ends a transaction of which nothing is to stay."""


def tried(
    pair: Pair, query: Query, given: dict[str, Any], *look: Memory
) -> tuple[Graph, list[Graph]]:
    """Run a procedure; return its rows and what it leaves in some namespaces, and undo it.

    One that reads cannot write (the engines refuse), so that nothing needs to be looked at.
    """
    if query.mode == "read":
        return pair.ours.store.read(query, **given), [pair.held[one.namespace] for one in look]
    found: list[Graph] = []
    seen: list[list[Graph]] = []

    def work(tx: Transaction) -> None:
        found.append(tx.run(query, **given))
        seen.append([tx.run(EVERYTHING, ns=one.namespace) for one in look])
        raise _UndoneError

    with contextlib.suppress(_UndoneError):
        pair.ours.store.transact(work)
    return found[-1], seen[-1]


@pytest.mark.every_case
@pytest.mark.parametrize("subject", SUBJECTS)
def test_procedures_answer_in_their_namespace_alone(
    subject: str, engine: str, everything_runs: bool, kept: Pair
) -> None:
    for query in SUBJECTS[subject]:
        if query.engine not in (None, engine):
            continue
        whole = everything_runs or engine == "embedded"
        for options in variants(query)[: None if whole else 1]:
            form = query.wanting(*options) if query.options else query
            assert_stays_in_namespace(form, kept)
            assert_returns_what_header_says(form, kept)


def assert_stays_in_namespace(query: Query, kept: Pair) -> None:
    """Aimed at the other's nodes from our namespace, nothing comes back or changes."""
    ours, theirs = kept.ours, kept.theirs
    given = arguments(query, ours.namespace, kept.asked[theirs.namespace])
    rows, (after, mine) = tried(kept, query, given, theirs, ours)

    before = kept.held[theirs.namespace]
    assert not changes(before, after), query.name
    if query.name in STORE_WIDE:
        return
    if query.name in INDEXED:
        own_ids = {row["id"] for row in rows if row["own"]}
        assert own_ids <= {row["id"] for row in mine}, query.name
        return
    own = {row["id"] for row in mine}
    foreign = {row["id"] for row in before} - own
    shown = repr(rows)
    assert not [identity for identity in foreign if identity in shown], query.name
    assert "theirs/" not in shown, query.name


def assert_returns_what_header_says(query: Query, kept: Pair) -> None:
    ours = kept.ours
    given = arguments(query, ours.namespace, kept.asked[ours.namespace])
    rows, (after,) = tried(kept, query, given, ours)

    for row in rows:
        assert list(row) == list(query.returns), query.name
        for name, value in row.items():
            assert value is None or isinstance(value, TYPES[query.returns[name]]), (
                query.name,
                name,
                value,
            )
    if query.name.startswith(ANSWERING) and query.name not in SILENT:
        assert rows, query.name
    if query.mode == "write" and query.name.startswith(CHANGING):
        changed = bool(changes(kept.held[ours.namespace], after))
        assert changed is (query.name not in UNCHANGING), f"{query.name} was given nothing to do"


def test_a_procedure_that_reads_cannot_write(kept: Pair) -> None:
    """Which is why the tests above look only at what those leave that write."""
    writing = procedure("schema.stamp")
    with pytest.raises(ReadOnlyError):
        kept.ours.store.read(writing, version=1, now=1)


def test_they_all_left_everything_as_it_was(kept: Pair) -> None:
    """The tests above look at what a procedure does before it is undone."""
    for one in (kept.ours, kept.theirs):
        assert not changes(kept.held[one.namespace], everything(one))


def changes(before: Graph, after: Graph) -> list[str]:
    """Return the rows that came (+) and went (-), the first ten of them."""
    went, came = ({repr(row) for row in rows} for rows in (before, after))
    lines = [f"- {row}" for row in went - came] + [f"+ {row}" for row in came - went]
    return sorted(lines, key=lambda line: line[2:])[:10] or [
        "another order or number of equal rows" for _ in (1,) if before != after
    ]


def test_both_engines_get_the_same_text() -> None:
    """No procedure has a version for one engine only, but those that ask a server's indexes."""
    for query in catalog():
        if query.mode == "schema":
            continue
        assert (query.engine == "neo4j") is query.name.startswith("search.")
    folder = catalog().folder
    assert not (folder / "neo4j").exists()
    assert not (folder / "embedded").exists()
