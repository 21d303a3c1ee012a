"""Whoever consumes or changes beside others, or is killed: no event is lost or processed twice."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import rule

from graphmem import Memory, Settings
from graphmem.errors import ValidationError
from graphmem.models.policies import Event
from graphmem.policies.consumers import Consumer
from tests.conftest import Clock, Opener
from tests.faults.attack import rounds
from tests.faults.consumer import GROUP, LIMIT, SIZES, Process, change, learned, running
from tests.faults.learner import environment
from tests.machines import MemoryMachine, run

CHANCE = 20_261_101


def outcomes(memory: Memory, count: int, agent: str = "default") -> None:
    """Write so many events."""
    memory.policies.observe_many(
        {"state": {"page": 1}, "action": "go", "success": True, "agent": agent}
        for _ in range(count)
    )


def everything(memory: Memory) -> list[Event]:
    """All events, each agent's in the order of their numbers."""
    events = memory.events.since({}, 100_000)
    return sorted(events, key=lambda event: (event.agent, event.seq))


# Killed consumers


class Log:
    """What a consumer processed, run after run, as its file says; and what it acknowledged."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: list[tuple[list[str], list[str]]] = []
        self._read = 0

    def note(self, process: Process) -> None:
        """Note what a run that has ended did."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.runs.append((lines[self._read :], process.acknowledged))
        self._read = len(lines)

    def processed(self) -> list[str]:
        return [identity for processed, _ in self.runs for identity in processed]


def check_nothing_is_lost(memory: Memory, logs: list[Log], kills: int) -> None:
    """All was processed, and what was processed again had not been acknowledged."""
    processed = Counter(identity for log in logs for identity in log.processed())
    assert set(processed) == {event.id for event in everything(memory)}
    assert memory.events.pending(GROUP) == []
    assert processed.total() - len(processed) <= kills * LIMIT
    for log in logs:
        for place, (own, acknowledged) in enumerate(log.runs):
            assert set(acknowledged) <= set(own)
            assert len(set(own)) == len(own)
            later = [identity for run, _ in log.runs[place + 1 :] for identity in run]
            elsewhere = [i for other in logs if other is not log for i in other.processed()]
            assert not set(acknowledged) & {*later, *elsewhere}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["consume", "handle"])
@pytest.mark.parametrize("round_", range(rounds(3, 20)))
def test_a_killed_consumer_loses_nothing_and_repeats_what_it_did_not_acknowledge(
    url: str, settings: Settings, tmp_path: Path, round_: int, how: str
) -> None:
    chance = random.Random(CHANCE + round_)
    surroundings = environment(url, f"consumers-{uuid4().hex}", settings)
    namespace = surroundings["GRAPHMEM_NAMESPACE"]
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        outcomes(memory, 40, "a")
        outcomes(memory, 40, "b")

    log = Log(tmp_path / "processed")
    given = ("one", str(log.path), "again") if how == "consume" else (str(log.path),)
    for kill in (True, True, False):
        with running(surroundings, how, *given) as process:
            if kill:
                process.wait_for_acknowledged(chance.randrange(25))
                time.sleep(chance.uniform(0, 0.02))
                process.kill()
            else:
                assert process.finish() == 0
        log.note(process)

    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        check_nothing_is_lost(memory, [log], kills=2)
        assert memory.verify().ok
        if how == "handle":  # event by event, in the order of each stream
            handled = log.processed()
            assert len(handled) - len(set(handled)) <= 2
            for agent in "ab":
                own = [event.id for event in everything(memory) if event.agent == agent]
                assert [one for one in dict.fromkeys(handled) if one in own] == own


# Killed writers


def check_whole_changes(memory: Memory, acknowledged: list[str]) -> int:
    """Every acknowledged change is there, at most one more, none in part; return how many."""
    report = memory.verify()
    assert report.ok, report.differences
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
    with running(surroundings, "change", "0", "100000") as process:
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
        consumer = handles[place].events.consume("group", f"consumer {place}", limit=3)
        seen: list[str] = []
        together.wait(30)
        while True:
            last = done.is_set()
            events = list(consumer)
            seen += [event.id for event in events]
            assert consumer.ack() == len(events)
            if last and not events:
                return seen

    with ThreadPoolExecutor(5) as pool:
        writing = pool.submit(write)
        seen = [identity for found in pool.map(consume, range(4)) for identity in found]
        writing.result()
    assert sorted(seen) == sorted(event.id for event in everything(memory))
    assert len(seen) == 60
    assert memory.events.pending("group") == []


