"""Logs with tasks left out."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from graphmem import Episode
from tests.bench.forecasting import kinds, read, tools


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
