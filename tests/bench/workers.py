"""Seeding by workers against one process, on the same logs, in turn."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from graphmem import Settings
from tests.bench.embedded import SHARED
from tests.bench.report import Result
from tests.faults.learner import environment

ROUNDS = 3
TWO = ("--workers", "2")


SEED = """
import resource, sys
from graphmem.cli import main
try:
    main()
finally:
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        print(sum(resource.getrusage(who)[:2]), file=sys.stderr)
"""
"""Seeds, and then prints the CPU time of the process, and that of its workers."""


class Spent(NamedTuple):
    """Seconds: by the clock, and of CPU."""

    wall: float
    writer: float
    workers: float

    @property
    def least(self) -> float:
        """How long two cores need that do nothing else: neither can do the work of the writer."""
        return max(self.writer, (self.writer + self.workers) / 2)


def _seed(folder: Path, logs: Path, *options: str) -> Spent:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", SEED, "--json", "seed", str(logs), *options],
        env=environment(str(folder), "default", Settings()),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    wall = time.perf_counter() - began
    writer, workers = map(float, done.stderr.split()[-2:])
    return Spent(wall, writer, workers)


def _middle(runs: Sequence[Spent]) -> Spent:
    return Spent(*map(statistics.median, zip(*runs, strict=True)))


def workers(folder: Path, scale: float) -> list[Result]:
    """Seed InterCode SQL by the command, where its logs are there."""
    logs = SHARED / "data" / "intercode_sql"
    what = "`graphmem seed --workers 2` of InterCode SQL"
    if not logs.is_dir():
        return [Result(what, "its logs are not here", "", "", "1.6")]
    alone: list[Spent] = []
    shared: list[Spent] = []
    for number in range(max(1, round(ROUNDS * scale))):
        alone.append(_seed(folder / f"alone-{number}", logs))
        shared.append(_seed(folder / f"shared-{number}", logs, *TWO))
    one, two = _middle(alone), _middle(shared)
    ratio = f"{one.wall / two.wall:.2f}"
    cpu = f"CPU time of the writer {two.writer:.1f} s, of the workers {two.workers:.1f} s"
    least = f"{one.writer / two.least:.2f}"
    return [
        Result(what, f"{two.wall:.1f} s", f"one process: {one.wall:.1f} s", ratio, "1.6"),
        Result(f"{what}, whatever else runs", cpu, f"one process: {one.writer:.1f} s", least, ""),
    ]


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"workers": workers}
