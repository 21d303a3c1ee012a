"""Recall: how well what it finds does on tasks that were left out, and what counts as relevant.

The ablation asks, for each task that was left out, for strategies, and looks at what came of them
there. What was not tried there cannot be judged and is passed over. nDCG@5 is the discounted sum of
the success rates on the task of the first five strategies that were tried there, as a share of what
the best five of these have, over all tasks on which any succeeded.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from time import process_time
from unittest.mock import patch

import numpy as np

from graphmem import Episode, Memory
from graphmem.advice.recall import HOPS, MOST, REST
from graphmem.search.embedding import open_embedder
from tests.bench.forecasting import kinds, read, tools
from tests.bench.loop import Once
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED


def parsed(episode: Episode) -> list[str]:
    """What the parser takes for strategies."""
    return [use.text for use in episode.strategy]


def sequence(episode: Episode) -> list[str]:
    """All actions in their order as one strategy, repetitions left out."""
    return [tools(episode)]


@dataclass(frozen=True)
class Log:
    """Episodes of a log, with strategies in one reading."""

    name: str
    episodes: Sequence[Episode]
    folds: int
    seeds: tuple[int, ...]
    share: float = 1.0
    """Of the episodes of the other tasks so many are learned."""

    def splits(self) -> Iterator[tuple[list[Episode], list[Episode]]]:
        """Yield what is learned and what is held out; all episodes of a task stay together."""
        for seed in self.seeds:
            tasks = sorted({str(episode.task_key) for episode in self.episodes})
            random.Random(seed).shuffle(tasks)
            for fold in range(self.folds):
                out = set(tasks[fold :: self.folds])
                learned = [episode for episode in self.episodes if episode.task_key not in out]
                held_out = [episode for episode in self.episodes if episode.task_key in out]
                some = random.Random(seed).sample(learned, int(self.share * len(learned)))
                yield (learned if self.share == 1.0 else some), held_out


def logs(scale: float) -> Iterator[Log]:
    """Yield the logs; with a scale under 1 only so many of the tasks of InterCode."""
    tau, sql, seeds = list(read("tau-bench")), list(read("intercode")), list(read("jsonl", "sql.*"))
    tasks = sorted({str(episode.task_key) for episode in sql})
    some = min(len(tasks), max(50, int(len(tasks) * min(1.0, scale))))
    kept = set(random.Random(1).sample(tasks, some))
    sql = [episode for episode in sql if episode.task_key in kept]
    for name, found, way, folds, orders in (
        ("tau-bench airline, tools", tau, parsed, 10, (0, 1, 2)),
        ("tau-bench airline, sequence of tools", tau, sequence, 10, (0, 1, 2)),
        ("InterCode SQL, set-up and kinds", sql, parsed, 5, (0,)),
        ("InterCode SQL, sequence of kinds", sql, lambda one: [kinds(one)], 5, (0,)),
        ("seeds/, SQL", seeds, parsed, 5, (0, 1, 2)),
    ):
        episodes = [
            Episode(
                task=episode.task,
                task_key=episode.task_key or episode.task,
                task_type=episode.task_type,
                agent=episode.agent,
                strategy=way(episode),
                success=episode.success,
                source_key=episode.source_key,
            )
            for episode in found
        ]
        yield Log(name, episodes, folds, orders)
        yield Log(f"{name}, a tenth of the episodes", episodes, folds, orders, 0.1)


Method = Callable[[str], list[str]]


@benchmark("recall_ablation")
def ablation(folder: Path, scale: float) -> list[Result]:
    """Recall, its parts left out one by one, and simple baselines."""
    if not (SHARED / "data").is_dir():
        return [Result("recall on tasks left out", "the logs are not here")]
    embedder = Once(open_embedder("minilm"))
    places = itertools.count()
    results = []
    for log in logs(scale):
        found: dict[str, list[float]] = {}
        for learned, held_out in log.splits():
            with Memory.open(folder / str(next(places)), embedder=embedder) as memory:
                memory.learn_many(learned)
                for name, method in methods(memory).items():
                    found.setdefault(name, []).extend(gains(method, held_out))
        for name, own in found.items():
            tried = f"{len(own)} tasks, {len(log.seeds)} x {log.folds} folds"
            what = f"{log.name}: {name}"
            results.append(Result(what, f"nDCG@5 {statistics.fmean(own):.3f}", "", tried))
    return results


def methods(memory: Memory) -> dict[str, Method]:
    """Return the ways to choose strategies for a text."""
    score = partial(recalled, memory, whole=True)
    return {
        "recall": partial(recalled, memory),
        "recall, without variety": score,
        "search alone (max_hops 0)": partial(score, hops=0),
        "OUTCOME alone (max_hops 1)": partial(score, hops=1),
        "recall, max_hops 3": partial(score, hops=3),
        **{
            f"recall, without {label} {edge}": partial(without, memory, (label, edge))
            for label, edge in REST
        },
    }


def without(memory: Memory, step: tuple[str, str], text: str) -> list[str]:
    """Ask the memory without one kind of further step."""
    with patch.dict(REST, {step: 0.0}):
        return recalled(memory, text, whole=True)


def recalled(memory: Memory, text: str, *, hops: int = HOPS, whole: bool = False) -> list[str]:
    """Ask the memory for all that it has, by score; else what it says first comes first."""
    found = list(memory.recall(text, MOST, max_hops=hops).items)
    if whole:
        return [item.text for item in sorted(found, key=lambda item: (-item.score, item.text))]
    first = memory.recall(text, max_hops=hops).items
    return list(dict.fromkeys(item.text for item in (*first, *found)))


def gains(method: Method, held_out: Sequence[Episode]) -> Iterator[float]:
    """Judge a method by episodes that were not learned: yield the nDCG@5 of each task."""
    by_task: dict[str, list[Episode]] = {}
    for episode in held_out:
        by_task.setdefault(str(episode.task_key), []).append(episode)
    for episodes in by_task.values():
        outcomes: dict[str, list[bool]] = {}
        for episode in episodes:
            for use in episode.strategy:
                outcomes.setdefault(use.text, []).append(bool(episode.success))
        rates = {text: statistics.fmean(came) for text, came in outcomes.items()}
        judged = [rates[text] for text in method(episodes[0].task) if text in rates][:5]
        if most := _discounted(sorted(rates.values(), reverse=True)[:5]):
            yield _discounted(judged) / most


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


DATA = Path(__file__).parent.parent / "data"
SIZES = (3, 10, 30, 100, 300, 1_000)
DRAWS = 20


@benchmark("relevance")
def relevance(folder: Path, scale: float) -> list[Result]:
    """Share of questions to which a task is relevant: of other subjects, and paraphrased."""
    if not (SHARED / "data").is_dir():
        return [Result("relevance", "the logs are not here")]
    pairs = [json.loads(line) for line in (DATA / "paraphrases.jsonl").read_text().splitlines()]
    others = (DATA / "off_topic.txt").read_text().splitlines()
    known = sorted({e.task for log in logs(scale) for e in log.episodes})
    one = [pair["a"] for pair in pairs]
    asked = {"off": others, "paraphrased": [pair["b"] for pair in pairs]}
    results = []
    for name in ("minilm", "wordllama", "hashing"):
        embedder = open_embedder(name)
        embedder.embed(one[:1])
        start, long = process_time(), [f"{text} " * 10 for text in one]
        embedder.embed(long)
        used = 1_000 * (process_time() - start) / len(long)
        words = f"{mean(len(text.split()) for text in long):.0f} words a text"
        results.append(Result(f"{name}, embedding", f"{used:.2f}", "ms of one core", words))
        rows = {what: embedder.embed(texts) for what, texts in asked.items()}
        tasks, more = embedder.embed(one), embedder.embed(known)
        for size in SIZES:
            shares: dict[str, list[float]] = {what: [] for what in rows}
            for seed in range(DRAWS):
                choice = np.random.default_rng(seed)
                share = max(2, size * len(tasks) // (len(tasks) + len(more)))
                share = min(share, len(tasks))
                own = choice.choice(len(tasks), share, replace=False)
                rest = choice.choice(len(more), min(size - share, len(more)), replace=False)
                memory = np.concatenate([tasks[own], more[rest]])
                for what, asked_rows in rows.items():
                    nearest = (
                        (asked_rows @ memory.T).max(1)
                        if what == "off"
                        else (asked_rows[own] * tasks[own]).sum(1)  # to the task that it means
                    )
                    floor = embedder.thresholds.relevant(size)
                    shares[what].append(float((nearest >= floor).mean()))
            figure = ", ".join(f"{kind} {mean(some):.2f}" for kind, some in shares.items())
            results.append(Result(f"{name}, {size:,} tasks", figure, "", f"{DRAWS} draws"))
    return results
