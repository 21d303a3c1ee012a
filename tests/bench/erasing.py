"""Erasing episodes: in time for what goes, and without letting the files grow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from graphmem import Episode, Memory, Step
from tests.bench.report import Result, benchmark
from tests.bench.server import open_empty
from tests.bench.workload import STEPS

SIZE = 20_000
SHARE = 4
"""One episode in so many goes."""
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
MOVES = tuple(
    Step(
        action_type="move", action={"to": place}, state={"at": place}, next_state={"at": place + 1}
    )
    for place in range(5)
)
HISTORIES = {"": (), " of five steps": STEPS, " of five moves that policies count": MOVES}


def history(size: int, steps: tuple[Step, ...] = ()) -> Iterator[Episode]:
    """Episodes a minute apart on shared tasks and strategies; every fourth is of one agent."""
    for number in range(size):
        yield Episode(
            task=f"task {number % 1_000}",
            strategy=[f"strategy {number % 97}", f"tool {number % 13}", f"tool {13 + number % 7}"],
            success=number % 3 != 0,
            error=None if number % 3 else f"timeout after {number} s",
            agent="going" if number % SHARE == 0 else f"agent {number % 9}",
            source_key=f"k/{number}",
            ended_at=FIRST + timedelta(minutes=number),
            steps=steps,
        )


def _erase_agent(memory: Memory, _: int) -> int:
    return memory.upkeep.erase(agent="going").episodes


def _forget_oldest(memory: Memory, size: int) -> int:
    age = datetime.now(UTC) - (FIRST + timedelta(minutes=size / SHARE - 0.5))
    return memory.upkeep.forget(age, None).episodes


WAYS: dict[str, Callable[[Memory, int], int]] = {
    "`erase` of an agent": _erase_agent,
    "`forget` of the oldest": _forget_oldest,
}


def _measure(
    memory: Memory, what: str, size: int, steps: tuple[Step, ...], folder: Path | None = None
) -> Result:
    """Learn a history and remove a quarter; compare both rates, and the files of the folder."""
    started = time.perf_counter()
    memory.learn_many(history(size, steps))
    learning = size / (time.perf_counter() - started)
    memory.store.compact()
    before = _file_size(folder) if folder else 0
    started = time.perf_counter()
    gone = WAYS[what](memory, size)
    erasing = gone / (time.perf_counter() - started)
    assert gone == size // SHARE, (what, gone)
    files = f"; files from {before:.1f} to {_file_size(folder):.1f} MB" if folder else ""
    return Result(
        f"{what}, {gone:,} of {size:,} episodes{files}",
        f"{erasing:,.0f} episodes/s",
        f"learning them: {learning:,.0f}/s",
        f"{erasing / learning:.2f}",
        "1,000/s; no larger" if folder else "",
    )


def _file_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


@benchmark("erase")
def erase(folder: Path, scale: float) -> Iterator[Result]:
    """A quarter of a history at once, with the size of the folder before and after."""
    for kind, steps in HISTORIES.items():
        for way in WAYS:
            place = folder / f"{way} {kind}"
            with Memory.open(place) as memory:
                yield _measure(memory, way, max(1_000, int(SIZE * scale)), steps, place)


@benchmark("neo4j_erase", server=True)
def neo4j_erase(_: Path, scale: float) -> Iterator[Result]:
    """A quarter of a history at once, on a server."""
    for way in WAYS:
        with open_empty() as memory:
            yield _measure(memory, way, max(1_000, int(SIZE * scale)), ())
