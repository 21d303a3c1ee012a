"""Erasing episodes: in time for what goes, and without letting the files grow."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from graphmem import Episode, Memory, Settings, Step
from tests.bench.report import Result
from tests.bench.server import opened
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


def history(start: int, stop: int, steps: tuple[Step, ...] = ()) -> Iterator[Episode]:
    """Episodes a minute apart on shared tasks and strategies; every fourth is of one agent."""
    for number in range(start, stop):
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


def _weight(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _old(size: int) -> timedelta:
    """The age before which the first of so many episodes are, and no others."""
    return datetime.now(UTC) - (FIRST + timedelta(minutes=size / SHARE - 0.5))


def _compared(
    memory: Memory, what: str, size: int, steps: tuple[Step, ...], work: Callable[[], int]
) -> tuple[float, float, int]:
    """Return the rates of learning and of erasing, and the number of erased episodes."""
    started = time.perf_counter()
    memory.learn_many(history(0, size, steps))
    learning = time.perf_counter() - started
    memory.store.compact()
    started = time.perf_counter()
    gone = work()
    erasing = time.perf_counter() - started
    assert gone == size // SHARE, (what, gone)
    return size / learning, gone / erasing, gone


WAYS: dict[str, Callable[[Memory, int], int]] = {
    "`erase` of an agent": lambda memory, _: memory.upkeep.erase(agent="going").episodes,
    "`forget` of the oldest": lambda memory, size: memory.upkeep.forget(_old(size), None).episodes,
}
HISTORIES: dict[str, tuple[Step, ...]] = {
    "": (),
    " of five steps": STEPS,
    " of five moves that policies count": MOVES,
}


def erase(folder: Path, scale: float) -> list[Result]:
    """A quarter of a history at once, with the size of the folder before and after."""
    size = max(1_000, int(SIZE * scale))
    results: list[Result] = []
    for kind, steps in HISTORIES.items():
        for way, work in WAYS.items():
            place = folder / f"{len(results)}"
            with Memory.open(place, settings=Settings()) as memory:
                weights: list[int] = []

                def weighed(
                    memory: Memory = memory,
                    place: Path = place,
                    work: Callable[[Memory, int], int] = work,
                    weights: list[int] = weights,
                ) -> int:
                    weights.append(_weight(place))
                    return work(memory, size)

                learned, gone, count = _compared(memory, way, size, steps, weighed)
            weights.append(_weight(place))
            results.append(
                Result(
                    f"{way}, {count:,} of {size:,} episodes{kind}; files from "
                    f"{weights[0] / 1e6:.1f} to {weights[1] / 1e6:.1f} MB",
                    f"{gone:,.0f} episodes/s",
                    f"learning them: {learned:,.0f}/s",
                    f"{gone / learned:.2f}",
                    "1,000/s; no larger",
                )
            )
    return results


def erase_one(folder: Path, scale: float) -> list[Result]:
    """Single episodes one after the other, after a short and after a long history."""
    calls = max(50, int(1_000 * scale))
    waits: dict[int, list[float]] = {}
    for size in (2 * calls, max(4 * calls, int(SIZE * scale))):
        with Memory.open(folder / f"{size}", settings=Settings()) as memory:
            memory.learn_many(history(0, size))
            rows = memory.query("MATCH (e:Episode) WHERE e.ns = $ns RETURN e.id AS id ORDER BY id")
            waits[size] = []
            for row in rows[:: len(rows) // calls][:calls]:  # ids are digests: any of them
                started = time.perf_counter()
                memory.upkeep.erase(row["id"])
                waits[size].append(time.perf_counter() - started)
    (short, before), (long, after) = waits.items()
    middle, first = (statistics.median(found) * 1000 for found in (after, before))
    late = statistics.quantiles(after, n=100)[98] * 1000
    return [
        Result(
            f"`erase` of {calls:,} single episodes of {long:,}, p50",
            f"{middle:.1f} ms (p99 {late:.1f} ms)",
            f"of {short:,}: {first:.1f} ms",
            f"takes {middle / first:.2f} times as long",
            "",
        )
    ]


def neo4j_erase(_: Path, scale: float) -> list[Result]:
    """A quarter of a history at once, on a server."""
    size = max(1_000, int(SIZE * scale))
    results: list[Result] = []
    for way, work in WAYS.items():
        with opened() as memory:

            def bound(memory: Memory = memory, work: Callable[[Memory, int], int] = work) -> int:
                return work(memory, size)

            learned, gone, count = _compared(memory, way, size, (), bound)
            results.append(
                Result(
                    f"Neo4j: {way}, {count:,} of {size:,} episodes",
                    f"{gone:,.0f} episodes/s",
                    f"learning them: {learned:,.0f}/s",
                    f"{gone / learned:.2f}",
                    "",
                )
            )
    return results


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "erase": erase,
    "erase_one": erase_one,
}
ON_SERVER: dict[str, Callable[[Path, float], list[Result]]] = {"neo4j_erase": neo4j_erase}
