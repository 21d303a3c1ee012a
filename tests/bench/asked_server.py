"""Questions to a Neo4j with few and with many episodes: what grows with them.

The population is that of ``scale``, with one step an episode. The processor time is that of the
server, where it is on this machine: other work there does not change it much.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from graphmem import Memory, Settings
from tests.bench.policies import millis
from tests.bench.report import Result
from tests.bench.scale import CANDIDATES, attempt, strategy, task
from tests.bench.server import clear
from tests.bench.writers_server import listener, processor

SMALL, LARGE = 5_000, 100_000
NAMESPACES = ("bench-few", "bench-many")
BATCH = 5_000
ROUNDS = 3
"""Of which the quickest counts: the first ones plan statements."""
CALLS = 20
WARM = 3


@dataclass(frozen=True)
class Took:
    """Seconds that a call took: at most in half of the calls, and of the server's processor."""

    passed: float
    spent: float | None


def used(number: int) -> str:
    """Return a strategy that is there in both."""
    return attempt(number, 0).strategy[0].text


WAYS = [strategy(number * 7) for number in range(CANDIDATES)]
ASKED: dict[str, Callable[[Memory, int], Any]] = {
    "`strategies`": lambda memory, _: memory.strategies(),
    "`strategies` of a task": lambda memory, number: memory.strategies(task=task(number)),
    "`explain` of a strategy": lambda memory, number: memory.explain(used(number)),
    "`stats`": lambda memory, _: memory.stats(),
    "`recall` of a known task": lambda memory, number: memory.recall(task(number)),
    "`context` of a known task": lambda memory, number: memory.context(task(number)),
    "`choose` of 15 on a known task": lambda memory, number: memory.choose(task(number), WAYS),
    "`learn` of known things": lambda memory, number: memory.learn(
        task(number), used(number), success=number % 2 == 0, agent="agent 0"
    ),
}
ASK = {"`strategies`": "1.5", "`explain` of a strategy": "1.5"}


def asked_server(_: Path, scale: float) -> list[Result]:
    """Ask both in turn."""
    sizes = max(200, int(SMALL * scale)), max(1_000, int(LARGE * scale))
    server = listener(urlsplit(os.environ["NEO4J_URI"]).port or 7687)
    with contextlib.ExitStack() as stack:
        few, many = (
            stack.enter_context(_filled(namespace, size))
            for namespace, size in zip(NAMESPACES, sizes, strict=True)
        )
        results = []
        for name, call in ASKED.items():
            rounds = [
                [_took(memory, call, server) for memory in (few, many)] for _ in range(ROUNDS)
            ]
            early, late = (
                min(took, key=lambda one: one.passed) for took in zip(*rounds, strict=True)
            )
            results.append(_told(name, early, late, sizes))
        return results


@contextlib.contextmanager
def _filled(namespace: str, size: int) -> Iterator[Memory]:
    settings = Settings(embedder="hashing", count_reads=False)
    url = os.environ["NEO4J_URI"]
    with Memory.open(url, namespace=namespace, settings=settings) as memory:
        clear(namespace)
        try:
            for start in range(0, size, BATCH):
                memory.learn_many(
                    attempt(number, 1) for number in range(start, min(size, start + BATCH))
                )
            memory.upkeep.relink()
            yield memory
        finally:
            clear(namespace)


def _took(memory: Memory, call: Callable[[Memory, int], Any], server: int | None) -> Took:
    """Ask about what is there in the smaller one, too."""
    for number in range(WARM):
        call(memory, number)
    passed, before = [], processor(server)
    for number in range(CALLS):
        started = time.perf_counter()
        call(memory, number)
        passed.append(time.perf_counter() - started)
    after = processor(server)
    spent = None if before is None or after is None else (after - before) / CALLS
    return Took(median(passed), spent)


def _told(name: str, few: Took, many: Took, sizes: tuple[int, int]) -> Result:
    def shown(took: Took) -> str:
        spent = "" if took.spent is None else f", server's processor {millis(took.spent)}"
        return f"p50 {millis(took.passed)}{spent}"

    ratio = f"{many.passed / few.passed:.2f}"
    if few.spent and many.spent:
        ratio = f"{many.spent / few.spent:.2f} of the processor, {ratio} by the clock"
    what = f"Neo4j: {name} at {sizes[1]:,} episodes"
    return Result(what, shown(many), f"at {sizes[0]:,}: {shown(few)}", ratio, ASK.get(name, ""))


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"asked_server": asked_server}
