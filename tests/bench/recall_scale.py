"""What recall costs in memories of more and more strategies, embedding of the question apart.

The histories are written straight into the graph, as learning would leave them: 10 outcomes a
strategy, each attempt with 10 strategies, two attempts a task, an anti-pattern for every tenth
strategy. The vectors are random ones around centres, one a text, of as many numbers as MiniLM's.
"""

from __future__ import annotations

import random
import statistics
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graphmem import Memory, Settings
from graphmem.graph.graph import Graph
from graphmem.ids import heuristic_id, node_id
from graphmem.search.embedding import Thresholds
from graphmem.store.queries import Query
from tests.bench.policies import millis
from tests.bench.report import Result, apart
from tests.faults.attack import peak

SIZES = (1_000, 10_000, 100_000)
OUTCOMES = 10
"""Outcome edges a strategy."""
CALLS = 200
BATCH = 5_000
AGENT = "agent"
TYPE = "general"
VERBS = ("check", "cancel", "update", "send", "open", "close", "read", "ask", "retry", "merge")


class Around:
    """Vectors around 100 centres; the first word of a text decides which."""

    name = "random around centres"
    dimensions = 384
    thresholds = Thresholds(similar=0.9, near=-1.0)

    def __init__(self) -> None:
        self._centres = np.random.default_rng(0).standard_normal((100, self.dimensions))

    def embed(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dimensions))
        for place, text in enumerate(texts):
            words = text.split()
            chance = np.random.default_rng(zlib.crc32(text.encode()))
            centre = self._centres[zlib.crc32(words[0].encode()) % len(self._centres)]
            rows[place] = centre + chance.standard_normal(self.dimensions)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True) + 1e-9
        return rows.astype(np.float32)


def wording(chance: random.Random) -> str:
    """Return a text of six words, the common ones as common as in a language."""
    words = (f"w{int(chance.paretovariate(0.8)) % 5_000}" for _ in range(5))
    return f"{chance.choice(VERBS)}{chance.randrange(500)} {' '.join(words)}"


def scale(folder: Path, scale: float) -> list[Result]:
    """Single recalls at each size."""
    results = []
    for size in (max(200, int(size * scale)) for size in SIZES):
        apart(_filled, folder / str(size), size)
        results += apart(_measured, folder / str(size), size)
    return results


def _measured(folder: Path, size: int) -> list[Result]:
    results = []
    with Memory.open(folder, settings=Settings(), embedder=Around()) as memory:
        started = time.perf_counter()
        memory.recall("warm up")
        first = time.perf_counter() - started
        for hops in (1, 2):
            seconds = sorted(asked(memory, CALLS, hops))
            results.append(
                Result(
                    f"`recall` at {size:,} strategies, {size * OUTCOMES:,} outcome edges, "
                    f"max_hops {hops}",
                    f"p50 {millis(statistics.median(seconds))}, "
                    f"p99 {millis(seconds[int(len(seconds) * 0.99) - 1])}",
                    f"the first, which reads all texts: {millis(first)}",
                    f"peak {peak()} MB",
                    "p50 20 ms, p99 60 ms, 1 GB",
                )
            )
    return results


def asked(memory: Memory, calls: int, hops: int) -> Iterator[float]:
    """Yield the seconds of recalls, without those of embedding the question."""
    chance = random.Random(7)
    for _ in range(calls):
        text = wording(chance)
        memory._similarity.vectors.of(text)  # kept for the search below
        started = time.perf_counter()
        found = memory.recall(text, max_hops=hops)
        yield time.perf_counter() - started
        assert sum(item.kind == "strategy" for item in found.items) == 5, found


# The history


def _filled(folder: Path, size: int) -> list[Result]:
    with Memory.open(folder, settings=Settings(), embedder=Around()) as memory:
        fill(memory, size)
    return []


