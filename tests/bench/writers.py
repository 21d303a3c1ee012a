"""Many processes that write one folder, against one that writes alone."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from graphmem import Settings
from tests.bench.report import Result, benchmark
from tests.faults.learner import Sharer, environment

EACH = 500
PROCESSES = 4


def _surroundings(folder: Path) -> dict[str, str]:
    return environment(str(folder), "default", Settings(), GRAPHMEM_EMBEDDER="hashing")


def _ended(sharers: Sequence[Sharer]) -> None:
    if any(sharer.finish() for sharer in sharers):
        raise RuntimeError("a process failed")


@benchmark("writers_folder")
def writers_folder(folder: Path, scale: float) -> list[Result]:
    """Learn in several processes at once, and in one alone."""
    each = max(int(EACH * scale), 20)
    one = _timed(folder / "one", ["one"], each * PROCESSES)[1]
    sharers, many = _timed(folder / "many", [f"p{n}" for n in range(PROCESSES)], each)
    waits = [sum(took for took in sharer.took if took > 0.02) for sharer in sharers]
    calls = sorted(took for sharer in sharers for took in sharer.took)
    total = each * PROCESSES
    return [
        Result(
            f"`learn`, {PROCESSES} processes with {each} calls each on one folder",
            f"{total / many:,.0f}/s",
            f"one process with all of them: {total / one:,.0f}/s",
            f"{one / many:.2f}",
            "nothing lost",
        ),
        Result(
            "the same, a call of each process: p50; p99",
            "; ".join(f"{_at(s.took, 0.5):.2f} and {_at(s.took, 0.99):,.0f} ms" for s in sharers),
            f"all: {_at(calls, 0.5):.2f} and {_at(calls, 0.99):,.0f} ms, longest {calls[-1]:.2f} s",
            f"waited in all {min(waits):.2f} to {max(waits):.2f} s a process",
            "a fair wait",
        ),
    ]


def _timed(folder: Path, names: Sequence[str], count: int) -> tuple[list[Sharer], float]:
    sharers = [Sharer(_surroundings(folder), name, count) for name in names]
    began = time.perf_counter()
    for sharer in sharers:
        sharer.begin()
    _ended(sharers)
    return sharers, time.perf_counter() - began


def _at(took: Sequence[float], part: float) -> float:
    """Return in milliseconds how long that part of the calls took at most."""
    return 1000 * sorted(took)[int(part * (len(took) - 1))]
