"""What choosing is worth: an agent that asks, acts and learns, where each outcome is known.

The baselines meet the same tasks in the same order, with the same outcomes: drawing at random,
Thompson sampling that knows no tasks, Thompson sampling for each task by itself (Thompson 1933),
the best way in hindsight, and the best one for each task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from graphmem import Memory, Settings
from graphmem.search.embedding import Embedder, open_embedder
from tests.bench.loop_worlds import WORLDS, Numbers, World
from tests.bench.report import Result, benchmark

SEEDS = 20
PARTS = 4


class Once:
    """An embedder that makes the vector of a text once for all memories of a benchmark."""

    def __init__(self, of: Embedder) -> None:
        self._of, self._vectors = of, dict[str, NDArray[np.float32]]()
        self.name, self.dimensions, self.thresholds = of.name, of.dimensions, of.thresholds

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors |= dict(zip(new, self._of.embed(new), strict=True))
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return np.stack([self._vectors[text] for text in texts])


def chosen(found: World, came: Numbers, embedder: Embedder, **more: str) -> list[float]:
    """Return the outcomes of an agent that chooses with a memory."""
    got = []
    settings = Settings(count_reads=False)
    with Memory.open("memory:", settings=settings, embedder=embedder) as memory:
        for step, place in enumerate(found.order):
            ways = [way for way, here in zip(found.ways, came[step], strict=True) if here >= 0]
            task = found.tasks[place]
            choice = memory.choose(task, ways, seed=step, **more)  # type: ignore[arg-type]
            got.append(float(came[step, found.ways.index(choice.text)]))
            memory.learn(task, choice, success=bool(got[-1]))
    return got


def thompson(found: World, came: Numbers, seed: int, *, by_task: bool) -> list[float]:
    """Return the outcomes of Thompson sampling with one Beta(1, 1) a way, or a task and way."""
    draw = np.random.default_rng(seed)
    won, lost = np.ones(found.won.shape), np.ones(found.won.shape)
    got = []
    for row, place in zip(came, found.order, strict=True):
        at = place if by_task else 0
        rates = np.where(row >= 0, draw.beta(won[at], lost[at]), -1.0)
        way = int(rates.argmax())
        got.append(float(row[way]))
        won[at, way] += got[-1]
        lost[at, way] += 1 - got[-1]
    return got


def loop(name: str) -> Callable[[Path, float], list[Result]]:
    """Return the benchmark of one world."""

    def measured(folder: Path, scale: float) -> list[Result]:
        """Return the mean success of choosing, with its curve, beside the baselines."""
        del folder
        made = WORLDS[name]()
        count = max(2, round(SEEDS * scale))
        runs: dict[str, list[list[float]]] = {}
        minilm = open_embedder("minilm")
        once = Once(minilm)
        for seed in range(count):
            found = made(seed)
            came = found.came(seed)
            began = time.process_time()
            embedder = once if seed else minilm
            runs.setdefault("choose", []).append(chosen(found, came, embedder))
            if not seed:
                took = 1000 * (time.process_time() - began) / len(found.order)
            if seed < count // 4 + 1:
                greedy = chosen(found, came, once, explore="greedy")
                runs.setdefault("greedy", []).append(greedy)
            runs.setdefault("random", []).append(list(np.nanmean(came, axis=1)))
            for who, by_task in (("Thompson", False), ("Thompson by task", True)):
                got = thompson(found, came, seed, by_task=by_task)
                runs.setdefault(who, []).append(got)
            if not np.isnan(came).any():
                best = came[:, came.mean(axis=0).argmax()]
                runs.setdefault("best way", []).append(list(best))
            shares = found.won[found.order]
            best = came[np.arange(len(came)), np.nanargmax(shares, axis=1)]
            runs.setdefault("best for each task", []).append(list(best))
        what = f"{found.name}, {len(found.order)} tasks met, {count} seeds"
        return [
            *rows(what, runs, "at least .67" if name == "new" else ""),
            Result(f"{what}: a choice and its episode", f"processor {took:.1f} ms", "", "", ""),
        ]

    return measured


def rows(what: str, runs: dict[str, list[list[float]]], least: str) -> Iterator[Result]:
    """Yield the mean success of choosing beside the others, and its curve."""
    means = {name: [mean(run) for run in its] for name, its in runs.items()}
    own = means.pop("choose")
    others = ", ".join(f"{name} {mean(its):.3f}" for name, its in means.items())
    ratio = f"{mean(own) / mean(means['Thompson']):.2f}"
    yield Result(what, f"success {mean(own):.3f} ± {stdev(own):.3f}", others, ratio, least)
    plain = f"Thompson {curve(runs['Thompson'])}"
    yield Result(f"{what}: by quarters", curve(runs["choose"]), plain, "", "")


def curve(runs: list[list[float]]) -> str:
    """Return the mean success in each part of the runs."""
    parts = np.array_split(np.array(runs).mean(axis=0), PARTS)
    return ", ".join(f"{part.mean():.3f}" for part in parts)


for _name in WORLDS:
    benchmark(f"loop_{_name}")(loop(_name))
