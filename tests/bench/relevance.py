"""What the floor of relevance lets through, by the number of known tasks and by rule."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from graphmem.search.embedding import Thresholds, open_embedder
from tests.bench.recall_logs import logs
from tests.bench.report import Result
from tests.conftest import SHARED

DATA = Path(__file__).parent.parent / "data"
SIZES = (3, 10, 30, 100, 300, 1_000)
DRAWS = 20

Rule = Callable[[int], float]


def rules(given: Thresholds) -> dict[str, Rule]:
    """Return floors by the number of tasks: the one in force first."""
    floor = given.relevant(1)
    # In logarithms of shares of pairs: from one in 100 to one in 10,000.
    slope = (given.similar - floor) / math.log(100)
    return {
        "the floor": given.relevant,
        "one in 100 pairs": lambda tasks: floor,
        "one in 1,000 pairs": lambda tasks: given.near,
        "one in ten memories": lambda tasks: floor + slope * math.log(max(1.0, tasks / 10)),
    }


def misspelt(text: str, draw: random.Random) -> str:
    """Return a text with two letters next to each other changed over, in each third word."""
    words = text.split()
    for place in range(0, len(words), 3):
        word = words[place]
        if len(word) > 3:
            at = draw.randrange(1, len(word) - 1)
            words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


def relevance(folder: Path, scale: float) -> list[Result]:
    """Share of questions to which a task is relevant: of other subjects, paraphrased, misspelt."""
    if not (SHARED / "data").is_dir():
        return [Result("relevance", "the logs are not here", "", "", "")]
    pairs = [json.loads(line) for line in (DATA / "paraphrases.jsonl").read_text().splitlines()]
    others = (DATA / "off_topic.txt").read_text().splitlines()
    known = sorted({e.task for log in logs(SHARED / "data", scale) for e in log.episodes})
    one = [pair["a"] for pair in pairs]
    draw = random.Random(0)
    asked = {
        "off": others,
        "paraphrased": [pair["b"] for pair in pairs],
        "misspelt": [misspelt(text, draw) for text in one],
    }
    results = []
    for name in ("minilm", "hashing"):
        embedder = open_embedder(name)
        rows = {what: embedder.embed(texts) for what, texts in asked.items()}
        tasks, more = embedder.embed(one), embedder.embed(known)
        for size in SIZES:
            found = _found(size, rows, tasks, more, rules(embedder.thresholds))
            results += [
                Result(
                    f"{name}, {size:,} tasks, {rule}",
                    ", ".join(
                        f"{kind} {statistics.fmean(got):.2f}" for kind, got in shares.items()
                    ),
                    "",
                    f"{DRAWS} draws",
                    "",
                )
                for rule, shares in found.items()
            ]
    return results


Vectors = NDArray[np.float32]


def _found(
    size: int, rows: dict[str, Vectors], tasks: Vectors, more: Vectors, ways: dict[str, Rule]
) -> dict[str, dict[str, list[float]]]:
    """Return the shares, by rule and by kind of question: of each draw of so many tasks."""
    found: dict[str, dict[str, list[float]]] = {rule: {what: [] for what in rows} for rule in ways}
    for seed in range(DRAWS):
        choice = np.random.default_rng(seed)
        share = max(2, size * len(tasks) // (len(tasks) + len(more)))
        own = choice.choice(len(tasks), share, replace=False)
        rest = choice.choice(len(more), min(size - share, len(more)), replace=False)
        memory = np.concatenate([tasks[own], more[rest]])
        nearest = {
            what: (asked @ memory.T).max(1)
            if what == "off"
            else (asked[own] * tasks[own]).sum(1)  # to the task that it means
            for what, asked in rows.items()
        }
        for rule, floor in ways.items():
            for what, cosines in nearest.items():
                found[rule][what].append(float((cosines >= floor(size)).mean()))
    return found


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"relevance": relevance}
