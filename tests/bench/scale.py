"""One million episodes in the embedded engine, learned as ever, opened again, and then asked.

32 agents attempt 20,000 tasks of eight types, the popular ones far more often, each in one to three
of 2,000 ways: a type has 250 of its own, a task twelve that are usual for it. A way works in a
quarter to three quarters of its attempts; half of the failures name an error, of four classes.
There is an attempt each half minute, so that a million take a year, and each has five steps
(``--steps``).

The population lies in the folder that ``--keep`` names, if any. What is there is not learned again,
so that a second run goes on where the first one was stopped. Each run adds some hundred episodes.
"""

from __future__ import annotations

import os
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from graphmem import Episode, Memory, Settings
from tests.bench import workload
from tests.bench.report import Result, apart, benchmark, millis
from tests.bench.workload import ERRORS, TYPES
from tests.faults.attack import peak

KEEP, STEPS = "GRAPHMEM_BENCH_KEEP", "GRAPHMEM_BENCH_STEPS"
SMALL, LARGE = 10_000, 1_000_000
TASKS, STRATEGIES, AGENTS, USUAL = 20_000, 2_000, 32, 12
VERBS = (
    *("bisect", "replay", "inspect", "sample", "outline"),
    *("compare", "cache", "retry", "split", "ask"),
)
NOUNS = ("history", "fixtures", "schema", "examples", "logs", "index", "owner", "manual")
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)
BATCH = 20_000
CALLS = 200


@benchmark("scale")
def scale(folder: Path, scale: float) -> list[Result]:
    """Learn ten thousand and a million episodes; reopen and verify the million."""
    steps = int(os.environ.get(STEPS, "5"))
    kept = Path(os.environ.get(KEEP) or folder)
    small, large = max(200, int(SMALL * scale)), max(2_000, int(LARGE * scale))
    calls = max(20, min(CALLS, int(CALLS * scale * 10)))
    few, many = (kept / f"{size}-episodes-of-{steps}-steps" for size in (small, large))
    apart(_filled, few, small, steps)
    return [
        *apart(_filled, many, large, steps),
        *apart(_reopened, many, large),
        *apart(_learned, few, many, small, large, calls),
        *apart(_verified, many, large),
    ]


# The population


def task(number: int) -> str:
    return f"{list(TYPES.values())[number % len(TYPES)]} {number}"


def strategy(number: int) -> str:
    verb, noun = VERBS[number % len(VERBS)], NOUNS[number // len(VERBS) % len(NOUNS)]
    return f"{verb} the {noun} with rule {number}"


def attempt(number: int, steps: int) -> Episode:
    """Return what came of one attempt, the same for a number in every run."""
    chance = random.Random(number)
    of = int(TASKS * chance.random() ** 2)
    kind, of_kind = of % len(TYPES), STRATEGIES // len(TYPES)
    used: dict[str, None] = {}
    for _ in range(chance.choices((1, 2, 3), (6, 3, 1))[0]):
        rare = chance.random() < 0.1
        usual = of * 7919 + int(USUAL * chance.random() ** 2) if not rare else 0
        place = chance.randrange(of_kind) if rare else usual
        used[strategy(place % of_kind * len(TYPES) + kind)] = None
    success = chance.random() < 0.25 + 0.5 * random.Random(next(iter(used))).random()
    named = not success and chance.random() >= 0.5
    return Episode(
        task=task(of),
        task_type=list(TYPES)[kind],
        strategy=list(used),
        success=success,
        error=chance.choice(ERRORS).format(number % 255) if named else None,
        agent=f"agent {int(AGENTS * chance.random() ** 2)}",
        ended_at=BEGIN + timedelta(seconds=30 * number),
        source_key=f"k/{number}",
        steps=workload.steps(number, steps),
    )


def _filled(folder: Path, size: int, steps: int) -> list[Result]:
    """Learn what is not there yet, and embed what is new."""
    with Memory.open(folder, settings=Settings()) as memory:
        known = max(0, min(size, memory.stats().episodes) - 1_000)  # others were learned since
        for start in range(known, size, BATCH):
            batch = [attempt(number, steps) for number in range(start, min(size, start + BATCH))]
            memory.learn_many(batch)
        memory.recall(task(0))
        counts = memory.stats()
    what = f"{counts.episodes:,} episodes, {counts.steps:,} steps"
    bytes_, files = 0, []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (taken := path.stat().st_size) > 1_000_000:
            files.append(f"`{path.relative_to(folder)}` {taken / 1e6:,.0f} MB")
            bytes_ += taken
    figure = f"{bytes_ / counts.episodes:,.0f} bytes an episode"
    return [Result(f"{what}: files", figure, ", ".join(files))]


# What it costs


def _reopened(folder: Path, size: int) -> list[Result]:
    before, started = peak(), time.perf_counter()
    with Memory.open(folder, settings=Settings()) as memory:
        memory.strategies()
        read, held = time.perf_counter() - started, peak("VmRSS")
        began = time.perf_counter()
        memory.learn(task(0), strategy(0), success=True)
        wrote = time.perf_counter() - began
    what = f"reopening {size:,} episodes"
    return [
        Result(f"{what} and the first `strategies`", f"{read:.2f} s", "", "", "5 s"),
        Result(f"{what}: the first `learn`, which takes the lease again", f"{wrote:.2f} s"),
        Result(
            f"memory for {size:,} episodes, opened and asked once",
            f"{held} MB, {(held - before) * 1e6 / size:,.0f} bytes an episode",
            f"before opening: {before} MB",
            f"peak after `learn`: {peak()} MB",
        ),
    ]


def _learned(few: Path, many: Path, small: int, large: int, calls: int) -> list[Result]:
    """Call ``learn`` in both memories in turn."""
    took: dict[str, tuple[list[float], list[float]]] = {"`learn`": ([], []), "processor": ([], [])}
    with (
        Memory.open(few, settings=Settings()) as first,
        Memory.open(many, settings=Settings()) as second,
    ):
        chance = random.Random()
        for number in range(calls + 20):
            fields = attempt(chance.randrange(10**7, 10**8), 0)
            for place, memory in enumerate((first, second)):
                began, used = time.perf_counter(), time.process_time()
                memory.learn(
                    fields.task,
                    list(fields.strategy),
                    success=fields.success,
                    error=fields.error,
                    agent=fields.agent,
                )
                spent, passed = time.process_time() - used, time.perf_counter() - began
                if number >= 20:
                    took["`learn`"][place].append(passed)
                    took["processor"][place].append(spent)
    results = []
    for name, (early, late) in took.items():
        old, new = median(early), median(late)
        what = f"{name} after {large:,} episodes"
        baseline = f"after {small:,}, in turn: p50 {millis(old)}"
        results.append(
            Result(what, f"p50 {millis(new)}", baseline, f"{new / old:.2f}", "at most 1.5")
        )
    return results


def _verified(folder: Path, size: int) -> list[Result]:
    seen: list[tuple[int, int]] = []
    with Memory.open(folder, settings=Settings()) as memory:
        memory.stats()
        own = peak()
        used = time.process_time()
        report = memory.verify(on_progress=lambda *done: seen.append(done))
        spent = time.process_time() - used
    assert report.ok, report.differences[:5]
    more = f"{peak() - own} MB more than the open memory"
    figure = f"processor {spent:,.0f} s, {more}"
    told = f"{len(seen):,} reports of progress"
    return [Result(f"`verify` of {size:,} episodes: no difference", figure, "", told, "bounded")]
