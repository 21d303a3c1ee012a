"""Listeners and handlers get each event of their group once, in order, also after a restart.

Those that are killed are in ``tests/faults/test_consumers.py``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from graphmem import AsyncMemory, Memory
from graphmem.errors import GraphMemError, ValidationError
from graphmem.models.policies import Event
from tests.conftest import Opener

LEVEL = "task:t:work"


@pytest.fixture
def memory(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.setattr("graphmem.policies.consumers.LISTEN_SECONDS", 30.0)
    memory.levels.put(LEVEL)
    return memory


def add(memory: Memory, count: int) -> None:
    for number in range(count):
        memory.levels.add(LEVEL, f"word {number}")


def heard(memory: Memory, **how: Any) -> list[int]:
    how = {"group": "group", "kinds": "entry", "agent": LEVEL} | how
    return [event.seq for event in memory.events.listen(**how, follow=False)]


def soon(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_each_event_is_given_once_to_a_group_also_after_a_restart(
    memory: Memory, opened: Opener
) -> None:
    add(memory, 3)
    memory.learn("t", "s", success=True, agent="ada")
    listening = memory.events.listen("group", "entry", follow=False)
    assert next(listening).seq == 1
    assert next(listening).seq == 2
    again = opened()  # the second was at work
    assert heard(again) == [2, 3]
    assert heard(again) == []
    assert heard(again, group="another") == [1, 2, 3]
    assert heard(again, group="third", kinds=["episode"], agent="a*") == [1]
    assert heard(again, group="fourth", kinds=None, agent=None) == [1, 1, 2, 3]
    assert memory.events.pending("group") == []
    listening.ack()  # another took it over meanwhile: that is no error
    add(memory, 1)
    first = memory.events.listen("group", "entry", follow=False)
    next(first)
    first.ack()
    assert heard(again) == []


def test_a_listener_takes_over_what_dead_ones_had(memory: Memory) -> None:
    add(memory, 3)
    next(memory.events.listen("group", consumer="dead"))
    assert heard(memory) == []
    time.sleep(0.1)
    listening = memory.events.listen("group", idle=0.05, follow=False)
    listening._looked = 0.0  # it has been there for long
    assert [event.seq for event in listening] == [1, 2, 3]


def test_what_is_stored_wakes_listeners_and_closing_ends_them(memory: Memory) -> None:
    """They wait for 30 seconds, so what comes at once comes from a ring of the bell."""
    seen: list[int] = []
    waiting = threading.Thread(
        target=lambda: seen.extend(e.seq for e in memory.events.listen("group", "entry"))
    )
    handled: list[Event] = []
    memory.events.on("entry", group="handlers")(handled.append)
    running = threading.Thread(target=memory.events.run)
    waiting.start()
    running.start()
    add(memory, 1)
    soon(lambda: len(handled) == 1)
    add(memory, 1)
    soon(lambda: len(handled) == len(seen) == 2)
    memory.close()
    waiting.join(20)
    running.join(20)
    assert not waiting.is_alive()
    assert not running.is_alive()
    assert seen == [1, 2]


def test_a_handler_that_fails_is_called_again_and_then_the_event_is_parked(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    calls: list[tuple[str, int]] = []
    on = memory.events.on

    @on("entry", group="group", attempts=3, backoff=0.0)
    def fails_twice(event: Event) -> None:
        calls.append(("twice", event.seq))
        if len([call for call in calls if call == ("twice", event.seq)]) < 3:
            raise LookupError("not yet")

    @on("entry", group="group", attempts=2, backoff=0.0)
    async def fails_on_two(event: Event) -> None:
        calls.append(("two", event.seq))
        if event.seq == 2:
            raise LookupError("never")

    @on(group="others", agent="nobody*")
    def never(event: Event) -> None:
        raise AssertionError

    add(memory, 3)
    with caplog.at_level(logging.WARNING):
        assert memory.events.run(follow=False) == 3
    expected = [("twice", 1)] * 3 + [("two", 1)] + [("twice", 2)] * 3 + [("two", 2)] * 2
    assert calls == [*expected, *[("twice", 3)] * 3, ("two", 3)]
    assert "parked" in caplog.text
    assert [(row.consumer, row.count) for row in memory.events.pending("group")] == [("parked", 1)]
    assert memory.events.consume("group", "other").reclaim(idle=0) == []
    assert memory.events.run(follow=False) == 0
    parked = memory.events.consume("group", "parked")
    assert [event.seq for event in parked.reclaim(idle=0)] == [2]
    assert parked.ack() == 1
    assert memory.events.pending("group") == []
    assert memory.verify().ok


def test_stopping_finishes_the_handler_that_runs(memory: Memory) -> None:
    began, go_on, done = threading.Event(), threading.Event(), []

    @memory.events.on("entry", group="group")
    def slow(event: Event) -> None:
        began.set()
        assert go_on.wait(20)
        done.append(event.seq)
        memory.events.stop()  # from within, it does not wait for itself

    add(memory, 2)
    running = threading.Thread(target=memory.events.run)
    running.start()
    assert began.wait(20)
    stopping = threading.Thread(target=memory.events.stop)
    stopping.start()
    stopping.join(0.05)
    assert stopping.is_alive()
    go_on.set()
    stopping.join(20)
    running.join(20)
    assert done == [1]
    assert heard(memory) == [2]


def test_async_listeners_and_handlers(memory: Memory) -> None:
    async def work() -> None:
        asked = AsyncMemory(memory)
        seen: list[int] = []
        began = asyncio.Event()

        async def listen() -> None:
            async for event in asked.events.listen("group", "entry"):
                seen.append(event.seq)  # noqa: PERF401 - as they come

        @asked.events.on("entry", group="handlers")
        async def waits(event: Event) -> None:
            began.set()
            await asyncio.sleep(60)

        listening = asyncio.create_task(listen())
        await asked.levels.add(LEVEL, "one")
        running = asyncio.create_task(asked.events.run())
        await asyncio.wait_for(began.wait(), 20)
        running.cancel()  # the event that was at work is not acknowledged
        with pytest.raises(asyncio.CancelledError):
            await running
        assert [row.count for row in await asked.events.pending("handlers")] == [1]

        waiting = asked.events.listen("patient", "entry")
        assert (await anext(waiting)).seq == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(waiting)
        await asked.levels.add(LEVEL, "two")
        assert (await anext(waiting)).seq == 2
        with pytest.raises(ValidationError, match="event loop"):
            memory.events.run()
        async with asyncio.timeout(20):
            while seen != [1, 2]:
                await asyncio.sleep(0.005)
            await asked.close()
            await listening

    asyncio.run(work())


def test_bad_arguments_are_told_at_once(memory: Memory) -> None:
    wrong: list[tuple[str, Callable[[], Any]]] = [
        ("function", lambda: memory.events.on("entry", group="group")(7)),  # type: ignore[type-var]
        ("no handlers", memory.events.run),
    ]
    for word, call in wrong:
        with pytest.raises(GraphMemError, match=word):
            call()
