"""Processes of their own that work with a memory, and say what is durable.

    GRAPHMEM_URL=... python -m tests.faults.learner learn FIRST LAST [hold]
    GRAPHMEM_URL=... python -m tests.faults.learner share NAME COUNT [looking]
    GRAPHMEM_URL=... python -m tests.faults.learner consume LOG
    GRAPHMEM_URL=... python -m tests.faults.learner change FIRST LAST

All print ``done`` in the end. The first prints ``ready``, then ``<batch> <created>`` as soon as a
batch is acknowledged; with ``hold`` it keeps the memory open, and the lease, until its standard
input ends. The second prints ``ready`` and waits for a line. Then it learns so many episodes, and
prints the number of each when it is acknowledged; at the end, after ``took``, how long each call
took, as JSON. With ``looking`` it learns something new each time, and also reads: what it wrote is
there, and nothing is ever less. The third writes the id of every event into the file LOG, and to
the disk, before it acknowledges it; then it prints the id. The last changes policies, and prints
the number of each change that is made.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

from graphmem import Episode, Memory, Settings, Step
from graphmem.store import embedded_files

P = ParamSpec("P")
R = TypeVar("R")

REPOSITORY = Path(__file__).resolve().parents[2]
BATCH = 20
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
STRATEGIES = ("ask first", "just do it", "look it up")
GROUP = "workers"
PAGES = 5
SIZES = (1, 1, 3, 1)
"""Events of the changes with the numbers 0, 1, 2, 3, then the same again."""


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


class Steps:
    """The steps of this process, of which the one with a number is its last."""

    def __init__(self, kill: int) -> None:
        self._kill = kill
        self._next = 0

    def _pass(self) -> None:
        if self._next == self._kill:
            os._exit(9)
        self._next += 1

    def __call__(self, call: Callable[P, R]) -> Callable[P, R]:
        """Return a call with a step before it, and one after it."""

        def then(*args: P.args, **kwargs: P.kwargs) -> R:
            self._pass()
            answer = call(*args, **kwargs)
            self._pass()
            return answer

        return then

    def sessions(self, load: Callable[..., Any], method: str) -> Callable[..., Any]:
        """Return what loads sessions of the engine of which a method has steps."""
        return lambda *args, **more: _Session(load(*args, **more), method, self)


class _Session:
    """A session of the engine; its own attributes cannot be set."""

    def __init__(self, inner: Any, method: str, steps: Steps) -> None:
        self._inner, self._method, self._steps = inner, method, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._steps(found) if name == self._method else found


def killed(program: str, kill: int, folder: Path, settings: Settings) -> tuple[str, bool]:
    """Run a program with ``steps`` that ends at one of them; return what it printed.

    Also return whether it was killed: otherwise it came to its end.
    """
    begin = f"from tests.faults.learner import Steps\nsteps = Steps({kill})\n"
    surroundings = environment(str(folder), "default", settings)
    answer = run_program(begin + program, surroundings=surroundings, timeout=60)
    assert answer.returncode in {0, 9}, answer.stderr
    return answer.stdout, answer.returncode == 9


class Talker:
    """Python in a process of its own, which says what it has done; killed at the end of a block."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

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


class Process(Talker):
    """One of the processes of this module."""

    def __init__(self, environment: Mapping[str, str], *arguments: str) -> None:
        super().__init__(environment, "-m", __name__, *arguments)


class Learner(Process):
    def __init__(self, environment: Mapping[str, str], first: int, last: int, *more: str) -> None:
        self.acknowledged: dict[int, int] = {}
        super().__init__(environment, "learn", str(first), str(last), *more)

    def note(self, line: str) -> None:
        words = line.split()
        if words[0].isdigit():
            self.acknowledged[int(words[0])] = int(words[1])


@contextmanager
def holding(environment: Mapping[str, str], last: int = 1, first: int = 0) -> Iterator[Learner]:
    """Another process that has learned batches, and keeps the lease."""
    with Learner(environment, first, last, "hold") as learner:
        learner.wait_for("done")
        yield learner


class Sharer(Process):
    def __init__(self, environment: Mapping[str, str], name: str, count: int, *more: str) -> None:
        self.acknowledged = 0
        self.took: list[float] = []
        super().__init__(environment, "share", name, str(count), *more)
        self.name = name
        self.wait_for("ready")

    def note(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "took":
            self.took = json.loads(rest)
        elif word.isdigit():
            self.acknowledged = int(word) + 1


class Worker(Process):
    """A process that consumes events, or changes policies."""

    def __init__(self, environment: Mapping[str, str], *arguments: str) -> None:
        self.acknowledged: list[str] = []
        """What it reported as durable, in order."""
        super().__init__(environment, *arguments)

    def note(self, line: str) -> None:
        if line != "done":
            self.acknowledged += line.split()

    def wait_for_acknowledged(self, count: int) -> None:
        """Return when it has reported so much as durable, or is done."""
        for line in self.lines():
            if line == "done" or len(self.acknowledged) >= count:
                return


def learn_one(memory: Memory, name: str, number: int, *, new: bool = False) -> Any:
    return memory.learn(
        f"task {number % 20}",
        f"strategy {number} of {name}" if new else f"strategy {number % 15}",
        success=number % 3 > 0,
        source_key=f"{name}/{number}",
    )


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
        policies.update(here, "go", success=number % 3 > 0)


def learned(memory: Memory) -> dict[tuple[int, str], tuple[Any, ...]]:
    """What the changes taught."""
    return {
        (page, policy.action): (policy.q, policy.updates, policy.trials, policy.successes)
        for page in range(PAGES)
        for policy in memory.policies.list({"page": page})
    }


def _learn(memory: Memory, first: str, last: str, *_: str) -> None:
    print("ready", flush=True)
    for number in range(int(first), int(last)):
        report = memory.learn_many(batch(number))
        print(number, report.created, flush=True)


def _share(memory: Memory, name: str, count: str, *looking: str) -> None:
    took, seen = [], 0
    memory.stats()
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(count)):
        began = time.perf_counter()
        assert learn_one(memory, name, number, new=bool(looking)).created
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
            assert memory.recall(f"task {number % 20}").items
    print("took", json.dumps(took), flush=True)


def _consume(memory: Memory, path: str) -> None:
    memory.upkeep.initialize()
    consumer = memory.events.listen(GROUP, follow=False)
    with Path(path).open("a") as log:
        for event in consumer:
            print(event.id, file=log, flush=True)
            os.fsync(log.fileno())
            consumer.ack()
            print(event.id, flush=True)


def _change(memory: Memory, first: str, last: str) -> None:
    memory.upkeep.initialize()
    for number in range(int(first), int(last)):
        change(memory, number)
        print(number, flush=True)


WORK: dict[str, Callable[..., None]] = {
    "learn": _learn,
    "share": _share,
    "consume": _consume,
    "change": _change,
}


def main() -> None:
    if "hold" in sys.argv:
        vars(embedded_files)["wanted"] = lambda _: False  # it gives the lease to nobody
    with Memory.open() as memory:
        WORK[sys.argv[1]](memory, *sys.argv[2:])
        print("done", flush=True)
        if "hold" in sys.argv:
            sys.stdin.read()


if __name__ == "__main__":
    main()
