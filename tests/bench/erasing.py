"""Erasing episodes: in time for what goes, and without letting the files grow."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from graphmem import Episode, Memory
from tests.bench.report import Result, benchmark

SIZE = 20_000
SHARE = 4
"""One episode in so many goes."""


def history(size: int) -> Iterator[Episode]:
    """Episodes on shared tasks and strategies; every fourth is of one agent."""
    for number in range(size):
        yield Episode(
            task=f"task {number % 1_000}",
            strategy=[f"strategy {number % 97}", f"tool {number % 13}", f"tool {13 + number % 7}"],
            success=number % 3 != 0,
            error=None if number % 3 else f"timeout after {number} s",
            agent="going" if number % SHARE == 0 else f"agent {number % 9}",
            source_key=f"k/{number}",
        )


@benchmark("erase")
def erase(folder: Path, scale: float) -> Iterator[Result]:
    """Learn a history and remove a quarter; compare both rates, and the files of the folder."""
    size = max(1_000, int(SIZE * scale))
    with Memory.open(folder / "g") as memory:
        started = time.perf_counter()
        memory.learn_many(history(size))
        learning = size / (time.perf_counter() - started)
        memory.store.compact()
        before = _file_size(folder)
        started = time.perf_counter()
        gone = memory.upkeep.erase(agent="going").episodes
        erasing = gone / (time.perf_counter() - started)
        assert gone == size // SHARE
        files = f"files from {before:.1f} to {_file_size(folder):.1f} MB"
        yield Result(
            f"`erase` of an agent, {gone:,} of {size:,} episodes; {files}",
            f"{erasing:,.0f} episodes/s",
            f"learning them: {learning:,.0f}/s",
            f"{erasing / learning:.2f}",
            "1,000/s; no larger",
        )


def _file_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
