"""Recall on a Neo4j server: against a bare driver that sends the same statements, and how many of
the nearest its index finds."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import neo4j
import numpy as np

from graphmem import Memory
from graphmem.store.port import Row
from graphmem.store.queries import Query
from tests.bench.policies import millis
from tests.bench.recall_scale import Around, wording
from tests.bench.report import Result
from tests.bench.server import Statement, bare_driver, opened

SIZE = 2_000
CALLS = 60


def recall(_: Path, scale: float) -> list[Result]:
    """Recalls of a memory of learned episodes, each followed by its statements alone."""
    size = max(200, int(SIZE * scale))
    chance = random.Random(1)
    with opened() as memory, bare_driver() as driver:
        memory.upkeep.relink(Around())
        memory.learn_many(
            {
                "task": wording(chance),
                "strategy": [wording(chance), wording(chance)],
                "success": chance.random() < 0.5,
            }
            for _ in range(size)
        )
        memory.upkeep.relink()
        ours, bare = [], []
        questions = [wording(chance) for _ in range(CALLS)]
        memory.recall(questions[0])
        for question in questions:
            memory._similarity.vectors.of(question)  # kept: embedding is not measured
            sent = _recorded(memory, lambda question=question: memory.recall(question))  # type: ignore[misc]
            started = time.perf_counter()
            memory.recall(question)
            ours.append(time.perf_counter() - started)
            bare.append(_send(driver, sent))
        ratio = statistics.median(ours) / statistics.median(bare)
        return [
            Result(
                f"Neo4j: `recall` at {2 * size:,} strategies, {len(sent)} statements",
                f"p50 {millis(statistics.median(ours))}",
                f"a bare driver, the same statements: p50 {millis(statistics.median(bare))}",
                f"{ratio:.2f}",
                "at most 1.5",
            ),
            _found(memory, questions),
        ]


def _found(memory: Memory, questions: Sequence[str]) -> Result:
    """How many of the ten nearest the index finds, against all vectors compared."""
    index = memory._similarity.fresh()
    assert index is not None
    rows = memory.query("similarity.texts_of_strategies")
    ids, matrix = index.matrix("Strategy", [row["id"] for row in rows])
    shares = []
    for question in questions:
        vector = memory._similarity.vectors.of(question)
        exact = {ids[place] for place in np.argsort(-(matrix @ vector))[:10].tolist()}
        near = {key for key, _ in index.near("Strategy", vector, 10)}
        shares.append(len(exact & near) / 10)
    return Result(
        f"Neo4j: recall@10 of the vector index, {len(ids):,} vectors",
        f"{statistics.mean(shares):.3f}",
        "exact: 1",
        "",
        "",
    )


def _recorded(memory: Memory, work: Callable[[], object]) -> list[Statement]:
    """Return the statements that reading sends."""
    sent: list[Statement] = []
    store = cast(Any, memory.store)
    read = store.read

    def recording(query: Query, /, **params: Any) -> list[Row]:
        sent.append((query.text, query.bind(params)))
        return cast(list[Row], read(query, **params))

    store.read = recording
    try:
        work()
    finally:
        store.read = read
    return sent


def _send(driver: neo4j.Driver, statements: Sequence[Statement]) -> float:
    started = time.perf_counter()
    for text, params in statements:
        with driver.session(default_access_mode=neo4j.READ_ACCESS) as session:
            session.execute_read(
                lambda tx, text=text, params=params: list(tx.run(text, params))  # type: ignore[misc]
            )
    return time.perf_counter() - started


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"neo4j_recall": recall}
