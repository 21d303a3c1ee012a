"""A process of its own that consumes events, or changes policies, and says what is durable.

    GRAPHMEM_URL=... python -m tests.faults.consumer consume LOG
    GRAPHMEM_URL=... python -m tests.faults.consumer change FIRST LAST

A consumer writes the id of every event into the file LOG, and to the disk, before it acknowledges
it; then it prints the id. The other prints the number of each change that is made. Both print
``done`` in the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphmem import Memory
from tests.faults.learner import Talker

GROUP = "workers"
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
    return {
        (page, policy.action): (policy.q, policy.updates, policy.trials, policy.successes)
        for page in range(PAGES)
        for policy in memory.policies.list({"page": page})
    }


class Process(Talker):
    def __init__(self, environment: Mapping[str, str], *arguments: str) -> None:
        self.acknowledged: list[str] = []
        """What it reported as durable, in order."""
        super().__init__(environment, "-m", "tests.faults.consumer", *arguments)

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
    process = Process(environment, *arguments)
    try:
        yield process
    finally:
        process.kill()


def main() -> None:
    with Memory.open() as memory:
        memory.upkeep.initialize()
        if sys.argv[1] == "consume":
            _consume(memory, Path(sys.argv[2]))
        else:
            for number in range(int(sys.argv[2]), int(sys.argv[3])):
                change(memory, number)
                print(number, flush=True)
        print("done", flush=True)


def _consume(memory: Memory, path: Path) -> None:
    consumer = memory.events.listen(GROUP, follow=False)
    with path.open("a") as log:
        for event in consumer:
            print(event.id, file=log, flush=True)
            os.fsync(log.fileno())
            consumer.ack()
            print(event.id, flush=True)


if __name__ == "__main__":
    main()
