"""What the floor of relevance lets through, by the number of known tasks."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from time import process_time

import numpy as np

from graphmem.search.embedding import open_embedder
from tests.bench.recall_logs import logs
from tests.bench.report import Result, benchmark
from tests.conftest import SHARED

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
