"""Whoever consumes or changes beside others, or is killed: no event is lost or processed twice."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import rule

from graphmem import Memory, Settings
from graphmem.models.policies import Event
from graphmem.policies.events import Consumer
from tests.conftest import Clock, Opener
from tests.faults.attack import rounds
from tests.faults.learner import GROUP, SIZES, Worker, change, environment, learned
from tests.machines import MemoryMachine, run

CHANCE = 20_261_101


def outcomes(memory: Memory, count: int, agent: str = "default") -> None:
    memory.policies.update_many(
        {"state": {"page": 1}, "action": "go", "success": True, "agent": agent}
        for _ in range(count)
    )


def everything(memory: Memory) -> list[Event]:
    """All events, each agent's in the order of their numbers."""
    events = memory.events.tail(100_000)
    return sorted(events, key=lambda event: (event.agent, event.seq))


# Killed consumers


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(rounds(3, 20)))
def test_a_killed_consumer_loses_nothing_and_repeats_what_it_did_not_acknowledge(
    url: str, settings: Settings, tmp_path: Path, round_: int
) -> None:
    chance = random.Random(CHANCE + round_)
    surroundings = environment(url, f"consumers-{uuid4().hex}", settings)
    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        outcomes(memory, 40, "a")
        outcomes(memory, 40, "b")

    path, before, acknowledged = tmp_path / "processed", list[str](), set[str]()
    for kill in (True, True, False):
        with Worker(surroundings, "consume", str(path)) as process:
            if kill:
                process.wait_for_acknowledged(chance.randrange(25))
                time.sleep(chance.uniform(0, 0.02))
                process.kill()
            else:
                assert process.finish() == 0
        processed = path.read_text().split() if path.exists() else []
        own = processed[len(before) :]
        assert set(process.acknowledged) <= set(own)
        assert len(set(own) & set(before)) <= 1  # the one at work, which was not acknowledged
        assert not set(own) & acknowledged
        before = processed
        acknowledged |= set(process.acknowledged)

    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        assert memory.events.pending(GROUP) == []
        assert memory.verify().ok
        for agent in "ab":  # event by event, in the order of each stream
            own = [event.id for event in everything(memory) if event.agent == agent]
            assert [one for one in dict.fromkeys(processed) if one in own] == own


# Killed writers


def check_whole_changes(memory: Memory, acknowledged: list[str]) -> int:
    """Every acknowledged change is there, at most one more, none in part; return how many."""
    assert not memory.verify().differences
    assert acknowledged == [str(number) for number in range(len(acknowledged))]
    last = memory.events.positions().get("default", 0)
    assert [event.seq for event in everything(memory)] == [*range(1, last + 1)]
    made = events = 0
    while events < last:
        events += SIZES[made % 4]
        made += 1
    assert events == last
    assert len(acknowledged) <= made <= len(acknowledged) + 1
    return made


@pytest.mark.slow
@pytest.mark.parametrize("round_", range(rounds(4, 25)))
def test_a_killed_writer_loses_no_acknowledged_change(
    url: str, settings: Settings, engine: str, round_: int
) -> None:
    chance = random.Random(CHANCE + round_)
    surroundings = environment(url, f"changes-{uuid4().hex}", settings)
    most = 300 if engine == "embedded" else 40
    with Worker(surroundings, "change", "0", "100000") as process:
        process.wait_for_acknowledged(chance.randrange(most))
        time.sleep(chance.uniform(0, 0.02))
        process.kill()

    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        made = check_whole_changes(memory, process.acknowledged)
        with Memory.open("memory:") as undisturbed:
            for number in range(made):
                change(undisturbed, number)
            assert learned(memory) == learned(undisturbed)

            for number in range(made, made + 20):  # it can go on as if nothing had happened
                change(memory, number)
                change(undisturbed, number)
            assert learned(memory) == learned(undisturbed)
        assert memory.verify().ok


# Writers and consumers at once


