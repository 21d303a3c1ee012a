"""Lessons on the embedded engine: what they cost, what comes out of them; alma-memory beside them.

Both learn the same attempts, in turn. ALMA is given what makes it fastest: its SQLite storage, no
embedder (it then compares words) and its write guard off. Its history is written straight into
its storage, because its own ``learn`` would take minutes to an hour for it.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from graphmem import Episode, Memory, Settings
from graphmem.episodes.counting import parts
from tests.bench.peers import Peer, alma
from tests.bench.policies import millis, turned
from tests.bench.report import Result
from tests.bench.workload import TASKS, TYPES, attempt, attempts, told, wording

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 6
CALLS = 50
"""Calls of ``learn`` a round; ALMA is asked for half of them."""
FILLED_AT_ONCE = 5_000
FLUSHING = "which waits for the disk"
BUILT = "without lessons (their parts left out)"
KNOWN, UNKNOWN = "a task with rules, cards and heuristics", "a task that is not known"


def learn(folder: Path, scale: float) -> list[Result]:
    """Single calls of ``learn`` after more and more history, and ALMA's on the same."""
    sizes = [max(100, int(size * scale)) for size in SIZES]
    ours: dict[tuple[str, int], list[float]] = {}
    theirs: dict[int, list[float]] = {}
    flushes: list[float] = []
    with ExitStack() as stack:
        memories: dict[tuple[str, int], Memory] = {}
        for size in sizes:
            for durability in ("normal", "full"):
                place = folder / f"{durability}{size}"
                settings = Settings(durability=durability)
                if durability == "full":
                    shutil.copytree(folder / f"normal{size}", place)
                else:
                    with Memory.open(place, settings=settings) as memory:
                        memory.learn_many(attempts(0, size))
                memories[durability, size] = Memory.open(place, settings=settings)
                stack.callback(memories[durability, size].close)
        workers = dict(zip(sizes, stack.enter_context(alma(len(sizes))), strict=False))
        setup = [_filled(worker, folder, size) for size, worker in workers.items()]
        start = max(sizes)
        for round_ in range(ROUNDS):
            for size in sizes:
                given = [attempt(number) for number in range(start, start + CALLS)]
                start += CALLS
                for durability in turned(["normal", "full"], round_):
                    key = (durability, size)
                    ours.setdefault(key, []).extend(learned(memories[key], given))
                if size in workers:
                    seconds = workers[size].ask("learn", given[: CALLS // 2])
                    theirs.setdefault(size, []).extend(seconds)
            flushes += _flushed(folder / "flushed")
        for size, worker in workers.items():
            assert worker.ask("outcomes") == size + len(theirs[size]), "ALMA left outcomes out"
    results = []
    for (durability, size), mine in ours.items():
        other = theirs.get(size)
        results.append(
            Result(
                f"`learn` with lessons, durability {durability}, after {size:,} outcomes",
                speed(mine),
                f"ALMA `learn`, {FLUSHING}: {speed(other)}" if other else "",
                _times(mine, other) if other else "",
                "20 times" if durability == "normal" else "",
            )
        )
    disk = "appending 2 kB and fdatasync, on this disk, in the same rounds"
    return [
        *results,
        *_flat(ours, theirs, sizes),
        Result(disk, speed(flushes), "", "", ""),
        *setup[:1],
    ]


def _flushed(path: Path) -> list[float]:
    """Return the seconds that the disk takes to keep a little more, each time."""
    seconds = []
    with path.open("ab", buffering=0) as file:
        for _ in range(CALLS):
            started = time.perf_counter()
            file.write(b"x" * 2_000)
            os.fdatasync(file.fileno())
            seconds.append(time.perf_counter() - started)
    return seconds


def _filled(worker: Peer, folder: Path, size: int) -> Result:
    """Give a worker a history; return what it runs with."""
    found = worker.ask("open", str(folder / f"alma{size}"))
    assert not found["embedder"], "an embedder would make ALMA slower"
    for start in range(0, size, FILLED_AT_ONCE):
        stop = min(start + FILLED_AT_ONCE, size)
        worker.ask("fill", [attempt(number) for number in range(start, stop)])
    lacks = ", ".join(found["lacks"]) or "nothing"
    return Result(
        f"alma-memory {found['version']} here: {found['storage']}, no embedder, write guard off",
        f"its install lacks: {lacks} (added here)",
        f"its quickstart: {worker.ask('quickstart', str(folder / f'quick{size}')) or 'runs'}",
        "",
        "",
    )


def _flat(
    ours: dict[tuple[str, int], list[float]], theirs: dict[int, list[float]], sizes: Sequence[int]
) -> Iterator[Result]:
    """Yield how times grow with the history."""
    small, large = sizes[0], sizes[-1]
    named = [
        (f"`learn`, durability {d}", ours[d, small], ours[d, large]) for d in ("normal", "full")
    ]
    if theirs:
        named.append(("ALMA `learn`", theirs[small], theirs[large]))
    for name, early, late in named:
        first, last = statistics.median(early), statistics.median(late)
        yield Result(
            f"{name}: p50 after {large:,} against {small:,}",
            millis(last),
            f"after {small:,}: {millis(first)}",
            f"{last / first:.2f}",
            "" if name.startswith("ALMA") else "at most 1.3",
        )


def cost(folder: Path, scale: float) -> list[Result]:
    """Learning with all lessons against learning without them, in turn."""
    size, calls = max(500, int(5_000 * scale)), max(50, int(200 * scale))
    with ExitStack() as stack:
        memories = [
            stack.enter_context(Memory.open(folder / name, settings=Settings()))
            for name in ("with", "without")
        ]
        return list(costs("", memories[0], memories[1], size, calls))


def costs(engine: str, full: Memory, bare: Memory, size: int, calls: int) -> Iterator[Result]:
    """Yield what lessons cost in batches of 500, and in transactions of one episode."""
    batches: dict[str, list[float]] = {"with": [], "without": []}
    plain: dict[str, list[float]] = {"with": [], "without": []}
    spoken: dict[str, list[float]] = {"with": [], "without": []}
    memories = {"with": full, "without": bare}
    place, batch = 0, size // ROUNDS
    for times, many in ((batches, True), (plain, False), (spoken, False)):
        for round_ in range(ROUNDS):
            numbers = range(place, place + (batch if many else calls))
            place = numbers.stop
            for name in turned(["with", "without"], round_):
                memory = memories[name]
                with _learning(name):
                    if times is batches:
                        times[name].append(_batches(memory, attempts(numbers.start, numbers.stop)))
                    elif times is plain:
                        times[name].append(_one_by_one(memory, map(attempt, numbers)))
                    else:
                        times[name].append(_one_by_one(memory, map(told, numbers)))
    what = f"{engine}`learn_many` of one episode, with an error where it failed"
    yield _cost(what, plain, calls, "at most 2.5")
    words = "successes, or mistakes and a card"
    yield _cost(f"{engine}`learn_many` of one episode with {words}", spoken, calls, "at most 2.5")
    what = f"{engine}`learn_many`, every tenth with {words}"
    yield _cost(what, batches, batch, "at most 2.5")


def _cost(what: str, times: dict[str, list[float]], episodes: int, asked: str) -> Result:
    pairs = zip(times["with"], times["without"], strict=True)
    rates = {name: episodes / statistics.median(seconds) for name, seconds in times.items()}
    return Result(
        what,
        f"{rates['with']:,.0f}/s",
        f"{BUILT}: {rates['without']:,.0f}/s",
        f"takes {statistics.median(one / other for one, other in pairs):.2f} times as long",
        asked,
    )


LESSONS = (
    *("new_heuristics", "heuristics", "new_anti_patterns", "anti_patterns", "evidence", "failures"),
    *("new_rules", "listed", "rules", "new_mistakes", "carded", "mistakes"),
)
"""Parts of ``learning.add_many`` that write lessons."""


@contextmanager
def _learning(name: str) -> Iterator[None]:
    """Learn with lessons or without them."""
    if name == "with":
        yield
        return

    def facts(*given: Any) -> Any:
        added, crowded = parts(*given)
        return {name: part for name, part in added.items() if name not in LESSONS}, crowded

    with mock.patch("graphmem.episodes.learning.parts", facts):
        yield


def heuristics(folder: Path, scale: float) -> list[Result]:
    """How many heuristics come out of what is plain to see."""
    base = {"task": "deploy service", "task_type": "deployment", "agent": "agent", "error": None}
    equal = [{**base, "strategy": "roll out by halves", "success": True}] * 20
    turns = [
        {**base, "strategy": strategy, "success": True}
        for _ in range(50)
        for strategy in ("roll out by halves", "switch traffic at once")
    ]
    wrong = {**base, "strategy": "stop everything", "success": False, "error": "port 80 in use"}
    cases = (
        ("20 equal successes", equal, "1; 18"),
        ("two strategies in turn, 50 successes each", turns, "2; 0"),
    )
    results = []
    with alma(len(cases) + 1) as workers:
        for place, (what, given, asked) in enumerate(cases):
            baseline = ""
            if workers:
                workers[place].ask("open", str(folder / f"alma{place}"))
                workers[place].ask("learn", given)
                baseline = f"ALMA: {workers[place].ask('heuristics')}"
            with Memory.open(folder / f"{place}", settings=Settings()) as memory:
                learned(memory, given)
                found = memory.lessons.heuristics()
            held = ", ".join(f"{row.successes} of {row.trials} {row.status}" for row in found)
            figure = f"{len(found)} ({held})"
            results.append(Result(f"heuristics from {what}", figure, baseline, "", asked))
        with Memory.open(folder / "guard", settings=Settings()) as memory:
            learned(memory, [wrong] * 20)
            kept = memory.strategies()[0].trials
        baseline = ""
        if workers:
            workers[-1].ask("open", str(folder / "guard of alma"))
            number = workers[-1].ask("guarded", [wrong] * 20)
            baseline = f"ALMA with its write guard as it comes: {number}"
    return [*results, Result("of 20 equal failures, learned", f"{kept}", baseline, "", "")]


def context(folder: Path, scale: float) -> list[Result]:
    """Contexts after a long history: of many tasks, and of a single one."""
    size, calls = max(1_000, int(SIZES[-1] * scale)), max(30, int(200 * scale))
    with Memory.open(folder / "many", settings=Settings()) as memory:
        memory.learn_many(attempts(0, size))
        results = contexts("", memory, size, calls, "10 ms")
    with Memory.open(folder / "one", settings=Settings()) as memory:
        memory.learn_many(attempts(0, size, task=0))
        task = wording(0)
        seconds, text = _contexts(memory, [task] * calls)
    assert "works on this task" in text, text
    what = f"`context` of a task with all {size:,} episodes, p50"
    return [*results, Result(what, millis(statistics.median(seconds)), "", "", "10 ms")]


def contexts(engine: str, memory: Memory, size: int, calls: int, asked: str) -> list[Result]:
    """Return how long contexts take: of known tasks, and of tasks that are not known."""
    memory.lessons.consolidate(force=True)
    chance = random.Random(5)
    held = (
        f"{len(memory.lessons.heuristics()):,} heuristics, "
        f"{len(memory.lessons.anti_patterns()):,} anti-patterns, "
        f"{len(memory.lessons.rules()):,} rules, "
        f"{len(memory.lessons.mistakes(limit=1_000_000)):,} mistakes"
    )
    known = [wording(chance.randrange(TASKS)) for _ in range(calls)]
    new = [f"{chance.choice(list(TYPES.values()))} X{number}" for number in range(calls)]
    results = []
    for name, tasks in ((KNOWN, known), (UNKNOWN, new)):
        seconds, text = _contexts(memory, tasks)
        assert "works on such tasks" in text, text
        what = f"{engine}`context` after {size:,} episodes ({held}): {name}, p50"
        slow = statistics.quantiles(seconds, n=20)[-1]
        figure = f"{millis(statistics.median(seconds))} (p95 {millis(slow)})"
        results.append(Result(what, figure, "", "", asked))
    return results


def _contexts(memory: Memory, tasks: Iterable[str]) -> tuple[list[float], str]:
    """Return the seconds of contexts, and the last."""
    text, seconds = memory.context("warm up"), []
    for task in tasks:
        started = time.perf_counter()
        text = memory.context(task)
        seconds.append(time.perf_counter() - started)
    return seconds, text


_keys = itertools.count()


def learned(memory: Memory, given: Iterable[dict[str, Any]]) -> list[float]:
    """Learn one by one; return the seconds of each."""
    seconds = []
    for fields in list(given):
        key = f"call/{next(_keys)}"
        started = time.perf_counter()
        memory.learn(**fields, source_key=key)
        seconds.append(time.perf_counter() - started)
    return seconds


def _one_by_one(memory: Memory, given: Iterable[dict[str, Any]]) -> float:
    """Learn episodes in a transaction each; return the seconds."""
    episodes = [Episode(**fields, source_key=f"call/{next(_keys)}") for fields in given]
    started = time.perf_counter()
    for episode in episodes:
        memory.learn_many([episode])
    return time.perf_counter() - started


def _batches(memory: Memory, given: Iterable[Episode]) -> float:
    episodes = list(given)
    started = time.perf_counter()
    memory.learn_many(episodes)
    return time.perf_counter() - started


def speed(seconds: Sequence[float]) -> str:
    return f"p50 {millis(statistics.median(seconds))}, {len(seconds) / sum(seconds):,.0f}/s"


def _times(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Return how many times as fast: by the medians, and by the rates."""
    rate = statistics.mean(theirs) / statistics.mean(ours)
    return f"{statistics.median(theirs) / statistics.median(ours):.1f} times (rates: {rate:.1f})"


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "lessons_learn": learn,
    "lessons_cost": cost,
    "lessons_heuristics": heuristics,
    "lessons_context": context,
}
