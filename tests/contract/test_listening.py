"""Consumers of a group get each event once, in order, also after a restart.

Those that are killed, and several at once, are in ``tests/faults/test_consumers.py``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from graphmem import AsyncMemory, Memory
from tests.conftest import Clock, Opener

LEVEL = "task:t:work"
NOON = 1_780_000_000_000


@pytest.fixture
def memory(memory: Memory) -> Memory:
    memory.levels.put(LEVEL)
    return memory


def add(memory: Memory, count: int, level: str = LEVEL) -> None:
    for number in range(count):
        memory.levels.add(level, f"word {number}")


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
    consumer = memory.events.listen("group", "entry", follow=False)
    assert next(consumer).seq == 1
    assert next(consumer).seq == 2
    again = opened()  # the second was at work
    assert heard(again) == [2, 3]
    assert heard(again) == []
    assert heard(again, group="another") == [1, 2, 3]
    assert heard(again, group="third", kinds=["episode"], agent="a*") == [1]
    assert heard(again, group="fourth", kinds=None, agent=None) == [1, 1, 2, 3]
    assert memory.events.pending("group") == []
    consumer.ack()  # another took it over meanwhile: that is no error
    add(memory, 1)
    first = memory.events.listen("group", "entry", follow=False)
    next(first)
    first.ack()
    assert heard(again) == []


def test_what_was_claimed_is_pending_until_it_is_acknowledged(memory: Memory) -> None:
    add(memory, 5)
    before = datetime.now(UTC)
    one = memory.events.listen("group", consumer="one", limit=3, follow=False)
    next(one)
    [row] = memory.events.pending("group")
    assert (row.consumer, row.agent, row.count, row.deliveries) == ("one", LEVEL, 3, 1)
    assert abs((row.claimed_at - before).total_seconds()) < 60
    assert heard(memory, consumer="two") == [4, 5]  # what the first one did not claim
    one.ack()
    one.ack()  # once more changes nothing
    assert [row.count for row in memory.events.pending("group")] == [2]
    assert [event.seq for event in one] == [2, 3]
    assert memory.events.pending("group") == []


def test_a_limit_counts_over_streams(memory: Memory) -> None:
    for name in "abc":
        memory.levels.put(f"task:{name}:work")
        add(memory, 2, f"task:{name}:work")
    own = memory.events.listen("group", agent="task:c:*", follow=False)
    one = memory.events.listen("group", consumer="one", limit=3, follow=False)
    two = memory.events.listen("group", consumer="two", follow=False)
    first = next(one)
    assert [event.agent[5] for event in own] == ["c", "c"]
    assert [event.agent[5] for event in two] == ["b"]
    assert [first.agent[5], *(event.agent[5] for event in one)] == ["a", "a", "b"]


def test_a_consumer_takes_over_what_idle_ones_had(memory: Memory, clock: Clock) -> None:
    clock.now = NOON
    add(memory, 3)
    dead = memory.events.listen("group", consumer="dead")
    next(dead)
    clock.now = NOON + 59_000
    dead.ack()  # a sign of life
    clock.now = NOON + 118_000
    assert heard(memory) == heard(memory, consumer="dead", group="another", agent="x*") == []
    clock.now = NOON + 119_000
    assert heard(memory, agent="x*") == []
    [second, third] = memory.events.listen("group", follow=False)
    assert [(event.seq, event.deliveries) for event in (second, third)] == [(2, 2), (3, 2)]
    assert memory.events.pending("group") == []


def test_what_was_erased_is_skipped_and_not_left_pending(memory: Memory) -> None:
    learned = [memory.learn("t", "s", success=True, source_key=str(n)) for n in range(4)]
    how = {"kinds": None, "agent": "default"}
    memory.upkeep.erase(learned[1].episode_id)
    one = memory.events.listen("group", agent="default", follow=False)
    assert [next(one).seq, next(one).seq] == [1, 3]
    assert [row.count for row in memory.events.pending("group")] == [3]
    memory.upkeep.erase(learned[2].episode_id)  # while it is pending
    memory.upkeep.erase(learned[3].episode_id)
    assert heard(memory, **how) == [5, 6, 7]
    assert memory.events.pending("group") == []
    # Erased ones do not end a loop over the rest, however many are claimed at a time.
    assert heard(memory, **how, group="few", limit=1) == [1, 5, 6, 7]


def test_a_stream_that_was_erased_whole_begins_anew(memory: Memory) -> None:
    learned = memory.learn("t", "s", success=True, agent="ada")
    one = memory.events.listen("group", agent="ada", follow=False)
    next(one)
    memory.upkeep.erase(learned.episode_id)
    assert memory.events.pending("group") == []
    memory.policies.update({"x": 1}, "go", success=True, agent="ada")
    two = memory.events.listen("group", consumer="two", agent="ada", follow=False)
    assert next(two).seq == 1
    one.ack()  # the number is the same, the event is not
    assert [(row.consumer, row.count) for row in memory.events.pending("group")] == [("two", 1)]


def test_waiting_consumers_get_what_is_stored_and_closing_ends_them(memory: Memory) -> None:
    seen: list[int] = []
    waiting = threading.Thread(
        target=lambda: seen.extend(e.seq for e in memory.events.listen("group", "entry"))
    )
    crystallizing = threading.Thread(target=memory.events.crystallize)
    waiting.start()
    crystallizing.start()
    add(memory, 1)
    soon(lambda: len(seen) == 1)
    add(memory, 1)
    soon(lambda: len(seen) == 2)
    memory.close()
    for thread in (waiting, crystallizing):
        thread.join(20)
        assert not thread.is_alive()
    assert seen == [1, 2]


def test_stopping_ends_the_consumers_that_are_there(memory: Memory) -> None:
    add(memory, 2)
    consumer = memory.events.listen("group")
    assert next(consumer).seq == 1
    memory.events.stop()
    assert list(consumer) == []
    assert heard(memory) == [2]


def test_async_consumers(memory: Memory) -> None:
    async def work() -> None:
        asked = AsyncMemory(memory)
        seen: list[int] = []

        async def listen() -> None:
            async for event in asked.events.listen("group", "entry"):
                seen.append(event.seq)  # noqa: PERF401 - as they come

        listening = asyncio.create_task(listen())
        crystallizing = asyncio.create_task(asked.events.crystallize())
        await asked.levels.add(LEVEL, "one")
        waiting = asked.events.listen("patient", "entry")
        assert (await anext(waiting)).seq == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await anext(waiting)
        await asked.levels.add(LEVEL, "two")
        assert (await anext(waiting)).seq == 2
        async with asyncio.timeout(20):
            while seen != [1, 2]:
                await asyncio.sleep(0.005)
            await asked.close()
            await asyncio.gather(listening, crystallizing)

    asyncio.run(work())
