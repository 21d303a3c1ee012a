"""A process of its own that learns small batches and says which of them are durable.

    GRAPHMEM_URL=... python -m tests.faults.learner FIRST LAST [hold]

It prints ``ready``, then ``<batch> <created>`` as soon as a batch is acknowledged, then ``done``.
With ``hold`` it then keeps the memory open, and the lease, until its standard input ends.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from graphmem import Episode, Memory, Settings, Step
from graphmem.store import embedded_sessions

REPOSITORY = Path(__file__).resolve().parents[2]
BATCH = 20
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
STRATEGIES = ("ask first", "just do it", "look it up")


def episode(number: int) -> Episode:
    """The episode of a number: always the same, so that anybody can tell what must be there."""
    return Episode(
        task=f"task {number % 7}",
        task_type="even" if number % 2 else "odd",
        strategy=[STRATEGIES[number % 3], STRATEGIES[(number + 1) % 3]],
        success=number % 4 != 0,
        agent=f"agent {number % 2}",
        steps=[Step(observation=f"page {number}"), Step(action={"press": number}, reward=0.5)],
        started_at=FIRST_DAY + timedelta(hours=number),
        source_key=f"run/{number}",
    )


def batch(number: int) -> list[Episode]:
    return [episode(place) for place in range(number * BATCH, (number + 1) * BATCH)]


def content(memory: Memory) -> dict[str, Any]:
    """What a memory holds and derived, without what tells one memory from another.

    Ids hold the namespace, and what is equally good comes in the order of ids: so both are left
    out. Weights are sums of floats, which depend on the order of summing in the last digits.
    """
    stats = memory.stats().model_dump(exclude={"url", "engine", "namespace", "snapshot_age"})
    strategies = [row.model_dump(exclude={"id"}) for row in memory.strategies(limit=1000)]
    pairs = memory.query("analysis.together", at_least=1, limit=1000)
    return {
        "stats": stats,
        "strategies": {row["text"]: row for row in strategies},
        "together": {
            " + ".join(sorted((row["one"], row["other"]))): (
                row["times"],
                row["successes"],
                round(row["weight"], 9),
            )
            for row in pairs
        },
    }


def keys(memory: Memory) -> list[str]:
    text = "MATCH (e:Episode) WHERE e.ns = $ns RETURN collect(e.source_key) AS keys"
    return sorted(memory.query(text)[0]["keys"])  # in one row: more than 10,000 would be cut


def environment(
    url: str, namespace: str = "default", settings: Settings | None = None, **more: str
) -> dict[str, str]:
    """The environment in which another process opens the same memory."""
    given = {"GRAPHMEM_URL": url, "GRAPHMEM_NAMESPACE": namespace, "GRAPHMEM_WAIT": "10", **more}
    if settings and settings.password:
        given["GRAPHMEM_USER"] = settings.user
        given["GRAPHMEM_PASSWORD"] = settings.password.get_secret_value()
    return {**os.environ, **given}


def run_program(
    program: str, *arguments: str, surroundings: dict[str, str] | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, *arguments],
        cwd=REPOSITORY,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class Talker:
    """Python in a process of its own, which says what it has done."""

    def __init__(self, environment: Mapping[str, str], *command: str) -> None:
        self.name = command[1]
        self._process = subprocess.Popen(
            [sys.executable, *command],
            cwd=REPOSITORY,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._given, self._printed = self._process.stdin, self._process.stdout

    @property
    def pid(self) -> int:
        return self._process.pid

    def note(self, line: str) -> None:
        """Note what a line reports as durable."""

    def lines(self) -> Iterator[str]:
        for line in self._printed:
            self.note(line.strip())
            yield line.strip()

    def wait_for(self, wanted: str) -> None:
        """Return when it has printed a line that begins so."""
        for line in self.lines():
            if line.startswith(wanted):
                return
        raise AssertionError(f"{self.name} ended with {self._process.wait()} before {wanted!r}")

    def begin(self) -> None:
        """Send it a line, for which some wait."""
        print("go", file=self._given, flush=True)

    def kill(self) -> None:
        """Kill it at once; what it printed before is noted."""
        self._process.kill()
        self.finish()

    def let_go(self) -> None:
        """End its standard input, for which a holding one waits."""
        self._given.close()

    def finish(self) -> int:
        if not self._printed.closed:
            for _ in self.lines():
                pass
        self._printed.close()
        self._given.close()
        return self._process.wait(60)


class Learner(Talker):
    def __init__(self, environment: Mapping[str, str], first: int, last: int, *more: str) -> None:
        self.acknowledged: dict[int, int] = {}
        super().__init__(environment, "-m", "tests.faults.learner", str(first), str(last), *more)

    def note(self, line: str) -> None:
        words = line.split()
        if words[0].isdigit():
            self.acknowledged[int(words[0])] = int(words[1])


@contextmanager
def learning(
    environment: Mapping[str, str], first: int, last: int, *more: str
) -> Iterator[Learner]:
    learner = Learner(environment, first, last, *more)
    try:
        yield learner
    finally:
        learner.kill()


def main() -> None:
    first, last = int(sys.argv[1]), int(sys.argv[2])
    if "hold" in sys.argv:
        vars(embedded_sessions)["wanted"] = lambda _: False  # it gives the lease to nobody
    with Memory.open() as memory:
        print("ready", flush=True)
        for number in range(first, last):
            report = memory.learn_many(batch(number))
            print(number, report.created, flush=True)
        print("done", flush=True)
        if "hold" in sys.argv:
            sys.stdin.read()


if __name__ == "__main__":
    main()
