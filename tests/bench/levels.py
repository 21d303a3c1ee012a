"""What levels cost in the embedded engine: `add` and `recall`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from secrets import token_hex

import kglite

from graphmem import Memory, Tags
from graphmem.graph.graph import Graph, Transaction
from graphmem.levels.entries import row_of, store
from graphmem.models.levels import NewEntry
from graphmem.search.embedding import open_embedder
from graphmem.store.port import Row
from tests.bench.report import Result, benchmark, call_result, p50

SIZES = (1_000, 100_000)
CALLS = 1_000
BATCH = 5_000
NOTES = "task:bench:notes"
TAGS = ["kind:note"]
BARE = (
    "MATCH (l:Level {id: $level}) MATCH (t:Stream {id: $stream}) "
    "SET t.last = t.last + 1 WITH l, t.last AS seq "
    "CREATE (e:Entry {id: $id, ns: $ns, created_at: $now, level: $level, content: $content, "
    "format: 'text', text: $content, tags: $tags, tagset: $tagset, metadata: '{}', base: 1.0, "
    "at: $now, reads: 0, seq: seq})-[:IN]->(l) "
    "CREATE (:Event {id: $stream + ':' + toString(seq), ns: $ns, created_at: $now, "
    "stream: $stream, seq: seq, kind: 'entry', subject: $id, value: 1.0, at: $now}) "
    "RETURN seq"
)
"""What is written of an entry, and no more: a node, an edge, an event and its number."""
TURNS = {"in turn, call by call": 1, "in turn, 100 calls each": 100}


@benchmark("levels_add")
def adding(folder: Path, scale: float) -> list[Result]:
    """Return how many entries a second of processor time are added to a small and a large level."""
    calls = max(100, int(CALLS * scale))
    bare = _bare(folder / "bare")
    results = []
    with _memory(folder / "g") as memory:
        for size in (int(SIZES[0] * scale), int(SIZES[1] * scale)):
            _fill(memory, size)
            for what, turn in TURNS.items():
                rate, least = _rates(
                    turn, calls, lambda text: memory.levels.add(NOTES, text, tags=TAGS), bare
                )
                results.append(
                    Result(
                        f"`levels.add`, after {size:,} entries, {what}",
                        f"{rate:,.0f}/s",
                        f"bare session, the same nodes and edge: {least:,.0f}/s",
                        f"{rate / least:.2f}",
                        ".6; the same at each size",
                    )
                )
    return results


def _rates(turn: int, calls: int, *ways: Callable[[str], object]) -> list[float]:
    """Return how many calls of each way fit into a second of processor time."""
    spent = [0.0] * len(ways)
    for start in range(0, calls, turn):
        for place, call in enumerate(ways):
            began = time.process_time()
            for number in range(start, start + turn):
                call(f"note {number}")
            spent[place] += time.process_time() - began
    return [calls / seconds for seconds in spent]


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


def _bare(folder: Path) -> Callable[[str], object]:
    """Return what writes an entry in a session without graphmem, as durably."""
    folder.mkdir()
    session = kglite.open_session(str(folder / "graph.kgl"), durable="normal")
    where = {"level": token_hex(16), "stream": token_hex(16)}
    session.execute("CREATE (:Level {id: $level}), (:Stream {id: $stream, last: 0})", params=where)

    def add(text: str) -> object:
        given = {"id": token_hex(16), "ns": "bare", "now": time.time_ns() // 1_000_000}
        tags = {"tags": TAGS, "tagset": json.dumps(TAGS)}
        return session.execute(BARE, params={**where, **given, **tags, "content": text})

    return add
