"""Learning, opening, seeding and erasing on the embedded engine.

What learns is held against a bare session of the engine; many processes that write one folder
against one that writes alone; erasing against learning, and it may not let the files grow.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import kglite

from graphmem import Episode, Memory, Settings
from graphmem.seeding import seed, sources
from tests.bench.report import Result, benchmark, seconds
from tests.bench.workload import BARE, bare, bare_row, episodes, nodes, single
from tests.conftest import SHARED
from tests.faults.attack import peak
from tests.faults.learner import Sharer, environment

HISTORY = 100_000
CALLS = 1_000

# What a loop without graphmem would send to write the same nodes and edges.
BARE_BATCH = (
    "UNWIND $rows AS row MERGE (a:Agent {id: row.agent}) "
    "ON CREATE SET a.ns = $ns, a.name = row.agent_name",
    "UNWIND $rows AS row MERGE (t:Task {id: row.task}) "
    "ON CREATE SET t.ns = $ns, t.key = row.task_key, t.description = row.description",
    "UNWIND $rows AS row UNWIND row.uses AS use MERGE (s:Strategy {id: use.strategy}) "
    "ON CREATE SET s.ns = $ns, s.text = use.text",
    "UNWIND $rows AS row MATCH (a:Agent {id: row.agent}) MATCH (t:Task {id: row.task}) "
    "CREATE (a)-[:RAN]->(e:Episode {id: row.id, ns: $ns, task: row.description, "
    "success: row.success, score: row.score, reward: row.reward, "
    "source_key: row.source_key, content_hash: row.content_hash, "
    "step_count: row.step_count, use_count: row.use_count, "
    "created_at: $now, recorded_at: $now, keyed: false})-[:ATTEMPTED]->(t)",
    "UNWIND $rows AS row MATCH (e:Episode {id: row.id}) UNWIND row.steps AS step "
    "CREATE (e)-[:HAS_STEP]->(:Step {id: step.id, ns: $ns, created_at: $now, index: step.index, "
    "action_type: step.action_type, action: step.action, observation: step.observation, "
    "reward: step.reward})",
    "UNWIND $rows AS row MATCH (e:Episode {id: row.id}) UNWIND row.uses AS use "
    "MATCH (s:Strategy {id: use.strategy}) "
    "CREATE (e)-[:USED {rank: use.rank, credit: use.credit, applied: use.applied}]->(s)",
    "UNWIND $rows AS row UNWIND row.uses AS use MATCH (s:Strategy {id: use.strategy}) "
    "MATCH (t:Task {id: row.task}) MERGE (s)-[o:OUTCOME {agent: row.agent_name}]->(t) "
    "ON CREATE SET o.trials = 1, o.successes = row.success "
    "ON MATCH SET o.trials = o.trials + 1, o.successes = o.successes + row.success",
    "UNWIND $rows AS row UNWIND row.uses AS a UNWIND row.uses AS b "
    "WITH a, b WHERE a.strategy < b.strategy MATCH (x:Strategy {id: a.strategy}) "
    "MATCH (y:Strategy {id: b.strategy}) MERGE (x)-[c:CO_OCCURS_WITH]->(y) "
    "ON CREATE SET c.count = 1 ON MATCH SET c.count = c.count + 1",
)


def _learn(memory: Memory, tag: str, calls: int) -> float:
    """Return the seconds of so many calls of ``learn``."""
    given = [single(number, tag) for number in range(calls)]
    return seconds(lambda: [memory.learn(**fields) for fields in given])  # type: ignore[arg-type]


@benchmark("learn_long")
def learn(folder: Path, scale: float) -> list[Result]:
    """Calls of ``learn`` after a short and after a long history."""
    small, large = 1_000, max(2_000, int(HISTORY * scale))
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.learn_many(episodes(0, small))
        early = [_learn(memory, f"early{place}", CALLS // 3) for place in range(4)][1:]
        memory.learn_many(episodes(small, large))
        late = [_learn(memory, f"late{place}", CALLS // 3) for place in range(4)][1:]
    rates = [CALLS // 3 / statistics.median(took) for took in (early, late)]
    return [
        Result(
            f"`learn` after {large:,} episodes",
            f"{rates[1]:,.0f}/s",
            f"after {small:,} episodes: {rates[0]:,.0f}/s",
            f"takes {rates[0] / rates[1]:.2f} times as long",
            "at most 1.2",
        )
    ]


def _bare(folder: Path) -> kglite.Session:
    """Return a session without graphmem, as durable, with the same indexes."""
    session = kglite.open_session(str(folder / "bare.kgl"), durable="normal")
    for label in ("Agent", "Task", "Strategy"):
        session.execute(f"CREATE INDEX {label} IF NOT EXISTS FOR (n:{label}) ON (n.ns)")
    return session


@benchmark("learn_known")
def learn_known(folder: Path, scale: float) -> list[Result]:
    """Calls of ``learn`` about known things, against a bare session, in turn."""
    rounds, calls = 5, max(100, int(CALLS * scale))
    session = _bare(folder)
    for text, params in nodes("bench"):
        session.execute(text, params=params)
    ours: list[float] = []
    theirs: list[float] = []
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.learn_many(episodes(0, 1_000))
        _learn(memory, "warm", calls)
        for place in range(rounds):
            given = [bare(number, f"{place}", "bench") for number in range(calls)]
            started = time.perf_counter()
            for params in given:
                session.execute(BARE, params=params).to_list()
            theirs.append(time.perf_counter() - started)
            ours.append(_learn(memory, f"{place}", calls))
    session.close()
    rate, fast = (calls / statistics.median(took) for took in (ours, theirs))
    baseline = f"bare session, the episode with two edges and three counts: {fast:,.0f}/s"
    what = "`learn`, one strategy, known things"
    return [Result(what, f"{rate:,.0f}/s", baseline, f"{rate / fast:.2f}", ".33")]


@benchmark("learn_many")
def learn_many(folder: Path, scale: float) -> list[Result]:
    """Batches of 500 against a bare loop of UNWIND statements, round by round."""
    size, rounds = max(1_000, int(10_000 * scale)), 4
    bare = _bare(folder)
    memory = Memory.open(folder / "g", settings=Settings())
    ours: list[float] = []
    theirs: list[float] = []
    for round_ in range(rounds):
        batch = list(episodes(round_ * size, (round_ + 1) * size))
        started = time.perf_counter()
        memory.learn_many(batch)
        ours.append(time.perf_counter() - started)
        rows = [bare_row(episode) for episode in batch]
        started = time.perf_counter()
        for place in range(0, size, 500):
            params = {"rows": rows[place : place + 500], "ns": "default", "now": 0}
            for statement in BARE_BATCH:
                bare.execute(statement, params=params)
        theirs.append(time.perf_counter() - started)
    memory.close()
    bare.close()
    return [
        Result(
            f"`learn_many`, {rounds * size:,} episodes of five steps and three strategies",
            f"{rounds * size / sum(ours):,.0f} episodes/s",
            f"bare UNWIND loop, same nodes and edges: {rounds * size / sum(theirs):,.0f}/s",
            f"{sum(theirs) / sum(ours):.2f}",
            ".7",
        )
    ]


@benchmark("reopen")
def reopen(folder: Path, scale: float) -> list[Result]:
    """Opening a long history and the first answer."""
    size = max(2_000, int(HISTORY * scale))
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.learn_many(episodes(0, size))
    started = time.perf_counter()
    with Memory.open(folder / "g", settings=Settings()) as memory:
        memory.strategies()
        reading = time.perf_counter() - started
    what = f"reopening {size:,} episodes and the first `strategies`"
    return [Result(what, f"{reading:.2f} s", "", "", "2 s")]


@benchmark("intercode")
def intercode(folder: Path, scale: float) -> list[Result]:
    """Seeding all of InterCode SQL, where its logs are there."""
    logs = SHARED / "data" / "intercode_sql"
    if not logs.is_dir():
        return [Result("seeding InterCode SQL", "its logs are not here")]
    before = peak()
    memory = Memory.open(folder / "g", settings=Settings())
    started = time.perf_counter()
    report = seed(
        memory, sources([str(logs)]), limit=None if scale >= 1 else max(1, int(1_034 * scale))
    )
    took = time.perf_counter() - started
    memory.close()
    return [
        Result(
            f"seeding InterCode SQL ({report.created:,} episodes)",
            f"peak {peak()} MB, {report.created / took:,.0f} episodes/s",
            f"before opening: {before} MB",
            "",
            "400 MB",
        )
    ]


SIZE = 20_000
SHARE = 4
"""One episode in so many goes."""


def history(size: int) -> Iterator[Episode]:
    """Episodes on shared tasks and strategies; every fourth is of one agent."""
    for number in range(size):
        yield Episode(
            task=f"task {number % 1_000}",
            strategy=[f"strategy {number % 97}", f"tool {number % 13}", f"tool {13 + number % 7}"],
            success=number % 3 != 0,
            error=None if number % 3 else f"timeout after {number} s",
            agent="going" if number % SHARE == 0 else f"agent {number % 9}",
            source_key=f"k/{number}",
        )


@benchmark("erase")
def erase(folder: Path, scale: float) -> Iterator[Result]:
    """Learn a history and remove a quarter; compare both rates, and the files of the folder."""
    size = max(1_000, int(SIZE * scale))
    with Memory.open(folder / "g") as memory:
        learning = size / seconds(lambda: memory.learn_many(history(size)))
        memory.store.compact()
        before = _file_size(folder)
        started = time.perf_counter()
        gone = memory.upkeep.erase(agent="going").episodes
        erasing = gone / (time.perf_counter() - started)
        assert gone == size // SHARE
        files = f"files from {before:.1f} to {_file_size(folder):.1f} MB"
        yield Result(
            f"`erase` of an agent, {gone:,} of {size:,} episodes; {files}",
            f"{erasing:,.0f} episodes/s",
            f"learning them: {learning:,.0f}/s",
            f"{erasing / learning:.2f}",
            "1,000/s; no larger",
        )


def _file_size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


EACH = 500
PROCESSES = 4


@benchmark("writers_folder")
def writers_folder(folder: Path, scale: float) -> list[Result]:
    """Learn in several processes at once, and in one alone."""
    each = max(int(EACH * scale), 20)
    one = _timed(folder / "one", ["one"], each * PROCESSES)[1]
    sharers, many = _timed(folder / "many", [f"p{n}" for n in range(PROCESSES)], each)
    waits = [sum(took for took in sharer.took if took > 0.02) for sharer in sharers]
    calls = sorted(took for sharer in sharers for took in sharer.took)
    total = each * PROCESSES
    return [
        Result(
            f"`learn`, {PROCESSES} processes with {each} calls each on one folder",
            f"{total / many:,.0f}/s",
            f"one process with all of them: {total / one:,.0f}/s",
            f"{one / many:.2f}",
            "nothing lost",
        ),
        Result(
            "the same, a call of each process: p50; p99",
            "; ".join(f"{_at(s.took, 0.5):.2f} and {_at(s.took, 0.99):,.0f} ms" for s in sharers),
            f"all: {_at(calls, 0.5):.2f} and {_at(calls, 0.99):,.0f} ms, longest {calls[-1]:.2f} s",
            f"waited in all {min(waits):.2f} to {max(waits):.2f} s a process",
            "a fair wait",
        ),
    ]


def _timed(folder: Path, names: Sequence[str], count: int) -> tuple[list[Sharer], float]:
    surroundings = environment(str(folder), "default", Settings(), GRAPHMEM_EMBEDDER="hashing")
    sharers = [Sharer(surroundings, name, count) for name in names]
    began = time.perf_counter()
    for sharer in sharers:
        sharer.begin()
    if any(sharer.finish() for sharer in sharers):
        raise RuntimeError("a process failed")
    return sharers, time.perf_counter() - began


def _at(took: Sequence[float], part: float) -> float:
    """Return in milliseconds how long that part of the calls took at most."""
    return 1000 * sorted(took)[int(part * (len(took) - 1))]
