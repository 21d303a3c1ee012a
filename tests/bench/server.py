"""A Neo4j server: the library against a bare driver that sends the same statements."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

import neo4j

from graphmem import Memory, Settings
from graphmem.queries import Query, adhoc
from graphmem.store.port import Row, Transaction
from tests.bench.report import Result
from tests.bench.workload import episodes, single

NAMESPACE = "bench"
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


def _record(memory: Memory, work: Callable[[], object]) -> list[list[Statement]]:
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


def _clear(memory: Memory) -> None:
    query = adhoc("MATCH (n) WHERE n.ns = $ns WITH n LIMIT 20000 DETACH DELETE n", "write")
    for _ in range(20):
        memory.store.transact(lambda tx: tx.run(query, ns=NAMESPACE))


def _send(driver: neo4j.Driver, transactions: Iterable[list[Statement]]) -> float:
    started = time.perf_counter()
    with driver.session() as session:
        for statements in transactions:
            session.execute_write(
                lambda tx, statements=statements: [  # type: ignore[misc]
                    list(tx.run(text, params)) for text, params in statements
                ]
            )
    return time.perf_counter() - started


def _compare(what: str, count: int, work: Callable[[Memory], object]) -> list[Result]:
    url, settings = os.environ["NEO4J_URI"], Settings()
    password = settings.password.get_secret_value() if settings.password else ""
    ours: list[float] = []
    theirs: list[float] = []
    with (
        neo4j.GraphDatabase.driver(
            url, auth=(settings.user, password), notifications_min_severity="OFF"
        ) as driver,
        Memory.open(url, namespace=NAMESPACE, settings=settings) as memory,
    ):
        _clear(memory)
        transactions = _record(memory, lambda: work(memory))  # also warms the server up
        for _ in range(ROUNDS):
            _clear(memory)
            theirs.append(_send(driver, transactions))
            _clear(memory)
            started = time.perf_counter()
            work(memory)
            ours.append(time.perf_counter() - started)
        _clear(memory)
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
    """Single calls."""
    count = max(50, int(500 * scale))

    def work(memory: Memory) -> None:
        for number in range(count):
            memory.learn(**single(number, "one"))  # type: ignore[arg-type]

    return _compare("Neo4j: `learn`", count, work)


def neo4j_learn_many(_: Path, scale: float) -> list[Result]:
    """Batches of 500."""
    batch = list(episodes(0, max(500, int(5_000 * scale))))
    return _compare("Neo4j: `learn_many`", len(batch), lambda memory: memory.learn_many(batch))


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "neo4j_learn": neo4j_learn,
    "neo4j_learn_many": neo4j_learn_many,
}
