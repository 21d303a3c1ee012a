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
from typing import Any

import kglite
import pytest

from graphmem import Memory, Settings
from graphmem.store import embedded_files
from graphmem.store.embedded_files import wanted
from graphmem.store.vectors import digest
from tests.faults.attack import rounds
from tests.faults.learner import (
    BATCH,
    STRATEGIES,
    Sharer,
    batch,
    environment,
    holding,
    keys,
    learn_one,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the lease is held until closing there")

EACH = 20
HASHING = Settings(embedder="hashing", wait=60)


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader takes a new snapshot as soon as another process wrote."""
    monkeypatch.setattr("graphmem.store.embedded_sessions.SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr("graphmem.store.embedded_sessions._COSTLY", 0.0)


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


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    load = kglite.open_session

    def noting(path: str, **options: Any) -> kglite.Session:
        seen.append(path)
        return load(path, **options)

    monkeypatch.setattr(kglite, "open_session", noting)
    return seen


def test_a_graph_is_loaded_to_read_and_once_to_write(folder: str, loads: list[str]) -> None:
    """To be read it is loaded without the lease, in less time; the first write loads it again."""
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
    loads.clear()
    with Memory.open(folder) as memory, Memory.open(folder) as same:
        assert memory.stats().episodes == BATCH
        assert not memory.store.writing
        assert len(loads) == 1
        assert learn_one(memory, "own", 0).created
        assert memory.store.writing
        assert same.stats().episodes == BATCH + 1
        assert learn_one(same, "own", 1).created
        assert len(loads) == 2


def reads(memory: Memory) -> int:
    return sum(row["n"] or 0 for row in memory.query("MATCH (s:Strategy) RETURN s.reads AS n"))


def test_reads_are_counted_by_who_also_writes(folder: str, loads: list[str]) -> None:
    """Who only asked loads nothing to count them, and leaves the files as they are."""
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
        memory.upkeep.relink()
    before = {file.name: file.stat().st_mtime_ns for file in Path(folder).glob("graph.kgl*")}
    loads.clear()
    with Memory.open(folder) as memory:
        assert memory.recall("task 3").items
    assert len(loads) == 1
    after = {file.name: file.stat().st_mtime_ns for file in Path(folder).glob("graph.kgl*")}
    assert after == before
    with Memory.open(folder) as memory:
        assert reads(memory) == 0
        assert memory.recall("task 3").items
        assert learn_one(memory, "own", 0).created
    with Memory.open(folder) as memory:
        assert reads(memory) > 0
        assert memory.verify().ok


def test_a_log_that_rests_is_folded_into_the_graph_file(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes long to read a log; so who is killed while it does nothing leaves none."""
    monkeypatch.setattr(embedded_files, "SELDOM", 0.1)
    with Memory.open(folder) as memory:
        assert learn_one(memory, "own", 0).created
        end = time.monotonic() + 60
        while embedded_files.holds_log(Path(folder)):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert memory.store.writing


def test_a_reader_searches_beside_a_writer(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.graph")
    settings = Settings(wait=0.1, embedder="hashing")
    with holding(environment(url, "default", settings), 3) as learner:
        patient = settings.model_copy(update={"wait": 600.0})  # who waited would not end
        with Memory.open(url, settings=patient) as reader:
            for _ in range(2):
                assert reader.choose("task 3", agent=None).text in STRATEGIES
                assert {item.text for item in reader.recall("task 3").items}
                assert reader.predict("task 8", STRATEGIES[0]).basis.task.borrowed
                assert reader.context("task 3")
                assert reader.explain(STRATEGIES[0])
                found = {row.text for row in reader.similar(STRATEGIES[0])}
                assert found == set(STRATEGIES[1:])
            assert reader.upkeep.pending() == {"Strategy": 3, "Task": 7}  # nothing is written
        learner.let_go()
        learner.finish()
    with Memory.open(url, settings=settings) as memory:
        assert memory.similar(STRATEGIES[0])
        assert memory.upkeep.pending() == {"Strategy": 3, "Task": 7}  # nor where nobody writes
        memory.learn("task 3", STRATEGIES[0], success=True)
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        assert memory.verify().ok


def test_who_only_asks_does_not_take_the_lease(tmp_path: Path) -> None:
    settings = Settings(embedder="hashing")
    with Memory.open(tmp_path / "own.graph", settings=settings) as memory:
        memory.learn("refund a flight", ["check the fare", "ask first"], success=True)
    with Memory.open(tmp_path / "own.graph", settings=settings) as memory:
        memory.choose("refund a train", ["check the fare", "ask first"])
        memory.recall("refund a flight")
        assert memory.context("refund a flight")
        assert not memory.store.writing
        assert memory.upkeep.pending() == {"Strategy": 2, "Task": 1}
        memory.learn("refund a train", "check the fare", success=True)  # stores what they embedded
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 1}
    with Memory.open(tmp_path / "own.graph", settings=settings) as again:
        assert again.upkeep.relink().embedded == 1  # the rest is stored
