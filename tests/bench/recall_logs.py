"""Logs with tasks left out, and simple ways to choose a strategy for a task that was not seen."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer

from graphmem import Episode
from graphmem.search.embedding import Embedder
from tests.bench.forecasting import kinds, read, tools

Numbers = NDArray[np.float64]
Strategies = Callable[[Episode], list[str]]

NEAREST = 20
"""Tasks that the baselines look at, as recall does."""
STRENGTH = 2.0


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
    kept = set(random.Random(1).sample(tasks, max(50, int(len(tasks) * min(1.0, scale)))))
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


# Choosing

Answer = tuple[list[str], Mapping[str, float]]
"""Strategies, the best first, and the success rate that is expected of each."""


class History:
    """What was learned, as matrices of tasks and strategies."""

    def __init__(self, episodes: Sequence[Episode], embedder: Embedder) -> None:
        self.texts = {str(episode.task_key): episode.task for episode in episodes}
        self.tasks = sorted(self.texts)
        self.strategies = sorted({use.text for e in episodes for use in e.strategy})
        task = {key: place for place, key in enumerate(self.tasks)}
        self.place = {text: place for place, text in enumerate(self.strategies)}
        shape = (len(self.tasks), len(self.strategies))
        self.trials, self.successes = np.zeros(shape), np.zeros(shape)
        for episode in episodes:
            used = [self.place[use.text] for use in episode.strategy]
            self.trials[task[str(episode.task_key)], used] += 1
            self.successes[task[str(episode.task_key)], used] += bool(episode.success)
        self.rate = (self.successes.sum() + 1) / (self.trials.sum() + 2)
        self.means = (self.successes.sum(0) + STRENGTH * self.rate) / (
            self.trials.sum(0) + STRENGTH
        )
        self._embedder = embedder
        self.vectors = embedder.embed([self.texts[key] for key in self.tasks])
        self.words = TfidfVectorizer(sublinear_tf=True)
        self.matrix = self.words.fit_transform([self.texts[key] for key in self.tasks])

    def by_meaning(self, text: str) -> Numbers:
        """Return cosines with all tasks."""
        found: Numbers = (self.vectors @ self._embedder.embed([text])[0]).astype(float)
        return found

    def by_words(self, text: str) -> Numbers:
        """Return TF-IDF cosines with all tasks."""
        found: Numbers = (self.matrix @ self.words.transform([text]).T).toarray().ravel()
        return found


def nearest(history: History, cosines: Numbers) -> Answer:
    """Success rates on the nearest tasks, weighted by cosine; nothing else."""
    near = np.argsort(-cosines, kind="stable")[:NEAREST]
    weights = np.clip(cosines[near], 0, 1)
    trials, won = weights @ history.trials[near], weights @ history.successes[near]
    means = (won + STRENGTH * history.rate) / (trials + STRENGTH)
    return _answer(history, np.where(trials > 0, won / np.maximum(trials, 1e-9), -1), means)


def best_overall(history: History, text: str) -> Answer:
    """The strategies that did best on all tasks, by their lower bound."""
    n = history.trials.sum(0)
    p = history.successes.sum(0) / n
    z = 1.96
    bound = (p + z * z / (2 * n) - z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))) / (
        1 + z * z / n
    )
    return _answer(history, bound, history.means)


def _answer(history: History, scores: Numbers, means: Numbers) -> Answer:
    order = np.argsort(-scores, kind="stable")
    ranked = [history.strategies[place] for place in order if scores[place] > -1]
    return ranked, dict(zip(history.strategies, means.tolist(), strict=True))
