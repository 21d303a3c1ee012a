"""Policies on the embedded engine: updates, and the best action."""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import kglite

from graphmem import Memory, Settings
from graphmem.ids import stream_id
from graphmem.policies.streams import PolicyKey, StateKey
from graphmem.store.embedded_files import GRAPH
from tests.bench.report import Result, benchmark, millis
from tests.bench.workload import (
    ACTIONS,
    Move,
    features,
    first_moves,
    moves,
    transition,
)

POLICIES = 1_000
SIZES = (1_000, 10_000, 100_000)
ROUNDS = 9

# What a loop without graphmem would send for an update: the fastest spelling of each that we know.
READ = (
    "MATCH (n:State {id: $next})<-[:IN_STATE]-(o:Policy) WITH max(o.q) AS best "
    "MATCH (p:Policy {id: $policy}) RETURN p.q AS q, p.updates AS updates, best"
)
WRITE = (
    "MATCH (t:Stream {id: $stream}) SET t.last = $seq "
    "WITH t MATCH (p:Policy {id: $policy}) "
    "SET p.q = $q, p.updates = $updates, p.active = true, p.last_updated_at = $now "
    "WITH p MATCH (n:State {id: $next}) "
    "CREATE (n)-[:REACHED_BY]->(:Transition {id: $id, ns: $ns, created_at: $now, stream: $stream, "
    "seq: $seq, reward: $reward, alpha: $alpha, gamma: $gamma, terminal: false, next_max: null, "
    "next_actions: null, at: null})-[:UPDATED]->(p)"
)


