"""What the loop costs in a memory of many episodes: `context`, `recall`, `choose` and `predict`.

Each episode has a task and a strategy of its own, and one of 100 strategies that all share; there
are 16 agents and 8 types of tasks. It is learned as ever. The edges between what is similar are
drawn at random, eight from each node: to find the right ones takes longer than all the rest.
Beside the time that passed there is the time of the processor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path

import numpy as np

from graphmem import Episode, Memory
from graphmem.graph.graph import Graph
from graphmem.ids import node_id, strategy_id, task_id
from graphmem.search.edges import LINKS
from graphmem.search.embedding import Embedder, open_embedder
from graphmem.store.queries import Query
from tests.bench.report import Result, benchmark, call_result, p50

SIZES = (4_000, 100_000)
CALLS = 100
CANDIDATES = 15
BATCH = 5_000
VERBS = ("check", "cancel", "update", "send", "open", "close", "read", "ask", "retry", "merge")
NOUNS = ("fare", "seat", "bill", "table", "list", "booking", "ticket", "account", "card", "order")
SHARED = tuple(f"{VERBS[n % 10]} the {NOUNS[n // 10]} the common way {n}" for n in range(100))


@benchmark("loop_scale")
def scale(folder: Path, scale: float) -> list[Result]:
    """Return the median times of single calls at each size."""
    results: list[Result] = []
    for size in (max(200, int(size * scale)) for size in SIZES):
        with Memory.open(folder / str(size), embedder=open_embedder("hashing")) as memory:
            fill(memory, size)
            results += measured(memory, size, max(20, int(CALLS * scale)))
    return results


def measured(memory: Memory, size: int, calls: int) -> Iterator[Result]:
    """Yield the median times on known tasks and on new ones."""
    chance = random.Random(3)
    known = [task(chance.randrange(size)) for _ in range(calls)]
    several = (chance.sample(SHARED, CANDIDATES) for _ in count())
    whole = {"context": 10, "recall": 20, "choose": 25, "predict": 15}
    for kind, texts in (("known", known), ("new", [f"{text} urgently" for text in known])):
        asked: dict[str, Callable[[str], object]] = {
            "context": memory.context,
            "recall": memory.recall,
            "choose": lambda text: memory.choose(text, next(several)),
            "predict": lambda text: memory.predict(text, chance.choice(SHARED)),
        }
        for name, call in asked.items():
            most = whole.get(name) if size >= SIZES[-1] else None
            what = f"`{name}` of a {kind} task at {size:,} episodes"
            yield call_result(what, p50(texts, call), most=most)


def task(number: int) -> str:
    group = number % 500
    verb, noun = VERBS[group % 10], NOUNS[group // 10 % 10]
    return f"{verb} the {noun} of group {group} for customer {number}"


def own(number: int) -> str:
    verb, noun = VERBS[number // 3 % 10], NOUNS[number % 10]
    return f"{verb} {noun} by way w{number * 7919 % 5000} {number}"


def history(size: int) -> Iterator[Episode]:
    """Yield so many episodes."""
    chance = random.Random(0)
    for number in range(size):
        yield Episode(
            task=task(number),
            strategy=[own(number), SHARED[number % len(SHARED)]],
            success=chance.random() < 0.5,
            agent=f"agent {number % 16}",
            task_type=f"type {number % 8}",
            source_key=str(number),
        )


def fill(memory: Memory, size: int) -> None:
    """Learn so many episodes, with vectors of what they name."""
    episodes = history(size)
    while batch := list(islice(episodes, BATCH)):
        memory.learn_many(batch)
    ns, places = memory.namespace, range(size)
    _embed(
        memory,
        open_embedder("hashing"),
        {
            "Strategy": {strategy_id(ns, text): text for text in (*SHARED, *map(own, places))},
            "Task": {task_id(ns, text): text for text in map(task, places)},
        },
    )


def _embed(memory: Memory, embedder: Embedder, nodes: Mapping[str, Mapping[str, str]]) -> None:
    graph = Graph(memory.store, memory.namespace, memory.settings)
    thresholds = embedder.thresholds
    graph.write(
        "similarity.adopt",
        id=node_id(graph.ns, "Embedder", graph.ns),
        name=embedder.name,
        dimensions=embedder.dimensions,
        similar=thresholds.similar,
        near=thresholds.near,
        floor=thresholds.relevant(1),
    )
    index = memory.store.index(memory.namespace)
    index.open(embedder.name, embedder.dimensions)
    chance = np.random.default_rng(0)
    for label, texts in nodes.items():
        ids = list(texts)
        kind = {"Strategy": "strategies", "Task": "tasks"}[label]
        for start in range(0, len(ids), BATCH):
            page = {key: texts[key] for key in ids[start : start + BATCH]}
            vectors = embedder.embed(list(page.values()))
            index.put(label, page, dict(zip(page.values(), vectors, strict=True)))
            rows = [
                {
                    "id": key,
                    "links": [
                        {
                            "other": ids[other],
                            "similarity": float(chance.uniform(thresholds.similar, 1.0)),
                        }
                        for other in chance.integers(0, len(ids), LINKS)
                        if ids[other] != key
                    ],
                }
                for key in page
            ]
            graph.write(f"similarity.link_{kind}", rows=rows, embedder=embedder.name)
    memory.store.write(
        Query("bench.settle", "write", _SETTLE, checked=False), ns=memory.namespace, now=0
    )


_SETTLE = "MATCH (p:Pending) WHERE p.ns = $ns DELETE p RETURN count(*) AS settled"
