"""Measured figures: the registry of benchmarks, how calls are timed, and the table."""

from __future__ import annotations

import importlib
import multiprocessing
import pkgutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class Result:
    """One figure, the baseline of the same run, and what is wanted."""

    what: str
    figure: str
    baseline: str = ""
    ratio: str = ""
    asked: str = ""


Benchmark = Callable[[Path, float], Iterable[Result]]
"""Runs in an empty folder, with a share of the full sizes."""
EMBEDDED: dict[str, Benchmark] = {}
SERVER: dict[str, Benchmark] = {}
"""Benchmarks by name; those of SERVER need a Neo4j."""


def benchmark(name: str, *, server: bool = False) -> Callable[[Benchmark], Benchmark]:
    """Return a decorator that registers a benchmark under a name."""

    def register(function: Benchmark) -> Benchmark:
        (SERVER if server else EMBEDDED)[name] = function
        return function

    return register


def register_all() -> None:
    """Import all modules with benchmarks."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name != "__main__":
            importlib.import_module(f"tests.bench.{module.name}")


def run(name: str, scale: float) -> list[Result]:
    """Run one benchmark in a folder of its own."""
    register_all()
    with tempfile.TemporaryDirectory(prefix="graphmem-bench-") as folder:
        return list({**EMBEDDED, **SERVER}[name](Path(folder), scale))


def table(results: Sequence[Result]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| what | figure | baseline in the same run | ratio | asked |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {r.what} | {r.figure} | {r.baseline} | {r.ratio} | {r.asked} |" for r in results]
    return "\n".join(lines)


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def p50(asked: Sequence[T], call: Callable[[T], object]) -> tuple[float, float]:
    """Return the median milliseconds of calls, and those of the processor; the first is left out.

    Other work on the machine changes the time of the processor less than the time that passes.
    """
    call(asked[0])
    passed, spent = [], []
    for one in asked[1:]:
        began, used = time.perf_counter(), time.process_time()
        call(one)
        passed.append(time.perf_counter() - began)
        spent.append(time.process_time() - used)
    return median(passed) * 1_000, median(spent) * 1_000


def call_result(what: str, took: tuple[float, float], most: float | None = None) -> Result:
    """Return the result for what :func:`p50` measured; ``most`` are the wanted milliseconds."""
    asked = "" if most is None else f"p50 under {most:g} ms"
    return Result(what, f"p50 {took[0]:.2f} ms, processor {took[1]:.2f} ms", "", "", asked)


def millis(time_: float) -> str:
    """Return seconds as milliseconds."""
    return f"{time_ * 1_000:.2f} ms" if time_ < 0.01 else f"{time_ * 1_000:.0f} ms"


def apart(work: Callable[P, list[Result]], *args: P.args, **named: P.kwargs) -> list[Result]:
    """Work in a process of its own, so that its peak of memory is its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args, **named).result()
