"""Reading logs: how many records a second, and in how much memory.

The records of the first benchmark stand in graphmem's own lines, and in lines and a table of
another shape, which a field map reads. The file of traces is what exporters of eight agents at once
write: exports of 64 spans, those of one run in several of them, and each run begun before the last
one ended.
"""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from graphmem import Memory
from graphmem.models.reports import LearnReport
from tests.bench.report import Result, benchmark
from tests.faults.attack import peak

SIZE = 999_000_000
"""Bytes of the file at full scale: what GRAPHMEM_MAX_FILE allows."""
ROW = 240
"""Bytes of a run in the longest of its forms."""
AT_ONCE = 8
EXPORT = 64
RECORDS = 50_000
"""Records that are learned, of one file."""
MAP = "task=prompt,strategy=tool,success=ok,ended_at=ts,source_key={n}"


@benchmark("seeding")
def seeding(folder: Path, scale: float) -> Iterator[Result]:
    """Learn the same records from each form; then read large files of each without learning."""
    native = 0.0
    for form, (name, write_rows, given) in FORMS.items():
        path = folder / name
        write_rows(path, int(RECORDS * scale))
        start = time.perf_counter()
        with Memory.open(folder / f"{form}.graph") as memory:
            report = memory.seed(path, map=given)
        rate = report.created / (time.perf_counter() - start)
        native = native or rate
        yield Result(
            f"seeding: {report.created:,} records learned, {form}",
            f"{rate:,.0f}/s",
            f"{native:,.0f}/s for own lines",
            f"{rate / native:.2f}",
            "at least .8",
        )
        write_rows(path, int(SIZE / ROW * scale))
        size = path.stat().st_size
        told = _read(path, *([] if given is None else [given]))
        path.unlink()
        yield Result(
            f"seeding: read, {size / 1e9:.2g} GB, {form}",
            f"{told['runs'] / told['took']:,.0f}/s",
            f"{told['most']:,} MB at most",
            "",
            "under 400 MB",
        )


def _rows(count: int) -> Iterator[dict[str, Any]]:
    """Yield runs of some 200 bytes."""
    for number in range(count):
        asked = f"Answer question number {number % 500} about the orders of last week, " + "x" * 60
        tool = ("schema", "sql", "count", "plot")[number % 4]
        time_ = 1_790_000_000 + number
        row = {"n": f"run-{number}", "prompt": asked, "tool": tool}
        yield {**row, "ok": number % 3 > 0, "ts": time_}


def _write_lines(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in _rows(count))


def _write_table(path: Path, count: int) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["n", "prompt", "tool", "ok", "ts"])
        table.writeheader()
        table.writerows(row | {"ok": str(row["ok"]).lower()} for row in _rows(count))


def _write_own(path: Path, count: int) -> None:
    with path.open("w") as file:
        for row in _rows(count):
            moment = datetime.fromtimestamp(row["ts"], UTC).isoformat()
            own = {"task": row["prompt"], "strategy": row["tool"], "success": row["ok"]}
            file.write(json.dumps(own | {"ended_at": moment, "source_key": row["n"]}) + "\n")


FORMS: dict[str, tuple[str, Callable[[Path, int], None], str | None]] = {
    "own lines": ("own.jsonl", _write_own, None),
    "lines with a map": ("lines.jsonl", _write_lines, MAP),
    "a table with a map": ("table.csv", _write_table, MAP),
}


def _read(path: Path, *how: str) -> dict[str, Any]:
    """Read a file without learning what is in it, in a process of its own."""
    command = [sys.executable, "-m", "tests.bench.seeding", str(path), *how]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@benchmark("otlp")
def otlp(folder: Path, scale: float) -> list[Result]:
    """Read a file of traces without learning what is in it, in a process of its own."""
    path = folder / "traces.jsonl"
    spans, runs, size = write(path, int(SIZE * scale))
    told = _read(path)
    assert told["runs"] == runs, told
    path.unlink()
    return [
        Result(
            f"otlp: spans read, {size / 1e9:.2g} GB",
            f"{spans / told['took']:,.0f}/s",
            f"{spans / told['used']:,.0f}/s of processor time",
            "",
            "10,000/s",
        ),
        Result(
            f"otlp: memory, {spans:,} spans of {runs:,} runs",
            f"{told['most']:,} MB",
            f"{told['before']:,} MB before",
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


def main() -> None:
    """Read the file that the first argument names, by a map if there is one, and print the cost."""
    before = peak()
    start, cpu = time.perf_counter(), time.process_time()
    with _Counting.open("memory:") as memory:
        report = memory.seed(sys.argv[1], map=sys.argv[2] if sys.argv[2:] else None)
    took, used = time.perf_counter() - start, time.process_time() - cpu
    assert not report.refused, report.refusals[:3]
    told = {"runs": report.created, "took": took, "used": used}
    print(json.dumps(told | {"before": before, "most": peak()}))


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


if __name__ == "__main__":
    main()
