"""A process of its own that shares a memory with others.

    GRAPHMEM_URL=... python -m tests.faults.sharer NAME COUNT [looking]

It prints ``ready`` and waits for a line. Then it learns so many episodes, and prints the number of
each as soon as it is acknowledged. At the end it prints how long each call took, as JSON, after
``took``. With ``looking`` it learns something new each time, and also reads: what it wrote is
there, and nothing is ever less.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import Any

from graphmem import Memory
from tests.faults.learner import Talker

TASKS, STRATEGIES = 20, 15


class Sharer(Talker):
    """The process, seen from outside."""

    def __init__(self, environment: Mapping[str, str], name: str, count: int, *more: str) -> None:
        self.acknowledged = 0
        self.took: list[float] = []
        super().__init__(environment, "-m", "tests.faults.sharer", name, str(count), *more)
        self.name = name
        self.wait_for("ready")

    def note(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "took":
            self.took = json.loads(rest)
        elif word.isdigit():
            self.acknowledged = int(word) + 1


def learn(memory: Memory, name: str, number: int, *, new: bool = False) -> Any:
    return memory.learn(
        f"task {number % TASKS}",
        f"strategy {number} of {name}" if new else f"strategy {number % STRATEGIES}",
        success=number % 3 > 0,
        source_key=f"{name}/{number}",
    )


def main() -> None:
    name, count, looking = sys.argv[1], int(sys.argv[2]), "looking" in sys.argv
    took, seen = [], 0
    with Memory.open() as memory:
        memory.stats()
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            began = time.perf_counter()
            assert learn(memory, name, number, new=looking).created
            took.append(time.perf_counter() - began)
            print(number, flush=True)
            if looking and not number % 10:
                own = memory.query(
                    "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key STARTS WITH $name "
                    "RETURN count(e) AS episodes",
                    name=f"{name}/",
                )
                assert own[0]["episodes"] == number + 1
                episodes = memory.stats().episodes
                assert episodes >= max(seen, number + 1)
                seen = episodes
                assert memory.recall(f"task {number % TASKS}").items
    print("took", json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
