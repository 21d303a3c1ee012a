"""Verifying and rebuilding page by page: of whatever size, the pages say the same."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Episode, Memory
from graphmem.graph.graph import Transaction
from graphmem.ids import to_millis
from graphmem.lessons import general_rules
from graphmem.models.reports import VerifyReport
from graphmem.policies import streams
from graphmem.store.port import Row
from graphmem.upkeep import verifying
from tests.conftest import Clock, Opener
from tests.contract.teaching import NOW, Dump, dump, histories, tamper

DAMAGE = {
    "episodes": "MATCH (n:Episode) WHERE n.ns = $ns SET n.feedback = 'forged'",
    "strategies": "MATCH (n:Strategy) WHERE n.ns = $ns SET n.credit_sum = n.credit_sum + 1",
    "outcomes": "MATCH (n:Strategy)-[o:OUTCOME]->() WHERE n.ns = $ns SET o.trials = o.trials + 1",
    "co_occurrences": (
        "MATCH (n:Strategy)-[c:CO_OCCURS_WITH]->() WHERE n.ns = $ns SET c.weight = c.weight + 1"
    ),
    "heuristics": "MATCH (n:Heuristic) WHERE n.ns = $ns SET n.score_sum = n.score_sum + 1",
    "anti_patterns": "MATCH (n:AntiPattern) WHERE n.ns = $ns SET n.occurrences = n.occurrences + 1",
    "tasks": "MATCH (n:Task) WHERE n.ns = $ns SET n.described_by = 'nobody'",
    "recent": "MATCH (n:Task)-[r:RECENT]->() WHERE n.ns = $ns DELETE r",
    "rules": (
        "MATCH (n:Rule) WHERE n.ns = $ns AND n.source = 'episodes' SET n.praised = n.praised + 1"
    ),
    "mistakes": "MATCH (n:Mistake) WHERE n.ns = $ns SET n.lesson = 'forged', n.seen = n.seen + 1",
    "agents": "MATCH (n:Agent) WHERE n.ns = $ns SET n.created_at = n.created_at + 1",
    "tallies": "MATCH (n:Tally) WHERE n.ns = $ns SET n.trials = n.trials + 1",
}


class Pages:
    """The sizes of pages, which a test can change."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def of(self, size: int) -> None:
        self._patch.setattr(verifying, "USES", size)
        self._patch.setattr(verifying, "RANGE", size)
        self._patch.setattr(streams, "PAGE", size)
        self._patch.setattr(general_rules, "USES", size)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Pages:
    return Pages(monkeypatch)


@pytest.mark.timeout(900)
@hypothesis.settings(
    max_examples=4,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate),
)
@hypothesis.given(history=histories(8, 24), size=st.integers(1, 9))
def test_pages_of_any_size_find_the_same_differences_and_rebuild_the_same(
    history: list[Episode], size: int, opened: Opener, clock: Clock, sizes: Pages
) -> None:
    clock.now = to_millis(NOW)
    memory = opened(f"test-{uuid4().hex}")
    memory.learn_many(history)
    memory.lessons.consolidate(force=True)
    whole = _held(memory)
    sizes.of(size)
    report = memory.verify()
    assert report.ok
    assert report.checked["episodes"] == memory.stats().episodes
    memory.upkeep.rebuild()
    assert _held(memory) == whole
    for damage in DAMAGE.values():
        tamper(memory, damage)
    paged = memory.verify()
    found = {one.kind for one in paged.differences}
    assert found - {"preferred"} == {kind for kind in DAMAGE if report.checked[kind]}
    sizes.of(10_000)
    assert _keys(memory.verify()) == _keys(paged)


