"""What a choice costs: 15 candidates, on a known task and on one that was never seen.

The memory has 200 tasks of five kinds, 15 strategies, and two outcomes of each on each: 6,000
episodes. The same choice by one prediction for each candidate is the baseline. Beside the time that
passed there is the time of the processor, which other work on the machine changes less.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from graphmem import Episode, Memory
from graphmem.search.embedding import open_embedder
from tests.bench.report import Result

TASKS = 200
CANDIDATES = tuple(
    f"{verb} the {noun} first"
    for verb in ("check", "read", "cancel", "update", "confirm")
    for noun in ("fare rules", "booking", "passenger list")
)
KINDS = ("refund a flight", "rebook a seat", "sort a list", "query a table", "send an invoice")
CALLS = 200
Times = tuple[float, float]
"""Milliseconds that passed, and those of the processor."""


def speed(folder: Path, scale: float) -> list[Result]:
    """Return the median times of choices with each embedder."""
    results: list[Result] = []
    for embedder in ("hashing", "minilm"):
        with Memory.open(folder / embedder, embedder=open_embedder(embedder)) as memory:
            memory.learn_many(history(max(10, int(TASKS * scale))))
            memory.upkeep.relink()
            results += measured(memory, embedder, max(20, int(CALLS * scale)))
    return results


def measured(memory: Memory, embedder: str, calls: int) -> Iterator[Result]:
    """Yield the median times on known tasks, unknown ones, and without candidates."""
    known = [task(number % 10) for number in range(calls)]
    new = [f"{task(number)} of customer {number}" for number in range(calls, 2 * calls)]
    own = list(CANDIDATES)
    choose = p50(known, lambda text: memory.choose(text, own))
    each = p50(known[:20], lambda text: [memory.predict(text, one) for one in own])
    what = f"`choose` of 15 on a known task, `{embedder}`"
    yield result(what, choose, f"15 `predict`: {each[0]:.1f} ms", 5)
    embed = open_embedder(embedder)
    alone = p50(new, lambda text: embed.embed([text]))
    unseen = p50(new, lambda text: memory.choose(text, own))
    what = f"`choose` of 15 on a new task, `{embedder}`"
    yield result(what, unseen, f"embedding the task: {alone[0]:.2f} ms")
    what = f"`choose` without candidates on a known task, `{embedder}`"
    yield result(what, p50(known, memory.choose), "")


def result(what: str, took: Times, baseline: str, most: float | None = None) -> Result:
    asked = "" if most is None else f"p50 under {most:g} ms"
    return Result(what, f"p50 {took[0]:.2f} ms, processor {took[1]:.2f} ms", baseline, "", asked)


def task(number: int) -> str:
    return f"{KINDS[number % len(KINDS)]} in case {number}"


def history(tasks: int) -> Iterator[Episode]:
    """Yield two outcomes of each strategy on each task."""
    chance = random.Random(0)
    for number in range(2 * tasks * len(CANDIDATES)):
        place, way = divmod(number // 2, len(CANDIDATES))
        yield Episode(
            task=task(place),
            strategy=CANDIDATES[way],
            success=chance.random() < (way % 5 + 1) / 7,
            source_key=str(number),
        )


def p50(texts: list[str], call: Callable[[str], object]) -> Times:
    """Return the median times of calls, after one that is not counted."""
    call(texts[0])
    passed, spent = [], []
    for text in texts[1:]:
        began, used = time.perf_counter(), time.process_time()
        call(text)
        passed.append(time.perf_counter() - began)
        spent.append(time.process_time() - used)
    return median(passed) * 1_000, median(spent) * 1_000


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"loop_choose": speed}
