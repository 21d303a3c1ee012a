"""Reading traces: how many spans a second, and in how much memory.

The file is what exporters of eight agents at once write: exports of 64 spans, those of one run in
several of them, and each run begun before the last one ended.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from graphmem import Memory
from graphmem.models.reports import LearnReport
from tests.bench.report import Result, apart, benchmark
from tests.faults.attack import peak

SIZE = 999_000_000
"""Bytes of the file at full scale: what GRAPHMEM_MAX_FILE allows."""
AT_ONCE = 8
EXPORT = 64


@benchmark("otlp")
def otlp(folder: Path, scale: float) -> list[Result]:
    """Read a file of traces without learning what is in it, in a process of its own."""
    path = folder / "traces.jsonl"
    return apart(_read, path, *write(path, int(SIZE * scale)))


def _read(path: Path, spans: int, runs: int, size: int) -> list[Result]:
    before = peak()
    start, cpu = time.perf_counter(), time.process_time()
    with _Counting.open("memory:") as memory:
        report = memory.seed(path)
    took, used = time.perf_counter() - start, time.process_time() - cpu
    assert (report.created, report.refused) == (runs, 0), report.refusals[:3]
    return [
        Result(
            f"otlp: spans read, {size / 1e9:.2g} GB",
            f"{spans / took:,.0f}/s",
            f"{spans / used:,.0f}/s of processor time",
            "",
            "10,000/s",
        ),
        Result(
            f"otlp: memory, {spans:,} spans of {runs:,} runs",
            f"{peak():,} MB",
            f"{before:,} MB before",
            "",
            "under 200 MB",
        ),
    ]


class _Counting(Memory):
    """A memory that learns nothing: what is measured is the reading."""

    def learn_many(
        self, episodes: Iterable[Any], *, on_progress: Any = None, **_: Any
    ) -> LearnReport:
        created = 0
        for _one in episodes:
            created += 1
            on_progress(1)
        return LearnReport(created=created, skipped=0)


def write(path: Path, size: int) -> tuple[int, int, int]:
    """Write traces until the file has its size; return its spans, runs and bytes."""
    chance = random.Random(7)
    spans = written = 0
    running: list[Iterator[dict[str, Any]]] = []
    runs = 0
    waiting: list[dict[str, Any]] = []
    with path.open("w", encoding="utf-8") as file:
        while running or written < size:
            while len(running) < AT_ONCE and written < size:
                running.append(run(runs, chance))
                runs += 1
            one = chance.choice(running)
            span = next(one, None)
            if span is None:
                running.remove(one)
            else:
                waiting.append(span)
            if len(waiting) == EXPORT or (waiting and not running and written >= size):
                line = {"resourceSpans": [{"scopeSpans": [{"spans": waiting}]}]}
                written += file.write(json.dumps(line, separators=(",", ":")) + "\n")
                spans += len(waiting)
                waiting = []
    return spans, runs, written


def run(number: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    """Yield the spans of a run of four tools, children first, as exporters do."""
    trace = f"{chance.getrandbits(128) | 1:032x}"
    root = f"{chance.getrandbits(64) | 1:016x}"
    start = 1_790_000_000_000_000_000 + number * 1_000_000_000
    asked = f"Answer question number {number % 5_000} about the orders of last week"
    said = [{"role": "user", "parts": [{"type": "text", "content": asked}]}]

    def span(identity: str, parent: str, at: int, name: str, **given: Any) -> dict[str, Any]:
        attributes = [
            {"key": key.replace("__", "."), "value": {"stringValue": value}}
            for key, value in given.items()
        ]
        return {
            "traceId": trace,
            "spanId": identity,
            "parentSpanId": parent,
            "name": name,
            "kind": 1,
            "attributes": attributes,
            "status": {},
            "startTimeUnixNano": str(start + at),
            "endTimeUnixNano": str(start + at + 900_000),
        }

    for place in range(4):
        said.append({"role": "assistant", "parts": [{"type": "text", "content": "x" * 400}]})
        yield span(
            f"{chance.getrandbits(64) | 1:016x}",
            root,
            place * 2_000_000,
            "chat small",
            gen_ai__operation__name="chat",
            gen_ai__request__model="small",
            gen_ai__response__id=f"{trace}-{place}",
            gen_ai__input__messages=json.dumps(said),
        )
        yield span(
            f"{chance.getrandbits(64) | 1:016x}",
            root,
            place * 2_000_000 + 1_000_000,
            "execute_tool sql",
            gen_ai__operation__name="execute_tool",
            gen_ai__tool__name=("schema", "sql", "count", "plot")[(number + place) % 4],
            gen_ai__tool__call__arguments=json.dumps({"statement": "SELECT 1", "place": place}),
            gen_ai__tool__call__result="row " * 100,
        )
    ended = span(
        root,
        "",
        0,
        "invoke_agent analyst",
        gen_ai__operation__name="invoke_agent",
        gen_ai__agent__name="analyst",
        gen_ai__conversation__id=f"conversation {number // 3}",
        gen_ai__input__messages=json.dumps(said[:1]),
        gen_ai__output__messages=json.dumps(said[-1:]),
    )
    judged = {"gen_ai.evaluation.name": "correct", "gen_ai.evaluation.score.label": "pass"}
    told = [{"key": key, "value": {"stringValue": value}} for key, value in judged.items()]
    event = {"name": "gen_ai.evaluation.result", "timeUnixNano": str(start), "attributes": told}
    yield {**ended, "events": [event]}
