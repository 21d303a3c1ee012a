"""What choosing is worth: an agent that asks, acts and learns, on outcomes that a log has for all.

Each question of InterCode was tried with 15 set-ups, so that the outcome of whatever is chosen is
known. A question comes once (400 of them), or comes back (100, four times each), in random order.
The baselines see the same questions in the same order: drawing at random, Thompson sampling that
knows no tasks (Thompson 1933), the best set-up in hindsight, and the best one for each question.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from graphmem import Memory, Settings
from graphmem.seeding import intercode
from tests.bench.forecasting import SHARED, read
from tests.bench.report import Result

SEEDS = 20
PARTS = 4
Outcomes = NDArray[np.float64]


def outcomes() -> tuple[list[str], list[str], Outcomes]:
    """Return questions, set-ups, and whether each set-up answered each: [questions, set-ups]."""
    table: dict[str, dict[str, float]] = {}
    for one in read(intercode.FORMAT, list(SHARED.glob("intercode_sql/*.json.gz"))):
        if "refine" not in one.strategy[0].text:  # it has few of the questions
            table.setdefault(one.task, {})[one.strategy[0].text] = float(bool(one.success))
    ways = sorted({way for row in table.values() for way in row})
    asked = [task for task, row in table.items() if len(row) == len(ways)]
    return asked, ways, np.array([[table[task][way] for way in ways] for task in asked])


def chosen(
    asked: list[str], ways: list[str], came: Outcomes, order: list[int], **more: str
) -> list[float]:
    """Return the outcomes of an agent that chooses with a memory."""
    got = []
    with Memory.open("memory:", settings=Settings(count_reads=False)) as memory:
        for step, place in enumerate(order):
            choice = memory.choose(asked[place], ways, seed=step, **more)  # type: ignore[arg-type]
            got.append(float(came[place, ways.index(choice.text)]))
            memory.learn(asked[place], choice, success=bool(got[-1]))
    return got


def thompson(came: Outcomes, order: list[int], draw: np.random.Generator) -> list[float]:
    """Return the outcomes of Thompson sampling with one Beta(1, 1) a set-up, whatever the task."""
    won, lost = np.ones(came.shape[1]), np.ones(came.shape[1])
    got = []
    for place in order:
        way = int(np.argmax(draw.beta(won, lost)))
        got.append(float(came[place, way]))
        won[way] += got[-1]
        lost[way] += 1 - got[-1]
    return got


def orders(questions: int, visits: int, count: int, seed: int) -> list[int]:
    """Return places of questions in random order, each as often as it comes."""
    draw = np.random.default_rng(seed)
    some = draw.permutation(count)[:questions]
    return [int(place) for _ in range(visits) for place in draw.permutation(some)]


def intercode_loop(folder: Path, scale: float) -> list[Result]:
    """Return the mean success of choosing, with its curve, beside the baselines."""
    del folder
    asked, ways, came = outcomes()
    seeds = range(max(2, round(SEEDS * scale)))
    results: list[Result] = []
    for name, questions, visits, least in (
        ("each new", 400, 1, "at least .67"),
        ("each four times", 100, 4, ""),
    ):
        runs: dict[str, list[list[float]]] = {}
        seconds = 0.0
        for seed in seeds:
            order = orders(questions, visits, len(asked), seed)
            began = time.perf_counter()
            runs.setdefault("choose", []).append(chosen(asked, ways, came, order))
            seconds += time.perf_counter() - began
            runs.setdefault("greedy", []).append(
                chosen(asked, ways, came, order, explore="greedy")
            ) if seed < len(seeds) // 4 + 1 else None
            draw = np.random.default_rng(seed)
            runs.setdefault("plain Thompson", []).append(thompson(came, order, draw))
            runs.setdefault("random", []).append([float(came[place].mean()) for place in order])
            best = int(np.argmax(came[order].mean(axis=0)))
            runs.setdefault("best set-up", []).append([float(x) for x in came[order, best]])
            runs.setdefault("best for each", []).append([float(x) for x in came[order].max(axis=1)])
        what = f"InterCode, {questions * visits} questions, {name}, {len(seeds)} seed(s)"
        results += list(rows(what, runs, least))
        results.append(
            Result(
                f"{what}: a choice and its episode",
                f"{1000 * seconds / (len(seeds) * questions * visits):.1f} ms",
                *("", "", ""),
            )
        )
    return results


def rows(what: str, runs: dict[str, list[list[float]]], least: str) -> Iterator[Result]:
    """Yield the mean success of choosing beside the others, and its curve."""
    means = {name: [mean(run) for run in its] for name, its in runs.items()}
    own = means.pop("choose")
    others = ", ".join(f"{name} {mean(its):.3f}" for name, its in means.items())
    ratio = f"{mean(own) / mean(means['plain Thompson']):.2f}"
    yield Result(what, f"success {mean(own):.3f} ± {stdev(own):.3f}", others, ratio, least)
    curve = np.array(runs["choose"]).mean(axis=0)
    parts = [f"{part.mean():.3f}" for part in np.array_split(curve, PARTS)]
    plain = np.array(runs["plain Thompson"]).mean(axis=0)
    beside = [f"{part.mean():.3f}" for part in np.array_split(plain, PARTS)]
    quarters = ", ".join(parts)
    yield Result(f"{what}: by quarters", quarters, f"plain Thompson {', '.join(beside)}", "", "")


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"loop_intercode": intercode_loop}