def test_consumers_in_threads_share_the_events(memory: Memory, opened: Opener) -> None:
    handles = [memory, opened(), opened(), opened()]
    together = threading.Barrier(5)
    done = threading.Event()

    def write() -> None:
        together.wait(30)
        for _ in range(10):
            outcomes(memory, 4, "a")
            outcomes(memory, 2, "b")
        done.set()

    def consume(place: int) -> list[str]:
        seen: list[str] = []
        together.wait(30)
        while True:
            last, before = done.is_set(), len(seen)
            name = f"consumer {place}"
            consumer = handles[place].events.listen("group", consumer=name, limit=3, follow=False)
            seen += [event.id for event in consumer]
            if last and len(seen) == before:
                return seen

    with ThreadPoolExecutor(5) as pool:
        writing = pool.submit(write)
        seen = [identity for found in pool.map(consume, range(4)) for identity in found]
        writing.result()
    assert sorted(seen) == sorted(event.id for event in everything(memory))
    assert (len(seen), memory.events.pending("group")) == (60, [])


def test_of_several_that_take_over_at_once_one_gets_it(
    memory: Memory, opened: Opener, clock: Clock
) -> None:
    clock.now = 1_780_000_000_000
    outcomes(memory, 16)
    for place in range(8):  # so many claims, of which each goes to one of the four
        next(memory.events.listen("group", consumer=f"dead {place}", limit=2))
    handles = [memory, opened(), opened(), opened()]
    together = threading.Barrier(4)
    clock.now += 2_000

    def take_over(place: int) -> list[int]:
        how: dict[str, Any] = {"consumer": f"consumer {place}", "idle": 2, "follow": False}
        together.wait(30)
        return [event.seq for event in handles[place].events.listen("group", **how)]

    with ThreadPoolExecutor(4) as pool:
        given = [seq for found in pool.map(take_over, range(4)) for seq in found]
    assert sorted(given) == [*range(1, 17)]
    assert memory.events.pending("group") == []


# Whatever the order of calls


NAMES = ("a", "b", "c")


class Group(MemoryMachine):
    """Three consumers of a group do anything in any order; a model knows who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.consumers: dict[str, Consumer] = {}
        self.latest: dict[str, str] = {}
        """What each consumer has at work."""
        self.written = 0
        self.acknowledged: set[str] = set()
        for name in NAMES:
            self.restart(name)

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        """It gets again what it had not acknowledged."""
        self.consumers[name] = self.memory.events.listen(
            "group", consumer=name, limit=3, follow=False
        )
        self.latest.pop(name, None)

    @rule(agent=st.sampled_from(["x", "y"]), count=st.integers(1, 5))
    def write(self, agent: str, count: int) -> None:
        outcomes(self.memory, count, agent)
        self.written += count

    @rule(name=st.sampled_from(NAMES))
    def take(self, name: str) -> None:
        """Acknowledge what is at work, and get the next event."""
        self._done(name)
        if (event := next(self.consumers[name], None)) is not None:
            assert event.id not in self.acknowledged
            assert event.id not in self.latest.values(), "another consumer has it at work"
            self.latest[name] = event.id

    @rule(name=st.sampled_from(NAMES))
    def acknowledge(self, name: str) -> None:
        self.consumers[name].ack()
        self._done(name)

    def _done(self, name: str) -> None:
        if name in self.latest:
            self.acknowledged.add(self.latest.pop(name))

    def teardown(self) -> None:
        """In the end each gets what it had: every event was acknowledged once, none is left."""
        try:
            for name in NAMES:
                self.restart(name)
                self.acknowledged |= {event.id for event in self.consumers[name]}
            assert len(self.acknowledged) == self.written
            assert self.acknowledged == {event.id for event in self.memory.events.tail(1_000)}
            assert self.memory.events.pending("group") == []
        finally:
            self.memory.close()


@pytest.mark.timeout(600)
def test_any_order_of_calls_acknowledges_every_event_once(opened: Opener, engine: str) -> None:
    examples, steps = (40, 20) if engine == "embedded" else (4, 14)
    run(Group, opened, examples, steps)
