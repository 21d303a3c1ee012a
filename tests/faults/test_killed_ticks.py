"""Whoever ticks and is killed: each entry is ingested once for each subscription."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from pydantic import JsonValue

from graphmem import Memory, Settings
from graphmem.models.levels import LevelUpkeep
from tests.faults.attack import rounds
from tests.faults.learner import Talker, environment

ENTRIES = 150
CHANCE = 20_261_122
ROUNDS = rounds(3, 20)
TICKER = """
from graphmem import Memory
from graphmem.levels import flow
flow.PAGE = 7  # a few entries in a transaction
with Memory.open() as memory:
    print("ready", flush=True)
    input()
    memory.levels.tick()
"""


def fill(memory: Memory) -> None:
    """Three levels, of which two pull, and the episodes of an agent at the end."""
    levels = memory.levels
    levels.default("ada")
    for name in ("seen", "same", "often"):
        levels.put(f"task:t:{name}", upkeep=LevelUpkeep(dedup=None))
    levels.pull("task:t:same", "task:t:seen")
    levels.pull("task:t:often", "task:t:same", transformer="count")
    levels.pull("agent:ada:ltm:episodic", "task:t:same")
    for number in range(ENTRIES):
        won = number % 3 > 0
        record: JsonValue = {"task": f"task {number % 5}", "strategy": "ask", "success": won}
        levels.add("task:t:seen", record if number % 10 == 0 else f"word {number % 9}")


def check(memory: Memory) -> None:
    rows = memory.query(
        "MATCH (e:Entry)-[:IN]->(l:Level) WHERE e.ns = $ns "
        "OPTIONAL MATCH (e)-[m:MADE_FROM]->() OPTIONAL MATCH (e)-[b:BECAME]->() "
        "RETURN l.name AS level, e.id AS id, e.content AS content, e.metadata AS metadata, "
        "count(DISTINCT m) AS sources, count(DISTINCT b) AS became"
    )
    held = {
        name: [row for row in rows if row["level"] == f"task:t:{name}"]
        for name in ("seen", "same", "often")
    }
    seen = Counter(row["content"] for row in held["seen"])
    assert Counter(row["content"] for row in held["same"]) == seen
    assert all(row["sources"] == 1 for row in held["same"])
    often = {row["content"]: json.loads(row["metadata"])["count"] for row in held["often"]}
    assert often == seen
    assert {row["content"]: row["sources"] for row in held["often"]} == seen
    assert sum(row["became"] for row in held["same"]) == ENTRIES // 10
    assert (memory.stats().episodes, memory.levels.info("task:t:seen").missed) == (ENTRIES // 10, 0)
    assert memory.verify().ok


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_killed_tick_loses_and_doubles_nothing(
    url: str, settings: Settings, tmp_path: Path, round_: int
) -> None:
    chance = random.Random(CHANCE + round_)
    where = url if settings.password else str(tmp_path / "ticked.graph")
    surroundings = environment(where, f"tick-{CHANCE}-{round_}-{time.time_ns()}", settings)
    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(where, namespace=namespace, settings=settings) as memory:
        fill(memory)
    for _ in range(2):
        process = Talker(surroundings, "-c", TICKER)
        process.wait_for("ready")
        process.begin()
        time.sleep(chance.uniform(0, 0.3 if settings.password is None else 2))
        process.kill()
    with Memory.open(where, namespace=namespace, settings=settings) as memory:
        memory.levels.tick()
        check(memory)
        assert memory.levels.tick().subscriptions == ()
