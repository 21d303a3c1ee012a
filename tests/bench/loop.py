"""What choosing is worth: an agent that asks, acts and learns, where each outcome is known.

Outcomes were decided elsewhere: by a language model and a checker (InterCode, tau-bench), or by a
grid world or a database (``seeds/``). Where a way was tried several times on a task, an outcome is
drawn with that share of successes.

The baselines meet the same tasks in the same order, with the same outcomes: drawing at random,
Thompson sampling that knows no tasks, Thompson sampling for each task by itself (Thompson 1933),
the best way in hindsight, and the best one for each task.

The estimates of ``evaluate`` are held against what each set-up of InterCode alone would have got,
which is known: questions are drawn with replacement, and a set-up for each by chance.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np
from numpy.typing import NDArray

from graphmem import Memory, Settings, StrategyUse
from graphmem.search.embedding import Embedder, open_embedder
from tests.bench.forecasting import ROOT, read, together, tools
from tests.bench.report import Result, benchmark

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Tasks, ways, and the share of successes of each way on each task."""

    name: str
    tasks: list[str]
    ways: list[str]
    won: Numbers
    """[tasks, ways]; NaN where a way is not offered."""
    order: list[int]
    """The tasks that an agent meets, by their places."""

    def came(self, seed: int) -> Numbers:
        """Return what each way would give at each step: 1, 0, or NaN where it is not offered."""
        shares = self.won[self.order]
        drawn = np.random.default_rng([seed, 1]).random(shares.shape)
        return np.where(np.isnan(shares), np.nan, (drawn < shares).astype(np.float64))


def world(
    name: str, runs: Iterable[tuple[str, str, bool]], some: int | None, visits: int, seed: int
) -> World:
    """Return the tasks of a log (all, or ``some`` of those tried in each way), in random order."""
    outcomes: dict[str, dict[str, list[bool]]] = {}
    for task, way, success in runs:
        outcomes.setdefault(task, {}).setdefault(way, []).append(success)
    ways = sorted({way for row in outcomes.values() for way in row})
    tasks = [task for task, row in outcomes.items() if some is None or len(row) == len(ways)]
    won = [[np.mean(outcomes[task].get(way, np.nan)) for way in ways] for task in tasks]
    draw = np.random.default_rng(seed)
    places = draw.permutation(len(tasks))[:some]
    order = [int(place) for _ in range(visits) for place in draw.permutation(places)]
    return World(name, tasks, ways, np.array(won), order)


def questions(visits: int, some: int) -> Callable[[int], World]:
    """InterCode: questions over databases, each answered by 15 set-ups of a model."""
    runs = [
        (one.task, one.strategy[0].text, bool(one.success))
        for one in read("intercode")
        if "refine" not in one.strategy[0].text  # it has few of the questions
    ]
    often = "each new" if visits == 1 else f"each {visits} times"
    return lambda seed: world(f"InterCode, {often}", runs, some, visits, seed)


def airline(visits: int) -> Callable[[int], World]:
    """tau-bench: tasks of an airline, tried four times; a way is offered where it was tried."""
    runs = [(one.task, tools(one), bool(one.success)) for one in read("tau-bench")]
    name = f"tau-bench airline by all tools, each {visits} times"
    return lambda seed: world(name, runs, None, visits, seed)


def seeds(visits: int) -> Callable[[int], World]:
    """A log in ``seeds/``: each task tried with each combination of strategies."""
    runs = [(one.task, together(one), bool(one.success)) for one in read("jsonl", "sql.jsonl.gz")]
    return lambda seed: world(f"seeds/ sql, each {visits} times", runs, None, visits, seed)


def rental(seed: int) -> World:
    """The questions of the demo to a database; some come back."""
    folder = str(ROOT / "seeds")
    if folder not in sys.path:
        sys.path.append(folder)
    import choosing_agent as agent

    found = agent.world(seed)
    asked = {question.text: question for question in found.questions}
    ways, tasks = list(agent.WAYS), list(asked)
    won = [[float(found.answer(one, way) is None) for way in ways] for one in asked.values()]
    order = [tasks.index(question.text) for question in found.questions]
    return World("seeds/ questions of the demo", tasks, ways, np.array(won), order)


WORLDS: dict[str, Callable[[], Callable[[int], World]]] = {
    "new": lambda: questions(1, 400),
    "four_times": lambda: questions(4, 100),
    "airline_tools": lambda: airline(4),
    "sql": lambda: seeds(6),
    "rental": lambda: rental,
}


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


EPISODES = 2_000
ESTIMATES = ("inverse_propensity", "self_normalised", "doubly_robust")


@benchmark("loop_value")
def value(folder: Path, scale: float) -> list[Result]:
    """The distance of each estimate from the truth, over all set-ups, and how often it is held."""
    del folder
    outcomes = {
        (str(one.task_key), one.strategy[0].text): bool(one.success) for one in read("intercode")
    }
    runs = Counter(setup for _, setup in outcomes)
    setups = sorted(setup for setup, count in runs.items() if count > 1_000)  # one has a part
    tasks = sorted({task for task, _ in outcomes})
    tasks = [task for task in tasks if all((task, setup) in outcomes for setup in setups)]
    chances = dict.fromkeys(setups, 1.0 / len(setups))
    errors: dict[str, list[float]] = {name: [] for name in ESTIMATES}
    held: dict[str, list[bool]] = {name: [] for name in ESTIMATES}
    seconds = []
    for seed in range(max(1, round(5 * scale))):
        draw = random.Random(seed)
        with Memory.open("memory:") as memory:
            drawn = ((draw.choice(tasks), draw.choice(setups)) for _ in range(EPISODES))
            memory.learn_many(
                {
                    "task": task,
                    "strategy": StrategyUse(setup, candidates=chances),
                    "success": outcomes[task, setup],
                    "source_key": str(place),
                }
                for place, (task, setup) in enumerate(drawn)
            )
            for setup in setups:
                truth = mean(outcomes[task, setup] for task in tasks)
                start = time.perf_counter()
                found = memory.evaluate(strategies=setup)
                seconds.append(time.perf_counter() - start)
                for name in ESTIMATES:
                    one = getattr(found, name)
                    errors[name].append((one.value - truth) ** 2)
                    held[name].append(one.low <= truth <= one.high)
    what = f"`evaluate` of each of {len(setups)} set-ups, {EPISODES:,} InterCode questions"
    count = len(errors[ESTIMATES[0]])
    roots = {name: math.sqrt(mean(several)) for name, several in errors.items()}
    results = [
        Result(
            f"{what}: {name.replace('_', ' ')}, {count} estimates",
            f"off by {roots[name]:.3f} (root mean square), held by {mean(held[name]):.0%}",
            f"inverse propensity {roots[ESTIMATES[0]]:.3f}",
            f"{roots[name] / roots[ESTIMATES[0]]:.2f}",
        )
        for name in ESTIMATES
    ]
    return [*results, Result(what, f"{mean(seconds):.1f} s each")]