def test_a_rebuild_writes_only_where_something_differs(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.learn_many(
        {"task": "t", "strategy": ["s", "r"], "success": n > 2, "source_key": str(n)}
        for n in range(5)
    )
    report, right = memory.upkeep.rebuild(), dump(memory)
    run, wrote = Transaction.run, []

    def noting(tx: Transaction, name: str, /, *options: str, **params: Any) -> list[Row]:
        wrote.append(name)
        return run(tx, name, *options, **params)

    monkeypatch.setattr(Transaction, "run", noting)
    assert memory.upkeep.rebuild() == report
    assert not [name for name in wrote if ".put_" in name]
    tamper(
        memory,
        "MATCH (s:Strategy)-[o:OUTCOME]->(t:Task) WHERE s.ns = $ns CREATE (s)-[:OUTCOME {agent: "
        "o.agent, trials: o.trials, successes: o.successes, credit_sum: o.credit_sum, "
        "score_sum: o.score_sum, last_at: o.last_at}]->(t)",
    )
    assert memory.verify().differing == {"outcomes": 2}
    assert memory.upkeep.rebuild() == report
    assert dump(memory) == right
    assert "maintenance.put_tasks" not in wrote
    assert "maintenance.put_outcomes" in wrote


DAMAGED = [
    (
        "MATCH (n:Task)-[r:SIMILAR_TO]->(m) WHERE n.ns = $ns CREATE (n)-[:SIMILAR_TO "
        "{similarity: r.similarity, embedder: r.embedder}]->(m)",
        "similar",
    ),
    ("MATCH (n:Task)-[r:SIMILAR_TO]->() WHERE n.ns = $ns SET r.embedder = 'x'", "similar"),
    (
        "MATCH (n:AntiPattern)-[r:PREFER]->(m) WHERE n.ns = $ns CREATE (n)-[:PREFER {lift: "
        "r.lift, trials: r.trials, successes: r.successes, lower: r.lower, ground: "
        "r.ground}]->(m)",
        "preferred",
    ),
    ("MATCH (n:Task) WHERE n.ns = $ns SET n.score_sum = 'seven'", "tasks"),
    ("MATCH (n:Heuristic) WHERE n.ns = $ns SET n.credit_sum = 'seven'", "heuristics"),
    ("MATCH (n:AntiPattern) WHERE n.ns = $ns SET n.types = null", "anti_patterns"),
    ("MATCH (n:Task)-[r:RECENT]->() WHERE n.ns = $ns SET r.at = r.at + 1", "recent"),
    ("MATCH (n:Policy) WHERE n.ns = $ns SET n.agent = 'nobody'", "policies"),
    ("MATCH (n:Task)-[r:HAS_RULE]->() WHERE n.ns = $ns DELETE r", "rules"),
    ("MATCH (n:Task)-[r:HAS_RULE]->(m) WHERE n.ns = $ns CREATE (n)-[:HAS_RULE]->(m)", "rules"),
    ("MATCH (n:Pooling) WHERE n.ns = $ns REMOVE n.trials", "pooling"),
    ("MATCH (n:Pooling) WHERE n.ns = $ns SET n.task_strength = 'seven'", "pooling"),
    ("MATCH (n:Task)-[r:SIMILAR_TO]->() WHERE n.ns = $ns SET r.similarity = 'x'", "similar"),
    ("MATCH (n:Episode) WHERE n.ns = $ns SET n.error_class = 7", "episodes"),
    ("MATCH (n)-[r:OUTCOME]->() WHERE n.ns = $ns SET r.trials = 'seven'", "outcomes"),
    ("MATCH (n)-[r:OUTCOME]->() WHERE n.ns = $ns SET r.successes = 100", "outcomes"),
    ("MATCH (n:Strategy) WHERE n.ns = $ns SET n.successes = 'seven'", "strategies"),
    ("MATCH (n:AntiPattern) WHERE n.ns = $ns SET n.odds = 'seven'", "anti_patterns"),
    ("MATCH (n:Task) WHERE n.ns = $ns REMOVE n.description", "tasks"),
    ("MATCH (n:Rule {source: 'repetition'}) WHERE n.ns = $ns REMOVE n.text", "general_rules"),
    ("MATCH (:Heuristic)-[r:RECOMMENDS]->(n) WHERE n.ns = $ns DELETE r", "heuristics"),
    ("MATCH (:AntiPattern)-[r:WARNS_AGAINST]->(n) WHERE n.ns = $ns DELETE r", "anti_patterns"),
    ("MATCH (n:AntiPattern)-[r:OPPOSED_BY]->() WHERE n.ns = $ns DELETE r", "anti_patterns"),
    ("MATCH (:Tally)-[r:COUNTS]->(n) WHERE n.ns = $ns DELETE r", "tallies"),
    ("MATCH (n:Consolidation)-[r:HAS_RULE]->() WHERE n.ns = $ns DELETE r", "general_rules"),
    ("MATCH (n:Rule {source: 'repetition'}) WHERE n.ns = $ns SET n.worked = 77", "general_rules"),
    ("MATCH (n:Strategy)-[r:SIMILAR_TO]->() WHERE n.ns = $ns SET r.similarity = 0", "similar"),
    ("MATCH (n:Heuristic) WHERE n.ns = $ns DETACH DELETE n", "heuristics"),
    ("MATCH (n:Tally) WHERE n.ns = $ns DETACH DELETE n", "tallies"),
    ("MATCH (n:Heuristic)-[d:DERIVED_FROM]->() WHERE n.ns = $ns DELETE d", "heuristics"),
    (
        "MATCH (n:Heuristic)-[d:DERIVED_FROM]->() WHERE n.ns = $ns SET d.supports = false",
        "heuristics",
    ),
    ("MATCH (n:AntiPattern)-[d:DERIVED_FROM]->() WHERE n.ns = $ns DELETE d", "anti_patterns"),
    ("MATCH (n:Episode) WHERE n.ns = $ns SET n.type = 'forged'", "episodes"),
    ("MATCH (n:Rule) WHERE n.ns = $ns SET n.verdict = 'AVOID'", "rules"),
    ("MATCH (:Strategy)-[o:OUTCOME]->(n) WHERE n.ns = $ns DELETE o", "outcomes"),
    ("MATCH (n:Task)-[r:SIMILAR_TO]->() WHERE n.ns = $ns DELETE r", "similar"),
]
"""What somebody did, and of what kind the difference is."""


def test_a_rebuild_mends_damage(memory: Memory, clock: Clock, everything_runs: bool) -> None:
    clock.now = to_millis(NOW)
    right = _taught(memory)
    some = not everything_runs and memory.store.capabilities.server
    for damage, kind in DAMAGED[:1] if some else DAMAGED:
        tamper(memory, damage)
        assert memory.verify().differing[kind], damage
        memory.upkeep.rebuild()
        assert _held(memory) == right, damage
    report = memory.verify()
    assert report.ok, report.differences


@pytest.mark.parametrize(
    "damage",
    [
        "MATCH (n:Rule {source: 'episodes'}) WHERE n.ns = $ns REMOVE n.text",
        "MATCH (s:Step) WHERE s.ns = $ns SET s.reward = 7.0",
        "MATCH (n:Task) WHERE n.ns = $ns DETACH DELETE n",
        "MATCH (n:Agent) WHERE n.ns = $ns DETACH DELETE n",
    ],
)
def test_facts_that_are_gone_are_what_no_rebuild_mends(memory: Memory, damage: str) -> None:
    _taught(memory)
    tamper(memory, damage)
    before = memory.verify().differing["episodes"]
    memory.upkeep.rebuild()
    assert memory.verify().differing["episodes"] == before


def test_a_rule_that_lost_its_source_is_one_of_episodes(memory: Memory) -> None:
    _taught(memory)
    where = "MATCH (n:Rule {source: 'episodes'}) WHERE n.ns = $ns"
    tamper(memory, f"{where} SET n.worked = 99, n.source = null")
    assert memory.verify().differing["rules"]
    memory.upkeep.rebuild()
    assert "rules" not in memory.verify().differing


def test_a_report_lists_the_first_differences_of_a_kind_and_counts_all(memory: Memory) -> None:
    memory.learn_many(
        {"task": "t", "strategy": "s", "success": True, "source_key": str(n)} for n in range(130)
    )
    tamper(memory, DAMAGE["strategies"])
    tamper(memory, DAMAGE["episodes"])
    report = memory.verify()
    assert not report.ok
    assert report.differing == {"episodes": 130, "strategies": 1}
    assert Counter(one.kind for one in report.differences) == {"episodes": 100, "strategies": 1}
    assert report.more == 30


def _taught(memory: Memory) -> Dump:
    """Teach a memory something of each kind; return what it holds."""
    memory.learn_many({
        "task": f"find flight {number % 3}", "task_type": "search",
        "strategy": ["ask", f"look at page {number % 2}"], "success": number % 5 > 0,
        "error": None if number % 5 else "timeout",
        "successes": ["say the date"] if number % 5 else [],
        "steps": [{"state": {"page": number % 2}, "action_type": "go", "reward": 1.0}],
        "source_key": str(number)} for number in range(60))  # fmt: skip
    memory.learn_many(
        {"task": "find a hotel", "strategy": [text], "success": text == "call", "error": error}
        for text, error in (("write", "no answer"), ("call", None))
        for _ in range(10)
    )
    memory.upkeep.relink()
    memory.lessons.consolidate(force=True)
    memory.upkeep.rebuild()
    return _held(memory)


def _held(memory: Memory) -> Dump:
    """What is there, but for how often general rules were derived."""
    return {key: held for key, held in dump(memory).items() if not key.startswith("Consolidation ")}


def _keys(report: VerifyReport) -> set[tuple[str, str, str]]:
    return {(one.kind, one.key, one.field) for one in report.differences}


def test_what_it_holds_does_not_grow_with_the_episodes(sizes: Pages) -> None:
    """All have one task, strategy and agent, so each of these has all episodes."""
    sizes.of(100)
    peaks = []
    seen: list[tuple[int, int]] = []
    for count in (200, 2_000):
        with Memory.open("memory:") as memory:
            memory.learn_many(
                {"task": "t", "strategy": ["a", "b"], "success": n % 3 > 0, "source_key": str(n)}
                for n in range(count)
            )
            memory.verify()  # whatever is read once and kept
            seen.clear()
            tracemalloc.start()
            try:
                assert memory.verify(on_progress=lambda *done: seen.append(done)).ok
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1] == (6 * count, 6 * count)  # itself, task, agent, two strategies, event
    assert peaks[1] < 2 * peaks[0]
