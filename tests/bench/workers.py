"""Seeding by workers against one process, on the same logs, in turn."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from graphmem import Settings
from tests.bench.embedded import SHARED
from tests.bench.report import Result
from tests.faults.learner import environment

ROUNDS = 3
TWO = ("--workers", "2")


def _seconds(folder: Path, logs: Path, *options: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "graphmem", "--json", "seed", str(logs), *options],
        env=environment(str(folder), "default", Settings()),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def workers(folder: Path, scale: float) -> list[Result]:
    """Seed InterCode SQL by the command, where its logs are there."""
    logs = SHARED / "data" / "intercode_sql"
    what = "`graphmem seed --workers 2` of InterCode SQL"
    if not logs.is_dir():
        return [Result(what, "its logs are not here", "", "", "1.6")]
    alone: list[float] = []
    shared: list[float] = []
    for number in range(max(1, round(ROUNDS * scale))):
        alone.append(_seconds(folder / f"alone-{number}", logs))
        shared.append(_seconds(folder / f"shared-{number}", logs, *TWO))
    one, two = statistics.median(alone), statistics.median(shared)
    return [Result(what, f"{two:.1f} s", f"one process: {one:.1f} s", f"{one / two:.2f}", "1.6")]


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"workers": workers}
