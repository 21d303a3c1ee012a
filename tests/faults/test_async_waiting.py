"""AsyncMemory: calls that wait for another process keep neither readers nor asyncio waiting."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar

import pytest

from graphmem import AsyncMemory, Settings
from graphmem.errors import GraphMemError, LockedError, StoreError
from graphmem.store.port import CLOSED
from tests.contract.calling import PLAIN, methods
from tests.faults.learner import BATCH, Learner

PATIENT = Settings(wait=120, embedder="hashing")


def learn(memory: AsyncMemory, key: str) -> Awaitable[object]:
    return memory.learn("a task", "a strategy", success=True, source_key=key)


@pytest.mark.usefixtures("holder")
def test_waiting_writers_keep_nobody_waiting_and_closing_ends_the_wait(folder: str) -> None:
    others = set(threading.enumerate())  # of memories in other tests, which may be ending

    async def work() -> None:
        memory = await AsyncMemory.open(folder, settings=PATIENT)
        waiting = [asyncio.ensure_future(learn(memory, str(number))) for number in range(40)]
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
            for call in (memory.stats(), learn(memory, "late")):
                with pytest.raises(StoreError, match=CLOSED):
                    await call
            await memory.close()

    asyncio.run(work())


def test_a_cancelled_call_stops_waiting_and_writes_nothing(folder: str, holder: Learner) -> None:
    async def work() -> None:
        async with await AsyncMemory.open(folder, settings=PATIENT) as memory:
            await memory.stats()
            waiting = [asyncio.ensure_future(learn(memory, str(number))) for number in range(20)]
            await asyncio.sleep(0.2)
            for future in waiting:
                future.cancel()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended)
            holder.let_go()
            async with asyncio.timeout(20):
                await learn(memory, "wanted")  # the threads are free again
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
        called_as = inspect.getclosurevars(inspect.unwrap(method, stop=_is_call)).nonlocals
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


def _is_call(function: Callable[..., object]) -> bool:
    return function.__code__.co_name == "call"