class BareLoop:
    """TD updates by hand on a kglite session: a read, the arithmetic, a write."""

    def __init__(self, graph: Path, folder: Path, settings: Settings, *, reading: bool) -> None:
        folder.mkdir()
        shutil.copyfile(graph, folder / GRAPH)  # the same policies
        self._session = kglite.open_session(
            str(folder / GRAPH), durable=settings.durability, auto_checkpoint_wal_mib=0
        )
        self._alpha, self._gamma = settings.alpha, settings.gamma
        self._reading = reading
        self._stream = stream_id("default", "default")
        states = [features(n) for n in range(POLICIES // ACTIONS)]
        self._states = [StateKey.of("default", state).id for state in states]
        self._policies = [
            [PolicyKey.of("default", "default", s, f"act {a}", None).id for a in range(ACTIONS)]
            for s in states
        ]
        last = self._session.cypher("MATCH (t:Stream) RETURN t.last AS last").to_list()
        self._seq = int(last[0]["last"])

    def run(self, steps: Sequence[Move]) -> float:
        """Send the updates; return the seconds."""
        started = time.perf_counter()
        session, alpha, gamma = self._session, self._alpha, self._gamma
        q, updates = 0.5, 1
        for state, action, after, reward in steps:
            policy, following = self._policies[state][action], self._states[after]
            if self._reading:
                asked = {"policy": policy, "next": following}
                [row] = session.cypher(READ, params=asked).to_list()
                best = row["best"] or 0.0
                q = row["q"] + alpha * (reward + gamma * best - row["q"])
                updates = row["updates"] + 1
            self._seq += 1
            params = {
                "stream": self._stream,
                "policy": policy,
                "next": following,
                "id": f"{self._stream}:{self._seq}",
                "ns": "default",
                "seq": self._seq,
                "q": q,
                "updates": updates,
                "reward": reward,
                "alpha": alpha,
                "gamma": gamma,
                "now": time.time_ns() // 1_000_000,
            }
            session.execute(WRITE, params=params)
        return time.perf_counter() - started

    def values(self) -> dict[str, float]:
        """Return the values of all policies by id."""
        rows = self._session.cypher("MATCH (p:Policy) RETURN p.id AS id, p.q AS q").to_list()
        return {row["id"]: row["q"] for row in rows}

    def close(self) -> None:
        """Let go of the session."""
        self._session.close()


@benchmark("policies_td")
def td(folder: Path, scale: float) -> list[Result]:
    """TD updates by one client: graphmem and bare loops, in turn."""
    count = max(100, int(1_000 * scale))
    batch = max(1_000, int(5_000 * scale) // 1_000 * 1_000)
    settings, states = Settings(), POLICIES // ACTIONS
    for name in ("single", "many"):
        with Memory.open(folder / name, settings=settings) as memory:
            memory.policies.update_many(map(transition, first_moves(POLICIES)))
    graph = folder / "single" / GRAPH
    bare = BareLoop(graph, folder / "bare", settings, reading=True)
    writes = BareLoop(graph, folder / "writes", settings, reading=False)
    single = Memory.open(folder / "single", settings=settings)
    many = Memory.open(folder / "many", settings=settings)

    runs: dict[str, Callable[[Sequence[Move]], float]] = {
        "ours": lambda steps: updated(single, steps),
        "bare": bare.run,
        "writes": writes.run,
    }
    rates: dict[str, list[float]] = {name: [] for name in [*runs, "many"]}
    for round_ in range(ROUNDS):
        steps = moves(count, states, round_)
        for name in turned(list(runs), round_):
            rates[name].append(count / runs[name](steps))
        given = [transition(move) for move in moves(batch, states, round_)]
        started = time.perf_counter()
        many.policies.update_many(given)
        rates["many"].append(batch / (time.perf_counter() - started))
    _same_values(single, bare)
    for opened in (single, many, bare, writes):
        opened.close()
    return _td_results(rates, count)


def _td_results(rates: dict[str, list[float]], count: int) -> list[Result]:
    middle = {name: statistics.median(found) for name, found in rates.items()}
    what = f"`policies.update`, transition stored ({ROUNDS} rounds of {count:,}, medians)"
    figure = f"{middle['ours']:,.0f}/s"
    baselines = [
        ("bare", "bare kglite loop, a read and the same writes", ".6"),
        ("writes", "bare kglite, only the writes", ""),
    ]
    results = [
        Result(
            what,
            figure,
            f"{baseline}: {middle[name]:,.0f}/s",
            f"{ratio(rates['ours'], rates[name]):.2f}",
            asked,
        )
        for name, baseline, asked in baselines
        if name in rates
    ]
    return [
        *results,
        Result(
            "`policies.update_many`, 1,000 in a transaction",
            f"{middle['many']:,.0f}/s",
            f"`policies.update`: {figure}",
            f"{ratio(rates['many'], rates['ours']):.1f}",
            "5",
        ),
    ]


def updated(memory: Memory, steps: Sequence[Move]) -> float:
    """Return the seconds that single updates take."""
    given = [transition(step) for step in steps]
    started = time.perf_counter()
    for fields in given:
        memory.policies.update(**fields)
    return time.perf_counter() - started


def _same_values(memory: Memory, bare: BareLoop) -> None:
    """Check that the loop by hand did the same work."""
    for identity, value in bare.values().items():
        held = memory.policies.get(identity)
        assert held is not None
        assert abs(held.q - value) < 1e-9, f"policy {identity}: {value} in the bare loop"


@benchmark("policies_best")
def best(folder: Path, scale: float) -> list[Result]:
    """The best of four actions among more and more policies, call by call in turn."""
    sizes = [max(40, int(size * scale)) // ACTIONS * ACTIONS for size in SIZES]
    calls, rounds = max(50, int(500 * scale)), 5
    memories = [Memory.open(folder / str(size), settings=Settings()) for size in sizes]
    for memory, size in zip(memories, sizes, strict=True):
        memory.policies.update_many(map(transition, first_moves(size)), batch_size=5_000)
    chance = random.Random(1)
    ours: list[list[float]] = [[] for _ in sizes]
    for _ in range(rounds * calls):
        for memory, size, seconds in zip(memories, sizes, ours, strict=True):
            state = features(chance.randrange(size // ACTIONS))
            started = time.perf_counter()
            found = memory.policies.best(state)
            seconds.append(time.perf_counter() - started)
            assert found is not None
    for memory in memories:
        memory.close()
    results = [
        Result(
            f"`policies.best` among {size:,} policies, p50",
            millis(statistics.median(mine)),
            "",
            "",
            "1 ms",
        )
        for size, mine in zip(sizes, ours, strict=True)
    ]
    small, large = statistics.median(ours[0]), statistics.median(ours[-1])
    return [
        *results,
        Result(
            f"the same, {sizes[-1]:,} against {sizes[0]:,} policies",
            millis(large),
            f"among {sizes[0]:,}: {millis(small)}",
            f"{large / small:.2f}",
            "at most 1.3",
        ),
    ]


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Return the median of the rounds' ratios: what was measured at one time is compared."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def turned(names: list[str], by: int) -> list[str]:
    """Return names in another order in each round, so that none always comes first."""
    place = by % len(names)
    return names[place:] + names[:place]
