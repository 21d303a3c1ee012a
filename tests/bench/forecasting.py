"""Predicted outcomes: the last trial of each task held out.

Each log is learned without what is held out, with one strategy an episode, and asked through the
library. The baselines are rates of the same counts, drawn to the rate of all with a strength of 2.
Where a log has no order (InterCode), its runs are shuffled, with several seeds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from statistics import mean, stdev

from graphmem import Memory
from graphmem.models.episodes import Episode
from graphmem.seeding import LogReader
from graphmem.seeding.sources import Source
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED

ROOT = Path(__file__).resolve().parents[2]
SEEDS = range(3)
STRENGTH = 2.0
Run = tuple[str, str, bool]
"""Task, strategy, outcome."""
NAMES = ("rate of all", "of the task", "of the strategy", "of both")


LOGS = {
    "tau-bench": (SHARED / "data", "tau_airline/*.json.gz"),
    "intercode": (SHARED / "data", "intercode_sql/*.json.gz"),
    "jsonl": (ROOT / "seeds" / "logs", "*.jsonl.gz"),
}


def read(name: str, pattern: str = "") -> Iterator[Episode]:
    """Yield the episodes of the logs of a format."""
    folder, files = LOGS[name]
    logs = [Source(str(file)) for file in sorted(folder.glob(pattern or files))]
    reader = LogReader(logs, format_name=name)
    for log in logs:
        for record in reader.records(log):
            if isinstance(record, tuple) and isinstance(record[1], Episode):
                yield record[1]


def tools(episode: Episode) -> str:
    """Return the tools of a run in order, without repetitions, as one text."""
    names = [step.action_type for step in episode.steps if step.action_type != "respond"]
    return " > ".join(name for name, _ in groupby(names)) or "(none)"


def kinds(episode: Episode) -> str:
    """Return the kinds of statements in order of first use, as one text."""
    return " > ".join(dict.fromkeys(step.action_type for step in episode.steps)) or "(none)"


def together(episode: Episode) -> str:
    """Return all strategies of an episode, as one text."""
    return " + ".join(use.text for use in episode.strategy) or "(none)"


def last_trials(way: Callable[[Episode], str]) -> tuple[list[Run], list[Run]]:
    """Return the airline runs but the last trial of each task, and that."""
    parts: tuple[list[Run], list[Run]] = ([], [])
    for one in read("tau-bench"):
        parts[one.extra["trial"] == 3].append((str(one.task_key), way(one), bool(one.success)))
    return parts


def last_of_each(
    episodes: Sequence[Episode], way: Callable[[Episode], str], seed: int
) -> tuple[list[Run], list[Run]]:
    """Return shuffled runs but the last of each task, and these."""
    runs = [(str(one.task_key or one.task), way(one), bool(one.success)) for one in episodes]
    random.Random(seed).shuffle(runs)
    last = {task: place for place, (task, _, _) in enumerate(runs)}
    held = set(last.values())
    return (
        [run for place, run in enumerate(runs) if place not in held],
        [run for place, run in enumerate(runs) if place in held],
    )


def score_predictions(learned: Sequence[Run], held: Sequence[Run]) -> list[float]:
    """Return the Brier scores of the library's predictions, and of the baselines."""
    counts: dict[tuple[str, ...], list[bool]] = {}
    for task, name, won in learned:
        for key in ((), ("task", task), ("strategy", name), ("both", task, name)):
            counts.setdefault(key, []).append(won)
    overall = (sum(counts[()]) + 1) / (len(counts[()]) + 2)

    def rate(*key: str) -> float:
        known = counts.get(key, [])
        return (sum(known) + STRENGTH * overall) / (len(known) + STRENGTH)

    with Memory.open("memory:") as memory:
        memory.learn_many(
            {"task": task, "strategy": name, "success": won, "source_key": str(place)}
            for place, (task, name, won) in enumerate(learned)
        )
        errors = []
        for task, name, won in held:
            # Without the search for similar texts: these are names of tools, not sentences.
            found = memory._estimator.predict(task, name, None)
            rates = (overall, rate("task", task), rate("strategy", name), rate("both", task, name))
            errors.append([(p - won) ** 2 for p in (found.probability, *rates)])
    return [mean(column) for column in zip(*errors, strict=True)]


def _row(what: str, rows: Sequence[list[float]], asked: str) -> Result:
    columns = list(zip(*rows, strict=True))
    spread = f" ± {stdev(columns[0]):.4f}" if len(rows) > 1 else ""
    others = ", ".join(
        f"{name} {mean(column):.4f}" for name, column in zip(NAMES, columns[1:], strict=True)
    )
    best = min(mean(column) for column in columns[1:])
    ratio = f"{mean(columns[0]) / best:.2f}"
    return Result(what, f"Brier {mean(columns[0]):.4f}{spread}", others, ratio, asked)


@benchmark("forecast")
def held_out(folder: Path, scale: float) -> list[Result]:
    """Brier scores of held-out trials, beside the baselines."""
    del folder
    results = []
    ways: dict[str, tuple[Callable[[Episode], str], str]] = {
        "the sequence of all tools": (tools, "at most .123"),
        "the writing tools": (lambda one: one.strategy[0].text, "at most .105"),
    }
    for name, (way, asked) in ways.items():
        rows = [score_predictions(*last_trials(way))]
        results.append(_row(f"tau-bench airline by {name}, last trial", rows, asked))
    seeds = SEEDS[: max(1, round(len(SEEDS) * scale))]
    runs, own = list(read("intercode")), list(read("jsonl", "sql.jsonl.gz"))
    readings: list[tuple[str, list[Episode], Callable[[Episode], str], str]] = [
        ("InterCode by set-up", runs, lambda one: one.strategy[0].text, "at most .111"),
        ("seeds/logs/sql by all strategies", own, together, ""),
    ]
    for what, episodes, way, asked in readings:
        rows = [score_predictions(*last_of_each(episodes, way, seed)) for seed in seeds]
        results.append(_row(f"{what}, last run, {len(seeds)} seeds", rows, asked))
    return results
