"""Attempts as decorators of functions, generators and coroutines: each call is one."""
# ruff: noqa: PT012 - what a block with several statements raises is what is tested

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import Any

import pytest

from graphmem import AsyncMemory, Memory
from graphmem.errors import NotFoundError, ValidationError
from tests.conftest import Opener
from tests.contract.test_attempts import TASK, WAY, abandoned


class TestDecorator:
    """``@memory.attempt(...)``: every call is an attempt."""

    def test_functions(self, memory: Memory) -> None:
        @memory.attempt(lambda pnr, **_: f"refund {pnr}", judge=lambda answer: answer == "done")
        def refund(pnr: str, *, fast: bool = False) -> str:
            """Refund a booking."""
            memory.current_attempt().used("at once" if fast else WAY)
            return "no" if fast else "done"

        assert refund.__doc__ == "Refund a booking."
        assert (refund("ABC"), refund("DEF", fast=True)) == ("done", "no")
        assert {row.task: (row.success, row.strategies) for row in memory.episodes()} == {
            "refund ABC": (True, (WAY,)),
            "refund DEF": (False, ("at once",)),
        }

    def test_methods(self, memory: Memory) -> None:
        class Agent:
            @memory.attempt(lambda _, pnr: f"refund {pnr}", judge=lambda _: False)
            def refund(self, pnr: str) -> None:
                memory.current_attempt().succeed()  # which the judge does not overrule

            @staticmethod
            @memory.attempt(TASK, judge=lambda _: True)
            def other() -> None:
                raise KeyError("ABC")

        Agent().refund("ABC")
        with pytest.raises(KeyError):
            Agent.other()
        ends = {row.success: row.error for row in memory.episodes()}
        assert ends == {True: None, False: "KeyError: 'ABC'"}

    def test_a_judge(self, memory: Memory) -> None:
        """That a function returned does not say that it worked."""
        for verdict in (True, False, 0.7, 0.2, None):
            memory.attempt(TASK, judge=lambda answer: answer)(lambda verdict=verdict: verdict)()
        memory.attempt(TASK)(lambda: "done")()
        learned = sorted((row.score, row.success) for row in memory.episodes())
        assert learned == [(0.0, False), (0.2, False), (0.7, True), (1.0, True)]
        with pytest.raises(ValidationError, match="ended without an outcome"):
            memory.attempt(TASK, strict=True)(lambda: "done")()
        with pytest.raises(ZeroDivisionError):
            memory.attempt(TASK, judge=lambda answer: answer / 0)(lambda: 1)()
        with pytest.raises(ValidationError, match="judge: must return True"):
            memory.attempt(TASK, judge=lambda answer: answer)(lambda: "fine")()
        assert (len(memory.episodes()), len(abandoned(memory))) == (4, 4)

    def test_calls_within_calls(self, memory: Memory) -> None:
        @memory.attempt(lambda n: f"count {n}")
        def count(n: int) -> int:
            attempt = memory.current_attempt()
            below = count(n - 1) if n else 0
            assert memory.current_attempt()._terms is attempt._terms
            attempt.succeed()
            return below + 1

        assert count(3) == 4
        assert sorted(row.task for row in memory.episodes()) == [f"count {n}" for n in range(4)]

    def test_each_memory_has_its_own(self, memory: Memory, opened: Opener) -> None:
        other = opened(f"{memory.namespace}-other")

        @memory.attempt(TASK)
        def outer() -> None:
            inner()
            memory.current_attempt().succeed()

        @other.attempt("inner")
        def inner() -> None:
            memory.current_attempt().used(WAY)
            other.current_attempt().fail()

        outer()
        with pytest.raises(NotFoundError, match="decorates"):
            memory.current_attempt()
        assert [row.strategies for row in memory.episodes()] == [(WAY,)]
        assert [row.success for row in other.episodes()] == [False]

    def test_what_is_no_function_or_no_task(self, memory: Memory) -> None:
        not_functions: list[Any] = [3, None, int, classmethod(print)]
        for wrong in not_functions:
            with pytest.raises(ValidationError, match="is not a function"):
                memory.attempt(TASK)(wrong)
        with pytest.raises(ValidationError, match="task"):
            memory.attempt(lambda: 3)(lambda: None)()  # type: ignore[arg-type, return-value]
        with pytest.raises(ZeroDivisionError):
            memory.attempt(lambda: str(1 / 0))(lambda: None)()
        assert memory.stats().episodes == memory.stats().abandoned == 0


