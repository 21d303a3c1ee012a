"""A Neo4j server: the library against a bare driver that sends the same statements."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import neo4j

from graphmem import Memory, Settings
from graphmem.store.port import Row, Transaction
from graphmem.store.queries import Query
from tests.bench.report import Result
from tests.bench.workload import BARE, KINDS, bare, episodes, nodes

NAMESPACE = "bench"
BARE_NAMESPACE = "bare"
ROUNDS = 5
Statement = tuple[str, dict[str, Any]]


class _Recording:
    """A transaction that notes what is sent."""

    def __init__(self, inner: Transaction, sent: list[Statement]) -> None:
        self._inner = inner
        self._sent = sent

    def run(self, query: Query, /, **params: Any) -> list[Row]:
        self._sent.append((query.text, query.bind(params)))
        return self._inner.run(query, **params)


def record(memory: Memory, work: Callable[[], object]) -> list[list[Statement]]:
    """Return the statements of each transaction of ``work``."""
    transactions: list[list[Statement]] = []
    store = cast(Any, memory.store)
    transact = store.transact

    def recording(inner_work: Callable[[Transaction], Any]) -> Any:
        sent: list[Statement] = []
        answer = transact(lambda tx: inner_work(cast(Transaction, _Recording(tx, sent))))
        transactions.append(sent)
        return answer

    store.transact = recording
    try:
        work()
    finally:
        store.transact = transact
    return transactions


SPARSE = (":Step", ":Event", ":AntiPattern", ":Heuristic", ":Episode", ":Task")
"""Nodes with few edges. They go first: a transaction has no memory for all edges of the others."""


def clear(namespace: str = NAMESPACE) -> None:
    """Delete everything in a namespace."""
    with bare_driver() as driver, driver.session() as session:
        for label in (*SPARSE, ""):
            query = (
                f"MATCH (n{label}) WHERE n.ns = $ns "
                "CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF 1000 ROWS"
            )
            session.run(cast(Any, query), ns=namespace).consume()


def send(driver: neo4j.Driver, transactions: Iterable[list[Statement]]) -> float:
    """Send statements by a bare driver; return the seconds."""
    started = time.perf_counter()
    with driver.session() as session:
        for statements in transactions:
            session.execute_write(
                lambda tx, statements=statements: [  # type: ignore[misc]
                    list(tx.run(text, params)) for text, params in statements
                ]
            )
    return time.perf_counter() - started


def bare_driver() -> neo4j.Driver:
    """Return a driver without graphmem."""
    settings = Settings()
    password = settings.password.get_secret_value() if settings.password else ""
    return neo4j.GraphDatabase.driver(
        os.environ["NEO4J_URI"],
        auth=(settings.user, password),
        notifications_min_severity="OFF",
    )


@contextlib.contextmanager
def opened(namespace: str = NAMESPACE) -> Iterator[Memory]:
    """Open an empty memory, and empty it again."""
    with Memory.open(os.environ["NEO4J_URI"], namespace=namespace) as memory:
        clear(namespace)
        try:
            yield memory
        finally:
            clear(namespace)


def _compare(what: str, count: int, work: Callable[[Memory], object]) -> list[Result]:
    ours: list[float] = []
    theirs: list[float] = []
    with bare_driver() as driver, opened() as memory:
        transactions = record(memory, lambda: work(memory))  # also warms the server up
        for _ in range(ROUNDS):
            clear()
            theirs.append(send(driver, transactions))
            clear()
            started = time.perf_counter()
            work(memory)
            ours.append(time.perf_counter() - started)
    fast, bare = min(ours), min(theirs)
    return [
        Result(
            what,
            f"{count / fast:,.0f} episodes/s",
            f"bare driver, same statements: {count / bare:,.0f}/s",
            f"{bare / fast:.2f} (sums of {ROUNDS} rounds: {sum(theirs) / sum(ours):.2f})",
            ".8",
        )
    ]


def neo4j_learn(_: Path, scale: float) -> list[Result]:
    """Calls of ``learn`` about this and that, against a bare driver, in turn."""
    calls = max(50, int(200 * scale))
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    theirs: list[float] = []
    with bare_driver() as driver, opened() as memory, cleared(BARE_NAMESPACE):
        memory.learn_many(episodes(0, 1_000))
        for text, params in nodes(BARE_NAMESPACE):
            driver.execute_query(cast(Any, text), params)
        for place in range(ROUNDS + 1):  # the first warms the server up
            started = time.perf_counter()
            for number in range(calls):
                driver.execute_query(BARE, bare(number, f"{place}", BARE_NAMESPACE))
            theirs.append(time.perf_counter() - started)
            for name, kind in KINDS.items():
                started = time.perf_counter()
                for number in range(calls):
                    memory.learn(**kind(number, f"{place} {name}"))  # type: ignore[arg-type]
                seconds[name].append(time.perf_counter() - started)
    fast = calls / statistics.median(theirs[1:])
    rates = {name: calls / statistics.median(found[1:]) for name, found in seconds.items()}
    baseline = f"bare driver, the episode with two edges and three counts: {fast:,.0f}/s"
    return [
        Result(f"Neo4j: `learn`, {name}", f"{rate:,.0f}/s", baseline, f"{rate / fast:.2f}", asked)
        for (name, rate), asked in zip(rates.items(), (".7", "", "", ""), strict=True)
    ]


@contextlib.contextmanager
def cleared(namespace: str) -> Iterator[None]:
    """Empty a namespace before and after."""
    clear(namespace)
    try:
        yield
    finally:
        clear(namespace)


def neo4j_learn_many(_: Path, scale: float) -> list[Result]:
    """Batches of 500."""
    batch = list(episodes(0, max(500, int(5_000 * scale))))
    return _compare("Neo4j: `learn_many`", len(batch), lambda memory: memory.learn_many(batch))


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "neo4j_learn": neo4j_learn,
    "neo4j_learn_many": neo4j_learn_many,
}
