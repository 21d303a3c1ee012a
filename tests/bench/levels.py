"""What levels cost in the embedded engine: `add`, a `tick`, `recall` and the map."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import kglite

from graphmem import Memory, Tags
from graphmem.graph.graph import Graph, Transaction
from graphmem.levels.entries import row_of, store
from graphmem.models.levels import NewEntry
from graphmem.search.embedding import open_embedder
from graphmem.store.port import Row
from tests.bench.loop_speed import p50
from tests.bench.report import Result

SIZES = (1_000, 100_000)
CALLS = 1_000
FLOWING = 10_000
LEVELS = 1_000
BATCH = 5_000
NOTES = "task:bench:notes"
BARE = (
    "MATCH (l:Level {id: 'notes'}) SET l.last = l.last + 1 WITH l "
    "CREATE (e:Entry {id: $id, ns: 'bare', created_at: $now, content: $text, text: $text, "
    "tags: ['kind:note'], base: 1.0, at: $now, reads: 0})-[:IN]->(l) "
    "CREATE (:Event {id: 'event ' + $id, ns: 'bare', created_at: $now, kind: 'entry', "
    "subject: $id, seq: l.last}) RETURN e.id AS id"
)
"""What is written of an entry: a node, an edge, and an event."""


def adding(folder: Path, scale: float) -> list[Result]:
    """Return how many entries a second are added to a small level and to a large one."""
    calls = max(100, int(CALLS * scale))
    bare = _bare(folder / "bare", calls)
    results = []
    with _memory(folder / "g") as memory:
        for size in (int(SIZES[0] * scale), int(SIZES[1] * scale)):
            _fill(memory, size)
            began = time.perf_counter()
            for number in range(calls):
                memory.levels.add(NOTES, f"note {size} {number}", tags=["kind:note"])
            rate = calls / (time.perf_counter() - began)
            results.append(
                Result(
                    f"`levels.add`, after {size:,} entries",
                    f"{rate:,.0f}/s",
                    f"bare session, the same node, edge and event: {bare:,.0f}/s",
                    f"{rate / bare:.2f}",
                    ".6; the same at each size",
                )
            )
    return results


def ticking(folder: Path, scale: float) -> list[Result]:
    """Return how fast entries flow through three levels, and what a tick costs that has none."""
    count = max(100, int(FLOWING * scale))
    names = [f"task:bench:{name}" for name in ("first", "second", "third")]
    with _memory(folder / "g") as memory:
        levels = memory.levels
        for name in names:
            levels.put(name)
        levels.pull(names[1], names[0], transformer="dedup")
        levels.pull(names[2], names[1], transformer="count")
        _fill(memory, count, names[0], lambda number: f"entry {number % (count // 2)}")
        began = time.perf_counter()
        report = levels.tick()
        took = time.perf_counter() - began
        flowed = sum(one.ingested for one in report.subscriptions)
        idle = median(_spent(levels.tick) for _ in range(200))
    return [
        Result(
            f"`levels.tick`, {count:,} entries through dedup and count, {flowed:,} ingested",
            f"{count / took:,.0f} entries/s",
            "",
            "",
            "2,000/s",
        ),
        Result("`levels.tick`, nothing pending, p50", f"{idle:.2f} ms", "", "", "2 ms"),
    ]


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
        Result(
            f"`levels.recall` of {size:,} entries, {what}",
            f"p50 {passed:.1f} ms, processor {spent:.1f} ms",
            "",
            "",
            "p50 under 20 ms",
        )
        for what, (passed, spent) in took.items()
    ]


def mapping(folder: Path, scale: float) -> list[Result]:
    """Return what the map of many levels costs."""
    count = max(10, int(LEVELS * scale))
    with _memory(folder / "g") as memory:
        for number in range(count):
            memory.levels.put(f"task:{number}:notes")
        took = median(_spent(memory.levels.map) for _ in range(5))
    return [Result(f"`levels.map` of {count:,} levels, p50", f"{took:.0f} ms", "", "", "100 ms")]


def _memory(folder: Path) -> Memory:
    memory = Memory.open(folder, embedder=open_embedder("hashing"))
    memory.levels.put(NOTES)
    return memory


def _fill(
    memory: Memory,
    size: int,
    name: str = NOTES,
    text: Callable[[int], str] = "what came as number {}".format,
) -> None:
    """Store entries in a level until it has so many."""
    graph = Graph(memory.store, memory.namespace, memory.settings)
    held = memory.levels.info(name).entries
    for start in range(held, size, BATCH):
        rows = [
            row_of(
                memory.namespace,
                name,
                NewEntry(content=text(number), tags=(f"part:{number % 50}", f"half:{number % 2}")),
                graph.now(),
            )
            for number in range(start, min(start + BATCH, size))
        ]
        graph.transact(partial(_stored, name=name, rows=rows))


def _stored(tx: Transaction, name: str, rows: list[Row]) -> None:
    store(tx, name, rows)


def _bare(folder: Path, calls: int) -> float:
    """Return how many entries a second a session writes without graphmem."""
    folder.mkdir()
    with kglite.open_session(str(folder / "graph.kgl"), durable="normal") as session:
        session.execute("CREATE (:Level {id: 'notes', last: 0})")
        began = time.perf_counter()
        for number in range(calls):
            session.execute(BARE, params={"id": str(number), "text": f"note {number}", "now": 0})
        took = time.perf_counter() - began
    return calls / took


def _spent(call: Callable[[], object]) -> float:
    """Return the time of a call in milliseconds."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1_000


BENCHMARKS: dict[str, Callable[[Path, float], list[Result]]] = {
    "levels_add": adding,
    "levels_tick": ticking,
    "levels_recall": recalling,
    "levels_map": mapping,
}
