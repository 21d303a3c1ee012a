"""A process of its own that shares a memory with others.

    GRAPHMEM_URL=... python -m tests.faults.sharer NAME COUNT [looking]

It prints ``ready`` and waits for a line. Then it learns so many episodes, and prints the number of
each as soon as it is acknowledged. At the end it prints how long each call took, as JSON, after
``took``. With ``looking`` it learns something new each time, and also reads: what it wrote is
there, and nothing is ever less.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import IO, Any

from graphmem import Memory

TASKS, STRATEGIES = 20, 15


class Sharer:
    """The process, seen from outside."""

    def __init__(self, environment: dict[str, str], name: str, count: int, *more: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.sharer", name, str(count), *more],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.acknowledged = 0
        self.took: list[float] = []
        self.wait_for("ready")

    @property
    def lines(self) -> IO[str]:
        assert self.process.stdout
        return self.process.stdout

    def begin(self) -> None:
        assert self.process.stdin
        print("go", file=self.process.stdin, flush=True)

    def wait_for(self, wanted: str) -> None:
        """Read what it prints until a line is so."""
        for line in self.lines:
            self._note(line)
            if line.strip() == wanted:
                return
        raise AssertionError(f"{self.name} ended with {self.process.wait()} before {wanted!r}")

    def finish(self) -> int:
        """Read the rest, and return its exit code."""
        for line in self.lines:
            self._note(line)
        self.lines.close()
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(60)

    def kill(self) -> None:
        self.process.kill()
        self.finish()

    def _note(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "took":
            self.took = json.loads(rest)
        elif word.strip().isdigit():
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
