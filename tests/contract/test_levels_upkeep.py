"""Maintenance of levels: what goes at an instant, what becomes one, and what is left alone."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import Memory
from graphmem.errors import NotFoundError, ScopeError, ValidationError
from graphmem.models.levels import LevelUpkeep, MaintainReport
from tests.conftest import Clock, Opener
from tests.contract.teaching import entries_of

SOURCE, TARGET = "task:t:source", "task:t:target"
MINUTE = 60_000


def done(report: MaintainReport) -> dict[str, dict[str, Any]]:
    """What maintenance did, by level, without what it did not do."""
    return {
        one.level: one.model_dump(exclude_defaults=True, exclude={"level"}) for one in report.levels
    }


def told(memory: Memory) -> list[dict[str, Any]]:
    """What the events of maintenance say."""
    rows = memory.query(
        "MATCH (x:Event {kind: 'maintained'}) WHERE x.ns = $ns RETURN x.data AS data ORDER BY x.seq"
    )
    return [{key: value for key, value in json.loads(row["data"]).items() if value} for row in rows]


def test_what_expired_faded_or_is_too_much_goes(memory: Memory, clock: Clock) -> None:
    levels = memory.levels
    clock.now = start = memory._graph.now()
    levels.put(SOURCE, ttl=10 * 60, capacity=3, upkeep=LevelUpkeep(decay=0.01, dedup=None))
    levels.put(TARGET, upkeep=LevelUpkeep(decay=0.01, dedup=None))
    levels.pull(TARGET, SOURCE)
    for content, relevance in (("a", 0.9), ("b", 0.11), ("c", 0.8), ("d", 0.7), ("e", 0.6)):
        levels.add(SOURCE, content, relevance=relevance, ttl=60 if content == "a" else None)

    assert done(levels.maintain()) == {SOURCE: {"over_capacity": 2}}
    assert [entry.content for entry in entries_of(memory, SOURCE)] == ["a", "c", "d"]
    levels.add(SOURCE, "f", relevance=0.102)
    clock.now = start + MINUTE
    assert done(levels.maintain()) == {SOURCE: {"expired": 1}}
    clock.now = start + 2 * MINUTE
    report = levels.tick()
    assert [(one.ingested, one.missed) for one in report.subscriptions] == [(3, 3)]
    assert done(MaintainReport(at=report.at, levels=report.maintained)) == {
        TARGET: {"pruned": 1}  # in the source it was read, and fades more slowly
    }
    assert levels.info(SOURCE).missed == 3
    assert levels.info(TARGET).pending == 0
    assert levels.tick().maintained == ()
    assert levels.maintain().levels == levels.maintain(SOURCE, agent="ada").levels == ()

    later = datetime.fromtimestamp((start + 10 * MINUTE) / 1_000, UTC)
    assert done(levels.maintain(TARGET, at=later)) == {TARGET: {"reindexed": 2}}
    assert done(levels.maintain(at=later)) == {SOURCE: {"expired": 3}}
    assert levels.maintain(at=later).levels == ()
    clock.now = start + 10 * MINUTE
    assert levels.tick().maintained == ()
    assert told(memory).count({"pruned": 1}) == 1
    assert memory.verify().ok


def test_an_entry_lives_as_long_as_its_level_says(memory: Memory, clock: Clock) -> None:
    """It fades in proportion to its own time, not at all if it has none; or as is said."""
    levels, day = memory.levels, 24 * 60 * MINUTE
    clock.now = start = memory._graph.now()
    levels.default("ada")
    long, lasting, brief = "agent:ada:stm", "collective:team", "system:brief"
    levels.put(lasting)
    levels.put(brief, ttl=3_600, upkeep=LevelUpkeep(decay=0.2))
    for level in (long, lasting, brief):
        levels.add(level, "the first", key="own", relevance=0.3)
        levels.add(level, "another", key="longer", ttl=7 * 86_400)
    levels.add("agent:ada:sensory", "seen")
    assert f"{brief}: 2 entries, for 3600 s, fades by 20 % a minute" in str(levels.map())
    clock.now = start + 59_999
    assert levels.maintain("agent:ada:sensory").levels == ()
    for at, left in ((day - 1, (2, 2, 0)), (day, (1, 2, 0)), (400 * day, (0, 1, 0))):
        clock.now = start + at
        levels.maintain()
        assert tuple(levels.info(level).entries for level in (long, lasting, brief)) == left
    [kept] = levels.recall(levels=lasting)
    assert (kept.key, kept.relevance, kept.expires_at) == ("own", 0.3, None)


def test_entries_that_say_the_same_become_the_first_with_the_evidence_of_all(
    memory: Memory, clock: Clock
) -> None:
    """Case and punctuation do not count; then also what is near, but not with other numbers."""
    levels = memory.levels
    clock.now = start = memory._graph.now()
    levels.put(SOURCE, ttl=3_600)
    levels.put(TARGET)
    levels.pull(TARGET, SOURCE, where=None)
    first = levels.add(SOURCE, "the truck to Rome is late", tags=["a"], relevance=0.3).id
    for key in ("order/17", "order/18"):
        levels.add(SOURCE, "the truck to Rome is late", key=key)
    clock.now = start + MINUTE
    second = levels.add(SOURCE, "The truck, to ROME, is late!", tags=["b"]).id
    report = levels.tick()
    assert {one.level: one.merged for one in report.maintained} == {SOURCE: 1, TARGET: 1}
    kept = {entry.id: entry for entry in entries_of(memory, SOURCE)}
    assert len(kept) == 3
    assert second not in kept
    assert kept[first].tags == ("a", "b")
    assert kept[first].reads == 2
    assert kept[first].relevance == 1.0
    assert kept[first].expires_at == datetime.fromtimestamp((start + MINUTE) / 1_000 + 3_600, UTC)
    rows = memory.query(
        "MATCH (e:Entry)-[m:MADE_FROM]->(s:Entry) WHERE e.ns = $ns "
        "RETURN s.id AS source, count(m) AS edges ORDER BY source"
    )
    assert {row["source"]: row["edges"] for row in rows} == dict.fromkeys(kept, 1)

    for near in ("the trucks to Rome is late", "is late the truck to Rome"):
        levels.add(SOURCE, near, tags=["c"])
    for content in ("it is 5 degrees", "it is -5 degrees"):
        levels.add(SOURCE, content)
    assert done(levels.maintain(SOURCE)) == {SOURCE: {"merged": 2, "reindexed": 4}}
    assert entries_of(memory, SOURCE)[0].tags == ("a", "b", "c")
    assert memory.verify().ok


def test_a_question_counts_as_a_read(memory: Memory, clock: Clock) -> None:
    levels = memory.levels
    clock.now = memory._graph.now()
    levels.put(SOURCE, ttl=60)
    levels.put_lens("collective:all", SOURCE, limit=1)
    levels.add(SOURCE, "order 17 is late", key="late")
    levels.add(SOURCE, "a cake", key="cake")
    for _ in range(2):
        levels.recall("late orders", levels=SOURCE, limit=1)
    levels.recall("late orders", lens="collective:all")
    assert {one.key: one.reads for one in entries_of(memory, SOURCE)} == {"late": 0, "cake": 0}
    assert memory.upkeep.flush() == 1
    clock.now += 30_000
    read, unread = sorted(entries_of(memory, SOURCE), key=lambda one: -one.reads)
    assert (read.key, read.reads, unread.reads) == ("late", 3, 0)
    assert read.relevance > unread.relevance


def test_entries_go_or_stay_longer_by_key(memory: Memory, clock: Clock) -> None:
    levels = memory.levels
    clock.now = start = memory._graph.now()
    levels.put(SOURCE, ttl=60, upkeep=LevelUpkeep(dedup=None))
    levels.put(TARGET)
    levels.pull(TARGET, SOURCE)
    for key in ("one", "two", "three", "four"):
        levels.add(SOURCE, f"about {key}", key=key)
    levels.add(SOURCE, "for good", key="five", ttl=1e6)
    assert levels.recall("about two", levels=SOURCE)[0].key == "two"

    assert levels.remove(SOURCE, ["one", "two", "nothing"]) == 2
    assert levels.remove(SOURCE, "one") == levels.remove(SOURCE, []) == 0
    assert told(memory) == [{"removed": 2}]
    left = {one.key for one in levels.recall("about two", levels=SOURCE)}
    assert left == {"three", "four", "five"}
    assert [(one.ingested, one.missed) for one in levels.tick().subscriptions] == [(3, 2)]
    levels.remove(SOURCE, "four")
    assert levels.info(TARGET).pending == 0

    clock.now = start + MINUTE // 2
    assert levels.prolong(SOURCE, ["three", "five", "nothing"], 60) == 1  # five stays longer anyway
    clock.now = start + MINUTE + MINUTE // 4
    assert {one.key for one in levels.recall(levels=SOURCE)} == {"three", "five"}
    clock.now = start + 2 * MINUTE
    assert levels.prolong(SOURCE, "three", 60) == 0  # it expired
    assert done(levels.maintain(SOURCE)) == {SOURCE: {"expired": 1}}
    assert memory.verify().ok

    for call in (levels.remove, lambda **how: levels.prolong(ttl=60, **how)):
        with pytest.raises(NotFoundError):
            call(name="task:t:nothing", keys="one")
        with pytest.raises(ValidationError, match="key"):
            call(name=SOURCE, keys=[""])
        levels.default("ada")
        with pytest.raises(ScopeError):
            call(name="agent:ada:working", keys="one", agent="bob")
        with pytest.raises(ValidationError, match="shows"):
            call(name="agent:ada:ltm:episodic", keys="one")


def test_who_may_maintain_what(memory: Memory) -> None:
    levels = memory.levels
    for agent in ("ada", "bob"):
        levels.default(agent)
        levels.add(f"agent:{agent}:working", "short", relevance=0.05)
    assert done(levels.maintain(agent="ada")) == {"agent:ada:working": {"pruned": 1}}
    with pytest.raises(ScopeError, match="private level"):
        levels.maintain("agent:bob:working", agent="ada")
    with pytest.raises(ValidationError, match="episodes"):
        levels.maintain("agent:bob:ltm:episodic")
    with pytest.raises(NotFoundError, match="no level"):
        levels.maintain("task:t:nowhere")
    assert done(levels.maintain()) == {"agent:bob:working": {"pruned": 1}}


@pytest.mark.parametrize("engine", ["embedded"], indirect=True)
def test_a_thread_ticks_until_the_memory_ends(opened: Opener, monkeypatch: Any) -> None:
    memory = opened()
    memory.levels.put(SOURCE)
    ticked = threading.Event()
    tick = type(memory.levels)._tick

    def failing(levels: Any, agent: str | None, wait: Any) -> Any:
        report = tick(levels, agent, wait)
        if report.maintained:
            ticked.set()
        raise ValueError("the thread goes on")

    monkeypatch.setattr(type(memory.levels), "_tick", failing)
    memory.levels.start(every=0.01)
    memory.levels.start(every=0.02)
    thread = memory.levels._thread
    memory.levels.add(SOURCE, "short", relevance=0.05)
    assert ticked.wait(30)
    if hasattr(os, "fork") and (child := os.fork()) == 0:
        os._exit(0 if thread is not None and not thread.is_alive() else 1)
    elif hasattr(os, "fork"):
        assert os.waitpid(child, 0)[1] == 0
    memory.close()
    assert thread is not None
    assert not thread.is_alive()
    memory.levels.stop()
