"""Policies on a Neo4j server: the library against a bare driver."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import neo4j

from graphmem import Memory
from graphmem.graph.graph import Graph
from graphmem.policies.streams import PolicyKey, StateKey, open_nodes
from graphmem.store.queries import adhoc
from tests.bench.policies import (
    POLICIES,
    crystallized,
    crystallized_results,
    millis,
    ratio,
    turned,
    updated,
)
from tests.bench.report import Result
from tests.bench.server import NAMESPACE, bare_driver, opened, record, send
from tests.bench.workload import ACTIONS, features, first_moves, moves, outcomes, transition

ROUNDS = 9
SIZES = (1_000, 100_000)
LOOK_UP = (
    "MATCH (s:State {id: $id})<-[:IN_STATE]-(p:Policy) RETURN p.q AS q ORDER BY p.q DESC LIMIT 1"
)

VALUES = "UNWIND $ids AS id MATCH (p:Policy {id: id}) SET p.q = rand(), p.active = true"
FILLED_AT_ONCE = 10_000


def td(_: Path, scale: float) -> list[Result]:
    """Single updates against the same statements, and batches against single updates."""
    count, batch = max(50, int(200 * scale)), max(1_000, int(3_000 * scale) // 1_000 * 1_000)
    steps = moves(count, POLICIES // ACTIONS, 1)
    given = [transition(move) for move in moves(batch, POLICIES // ACTIONS, 2)]
    rates: dict[str, list[float]] = {"ours": [], "bare": [], "many": []}
    with bare_driver() as driver, opened() as memory:
        memory.policies.update_many(map(transition, first_moves(POLICIES)))
        # Numbers and ids are made by the server, so that the same statements can be sent again.
        transactions = record(memory, lambda: updated(memory, steps))

        def many() -> float:
            started = time.perf_counter()
            memory.policies.update_many(given)
            return time.perf_counter() - started

        runs: dict[str, tuple[int, Callable[[], float]]] = {
            "ours": (count, lambda: updated(memory, steps)),
            "bare": (count, lambda: send(driver, transactions)),
            "many": (batch, many),
        }
        for round_ in range(ROUNDS):
            for name in turned(list(runs), round_):
                size, run = runs[name]
                rates[name].append(size / run())
    middle = {name: statistics.median(found) for name, found in rates.items()}
    return [
        Result(
            f"Neo4j: `policies.update` ({ROUNDS} rounds of {count:,}, medians)",
            f"{middle['ours']:,.0f}/s",
            f"bare driver, same statement: {middle['bare']:,.0f}/s",
            f"{ratio(rates['ours'], rates['bare']):.2f}",
            ".85",
        ),
        Result(
            "Neo4j: `policies.update_many`, 1,000 in a transaction",
            f"{middle['many']:,.0f}/s",
            f"`policies.update`: {middle['ours']:,.0f}/s",
            f"{ratio(rates['many'], rates['ours']):.1f}",
            "5",
        ),
    ]


def best(_: Path, scale: float) -> list[Result]:
    """The best of four actions against a look-up of the highest value, call by call in turn."""
    calls, results = max(100, int(1_000 * scale)), []
    for size in (max(40, int(size * scale)) // ACTIONS * ACTIONS for size in SIZES):
        with bare_driver() as driver, opened() as memory:
            _fill(memory, size)
            ours, bare = _best_times(memory, driver, size // ACTIONS, calls)
        results.append(
            Result(
                f"Neo4j: `policies.best` among {size:,} policies, p50",
                millis(ours),
                f"bare driver, highest value by index: {millis(bare)}",
                f"{ours / bare:.2f}",
                "at most 1.3",
            )
        )
    return results


def _fill(memory: Memory, size: int) -> None:
    """Make policies without a history, which ``best`` does not read: that takes half the time."""
    graph = Graph(memory.store, NAMESPACE, memory.settings)
    for first in range(0, size, FILLED_AT_ONCE):
        keys = [
            PolicyKey.of(
                NAMESPACE,
                "default",
                StateKey.of(NAMESPACE, features(number // ACTIONS)),
                f"act {number % ACTIONS}",
                None,
            )
            for number in range(first, min(first + FILLED_AT_ONCE, size))
        ]
        ids = [key.id for key in keys]
        graph.transact(lambda tx, keys=keys: open_nodes(tx, keys))  # type: ignore[misc]
        memory.store.write(adhoc(VALUES, "write"), ids=ids)


def _best_times(
    memory: Memory, driver: neo4j.Driver, states: int, calls: int
) -> tuple[float, float]:
    chance = random.Random(1)
    ours: list[float] = []
    bare: list[float] = []
    with driver.session(default_access_mode=neo4j.READ_ACCESS) as session:
        for number in range(calls + calls // 5):
            state = features(chance.randrange(states))
            key = StateKey.of(NAMESPACE, state).id
            started = time.perf_counter()
            found = memory.policies.best(state)
            between = time.perf_counter()
            rows = session.execute_read(lambda tx, key=key: tx.run(LOOK_UP, id=key).data())  # type: ignore[misc]
            ended = time.perf_counter()
            assert found is not None
            assert found.q == rows[0]["q"]
            if number >= calls // 5:  # those before warm the server up
                ours.append(between - started)
                bare.append(ended - between)
    return statistics.median(ours), statistics.median(bare)


def crystallize(_: Path, scale: float) -> list[Result]:
    """Outcomes in order, and shuffled."""
    count = max(1_000, int(10_000 * scale))
    ordered = outcomes(count)
    shuffled = list(ordered)
    random.Random(3).shuffle(shuffled)
    runs = []
    for given in (ordered, shuffled, ordered, shuffled):
        with opened() as memory:
            runs.append(crystallized(memory, given))
    return crystallized_results("Neo4j: ", count, runs)


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "neo4j_policies_td": td,
    "neo4j_policies_best": best,
    "neo4j_policies_crystallize": crystallize,
}
