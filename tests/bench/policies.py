"""Policies on the embedded engine: updates, and the best action."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import kglite

from graphmem import Memory, Settings
from graphmem.ids import stream_id
from graphmem.policies.streams import PolicyKey, StateKey
from graphmem.store.embedded_files import GRAPH
from tests.bench.report import Result, benchmark, millis
from tests.bench.workload import ACTIONS, Move, features, first_moves, moves, transition

POLICIES = 1_000
LARGE = 100_000
ROUNDS = 9

# What a loop without graphmem would send for an update: the fastest spelling that we know.
WRITE = (
    "MATCH (t:Stream {id: $stream}) SET t.last = $seq "
    "WITH t MATCH (p:Policy {id: $policy}) "
    "SET p.q = $q, p.updates = $updates, p.active = true, p.last_updated_at = $now "
    "WITH p MATCH (n:State {id: $next}) "
    "CREATE (n)-[:REACHED_BY]->(:Transition {id: $id, ns: $ns, created_at: $now, stream: $stream, "
    "seq: $seq, reward: $reward, alpha: $alpha, gamma: $gamma, terminal: false, next_max: null, "
    "next_actions: null, at: null})-[:UPDATED]->(p)"
)


@benchmark("policies_td")
def td(folder: Path, scale: float) -> list[Result]:
    """TD updates by one client: graphmem, and the same writes on a bare session, in turn."""
    count, settings = max(100, int(1_000 * scale)), Settings()
    for name in ("ours", "bare"):
        with Memory.open(folder / name, settings=settings) as memory:
            memory.policies.update_many(map(transition, first_moves(POLICIES)))
    bare = kglite.open_session(
        str(folder / "bare" / GRAPH), durable=settings.durability, auto_checkpoint_wal_mib=0
    )
    rates: dict[str, list[float]] = {"ours": [], "bare": []}
    with Memory.open(folder / "ours", settings=settings) as memory:
        for round_ in range(ROUNDS):
            steps = moves(count, POLICIES // ACTIONS, round_)
            given = [transition(step) for step in steps]
            started = time.perf_counter()
            for fields in given:
                memory.policies.update(**fields)
            rates["ours"].append(count / (time.perf_counter() - started))
            rates["bare"].append(count / write(bare, steps, POLICIES + round_ * count))
    bare.close()
    ours, theirs = (statistics.median(rates[name]) for name in ("ours", "bare"))
    what = f"`policies.update`, transition stored ({ROUNDS} rounds of {count:,}, medians)"
    baseline = f"bare kglite, the same writes: {theirs:,.0f}/s"
    return [Result(what, f"{ours:,.0f}/s", baseline, f"{ours / theirs:.2f}", "")]


def write(session: kglite.Session, steps: Sequence[Move], seq: int) -> float:
    """Send what updates write; return the seconds."""
    stream, rows = stream_id("default", "default"), []
    for number, (state, action, after, reward) in enumerate(steps, seq + 1):
        there = StateKey.of("default", features(after))
        policy = PolicyKey.of("default", "default", features(state), f"act {action}", None)
        rows.append(
            {"stream": stream, "policy": policy.id, "next": there.id, "ns": "default"}
            | {"id": f"{stream}:{number}", "seq": number, "q": 0.5, "updates": 1}
            | {"reward": reward, "alpha": 0.1, "gamma": 0.95}
        )
    started = time.perf_counter()
    for row in rows:
        session.execute(WRITE, params={**row, "now": time.time_ns() // 1_000_000})
    return time.perf_counter() - started


@benchmark("policies_best")
def best(folder: Path, scale: float) -> list[Result]:
    """The best of four actions among many policies."""
    size = max(40, int(LARGE * scale)) // ACTIONS * ACTIONS
    chance, took = random.Random(1), []
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.policies.update_many(map(transition, first_moves(size)), batch_size=5_000)
        for _ in range(max(250, int(2_500 * scale))):
            state = features(chance.randrange(size // ACTIONS))
            started = time.perf_counter()
            found = memory.policies.best(state)
            took.append(time.perf_counter() - started)
            assert found is not None
    what = f"`policies.best` among {size:,} policies, p50"
    return [Result(what, millis(statistics.median(took)), "", "", "1 ms")]