def fill(memory: Memory, size: int) -> None:
    """Write a history of so many strategies."""
    memory.upkeep.initialize()
    ns, chance = memory.namespace, random.Random(1)
    strategies = {node_id(ns, "Strategy", text): text for text in _texts(chance, size, "")}
    episodes = size * OUTCOMES // 10
    tasks = {node_id(ns, "Task", text): text for text in _texts(chance, episodes // 2, "task")}
    _write(memory, _NODES["Strategy"], ({"id": i, "text": t} for i, t in strategies.items()))
    _write(memory, _NODES["Task"], ({"id": i, "text": t} for i, t in tasks.items()))
    _write(memory, _NODES["Agent"], [{"id": node_id(ns, "Agent", AGENT), "trials": 10 * episodes}])
    known, places = list(strategies), list(tasks)
    attempts: list[dict[str, Any]] = [
        {
            "id": node_id(ns, "Episode", str(number)),
            "agent": node_id(ns, "Agent", AGENT),
            "task": places[number % len(places)],
            "success": chance.random() < 0.5,
            "used": chance.sample(known, 10),
        }
        for number in range(episodes)
    ]
    _write(memory, _NODES["Episode"], attempts)
    counts = {id_: [0, 0] for id_ in known}
    for attempt in attempts:
        for id_ in attempt["used"]:
            counts[id_][0] += 1
            counts[id_][1] += attempt["success"]
    rows = [{"id": id_, "trials": n, "successes": k} for id_, (n, k) in counts.items()]
    _write(memory, _COUNTS, rows)
    _write(
        memory,
        _NODES["AntiPattern"],
        (
            {
                "id": node_id(ns, "AntiPattern", id_),
                "heuristic": heuristic_id(ns, AGENT, TYPE, strategies[id_]),
                "strategy": id_,
                "trials": n,
                "successes": k,
            }
            for id_, (n, k) in list(counts.items())[::10]
        ),
    )
    _embed(memory, strategies, tasks)


def _texts(chance: random.Random, count: int, mark: str) -> Iterator[str]:
    for number in range(count):
        yield f"{wording(chance)} {mark}{number}"


def _embed(memory: Memory, strategies: dict[str, str], tasks: dict[str, str]) -> None:
    embedder = Around()
    graph = Graph(memory.store, memory.namespace, memory.settings)
    graph.write(
        "similarity.adopt",
        id=node_id(graph.ns, "Embedder", graph.ns),
        name=embedder.name,
        dimensions=embedder.dimensions,
        similar=embedder.thresholds.similar,
        near=embedder.thresholds.near,
        floor=embedder.thresholds.relevant(1),
    )
    index = memory.store.index(memory.namespace)
    index.open(embedder.name, embedder.dimensions)
    for label, texts in (("Strategy", strategies), ("Task", tasks)):
        ids = list(texts)
        for start in range(0, len(ids), BATCH):
            page = {id_: texts[id_] for id_ in ids[start : start + BATCH]}
            vectors = embedder.embed(list(page.values()))
            index.put(label, page, dict(zip(page.values(), vectors, strict=True)))


def _write(
    memory: Memory, text: str, rows: Iterator[dict[str, Any]] | list[dict[str, Any]]
) -> None:
    query = Query("bench.fill", "write", text, checked=False)
    rows = list(rows)
    for start in range(0, len(rows), BATCH):
        page = rows[start : start + BATCH]
        memory.store.write(query, ns=memory.namespace, now=time.time_ns() // 1_000_000, rows=page)


_NODES = {
    "Strategy": """
        UNWIND $rows AS row
        CREATE (:Strategy {id: row.id, ns: $ns, text: row.text, created_at: $now, trials: 0,
          successes: 0, credit_sum: 0.0, score_sum: 0.0, last_used_at: null, reads: 0,
          last_read_at: null, merged_into: null})
        RETURN count(*) AS written""",
    "Task": """
        UNWIND $rows AS row
        CREATE (:Task {id: row.id, ns: $ns, key: row.text, description: row.text,
          described_at: $now, described_by: null, type: 'general', type_rule: null,
          typed_at: null, typed_by: null, created_at: $now, episodes: 2, successes: 1,
          score_sum: 1.0})
        RETURN count(*) AS written""",
    "Agent": """
        UNWIND $rows AS row
        CREATE (a:Agent {id: row.id, ns: $ns, name: 'agent', created_at: $now})
        CREATE (:Tally {id: row.id + ' tally', ns: $ns, created_at: $now, agent: 'agent',
          type: 'general', trials: row.trials, successes: row.trials / 2})-[:COUNTS]->(a)
        RETURN count(*) AS written""",
    "Episode": """
        UNWIND $rows AS row
        MATCH (a:Agent {id: row.agent})
        MATCH (t:Task {id: row.task})
        CREATE (a)-[:RAN]->(e:Episode {id: row.id, ns: $ns, created_at: $now, recorded_at: $now,
          success: row.success, type: 'general', error: 'no route'})
        CREATE (e)-[:ATTEMPTED]->(t)
        CREATE (t)-[:RECENT {at: $now}]->(e)
        WITH row, e, t
        UNWIND row.used AS used
        MATCH (s:Strategy {id: used})
        CREATE (e)-[:USED {rank: 0, credit: 1.0, shown: null, applied: true}]->(s)
        CREATE (s)-[:OUTCOME {agent: 'agent', trials: 1, credit_sum: 1.0, score_sum: 0.5,
          successes: CASE WHEN row.success THEN 1 ELSE 0 END, last_at: $now}]->(t)
        RETURN count(*) AS written""",
    "AntiPattern": """
        UNWIND $rows AS row
        MATCH (s:Strategy {id: row.strategy})
        CREATE (h:Heuristic {id: row.heuristic, ns: $ns, created_at: $now, agent: 'agent',
          type: 'general', text: s.text, trials: row.trials, successes: row.successes,
          odds: 0.0, credit_sum: 1.0, score_sum: 1.0, first_at: $now,
          last_at: $now})-[:RECOMMENDS]->(s)
        CREATE (p:AntiPattern {id: row.id, ns: $ns, created_at: $now, agent: 'agent',
          error_class: 'no route', text: s.text, types: ['general'], first_at: $now,
          occurrences: row.trials - row.successes, successes: row.successes, odds: 0.0,
          last_at: $now})-[:WARNS_AGAINST]->(s)
        CREATE (p)-[:OPPOSED_BY]->(h)
        WITH p, s
        MATCH (s)<-[:USED]-(e:Episode)
        WHERE NOT e.success
        CREATE (p)-[:DERIVED_FROM {supports: true, at: $now}]->(e)
        RETURN count(*) AS written""",
}
_COUNTS = """
    UNWIND $rows AS row
    MATCH (s:Strategy {id: row.id})
    SET s.trials = row.trials, s.successes = row.successes, s.last_used_at = $now
    RETURN count(*) AS written"""

BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {"recall_scale": scale}
