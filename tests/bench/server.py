"""A Neo4j server: the library against a bare driver that sends the same statements."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import neo4j

from graphmem import Memory, Settings
from graphmem.search.embedding import open_embedder
from tests.bench.loop_scale import history, task
from tests.bench.report import Result, benchmark, millis, seconds
from tests.bench.workload import BARE, bare, episodes, nodes, single

NAMESPACE = "bench"
BARE_NAMESPACE = "bare"
ROUNDS = 5
STRATEGIES = 4_000
QUESTIONS = 60
SPARSE = (":Step", ":Event", ":AntiPattern", ":Heuristic", ":Episode", ":Task")
"""Nodes with few edges. They go first: a transaction has no memory for all edges of the others."""
Statements = list[tuple[str, dict[str, Any]]]


def record(work: Callable[[], object]) -> list[Statements]:
    """Return the statements of each transaction of ``work``, as the driver gets them."""
    transactions: dict[object, Statements] = {}

    def recording(run: Callable[..., neo4j.Result]) -> Callable[..., neo4j.Result]:
        def call(tx: Any, query: Any, parameters: Any = None, **more: Any) -> neo4j.Result:
            text = query.text if isinstance(query, neo4j.Query) else query
            transactions.setdefault(tx, []).append((text, {**(parameters or {}), **more}))
            return run(tx, query, parameters, **more)

        return call

    with contextlib.ExitStack() as stack:
        for kind in (neo4j.ManagedTransaction, neo4j.Transaction):
            stack.enter_context(patch.object(kind, "run", recording(kind.run)))
        work()
    return list(transactions.values())


def send(driver: neo4j.Driver, transactions: Iterable[Statements]) -> None:
    """Send statements by a bare driver, each group in a transaction."""
    with driver.session() as session:
        for statements in transactions:
            session.execute_write(_run_all, statements)


def _run_all(tx: neo4j.ManagedTransaction, statements: Statements) -> None:
    for text, params in statements:
        list(tx.run(cast(Any, text), params))


def bare_driver() -> neo4j.Driver:
    """Return a driver without graphmem."""
    settings = Settings()
    password = settings.password.get_secret_value() if settings.password else ""
    return neo4j.GraphDatabase.driver(
        os.environ["NEO4J_URI"], auth=(settings.user, password), notifications_min_severity="OFF"
    )


def clear(namespace: str = NAMESPACE) -> None:
    """Delete everything in a namespace."""
    with bare_driver() as driver, driver.session() as session:
        for label in (*SPARSE, ""):
            query = (
                f"MATCH (n{label}) WHERE n.ns = $ns "
                "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1000 ROWS"
            )
            session.run(cast(Any, query), ns=namespace).consume()


@contextlib.contextmanager
def open_empty(**options: Any) -> Iterator[Memory]:
    """Open an empty memory, and empty it again."""
    with Memory.open(os.environ["NEO4J_URI"], namespace=NAMESPACE, **options) as memory:
        for namespace in (NAMESPACE, BARE_NAMESPACE):
            clear(namespace)
        try:
            yield memory
        finally:
            for namespace in (NAMESPACE, BARE_NAMESPACE):
                clear(namespace)


@benchmark("neo4j_learn", server=True)
def learn(_: Path, scale: float) -> list[Result]:
    """Calls of ``learn`` about known things, against a bare driver, in turn."""
    calls = max(50, int(200 * scale))
    ours: list[float] = []
    theirs: list[float] = []
    with bare_driver() as driver, open_empty() as memory:
        memory.learn_many(episodes(0, 1_000))
        for text, params in nodes(BARE_NAMESPACE):
            driver.execute_query(cast(Any, text), params)
        for place in range(ROUNDS + 1):  # the first warms the server up
            started = time.perf_counter()
            for number in range(calls):
                driver.execute_query(BARE, bare(number, f"{place}", BARE_NAMESPACE))
            theirs.append(time.perf_counter() - started)
            started = time.perf_counter()
            for number in range(calls):
                memory.learn(**single(number, f"{place}"))  # type: ignore[arg-type]
            ours.append(time.perf_counter() - started)
    rate, fast = (calls / statistics.median(took[1:]) for took in (ours, theirs))
    baseline = f"bare driver, the episode with two edges and three counts: {fast:,.0f}/s"
    what = "Neo4j: `learn`, one strategy, known things"
    return [Result(what, f"{rate:,.0f}/s", baseline, f"{rate / fast:.2f}", ".7")]


@benchmark("neo4j_learn_many", server=True)
def learn_many(_: Path, scale: float) -> Iterator[Result]:
    """Batches of 500."""
    batch = list(episodes(0, max(500, int(5_000 * scale))))
    ours: list[float] = []
    theirs: list[float] = []
    with bare_driver() as driver, open_empty() as memory:
        sent = record(lambda: memory.learn_many(batch))  # also warms the server up
        for _round in range(ROUNDS):
            clear()
            theirs.append(seconds(lambda: send(driver, sent)))
            clear()
            ours.append(seconds(lambda: memory.learn_many(batch)))
    fast, least = min(ours), min(theirs)
    yield Result(
        "Neo4j: `learn_many`",
        f"{len(batch) / fast:,.0f} episodes/s",
        f"bare driver, same statements: {len(batch) / least:,.0f}/s",
        f"{least / fast:.2f} (sums of {ROUNDS} rounds: {sum(theirs) / sum(ours):.2f})",
        ".8",
    )


@benchmark("neo4j_recall", server=True)
def recall(_: Path, scale: float) -> Iterator[Result]:
    """Recalls, each followed by its statements alone."""
    size = max(200, int(STRATEGIES * scale))
    chance = random.Random(1)
    questions = [f"{task(chance.randrange(size))} urgently" for _ in range(QUESTIONS)]
    with open_empty(embedder=open_embedder("hashing")) as memory, bare_driver() as driver:
        memory.learn_many(history(size))
        memory.upkeep.relink()
        ours, theirs = [], []
        for question in questions:
            sent = record(lambda question=question: memory.recall(question))  # type: ignore[misc]
            ours.append(seconds(lambda question=question: memory.recall(question)))  # type: ignore[misc]
            theirs.append(seconds(lambda sent=sent: send(driver, sent)))  # type: ignore[misc]
        fast, least = statistics.median(ours[1:]), statistics.median(theirs[1:])
        yield Result(
            f"Neo4j: `recall` at {size:,} strategies, {sum(map(len, sent))} statements",
            f"p50 {millis(fast)}",
            f"a bare driver, the same statements: p50 {millis(least)}",
            f"{fast / least:.2f}",
            "at most 1.5",
        )
