"""Lessons on a Neo4j server: what they cost, and how long a context takes."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

from graphmem import Memory
from tests.bench.lessons import CALLS, ROUNDS, contexts, costs, learned, speed
from tests.bench.policies import millis
from tests.bench.report import Result
from tests.bench.server import opened
from tests.bench.workload import attempt, attempts

BARE = "bench-bare"
SIZES = (1_000, 10_000)


def learn(_: Path, scale: float) -> list[Result]:
    """Single calls after a short and a longer history, and against learning without lessons."""
    small, large = (max(100, int(size * scale)) for size in SIZES)
    with opened() as memory:
        memory.learn_many(attempts(0, small))
        early = _calls(memory, large)
        memory.learn_many(attempts(small, large))
        late = _calls(memory, large + len(early))
    first, last = statistics.median(early), statistics.median(late)
    with opened() as full, opened(BARE) as bare:
        size, calls = max(500, int(3_000 * scale)), max(20, int(50 * scale))
        paid = list(costs("Neo4j: ", full, bare, size, calls))
    return [
        Result(
            f"Neo4j: `learn` with lessons after {large:,} outcomes",
            speed(late),
            f"after {small:,}: {millis(first)}",
            f"{last / first:.2f}",
            "",
        ),
        *paid,
    ]


def _calls(memory: Memory, start: int) -> list[float]:
    return learned(memory, map(attempt, range(start, start + CALLS * ROUNDS)))


def context(_: Path, scale: float) -> list[Result]:
    """Contexts of known and of unknown tasks."""
    size = max(1_000, int(SIZES[-1] * scale))
    with opened() as memory:
        memory.learn_many(attempts(0, size))
        return contexts("Neo4j: ", memory, size, max(20, int(100 * scale)), "")


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "neo4j_lessons_learn": learn,
    "neo4j_lessons_context": context,
}