class TestGenerators:
    """An attempt begins with the first item and ends with the last."""

    def test_to_the_end(self, memory: Memory) -> None:
        @memory.attempt(TASK, judge=lambda total: total == 3)
        def work() -> Generator[int, None, int]:
            for number in range(3):
                memory.current_attempt().step("count", number)
                yield number
            return 3

        generator = work()
        assert next(generator) == 0
        with pytest.raises(NotFoundError):  # while it waits, it is not the current one
            memory.current_attempt()
        assert list(generator) == [1, 2]
        assert [row.success for row in memory.episodes()] == [True]
        assert memory.stats().steps == 3

    def test_what_is_sent_and_thrown_arrives(self, memory: Memory) -> None:
        @memory.attempt(TASK)
        def work() -> Any:
            got = yield 1
            try:
                yield got
            except KeyError:
                memory.current_attempt().succeed()
                yield "caught"

        generator = work()
        assert (next(generator), generator.send("sent")) == (1, "sent")
        assert generator.throw(KeyError("x")) == "caught"
        assert list(generator) == []
        assert [row.success for row in memory.episodes()] == [True]

    def test_left_early_or_never_begun(self, memory: Memory) -> None:
        cleaned: list[bool] = []

        @memory.attempt(TASK)
        def work(outcome: bool) -> Iterator[int]:
            try:
                if outcome:
                    memory.current_attempt().succeed()
                yield from range(100)
            finally:
                cleaned.append(True)

        def block() -> Generator[int, None, None]:
            with memory.attempt(TASK):
                yield from range(100)

        work(True)
        for generator in (work(True), work(False), block()):
            for _ in generator:
                break
        del generator
        gc.collect()
        assert cleaned == [True, True]
        assert [row.success for row in memory.episodes()] == [True]
        assert [row["error"] for row in abandoned(memory)] == ["GeneratorExit"] * 2


class TestAsync:
    """``async with amemory.attempt(...)``, and coroutine functions."""

    def run(self, memory: Memory, work: Callable[[AsyncMemory], Any]) -> Any:
        return asyncio.run(work(AsyncMemory(memory)))

    def test_block(self, memory: Memory) -> None:
        for number in range(3):
            memory.learn(TASK, WAY, success=True, task_type="refund", source_key=str(number))

        async def work(amemory: AsyncMemory) -> None:
            async with amemory.attempt(TASK) as attempt:
                assert WAY in await attempt.context
                choice = await attempt.choose([WAY], explore="greedy")
                assert (choice.text, choice.propensity) == (WAY, 1.0)
                attempt.succeed(score=0.9)
            assert attempt.episode_id
            with pytest.raises(KeyError):
                async with amemory.attempt(TASK):
                    raise KeyError

        self.run(memory, work)
        assert len(memory.episodes()) == 5

    def test_cancelled_while_it_is_learned(
        self, memory: Memory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is learned all the same."""
        store, learning, go_on = memory._attempts.store, threading.Event(), threading.Event()

        def slow(ended: Any) -> str:
            learning.set()
            assert go_on.wait(10)
            return store(ended)

        monkeypatch.setattr(memory._attempts, "store", slow)

        async def work(amemory: AsyncMemory) -> None:
            async def attempt() -> None:
                async with amemory.attempt(TASK) as attempt:
                    attempt.succeed()

            task = asyncio.create_task(attempt())
            assert await asyncio.to_thread(learning.wait, 10)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        self.run(memory, work)
        assert [row.success for row in memory.episodes()] == [True]

    def test_cancelled_or_out_of_time(self, memory: Memory) -> None:
        """A limit within the attempt is a failure; one around it leaves no outcome."""

        async def work(amemory: AsyncMemory) -> None:
            async def wait() -> None:
                async with amemory.attempt("cancelled"):
                    begun.set()
                    await asyncio.sleep(60)

            begun = asyncio.Event()
            task = asyncio.create_task(wait())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(TimeoutError):
                async with amemory.attempt("within"):
                    async with asyncio.timeout(0.01):
                        await asyncio.sleep(60)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    async with amemory.attempt("around"):
                        await asyncio.sleep(60)

        self.run(memory, work)
        assert [row.task for row in memory.episodes()] == ["within"]
        assert sorted(row["task"] for row in abandoned(memory)) == ["around", "cancelled"]

    def test_decorated(self, memory: Memory) -> None:
        async def work(amemory: AsyncMemory) -> None:
            @amemory.attempt(lambda n: f"count {n}", judge=lambda n: n > 1)
            async def count(n: int) -> int:
                amemory.current_attempt().step("wait")
                await asyncio.sleep(0.01)
                amemory.current_attempt().used(f"way {n}")
                return n

            @memory.attempt("by a Memory", judge=lambda n: n == 1)
            async def other() -> int:
                await asyncio.sleep(0)
                return 1

            assert await asyncio.gather(*map(count, range(4))) == [0, 1, 2, 3]
            assert await other() == 1

        self.run(memory, work)
        found = {row.task: (row.success, row.strategies) for row in memory.episodes()}
        assert found == {
            **{f"count {n}": (n > 1, (f"way {n}",)) for n in range(4)},
            "by a Memory": (True, ()),
        }

    def test_async_generators(self, memory: Memory) -> None:
        async def work(amemory: AsyncMemory) -> None:
            @amemory.attempt(lambda n: f"count {n}", judge=lambda _: True)
            async def count(n: int) -> AsyncIterator[int]:
                for number in range(n):
                    amemory.current_attempt().step("count", number)
                    yield number

            assert [number async for number in count(3)] == [0, 1, 2]
            generator = count(5)
            async for _ in generator:
                with pytest.raises(NotFoundError):
                    amemory.current_attempt()
                break
            await generator.aclose()  # type: ignore[attr-defined]

        self.run(memory, work)
        assert [row.task for row in memory.episodes()] == ["count 3"]
        assert [row["task"] for row in abandoned(memory)] == ["count 5"]

    def test_functions_that_are_not_async(self, memory: Memory) -> None:
        for function in (lambda: 1, lambda: (yield)):
            with pytest.raises(ValidationError, match="is not async"):
                AsyncMemory(memory).attempt(TASK)(function)
