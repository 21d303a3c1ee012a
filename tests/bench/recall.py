"""Recall: how well what it finds does on tasks that were left out.

The ablation asks, for each task that was left out, for strategies, and looks at what came of them
there. What was not tried there cannot be judged and is passed over. nDCG@5 is the discounted sum of
the success rates on the task of the first five strategies that were tried there, as a share of what
the best five of these have, over all tasks on which any succeeded.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

from graphmem import Episode, Memory
from graphmem.advice.recall import HOPS, MOST, REST
from graphmem.search.embedding import open_embedder
from tests.bench.loop import Once
from tests.bench.recall_logs import logs
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED

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
    found = list(memory.recall(text, MOST, max_hops=hops, kinds=["strategy"]).items)
    if whole:
        return [item.text for item in sorted(found, key=lambda item: (-item.score, item.text))]
    first = memory.recall(text, max_hops=hops, kinds=["strategy"]).items
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
