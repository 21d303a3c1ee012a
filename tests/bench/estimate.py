"""What the estimate concludes: tools that break, tasks that are alike, few outcomes, and routing.

The baselines meet the same chances: Thompson sampling with one Beta(1, 1) a tool (Thompson 1933),
the same over its last 30 outcomes, and for routing the nearest 80 questions.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean

import numpy as np

from graphmem import Memory, Settings
from graphmem.advice import formula
from graphmem.graph.estimate import LATEST
from graphmem.models.forecasts import CERTAIN
from graphmem.search.embedding import open_embedder
from tests.bench.loop import Numbers, Once
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED

ROUNDS, CHANGED = 300, 100
Rates = Callable[[int], list[float]]
"""How often each tool works, by round."""
WORLDS: dict[str, tuple[Rates, str]] = {
    "three steady tools": (lambda _: [0.8, 0.6, 0.4], "no worse than Thompson by over .01"),
    "all tools get worse and keep their order": (
        lambda at: [0.8, 0.6, 0.4] if at < ROUNDS / 2 else [0.5, 0.3, 0.1],
        "no worse than Thompson by over .01",
    ),
    "two tools swap": (lambda at: [0.9, 0.3] if at < CHANGED else [0.3, 0.9], ""),
    "a tool breaks and recovers": (lambda at: [0.1 if 70 <= at < 140 else 0.9, 0.5], ""),
}


def broken(at: int) -> list[float]:
    """Return the rates of a tool that breaks, beside one that works every other time."""
    return [0.9 if at < CHANGED else 0.1, 0.5]


def choosing(rates: Rates, tasks: int, seed: int) -> list[float]:
    """Return how often what it took works, of an agent that only chooses and learns."""
    draw = np.random.default_rng(seed)
    got = []
    with Memory.open("memory:", settings=Settings(count_reads=False)) as memory:
        for at in range(ROUNDS):
            ways = [f"way {number}" for number in range(len(rates(at)))]
            task = f"task {draw.integers(tasks)}"
            choice = memory.choose(task, ways, seed=1_000 * seed + at)
            got.append(rates(at)[ways.index(choice.text)])
            memory.learn(task, choice, success=bool(draw.random() < got[-1]))
    return got


def thompson(rates: Rates, seed: int, last: int = ROUNDS) -> list[float]:
    """Return the same of Thompson sampling over the last outcomes of each tool."""
    draw = np.random.default_rng(seed)
    known: list[list[bool]] = [[] for _ in rates(0)]
    got = []
    for at in range(ROUNDS):
        won = [sum(one[-last:]) for one in known]
        lost = [len(one[-last:]) - good for one, good in zip(known, won, strict=True)]
        tool = int(np.argmax([draw.beta(k + 1, n + 1) for k, n in zip(won, lost, strict=True)]))
        got.append(rates(at)[tool])
        known[tool].append(bool(draw.random() < got[-1]))
    return got


@benchmark("estimate")
def estimate(folder: Path, scale: float) -> list[Result]:
    """What is concluded now, here, from few outcomes, and of questions that come once."""
    del folder
    seeds = range(max(2, round(6 * scale)))
    results = []
    for tasks, asked in ((1, 0.44), (30, 0.42), (300, 0.40)):
        runs = np.array([choosing(broken, tasks, seed) for seed in seeds])
        plain, latest = (
            np.array([thompson(broken, seed, last) for seed in range(50)]) for last in (ROUNDS, 30)
        )
        what = f"a tool breaks, {tasks} task{'s' if tasks > 1 else ''}: success after, before"
        figure, others, windowed = (
            f"{one[:, CHANGED:].mean():.3f}, {one[:, :CHANGED].mean():.3f}"
            for one in (runs, plain, latest)
        )
        named = f"Thompson {others}; over the last 30 {windowed}"
        results.append(Result(what, figure, named, "", f"at least {asked}"))
    many = range(max(2, round(30 * scale)))
    for name, (rates, wanted) in WORLDS.items():
        own = mean(mean(choosing(rates, 1, seed)) for seed in many)
        plain_ = mean(mean(thompson(rates, seed)) for seed in range(400))
        ratio = f"{own / plain_:.2f}"
        results.append(Result(name, f"success {own:.3f}", f"Thompson {plain_:.3f}", ratio, wanted))
    return [*results, *found(), *concluded("memory:"), *routed()]


def found() -> Iterator[Result]:
    """Yield how many changes are told, and how often one is told where nothing changed."""
    draw = np.random.default_rng(0)
    rows = 1_000
    breaks = draw.random((rows, 115)) < np.where(np.arange(115) < CHANGED, 0.9, 0.1)
    share = np.mean(told(breaks))
    yield Result("tools that break are told within 15 outcomes", f"{share:.3f}", "", "", ".95")
    steady = draw.random((rows, 200)) < draw.uniform(0.05, 0.95, (rows, 1))
    ever = np.zeros(rows, dtype=bool)
    for length in range(5, 201, 5):
        ever |= told(steady[:, :length]) > 0.0
    what = "1,000 steady histories of 200: a change is told at the end; at any time"
    yield Result(what, f"{told(steady).mean():.3f}; {ever.mean():.3f}", "", "", "at most .01")


def told(outcomes: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Numbers:
    """Return in which rows a change is told."""
    latest = outcomes[:, -LATEST:].astype(np.float64)
    before = outcomes[:, :-LATEST]
    rows, columns = latest.shape
    lengths = np.full(rows, columns)
    trials = np.full(rows, float(before.shape[1]))
    runs = formula.mix(trials, before.sum(axis=1) * 1.0, latest, lengths, formula.HAZARD)
    counts = [(float(outcomes.shape[1]), float(won)) for won in outcomes.sum(axis=1)]
    turns = formula.find_turns(runs, counts).items()
    told = [row for row, turn in turns if turn.certainty >= CERTAIN]
    return np.isin(np.arange(rows), told).astype(np.float64)


def concluded(url: str) -> Iterator[Result]:
    """Yield what is expected from few outcomes, and of tasks that are alike."""

    def asked(outcomes: Sequence[bool], questions: Sequence[str]) -> list[float]:
        place = f"bench-estimate-{os.getpid()}-{len(outcomes)}"
        with Memory.open(url, namespace=place) as memory:
            for won in outcomes:
                memory.learn(PRODUCTION, "blue-green", success=won)
            shares = [memory.predict(one, "blue-green").probability for one in questions]
            if len(outcomes) == 23:
                choice = memory.choose(PRODUCTION, ["blue-green", "in place"], seed=1)
                shares.append(choice.candidates["in place"])
            memory.upkeep.erase(agent="default")
            return shares

    three, none = asked([True] * 3, [PRODUCTION])[0], asked([False] * 2, [PRODUCTION])[0]
    untried = asked([True] * 22 + [False], [])[0]
    yield Result("3 of 3 in an empty memory", f"{three:.3f}", "", "", ".75 to .9")
    yield Result("0 of 2 in an empty memory", f"{none:.3f}", "", "", ".1 to .25")
    yield Result("untried beside 22 of 23: taken", f"{untried:.3f}", "", "", "at most .33")
    shares = asked([True] * 15, [PRODUCTION, *ALIKE])
    for text, share, limit in zip(ALIKE, shares[1:], (0.93, 0.93, 0.85, 0.85), strict=True):
        yield Result(
            f"15 of 15: {text!r}", f"{share:.3f}", f"itself {shares[0]:.3f}", "", f"{limit}"
        )


PRODUCTION = "upgrade the production Postgres"
ALIKE = (
    "downgrade the production Postgres",
    "do NOT upgrade the production Postgres",
    "upgrade the Kubernetes cluster",
    "bake a cake",
)


def routed(folds: int = 5) -> Iterator[Result]:
    """Yield how well answers of two models are predicted, for questions that come once."""
    file = SHARED / "data" / "routellm_mmlu" / "answers.jsonl.gz"
    if not file.exists():
        return
    with gzip.open(file) as packed:
        rows = [json.loads(line) for line in packed]
    models = sorted(rows[0]["correct"], key=lambda one: sum(row["correct"][one] for row in rows))
    won = np.array([[row["correct"][one] for one in models] for row in rows], dtype=np.float64)
    texts = [row["question"] for row in rows]
    once = Once(open_embedder("minilm"))
    vectors = once.embed(texts)
    fold = np.random.default_rng(0).permutation(len(rows)) % folds
    ours, nearest = np.zeros_like(won), np.zeros_like(won)
    for number in range(folds):
        known, asked = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        rate = won[known].mean(axis=0)
        settings = Settings(count_reads=False)
        with Memory.open("memory:", settings=settings, embedder=once) as memory:
            memory.learn_many(
                {
                    "task": texts[row],
                    "strategy": one,
                    "success": bool(came),
                    "source_key": f"{row}{one}",
                }
                for row in known
                for one, came in zip(models, won[row], strict=True)
            )
            for row in asked:
                near = vectors[known] @ vectors[row]
                top = np.argsort(-near)[:80]
                weights = np.clip(near[top], 0.0, None) ** 4
                nearest[row] = (weights @ won[known[top]] + 5 * rate) / (weights.sum() + 5)
                choice = memory.choose(texts[row], models, explore="greedy")
                both = {one.text: one.probability for one in (choice, *choice.others)}
                ours[row] = [both[one] for one in models]
    brier, other = (float(((one - won) ** 2).mean()) for one in (ours, nearest))
    what = f"routing {len(rows):,} questions, {folds} folds"
    limit = f"at most {other + 0.002:.4f}"
    yield Result(
        f"{what}: Brier", f"{brier:.4f}", f"nearest 80: {other:.4f}", f"{brier / other:.2f}", limit
    )
    gain, base = (
        mean(gained(won[fold == k], one[fold == k]) for k in range(folds))
        for one in (ours, nearest)
    )
    limit = f"at least {base - 0.02:.3f}"
    yield Result(f"{what}: gain", f"{gain:.3f}", f"nearest 80: {base:.3f}", "", limit)


def gained(won: Numbers, expected: Numbers) -> float:
    """Return the mean share of the gap between two models that routing closes, over all budgets."""
    order = np.argsort(expected[:, 0] - expected[:, 1], kind="stable")
    shares = np.cumsum((won[:, 1] - won[:, 0])[order])
    return float(np.concatenate([[0.0], shares]).mean() / shares[-1])
