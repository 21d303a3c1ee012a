"""Many at once: nothing is lost, nothing is counted twice, and whoever must wait is told why."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from graphmem.errors import UnavailableError
from graphmem.models.episodes import MistakeCard
from graphmem.store.port import ChangedError, Transaction
from tests.conftest import Opener
from tests.faults.learner import BATCH, Learner, batch, content, environment, episode, keys
from tests.neo4j.server import Found


def check_exactly(memory: Memory, episodes: int, opened: Opener) -> None:
    """The memory holds the first ``episodes`` once each, as if one had learned them in order."""
    assert keys(memory) == sorted(f"run/{number}" for number in range(episodes))
    assert not memory.verify().differences
    alone = opened(f"alone-{uuid4().hex}") if memory.store.capabilities.server else None
    with alone or Memory.open("memory:") as one:
        one.learn_many([episode(number) for number in range(episodes)])
        assert content(memory) == content(one)


@pytest.fixture
def impatient(neo4j: Found) -> Iterator[Memory]:
    """A memory on the server, for only there can a writer be overtaken."""
    settings = Settings(user=neo4j.user, password=neo4j.password, wait=0.01)
    with Memory.open(neo4j.uri, namespace=f"test-{uuid4().hex}", settings=settings) as memory:
        yield memory


@pytest.mark.neo4j
def test_what_an_attempt_waited_is_not_taken_from_the_next(impatient: Memory) -> None:
    """However long others held the locks: the time to retry begins when the first one failed."""
    attempts = 0

    def work(_: Transaction) -> str:
        nonlocal attempts
        attempts += 1
        if attempts < 4:
            time.sleep(0.05)
            raise ChangedError("somebody else was first")
        return "written"

    assert impatient.store.transact(work) == "written"


@pytest.mark.neo4j
def test_who_loses_every_race_is_told(impatient: Memory) -> None:
    def work(_: Transaction) -> None:
        raise ChangedError("somebody else was first")

    with pytest.raises(UnavailableError, match="somebody else was first"):
        impatient.store.transact(work)


def test_readers_beside_a_writing_thread_see_whole_batches_only(memory: Memory) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def read() -> None:
        while not stop.is_set():
            seen.append(memory.stats().episodes)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(5):
            memory.learn_many(batch(number))
    finally:
        stop.set()
        reader.join()
    assert seen == sorted(seen)
    if "neo4j" not in memory.stats().engine.lower():  # a server shows a commit while it is applied
        assert all(count % BATCH == 0 for count in seen)


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"], indirect=True)
def test_processes_that_learn_overlapping_things_on_a_server(
    url: str, settings: Settings, opened: Opener
) -> None:
    namespace = f"test-{uuid4().hex}"
    surroundings = environment(url, namespace, settings)
    learners = [Learner(surroundings, first, first + 4) for first in (0, 1, 2, 2)]

    assert [learner.finish() for learner in learners] == [0, 0, 0, 0]
    assert sum(sum(learner.acknowledged.values()) for learner in learners) == 6 * BATCH
    check_exactly(opened(namespace), 6 * BATCH, opened)


def test_learning_erasing_and_merging_the_same_things_at_once_loses_nothing(
    memory: Memory, engine: str
) -> None:
    """What one thread erases may be what another has just found and builds on, lessons, too."""
    rounds, threads = 40 if engine == "embedded" else 15, 3
    pair = [memory.learn("t", text, success=True).episode_id for text in ("first", "second")]

    def work(number: int) -> int:
        done = 0
        for turn in range(rounds):
            failed = turn % 3 == 0
            learned = memory.learn(
                "rare task",
                ["rare strategy", "other"],
                success=not failed,
                agent="rare agent",
                task_type="x",
                error=f"timeout after {turn} s" if failed else None,
                successes=["read first", f"look at {turn % 3}"],
                mistakes=["hurry", "read first"] if failed else [],
                mistake_cards=[MistakeCard(type=f"skipped {turn % 2}", lesson=f"lesson {turn}")],
                source_key=f"{number}/{turn}",
            )
            assert learned.created
            if turn < rounds - 1:
                memory.upkeep.erase(learned.episode_id)
                done += 1
        return done

    def merge() -> None:
        for _ in range(5):
            memory.lessons.merge("first", "second")
            memory.lessons.unmerge("first")

    with ThreadPoolExecutor(threads + 1) as pool:
        merging = pool.submit(merge)
        erased = sum(pool.map(work, range(threads)))
        merging.result()
    for episode_id in pair:
        memory.upkeep.erase(episode_id)
    left = rounds * threads - erased
    assert memory.stats().episodes == left
    assert {row.text: row.trials for row in memory.strategies()} == {
        "rare strategy": left,
        "other": left,
    }
    assert not memory.verify().differences
    for row in memory.episodes(strategy="rare strategy", limit=left):
        memory.upkeep.erase(row.id)
    stats = memory.stats()
    assert (stats.episodes, stats.strategies, stats.tasks, stats.agents) == (0, 0, 0, 0)
    assert not memory.lessons.mistakes()
    assert not memory.lessons.rules()
