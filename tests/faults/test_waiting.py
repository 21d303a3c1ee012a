"""Who waits for another process, also in asyncio, keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

import pytest

from graphmem import AsyncMemory, Memory, Settings
from graphmem.errors import GraphMemError, LockedError, StoreError
from graphmem.store.embedded_files import remove_left, wanted
from graphmem.store.port import CLOSED
from tests.contract.calling import PLAIN, methods
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, Learner, environment, holding

PATIENT = Settings(wait=120, embedder="hashing")


def learn(memory: Memory, key: str) -> bool:
    return memory.learn("a task", "a strategy", success=True, source_key=key).created


def quickly(work: Callable[[], object]) -> None:
    """Fail if it takes longer, rather than wait for it."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive(), f"{work} still waits after 30 seconds"


@pytest.fixture
def holder(folder: str) -> Iterator[Learner]:
    """Another process that writes."""
    with holding(environment(folder)) as holder:
        yield holder


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


# In asyncio


def learn_soon(memory: AsyncMemory, key: str) -> Awaitable[object]:
    return memory.learn("a task", "a strategy", success=True, source_key=key)


@pytest.mark.usefixtures("holder")
def test_waiting_writers_keep_nobody_waiting_and_closing_ends_the_wait(folder: str) -> None:
    others = set(threading.enumerate())  # of memories in other tests, which may be ending

    async def work() -> None:
        memory = await AsyncMemory.open(folder, settings=PATIENT)
        waiting = [asyncio.ensure_future(learn_soon(memory, str(number))) for number in range(40)]
        await asyncio.sleep(0.2)
        async with asyncio.timeout(20):
            assert (await memory.stats()).episodes == BATCH
            assert (await memory.recall("task 1")).items
            assert await asyncio.gather(*(asyncio.to_thread(int, "7") for _ in range(40)))
            assert not any(future.done() for future in waiting)
            names = [thread.name for thread in threading.enumerate() if thread not in others]
            assert len([name for name in names if name.startswith("graphmem-write")]) == 8
            await memory.close()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert {(type(error), str(error)) for error in ended} == {(StoreError, CLOSED)}
            for call in (memory.stats(), learn_soon(memory, "late")):
                with pytest.raises(StoreError, match=CLOSED):
                    await call
            await memory.close()

    asyncio.run(work())


def test_a_cancelled_call_stops_waiting_and_writes_nothing(folder: str, holder: Learner) -> None:
    async def work() -> None:
        async with await AsyncMemory.open(folder, settings=PATIENT) as memory:
            await memory.stats()
            waiting = [
                asyncio.ensure_future(learn_soon(memory, str(number))) for number in range(20)
            ]
            await asyncio.sleep(0.2)
            for future in waiting:
                future.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended)
            holder.let_go()
            async with asyncio.timeout(20):
                await learn_soon(memory, "wanted")  # the threads are free again
                assert (await memory.stats()).episodes == BATCH + 1

    asyncio.run(work())


def test_calls_run_in_the_context_of_their_caller(folder: str) -> None:
    who: ContextVar[str] = ContextVar("who")
    seen: list[tuple[str, str]] = []

    def progress(_: int) -> None:
        seen.append((who.get(), threading.current_thread().name[:14]))

    async def work() -> None:
        async with await AsyncMemory.open(folder) as memory:
            who.set("the caller")
            episode = {"task": "t", "strategy": "s", "success": True}
            await memory.learn_many([episode], on_progress=progress)

    asyncio.run(work())
    assert seen == [("the caller", "graphmem-write")]


GIVEN: dict[str, object] = {
    "task": "task 1", "text": "task 1", "strategy": "ask first", "item": "ask first",
    "cypher": "RETURN 1 AS one", "state": {"at": 1}, "states": [{"at": 1}], "action": "go",
    "reward": 1.0, "agent": "agent 1", "user": "ann", "kind": "theme", "value": "dark",
    "subject": "it", "predicate": "is", "object": "so", "probability": 0.5, "outcome": 0.5,
    "success": True, "key": "a key", "episodes": [], "batch": [], "updates": [],
}  # fmt: skip
"""Arguments by name: what a call needs besides these, it is not called with, and is listed."""


def test_calls_that_write_are_known_as_such(folder: str, holder: Learner) -> None:
    """Each method that can be called in this plain way, beside a process that writes."""
    called: set[str] = set()

    async def check(name: str, method: Callable[..., Awaitable[object]]) -> None:
        call = inspect.unwrap(method, stop=lambda one: one.__code__.co_name == "call")
        called_as = inspect.getclosurevars(call).nonlocals
        if "writes" not in called_as:
            return  # `attempt` begins something, and calls nothing itself
        writes = called_as["writes"]
        needed = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        if not all(parameter in GIVEN for parameter in needed):
            return
        refused = False
        try:
            await method(*(GIVEN[parameter] for parameter in needed))
        except LockedError:
            refused = True
        except (GraphMemError, TypeError):
            return
        called.add(name)
        assert writes or not refused, f"{name} waits for the lease; say that it writes"

    async def work() -> None:
        settings = Settings(wait=0, embedder="hashing")
        async with await AsyncMemory.open(folder, settings=settings) as memory:
            for name, method in methods(memory, plain={*PLAIN, "memory", "threads"}).items():
                if name not in ("close", "open"):
                    await check(name, method)

    asyncio.run(work())
    assert {"recall", "stats", "lessons.consolidate", "upkeep.rebuild"} <= called
