"""Writing skills: 10,000 strategies on 100 types of tasks, each tried six times, with dates.

Of a type a third works, a third fails with one of ten errors, and a third does both by halves.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from graphmem import Memory
from tests.bench.report import Result, benchmark

START = datetime(2026, 1, 1, tzinfo=UTC)
TRIES = 6


@benchmark("skills")
def skills(folder: Path, scale: float) -> list[Result]:
    """Export everything, and once more without new evidence."""
    strategies = int(10_000 * scale)
    with Memory.open(folder / "skills.graph") as memory:
        memory.learn_many(run(number) for number in range(strategies * TRIES))
        took = []
        for _ in range(2):
            start, cpu = time.perf_counter(), time.process_time()
            report = memory.skills.export(folder / "skills")
            used = time.process_time() - cpu
            took.append(f"{time.perf_counter() - start:.2f} s, {used:.2f} s of the processor")
        assert not report.changed
    told = f"{report.conclusions:,} conclusions on {report.kinds} kinds"
    what = f"skills.export, {strategies:,} strategies"
    return [
        Result(what, took[0], told, "", "under 2 s"),
        Result(f"{what}, again", took[1], "", "", "under 2 s"),
    ]


def run(number: int) -> dict[str, Any]:
    """Return the episode of a number."""
    strategy = number // TRIES
    worked = (True, False, number % 2 == 0)[strategy // 100 % 3]
    return {
        "task": f"task {(strategy // 100 + number) % 20} of type {strategy % 100}",
        "task_type": f"type {strategy % 100}",
        "strategy": f"strategy {strategy} of many that were tried",
        "success": worked,
        "error": None if worked else f"it broke in part {chr(65 + strategy % 10)}",
        "ended_at": START + timedelta(minutes=number),
        "source_key": str(number),
    }
