"""Recall: how well what it finds does on tasks that were left out, and what it costs.

The ablation asks, for each task that was left out, for strategies, and looks at what came of them
there. What was not tried there cannot be judged and is passed over: hit@1 is the mean success rate
on the task of the first strategy that was tried there, "of 5" that of the first five such, and
"any of 5" how often one of these succeeded at all; tasks without one are not counted. nDCG@5 is
their discounted sum of success rates, as a share of what the best five strategies that were tried
there have, over all tasks on which any succeeded. Brier score
and AUC are those of the held-out episodes, each expected to succeed as often as, in the mean, the
strategies that it used (without one that is known: as all episodes do).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from unittest.mock import patch

from sklearn.metrics import roc_auc_score

from graphmem import Episode, Memory
from graphmem.advice.recall import HOPS, MOST, REST
from graphmem.models.recall import RecallItem
from graphmem.search.embedding import open_embedder
from tests.bench.loop import Once
from tests.bench.recall_logs import (
    Answer,
    History,
    Log,
    best_overall,
    logs,
    nearest,
)
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED

Method = Callable[[str], Answer]


@benchmark("recall_ablation")
def ablation(folder: Path, scale: float) -> list[Result]:
    """Recall, its parts left out one by one, and simple baselines."""
    if not (SHARED / "data").is_dir():
        return [Result("recall on tasks left out", "the logs are not here")]
    embedder = Once(open_embedder("minilm"))
    places = itertools.count()
    results = []
    for log in logs(scale):
        tallies: dict[str, Tally] = {}
        for learned, held_out in log.splits():
            history = History(learned, embedder)
            with Memory.open(folder / str(next(places)), embedder=embedder) as memory:
                memory.learn_many(learned)
                for name, method in methods(memory, history).items():
                    tally = tallies.setdefault(name, Tally())
                    tally.add(method, held_out, history.rate)
        results += [tally.result(f"{log.name}: {name}", log) for name, tally in tallies.items()]
    return results


def methods(memory: Memory, history: History) -> dict[str, Method]:
    """Return the ways to choose strategies for a text."""
    score = partial(recalled, memory, lambda item: item.score)
    return {
        "recall": partial(recalled, memory, None),
        "recall, without variety": partial(score, hops=HOPS),
        "search alone (max_hops 0)": partial(score, hops=0),
        "OUTCOME alone (max_hops 1)": partial(score, hops=1),
        "recall, max_hops 3": partial(score, hops=3),
        **{
            f"recall, without {label} {edge}": partial(without, memory, (label, edge))
            for label, edge in REST
        },
        "recall, no outcome weights": partial(recalled, memory, _relevance, hops=1),
        "nearest tasks by embedding": lambda text: nearest(history, history.by_meaning(text)),
        "nearest tasks by TF-IDF": lambda text: nearest(history, history.by_words(text)),
        "best strategy overall": partial(best_overall, history),
    }


def without(memory: Memory, step: tuple[str, str], text: str) -> Answer:
    """Ask the memory without one kind of further step."""
    with patch.dict(REST, {step: 0.0}):
        return recalled(memory, lambda item: item.score, text, hops=HOPS)


def _relevance(item: RecallItem) -> float:
    return item.relevance + 1e-6 * item.near_trials


def recalled(
    memory: Memory, key: Callable[[RecallItem], float] | None, text: str, *, hops: int = HOPS
) -> Answer:
    """Ask the memory; with a key, all that it has in the order of the key."""
    found = memory.recall(text, MOST, max_hops=hops, kinds=["strategy"]).items
    means = {item.text: item.mean for item in found}
    if key is None:
        found = memory.recall(text, max_hops=hops, kinds=["strategy"]).items + found
        return list(dict.fromkeys(item.text for item in found)), means
    ranked = sorted(found, key=lambda item: (-key(item), item.text))
    return [item.text for item in ranked], means


class Tally:
    """What came of what a method chose."""

    def __init__(self) -> None:
        self.first: list[float] = []
        self.five: list[float] = []
        self.any: list[bool] = []
        self.gain: list[float] = []
        self.expected: list[float] = []
        self.came: list[bool] = []

    def add(self, method: Method, held_out: Sequence[Episode], rate: float) -> None:
        """Judge a method by episodes that were not learned."""
        by_task: dict[str, list[Episode]] = {}
        for episode in held_out:
            by_task.setdefault(str(episode.task_key), []).append(episode)
        for episodes in by_task.values():
            ranked, means = method(episodes[0].task)
            outcomes: dict[str, list[bool]] = {}
            for episode in episodes:
                used = [use.text for use in episode.strategy]
                for text in used:
                    outcomes.setdefault(text, []).append(bool(episode.success))
                known = [means[text] for text in used if text in means]
                self.expected.append(statistics.fmean(known) if known else rate)
                self.came.append(bool(episode.success))
            rates = {text: statistics.fmean(came) for text, came in outcomes.items()}
            judged = [rates[text] for text in ranked if text in rates][:5]
            if most := _discounted(sorted(rates.values(), reverse=True)[:5]):
                self.gain.append(_discounted(judged) / most)
            if judged:
                self.first.append(judged[0])
                self.five.append(statistics.fmean(judged))
                self.any.append(max(judged) > 0)

    def result(self, what: str, log: Log) -> Result:
        """Return the figures of one method."""
        hit, five, any_ = (
            statistics.fmean(found) if found else math.nan
            for found in (self.first, self.five, self.any)
        )
        brier = statistics.fmean(
            (expected - came) ** 2 for expected, came in zip(self.expected, self.came, strict=True)
        )
        area = float(roc_auc_score(self.came, self.expected))
        return Result(
            what,
            f"hit@1 {hit:.3f}, of 5 {five:.3f}, any of 5 {any_:.3f}, "
            f"nDCG@5 {statistics.fmean(self.gain):.3f}",
            f"AUC {area:.3f}, Brier {brier:.3f}",
            f"{len(self.first)} tasks, {len(log.seeds)} x {log.folds} folds",
            "",
        )


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
