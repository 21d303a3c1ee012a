"""What levels cost in the embedded engine: `add` and `recall`."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from graphmem import Memory, Tags
from graphmem.graph.graph import Graph
from graphmem.levels.entries import row_of, store
from graphmem.models.levels import NewEntry
from graphmem.search.embedding import open_embedder
from tests.bench.report import Result, benchmark, call_result, p50

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