def test_of_several_that_reclaim_at_once_one_gets_it(
    memory: Memory, opened: Opener, clock: Clock
) -> None:
    clock.now = 1_780_000_000_000
    outcomes(memory, 16)
    for place in range(8):  # so many claims, of which each goes to one of the four
        list(memory.events.consume("group", f"dead {place}", limit=2))
    handles = [memory, opened(), opened(), opened()]
    together = threading.Barrier(4)
    clock.now += 2_000

    def reclaim(place: int) -> list[int]:
        consumer = handles[place].events.consume("group", f"consumer {place}")
        together.wait(30)
        given = [event.seq for event in consumer.reclaim(idle=2)]
        assert consumer.ack() == len(given)
        return given

    with ThreadPoolExecutor(4) as pool:
        given = [seq for found in pool.map(reclaim, range(4)) for seq in found]
    assert len(given) == len(set(given))
    left = sum(row.count for row in memory.events.pending("group"))
    assert len(given) + left == 16


# Whatever the order of calls


NAMES = ("a", "b", "c")


class Group(MemoryMachine):
    """Three consumers of a group do anything in any order; a model knows who holds what."""

    def __init__(self) -> None:
        super().__init__()
        self.consumers = {name: self._consumer(name, 3) for name in NAMES}
        self.written: Counter[str] = Counter()
        self.events: dict[str, Event] = {}
        self.holder: dict[str, str] = {}
        self.deliveries: dict[str, int] = {}
        self.acknowledged: set[str] = set()

    def _consumer(self, name: str, limit: int) -> Consumer:
        return self.memory.events.consume("group", name, limit=limit)

    @rule(agent=st.sampled_from(["x", "y"]), count=st.integers(1, 5))
    def write(self, agent: str, count: int) -> None:
        outcomes(self.memory, count, agent)
        self.written[agent] += count

    @rule(name=st.sampled_from(NAMES))
    def consume(self, name: str) -> None:
        given = list(self.consumers[name])
        left = self.written.total() - len(self.events)
        assert len(given) == min(3, left)
        for event in given:
            assert event.id not in self.events, "it was given before, and nobody re-claimed it"
            assert event.deliveries == 1
            self.events[event.id], self.holder[event.id] = event, name
            self.deliveries[event.id] = 1

    @rule(name=st.sampled_from(NAMES), chance=st.randoms(use_true_random=False))
    def acknowledge(self, name: str, chance: Any) -> None:
        chosen = [self.events[key] for key in sorted(self.events) if chance.random() < 0.3]
        own = {event.id for event in chosen if self.holder.get(event.id) == name}
        if own == {event.id for event in chosen}:
            if chosen:
                assert self.consumers[name].ack(*chosen) == len(own)
        else:
            with pytest.raises(ValidationError):
                self.consumers[name].ack(*chosen)
        self._acknowledged(own)

    @rule(name=st.sampled_from(NAMES))
    def acknowledge_all(self, name: str) -> None:
        own = {key for key, holder in self.holder.items() if holder == name}
        with contextlib.suppress(ValidationError):  # some of it was re-claimed
            assert self.consumers[name].ack() == len(own)
        self._acknowledged(own)

    @rule(name=st.sampled_from(NAMES))
    def reclaim(self, name: str) -> None:
        given = self.consumers[name].reclaim(idle=0)
        assert sorted(event.id for event in given) == sorted(self.holder)
        for event in given:
            self.deliveries[event.id] = self.deliveries[event.id] + 1
            self.holder[event.id] = name

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        """A new handle of the same name holds what it took over; it takes all, there and then."""
        self.consumers[name] = self._consumer(name, 3)
        self.reclaim(name)

    def _acknowledged(self, own: set[str]) -> None:
        assert not own & self.acknowledged
        self.acknowledged |= own
        for key in own:
            del self.holder[key]

    def teardown(self) -> None:
        """In the end one consumer clears up: every event was acknowledged once, none is left."""
        try:
            self.reclaim("a")
            self.acknowledge_all("a")
            while len(self.events) < self.written.total():
                self.consume("a")
                self.acknowledge_all("a")
            assert self.acknowledged == {event.id for event in self.memory.events.since({})}
            assert self.memory.events.pending("group") == []
            assert list(self.consumers["b"]) == self.consumers["b"].reclaim(idle=0) == []
        finally:
            self.memory.close()


@pytest.mark.timeout(600)
def test_any_order_of_calls_acknowledges_every_event_once(opened: Opener, engine: str) -> None:
    examples, steps = (40, 20) if engine == "embedded" else (8, 14)
    run(Group, opened, examples, steps)
