"""Many processes on one folder: each writes in turn, nothing is lost, and nobody waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.store.embedded_files import wanted
from graphmem.store.vectors import digest
from tests.faults.attack import rounds
from tests.faults.learner import Sharer, environment, keys, learn_one

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the lease is held until closing there"),
    pytest.mark.usefixtures("always_fresh"),
]

EACH = 20
HASHING = Settings(embedder="hashing", wait=60)


def surroundings(folder: str, **more: str) -> dict[str, str]:
    own = {"GRAPHMEM_EMBEDDER": "hashing", "GRAPHMEM_WAIT": "60"}
    return environment(folder, "default", None, **own, **more)


def check(folder: str, expected: Counter[str]) -> None:
    """The memory holds what was acknowledged, once each; nobody waits, and nothing is locked."""
    with Memory.open(folder, settings=Settings(wait=0, embedder="hashing")) as memory:
        assert keys(memory) == sorted(
            f"{name}/{number}" for name, count in expected.items() for number in range(count)
        )
        assert memory.recall("task 1").items
        assert not memory.verify().differences
        assert learn_one(memory, "last", 0).created
    assert not wanted(Path(folder))


def test_processes_take_turns_beside_readers(folder: str) -> None:
    """Each sees at once what it wrote, and never less than before; what others wrote comes.

    What is new is embedded and linked by whoever searches first, beside what others learned.
    """
    names = "abcd"
    sharers = [Sharer(surroundings(folder), name, EACH, "looking") for name in names]
    stop, seen = threading.Event(), list[int]()

    def read() -> None:
        with Memory.open(folder, settings=HASHING) as reader:
            while not stop.is_set():
                seen.append(reader.stats().episodes)

    reader = threading.Thread(target=read)
    reader.start()
    for sharer in sharers:
        sharer.begin()
    try:
        assert [sharer.finish() for sharer in sharers] == [0] * len(names)
    finally:
        stop.set()
        reader.join()
    assert seen == sorted(seen)
    assert len(seen) > 1
    check(folder, Counter(dict.fromkeys(names, EACH)))


def test_who_is_killed_holds_nobody_up(folder: str) -> None:
    """Whether it had the lease or waited for it; what it was told of is kept."""
    sharers = [Sharer(surroundings(folder), name, 100_000) for name in "abc"]
    for sharer in sharers:
        sharer.begin()
    learned, killed = Counter[str](), []
    with Memory.open(folder, settings=HASHING) as memory:
        for number in range(rounds(6, 60)):
            assert learn_one(memory, "own", number).created
            learned["own"] += 1
            time.sleep(0.07 * (number % 3))
            if number in {1, 3}:
                killed.append(sharers.pop())
                killed[-1].kill()
        killed.append(sharers.pop())
        killed[-1].kill()
        found = Counter(key.partition("/")[0] for key in keys(memory))
        assert learned["own"] == found["own"]
        for sharer in killed:  # its last one may have been written, but not yet told
            assert found[sharer.name] - sharer.acknowledged in {0, 1}
    check(folder, found)


@pytest.fixture
def idle(folder: str) -> Iterator[Sharer]:
    """Another process, which has learned and does nothing now, but is still there."""
    with Memory.open(folder, settings=HASHING) as memory:
        learn_one(memory, "first", 0)
    sharer = Sharer(surroundings(folder), "a", 1)
    sharer.begin()
    sharer.wait_for("0")
    yield sharer
    sharer.finish()


def test_an_idle_writer_gives_the_lease_to_others_and_goes_on_later(folder: str) -> None:
    with Memory.open(folder, settings=Settings(embedder="hashing")) as memory:
        learn_one(memory, "own", 0)
        assert memory.store.snapshot_age is None
        other = Sharer(surroundings(folder), "a", 2)
        other.begin()
        assert other.finish() == 0
        assert len(keys(memory)) == 3  # it reads what others wrote,
        assert memory.recall("task 1").items
        learn_one(memory, "own", 1)  # and writes on top of it
        assert len(keys(memory)) == 4
    check(folder, Counter(a=2, own=2))


def test_a_reader_keeps_its_own_writes_and_says_how_old_the_rest_is(
    folder: str, idle: Sharer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmem.store.embedded_sessions.SNAPSHOT_SECONDS", 60.0)
    with Memory.open(folder, settings=Settings(embedder="hashing")) as memory:
        learn_one(memory, "own", 0)
        command = [sys.executable, "-m", "graphmem", "learn", "task 1", "elsewhere", "--success"]
        subprocess.run(command, env=surroundings(folder), check=True, capture_output=True)
        stats = memory.stats()
        assert stats.episodes == 3
        assert stats.snapshot_age is not None
        learn_one(memory, "own", 1)  # it sees all that others wrote when it writes, at the latest
        stats = memory.stats()
        assert (stats.episodes, stats.snapshot_age) == (5, None)


def test_what_was_erased_is_not_written_again_by_who_read_it_before(folder: str) -> None:
    """The vectors of one process do not come back from the memory of another."""
    settings = Settings(embedder="hashing")
    gone = "what nobody may know"
    with Memory.open(folder, settings=settings) as memory:
        for number in range(3):
            learn_one(memory, "own", number)
        memory.learn("task 1", gone, success=True, source_key="gone")
        assert memory.recall(gone).items
        episode = memory.episodes(strategy=gone)[0].id
        erase = [sys.executable, "-m", "graphmem", "upkeep", "erase", episode, "--yes"]
        subprocess.run(erase, check=True, env=surroundings(folder), capture_output=True)
        memory.learn("task 1", "another way", success=True)
        assert all(gone not in item.text for item in memory.recall(gone).items)
        assert memory.verify().ok
        files = [*Path(folder, "vectors").iterdir()]
        assert any(digest("another way") in file.read_bytes() for file in files)
        assert all(digest(gone) not in file.read_bytes() for file in files)
