"""A process of its own that consumes events, or changes policies, and says what is durable.

    GRAPHMEM_URL=... python -m tests.faults.consumer consume NAME LOG [again]
    GRAPHMEM_URL=... python -m tests.faults.consumer handle LOG
    GRAPHMEM_URL=... python -m tests.faults.consumer change FIRST LAST

A consumer writes the id of every event into
the file LOG, and to the disk, before it acknowledges it; then it prints the ids that are
acknowledged. With ``again`` it first takes back what was pending. A handler does as a consumer, in
the loop of ``events.run``. The other prints the number of each change that is made. All print
``done`` in the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from graphmem import Memory
from graphmem.models.policies import Event
from tests.faults.learner import Talker

GROUP = "workers"
LIMIT = 5
PAGES = 5
SIZES = (1, 1, 3, 1)
"""Events of the changes with the numbers 0, 1, 2, 3, then the same again."""


def change(memory: Memory, number: int) -> None:
    """The change of a number: always the same, so that anybody can tell what must be there."""
    here, there = {"page": number % PAGES}, {"page": (number + 1) % PAGES}
    reward = float(number % 7)
    policies = memory.policies
    if number % 4 == 0:
        policies.update(here, "go", reward, next_state=there)
    elif number % 4 == 1:
        policies.update(here, "stop", reward, terminal=True, success=number % 3 > 0)
    elif number % 4 == 2:
        step = {"state": here, "action": "go", "reward": reward, "next_state": there}
        policies.update_many([step, {**step, "state": there, "next_state": here}, step])
    else:
        policies.observe(here, "go", number % 3 > 0)


def learned(memory: Memory) -> dict[tuple[int, str], tuple[Any, ...]]:
    """What was learned of every action on every page."""
    return {
        (page, policy.action): (policy.q, policy.updates, policy.trials, policy.successes)
        for page in range(PAGES)
        for policy in memory.policies.list({"page": page})
    }


class Process(Talker):
    """The process, seen from the test."""

    def __init__(self, environment: Mapping[str, str], *arguments: str) -> None:
        self.acknowledged: list[str] = []
        """What it reported as durable, in order."""
        super().__init__(environment, "tests.faults.consumer", *arguments)

    def note(self, line: str) -> None:
        if line != "done":
            self.acknowledged += line.split()

    def wait_for_acknowledged(self, count: int) -> None:
        """Return when it has reported so much as durable, or is done."""
        for line in self.lines():
            if line == "done" or len(self.acknowledged) >= count:
                return


@contextmanager
def running(environment: Mapping[str, str], *arguments: str) -> Iterator[Process]:
    """Run a process for the length of a block."""
    process = Process(environment, *arguments)
    try:
        yield process
    finally:
        process.kill()


def main() -> None:
    with Memory.open() as memory:
        memory.upkeep.initialize()
        if sys.argv[1] == "consume":
            with Path(sys.argv[3]).open("a") as log:
                _consume(memory, sys.argv[2], log, again="again" in sys.argv)
        elif sys.argv[1] == "handle":
            with Path(sys.argv[2]).open("a") as log:
                _handle(memory, log)
        else:
            for number in range(int(sys.argv[2]), int(sys.argv[3])):
                change(memory, number)
                print(number, flush=True)
        print("done", flush=True)


def _handle(memory: Memory, log: TextIO) -> None:
    before: list[Event] = []

    @memory.events.on("outcome", group=GROUP)
    def handle(event: Event) -> None:
        if before:
            print(before.pop().id, flush=True)
        print(event.id, file=log, flush=True)
        os.fsync(log.fileno())
        before.append(event)

    memory.events.run(follow=False)
    if before:  # else all were handled before a kill
        print(before.pop().id, flush=True)


def _consume(memory: Memory, name: str, log: TextIO, *, again: bool) -> None:
    consumer = memory.events.consume(GROUP, name, limit=LIMIT)
    events = consumer.reclaim(idle=0) if again else []
    while events := events or list(consumer):
        for event in events:
            _process(event, log)
        consumer.ack(*events)
        print(*(event.id for event in events), flush=True)
        events = []


def _process(event: Event, log: TextIO) -> None:
    log.write(f"{event.id}\n")
    log.flush()
    os.fsync(log.fileno())


if __name__ == "__main__":
    main()
