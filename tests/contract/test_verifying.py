"""Verifying and rebuilding page by page: of whatever size, the pages say the same."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Episode, Memory
from graphmem.graph.graph import Transaction
from graphmem.lessons import general_rules
from graphmem.models.reports import VerifyReport
from graphmem.policies import streams
from graphmem.store.port import Row
from graphmem.upkeep import verifying
from tests.conftest import Clock, Opener
from tests.contract.teaching import SHOWN_AS_FOUND, Dump, dump, histories, tamper

DAMAGE = {
    "episodes": ("(n:Episode)", "SET n.feedback = 'forged'"),
    "strategies": ("(n:Strategy)", "SET n.credit_sum = n.credit_sum + 1"),
    "outcomes": ("(n:Strategy)-[o:OUTCOME]->()", "SET o.trials = o.trials + 1"),
    "co_occurrences": ("(n:Strategy)-[c:CO_OCCURS_WITH]->()", "SET c.weight = c.weight + 1"),
    "heuristics": ("(n:Heuristic)", "SET n.score_sum = n.score_sum + 1"),
    "anti_patterns": ("(n:AntiPattern)", "SET n.occurrences = n.occurrences + 1"),
    "tasks": ("(n:Task)", "SET n.described_by = 'nobody'"),
    "recent": ("(n:Task)-[r:RECENT]->()", "DELETE r"),
    "rules": ("(n:Rule)", "AND n.source = 'episodes' SET n.praised = n.praised + 1"),
    "mistakes": ("(n:Mistake)", "SET n.lesson = 'forged', n.seen = n.seen + 1"),
    "agents": ("(n:Agent)", "SET n.created_at = n.created_at + 1"),
    "tallies": ("(n:Tally)", "SET n.trials = n.trials + 1"),
}
"""What somebody can do, by the kind of difference: to which nodes ``n``, and what."""

Setter = Callable[[int], None]


@pytest.fixture
def set_pages(monkeypatch: pytest.MonkeyPatch) -> Setter:
    """What sets the sizes of pages."""

    def to(size: int) -> None:
        for module, name in ((verifying, "RANGE"), (streams, "PAGE")):
            monkeypatch.setattr(module, name, size)
        for module in (verifying, general_rules):
            monkeypatch.setattr(module, "USES", size)

    return to


@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=4, phases=SHOWN_AS_FOUND)
@hypothesis.given(history=histories(8, 24), size=st.integers(1, 9))
def test_pages_of_any_size_find_the_same_differences_and_rebuild_the_same(
    history: list[Episode], size: int, opened: Opener, still: Clock, set_pages: Setter
) -> None:
    memory = opened(f"test-{uuid4().hex}")
    memory.learn_many(history)
    memory.lessons.consolidate(force=True)
    whole = _held(memory)
    set_pages(size)
    report = memory.verify()
    assert report.ok
    assert report.checked["episodes"] == memory.stats().episodes
    memory.upkeep.rebuild()
    assert _held(memory) == whole
    for nodes, change in DAMAGE.values():
        damage(memory, nodes, change)
    paged = memory.verify()
    found = {one.kind for one in paged.differences}
    assert found - {"preferred"} == {kind for kind in DAMAGE if report.checked[kind]}
    set_pages(10_000)
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
        "(n:Task)-[r:SIMILAR_TO]->(m)",
        "CREATE (n)-[:SIMILAR_TO {similarity: r.similarity, embedder: r.embedder}]->(m)",
        "similar",
    ),
    ("(n:Task)-[r:SIMILAR_TO]->()", "SET r.embedder = 'x'", "similar"),
    (
        "(n:AntiPattern)-[r:PREFER]->(m)",
        "CREATE (n)-[:PREFER {lift: r.lift, trials: r.trials, "
        "successes: r.successes, lower: r.lower, ground: r.ground}]->(m)",
        "preferred",
    ),
    ("(n:Task)", "SET n.score_sum = 'seven'", "tasks"),
    ("(n:Heuristic)", "SET n.credit_sum = 'seven'", "heuristics"),
    ("(n:AntiPattern)", "SET n.types = null", "anti_patterns"),
    ("(n:Task)-[r:RECENT]->()", "SET r.at = r.at + 1", "recent"),
    ("(n:Policy)", "SET n.agent = 'nobody'", "policies"),
    ("(n:Task)-[r:HAS_RULE]->()", "DELETE r", "rules"),
    ("(n:Task)-[r:HAS_RULE]->(m)", "CREATE (n)-[:HAS_RULE]->(m)", "rules"),
    ("(n:Pooling)", "REMOVE n.trials", "pooling"),
    ("(n:Pooling)", "SET n.task_strength = 'seven'", "pooling"),
    ("(n:Task)-[r:SIMILAR_TO]->()", "SET r.similarity = 'x'", "similar"),
    ("(n:Episode)", "SET n.error_class = 7", "episodes"),
    ("(n)-[r:OUTCOME]->()", "SET r.trials = 'seven'", "outcomes"),
    ("(n)-[r:OUTCOME]->()", "SET r.successes = 100", "outcomes"),
    ("(n:Strategy)", "SET n.successes = 'seven'", "strategies"),
    ("(n:AntiPattern)", "SET n.odds = 'seven'", "anti_patterns"),
    ("(n:Task)", "REMOVE n.description", "tasks"),
    ("(n:Rule {source: 'repetition'})", "REMOVE n.text", "general_rules"),
    ("(:Heuristic)-[r:RECOMMENDS]->(n)", "DELETE r", "heuristics"),
    ("(:AntiPattern)-[r:WARNS_AGAINST]->(n)", "DELETE r", "anti_patterns"),
    ("(n:AntiPattern)-[r:OPPOSED_BY]->()", "DELETE r", "anti_patterns"),
    ("(:Tally)-[r:COUNTS]->(n)", "DELETE r", "tallies"),
    ("(n:Consolidation)-[r:HAS_RULE]->()", "DELETE r", "general_rules"),
    ("(n:Rule {source: 'repetition'})", "SET n.worked = 77", "general_rules"),
    ("(n:Strategy)-[r:SIMILAR_TO]->()", "SET r.similarity = 0", "similar"),
    ("(n:Heuristic)", "DETACH DELETE n", "heuristics"),
    ("(n:Tally)", "DETACH DELETE n", "tallies"),
    ("(n:Heuristic)-[d:DERIVED_FROM]->()", "DELETE d", "heuristics"),
    ("(n:Heuristic)-[d:DERIVED_FROM]->()", "SET d.supports = false", "heuristics"),
    ("(n:AntiPattern)-[d:DERIVED_FROM]->()", "DELETE d", "anti_patterns"),
    ("(n:Episode)", "SET n.type = 'forged'", "episodes"),
    ("(n:Rule)", "SET n.verdict = 'AVOID'", "rules"),
    ("(:Strategy)-[o:OUTCOME]->(n)", "DELETE o", "outcomes"),
    ("(n:Task)-[r:SIMILAR_TO]->()", "DELETE r", "similar"),
]
"""What somebody did besides, and of what kind the difference is."""


def damage(memory: Memory, nodes: str, change: str) -> None:
    tamper(memory, f"MATCH {nodes} WHERE n.ns = $ns {change}")


def test_a_rebuild_mends_damage(memory: Memory, still: Clock, everything_runs: bool) -> None:
    right = _taught(memory)
    some = not everything_runs and memory.store.capabilities.server
    for nodes, change, kind in DAMAGED[:1] if some else DAMAGED:
        damage(memory, nodes, change)
        assert memory.verify().differing[kind], (nodes, change)
        memory.upkeep.rebuild()
        assert _held(memory) == right, (nodes, change)
    report = memory.verify()
    assert report.ok, report.differences


@pytest.mark.parametrize(
    ("nodes", "change"),
    [
        ("(n:Rule {source: 'episodes'})", "REMOVE n.text"),
        ("(n:Step)", "SET n.reward = 7.0"),
        ("(n:Task)", "DETACH DELETE n"),
        ("(n:Agent)", "DETACH DELETE n"),
    ],
)
def test_facts_that_are_gone_are_what_no_rebuild_mends(
    memory: Memory, nodes: str, change: str
) -> None:
    _taught(memory)
    damage(memory, nodes, change)
    before = memory.verify().differing["episodes"]
    memory.upkeep.rebuild()
    assert memory.verify().differing["episodes"] == before


def test_a_rule_that_lost_its_source_is_one_of_episodes(memory: Memory) -> None:
    _taught(memory)
    damage(memory, "(n:Rule {source: 'episodes'})", "SET n.worked = 99, n.source = null")
    assert memory.verify().differing["rules"]
    memory.upkeep.rebuild()
    assert "rules" not in memory.verify().differing


def test_a_report_lists_the_first_differences_of_a_kind_and_counts_all(memory: Memory) -> None:
    memory.learn_many(
        {"task": "t", "strategy": "s", "success": True, "source_key": str(n)} for n in range(130)
    )
    for kind in ("strategies", "episodes"):
        damage(memory, *DAMAGE[kind])
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


def test_what_it_holds_does_not_grow_with_the_episodes(set_pages: Setter) -> None:
    """All have one task, strategy and agent, so each of these has all episodes."""
    set_pages(100)
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
