"""What the parts of a memory cost on the embedded engine: policies, levels and skills.

Skills are written of 10,000 strategies on 100 types of tasks, each tried six times, with dates. Of
a type a third works, a third fails with one of ten errors, and a third does both by halves.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import kglite

from graphmem import Memory, Settings, Tags
from graphmem.graph.graph import Graph
from graphmem.ids import stream_id
from graphmem.levels.entries import row_of, store
from graphmem.models.levels import NewEntry
from graphmem.policies.streams import PolicyKey, StateKey
from graphmem.search.embedding import open_embedder
from graphmem.store.embedded_files import GRAPH
from tests.bench.report import Result, benchmark, call_result, p50
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
    chance, calls = random.Random(1), max(250, int(2_500 * scale))
    states = [features(chance.randrange(size // ACTIONS)) for _ in range(calls)]
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.policies.update_many(map(transition, first_moves(size)), batch_size=5_000)
        assert memory.policies.best(states[0])
        took = p50(states, memory.policies.best)
    return [call_result(f"`policies.best` among {size:,} policies", took, most=1)]


SIZES = (1_000, 100_000)
CALLS = 1_000
BATCH = 5_000
NOTES = "task:bench:notes"
TAGS = ["kind:note"]


@benchmark("levels_add")
def adding(folder: Path, scale: float) -> list[Result]:
    """Return how many entries a second of processor time are added to a small and a large level."""
    calls, results = max(100, int(CALLS * scale)), []
    with _memory(folder / "g") as memory:
        for size in (int(size * scale) for size in SIZES):
            _fill(memory, size)
            began = time.process_time()
            for number in range(calls):
                memory.levels.add(NOTES, f"note {number}", tags=TAGS)
            rate = calls / (time.process_time() - began)
            what = f"`levels.add`, after {size:,} entries"
            results.append(Result(what, f"{rate:,.0f}/s", "", "", "the same at each size"))
    return results


@benchmark("levels_recall")
def recalling(folder: Path, scale: float) -> list[Result]:
    """Return what a question costs where a half, a fiftieth, and nothing of a level fits."""
    size = int(SIZES[1] * scale)
    filters = {
        "no filter": None,
        "half fits": Tags(any_of={"half:1"}),
        "a fiftieth fits": Tags(any_of={"part:7"}),
        "a fiftieth of a half fits": Tags(any_of={"part:7"}) & ~Tags(any_of={"half:0"}),
    }
    with _memory(folder / "g") as memory:
        _fill(memory, size)
        took = {}
        for what, tags in filters.items():
            ask = partial(memory.levels.recall, tags=tags)
            took[what] = p50(["what was late"] * 40, ask)  # which is embedded once, and not counted
    return [
        call_result(f"`levels.recall` of {size:,} entries, {what}", time_, most=20)
        for what, time_ in took.items()
    ]


def _memory(folder: Path) -> Memory:
    memory = Memory.open(folder, embedder=open_embedder("hashing"))
    memory.levels.put(NOTES)
    return memory


def _fill(memory: Memory, size: int) -> None:
    """Store entries in the level until it has so many."""
    graph = Graph(memory.store, memory.namespace, memory.settings)
    held = memory.levels.info(NOTES).entries
    for start in range(held, size, BATCH):
        rows = [
            row_of(
                memory.namespace,
                NOTES,
                NewEntry(
                    content=f"what came as number {number}",
                    tags=(f"part:{number % 50}", f"half:{number % 2}"),
                ),
                graph.now(),
            )
            for number in range(start, min(start + BATCH, size))
        ]
        graph.transact(lambda tx, rows=rows: store(tx, NOTES, rows))  # type: ignore[misc]


START = datetime(2026, 1, 1, tzinfo=UTC)
TRIES = 6


@benchmark("skills")
def skills(folder: Path, scale: float) -> list[Result]:
    """Export everything, and once more without new evidence."""
    strategies = int(10_000 * scale)
    with Memory.open(folder / "skills.graph") as memory:
        memory.learn_many(run(number) for number in range(strategies * TRIES))
        took = []
        for _ in range(2):
            start, cpu = time.perf_counter(), time.process_time()
            report = memory.skills.export(folder / "skills")
            used = time.process_time() - cpu
            took.append(f"{time.perf_counter() - start:.2f} s, {used:.2f} s of the processor")
        assert not report.changed
    told = f"{report.conclusions:,} conclusions on {report.kinds} kinds"
    what = f"skills.export, {strategies:,} strategies"
    return [
        Result(what, took[0], told, "", "under 2 s"),
        Result(f"{what}, again", took[1], "", "", "under 2 s"),
    ]


def run(number: int) -> dict[str, Any]:
    """Return the episode of a number."""
    strategy = number // TRIES
    worked = (True, False, number % 2 == 0)[strategy // 100 % 3]
    return {
        "task": f"task {(strategy // 100 + number) % 20} of type {strategy % 100}",
        "task_type": f"type {strategy % 100}",
        "strategy": f"strategy {strategy} of many that were tried",
        "success": worked,
        "error": None if worked else f"it broke in part {chr(65 + strategy % 10)}",
        "ended_at": START + timedelta(minutes=number),
        "source_key": str(number),
    }
