"""How near the estimates of `evaluate` are to what would have been got, where a log holds it.

InterCode has the outcome of every set-up on every question. Questions are drawn with replacement,
and a set-up for each by chance; what each set-up alone would have got is then known.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from pathlib import Path
from statistics import mean

from graphmem import Memory, StrategyUse
from tests.bench.forecasting import read
from tests.bench.report import Result, benchmark

EPISODES = 2_000
SEEDS = range(5)
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
    for seed in SEEDS[: max(1, round(len(SEEDS) * scale))]:
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
