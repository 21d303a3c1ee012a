"""What was acknowledged is there after a crash, whole; what was cut off can be learned again."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import JsonValue

from graphmem import Memory, Settings
from graphmem.errors import UnavailableError
from graphmem.models.levels import LevelUpkeep
from graphmem.store.port import SCHEMA_VERSION
from graphmem.store.queries import procedure
from tests.conftest import Opener
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, Learner, Talker, batch, content, environment, episode, keys
from tests.neo4j.server import SHORT_LIVED, Neo4jServer
from tests.neo4j.server import own_server as own

BATCHES = 8
ROUNDS = rounds(10, 40)
CHANCE = 20_260_101


def check_whole_batches(memory: Memory, acknowledged: int) -> int:
    """Every acknowledged batch is there, at most one more, none in part; return how many."""
    found = keys(memory)
    batches = len(found) // BATCH
    assert acknowledged <= batches <= acknowledged + 1
    assert found == sorted(f"run/{number}" for number in range(batches * BATCH))

    stats = memory.stats()
    assert (stats.episodes, stats.steps) == (batches * BATCH, 2 * batches * BATCH)
    assert sum(row.trials for row in memory.strategies()) == 2 * batches * BATCH
    assert not memory.verify().differences
    return batches


def check_the_rest_can_be_learned(memory: Memory, batches: int, clean: object) -> None:
    """The whole input again gives the graph of a run that nobody killed."""
    everything = [episode(number) for number in range(BATCHES * BATCH)]
    report = memory.learn_many(everything, batch_size=BATCH)
    assert (report.created, report.skipped) == ((BATCHES - batches) * BATCH, batches * BATCH)
    assert content(memory) == clean
    assert memory.verify().ok


@pytest.fixture
def clean(opened: Opener) -> object:
    memory = opened("crash-undisturbed")
    for number in range(BATCHES):
        memory.learn_many(batch(number))
    return content(memory)


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_killed_process_loses_nothing_that_was_acknowledged(
    url: str, settings: Settings, opened: Opener, clean: object, tmp_path: Path, round_: int
) -> None:
    chance = random.Random(CHANCE + round_)
    where = url if settings.password else str(tmp_path / "crashed.graph")
    surroundings = environment(where, f"crash-{CHANCE}-{round_}-{time.time_ns()}", settings)

    with Learner(surroundings, 0, BATCHES) as learner:
        learner.wait_for(chance.choice(["ready", *map(str, range(BATCHES - 1))]))
        time.sleep(chance.uniform(0, 0.04))  # into a batch, a commit, or the moment after one
        learner.kill()
    assert sorted(learner.acknowledged) == list(range(len(learner.acknowledged)))

    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(where, namespace=namespace, settings=settings) as memory:
        batches = check_whole_batches(memory, len(learner.acknowledged))
        check_the_rest_can_be_learned(memory, batches, clean)


ENTRIES = 150
TICKER = """
from graphmem import Memory
from graphmem import levels
levels.PAGE = 7  # a few entries in a transaction
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
@pytest.mark.parametrize("round_", range(rounds(3, 20)))
def test_a_killed_tick_loses_and_doubles_nothing(url: str, settings: Settings, round_: int) -> None:
    chance = random.Random(CHANCE + round_)
    surroundings = environment(url, f"tick-{CHANCE}-{round_}-{time.time_ns()}", settings)
    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        fill(memory)
    for _ in range(2):
        process = Talker(surroundings, "-c", TICKER)
        process.wait_for("ready")
        process.begin()
        time.sleep(chance.uniform(0, 0.3 if settings.password is None else 2))
        process.kill()
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        memory.levels.tick()
        check(memory)
        assert memory.levels.tick().subscriptions == ()


@pytest.fixture(scope="module")
def killable() -> Iterator[Neo4jServer]:
    """A Neo4j of this file alone, so that it may be killed; nothing is in it at first."""
    with own(Neo4jServer(compiler=SHORT_LIVED)) as server:
        yield server


@pytest.fixture
def own_server(killable: Neo4jServer) -> Neo4jServer:
    return killable.start()


@pytest.mark.neo4j
@pytest.mark.slow
def test_those_who_come_first_to_a_new_server_all_find_its_schema(own_server: Neo4jServer) -> None:
    """All create the same constraints and indexes at once; what another created is there."""
    settings = Settings(user=own_server.user, password=own_server.password, wait=0.1)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        memories = [
            stack.enter_context(Memory.open(own_server.uri, settings=settings)) for _ in range(3)
        ]
        named = memories[0].store.read(procedure("schema.indexes"))
        assert not [row for row in named if row["name"].startswith("graphmem")]  # it is new
        versions = list(pool.map(lambda memory: memory.store.apply_schema(), memories))
        assert versions == [SCHEMA_VERSION] * 3
        assert memories[0].learn("a task", "a strategy", success=True).created
        assert [memory.stats().episodes for memory in memories] == [1] * 3


def learn_on(memory: Memory, acknowledged: set[int]) -> None:
    """Learn one batch after the other, round and round, until something fails."""
    for number in itertools.cycle(range(BATCHES)):
        if number not in acknowledged:
            memory.learn_many(batch(number))
            acknowledged.add(number)
        elif len(acknowledged) == BATCHES:  # all are there: go on until the kill
            memory.learn_many(batch(number))


@pytest.mark.neo4j
@pytest.mark.slow
def test_a_killed_server_loses_nothing_that_was_acknowledged(own_server: Neo4jServer) -> None:
    settings = Settings(user=own_server.user, password=own_server.password, wait=1)
    with Memory.open(own_server.uri, namespace="undisturbed", settings=settings) as memory:
        for number in range(BATCHES):
            memory.learn_many(batch(number))
        undisturbed = content(memory)

    for round_ in range(rounds(2, 8)):
        chance = random.Random(CHANCE + round_)
        with (
            Memory.open(own_server.uri, namespace=f"r{round_}", settings=settings) as memory,
            Memory.open(own_server.uri, settings=settings) as fresh,
        ):
            acknowledged = set(range(chance.randrange(1, BATCHES - 2)))
            for number in acknowledged:
                memory.learn_many(batch(number))

            killer = threading.Timer(chance.uniform(0, 0.03), own_server.kill)
            killer.start()
            with pytest.raises(UnavailableError) as caught:
                learn_on(memory, acknowledged)
            killer.join()
            assert caught.value.retryable

            started = time.monotonic()
            with pytest.raises(UnavailableError) as caught:  # the outage goes on
                memory.learn_many(batch(0))
            with pytest.raises(UnavailableError):
                Memory.open(own_server.uri, settings=settings)
            assert time.monotonic() - started < 30
            started = time.monotonic()
            with pytest.raises(UnavailableError):  # brings the schema up to date first
                fresh.learn("a task", "a strategy", success=True)
            assert time.monotonic() - started < 30
            assert "password" not in str(caught.value).lower()

            own_server.start()
            batches = check_whole_batches(memory, len(acknowledged))  # the same object goes on
            check_the_rest_can_be_learned(memory, batches, undisturbed)
