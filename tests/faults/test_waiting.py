"""A writer that waits for another process keeps nobody else waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import LockedError, StoreError
from graphmem.store.embedded_files import remove_left, wanted
from graphmem.store.port import CLOSED
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, Learner

PATIENT = Settings(wait=60, embedder="hashing")


def learn(memory: Memory, key: str) -> bool:
    return memory.learn("a task", "a strategy", success=True, source_key=key).created


def quickly(work: Callable[[], object], limit: float = 30) -> None:
    """Fail if it takes longer, rather than wait for it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit)
    assert not thread.is_alive(), f"{work} still waits after {limit} seconds"


@pytest.fixture
def waiting(folder: str, holder: Learner) -> Iterator[tuple[Memory, Future[bool]]]:
    """A memory of which a thread waits for the other process; it is closed at the end."""
    with ThreadPoolExecutor(1) as pool:
        memory = Memory.open(folder, settings=PATIENT)
        future = pool.submit(learn, memory, "waited")
        while not wanted(Path(folder)):
            assert not future.done()
            time.sleep(0.01)
        yield memory, future
        holder.let_go()
        future.exception(60)
        memory.close()


def test_others_go_on_while_a_writer_waits(
    waiting: tuple[Memory, Future[bool]], folder: str, tmp_path: Path
) -> None:
    """The same handle, another one on the folder, other folders and memories without one."""
    memory, future = waiting
    answers: list[object] = []

    def reads(reader: Memory) -> None:
        answers.append(reader.stats().episodes)
        answers.append(len(reader.strategies("task 1")))
        answers.append(len(reader.recall("task 1").items) > 0)

    def another() -> None:
        with Memory.open(folder, settings=PATIENT) as reader:
            reads(reader)

    def elsewhere(url: str) -> None:
        with Memory.open(url, settings=PATIENT) as other:
            answers.append(learn(other, "elsewhere"))
            answers.append(other.stats().episodes)

    quickly(lambda: reads(memory))
    quickly(another)
    quickly(lambda: elsewhere("memory:"))
    quickly(lambda: elsewhere(str(tmp_path / "elsewhere.graph")))
    assert answers == [BATCH, 3, True] * 2 + [True, 1] * 2
    assert future.running()


def test_closing_ends_the_wait(waiting: tuple[Memory, Future[bool]]) -> None:
    memory, future = waiting
    quickly(memory.close)
    with pytest.raises(StoreError, match=CLOSED):
        future.result(30)


def test_one_waits_no_longer_than_it_wants(folder: str, holder: Learner) -> None:
    """Each has a wait of its own; who wants none at all is told at once."""
    with ThreadPoolExecutor(1) as pool, Memory.open(folder, settings=PATIENT) as patient:
        future = pool.submit(learn, patient, "patient")
        time.sleep(0.1)
        for wait in (0, 0.3):
            with Memory.open(folder, settings=Settings(wait=wait)) as hasty:
                started = time.monotonic()
                with pytest.raises(LockedError, match=f"process {holder.pid} writes") as caught:
                    learn(hasty, "hasty")
                assert wait <= time.monotonic() - started < wait + 20
                assert caught.value.retryable
                for remedy in ("GRAPHMEM_WAIT", "--wait", "neo4j://"):
                    assert remedy in str(caught.value)
        holder.let_go()
        assert future.result(60)


def test_two_paths_lead_to_one_memory(folder: str, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with Memory.open(folder) as memory, Memory.open(tmp_path / "link" / "memory.graph") as same:
        assert learn(memory, "one")
        assert learn(same, "other")
        assert memory.stats().episodes == same.stats().episodes == 2


def test_readers_keep_their_copies_while_others_remove_what_is_left(
    folder: str, holder: Learner
) -> None:
    """A copy that a reader is about to make looks like one that a killed process left."""
    stop = threading.Event()

    def remove() -> None:
        while not stop.is_set():
            remove_left(Path(folder).parent)

    with ThreadPoolExecutor(2) as pool:
        removing = [pool.submit(remove) for _ in range(2)]
        try:
            for _ in range(rounds(20, 2_000)):
                with Memory.open(folder) as reader:
                    assert reader.stats().episodes == BATCH
        finally:
            stop.set()
        for each in removing:
            each.result()
