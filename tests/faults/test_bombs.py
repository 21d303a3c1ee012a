"""Small files that would become large: every format and file within 400 MB."""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from graphmem import Memory
from graphmem.errors import SeedingError
from graphmem.seeding import seed, sources
from graphmem.seeding.reading import Limits
from tests.faults.attack import LONG, rounds
from tests.faults.learner import REPOSITORY

MOST = 400
"""Megabytes that a process may take."""
SIZE = rounds(17, 450) * 1_000_000
"""Bytes of a bomb, unpacked; in an attack more than a process may take."""
BLOCK = 400_000

HEADS = {
    "tau-bench": (
        b'[{"task_id": 1, "reward": 1.0, "info": {"task": {"instruction": "x"}}, "traj": [],'
        b' "more": ',
        b"}]",
    ),
    "intercode": (
        b'{"0": {"task_id": 7, "query": "q", "turn_history": {"actions": ["SELECT 1"]},'
        b' "summary": {"max_reward": 1.0}, "more": ',
        b"}}",
    ),
    "sentinel": (b'{"episode_log": [{"task_id": "t", "score": 1, "more": ', b"}]}"),
    "beside": (b'{"episode_log": [{"task_id": "t", "score": 1}], "more": ', b"}"),
    "jsonl": (b'{"task": "t", "strategy": "s", "success": true, "extra": {"more": ', b"}}\n"),
    "inspect": (
        b'{"version": 2, "status": "success", "eval": {"run_id": "r", "task": "t"}, "samples": ['
        b'{"id": 1, "epoch": 1, "input": "x", "scores": {"s": {"value": "C"}}, "more": ',
        b"}]}",
    ),
    "langfuse": (
        b'[{"id": "t", "timestamp": "", "observations": [], "scores": [{"name": "s", "value": 1}],'
        b' "more": ',
        b"}]",
    ),
    "otlp": (
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "invoke_agent", "more": ',
        b"}]}]}]}\n",
    ),
}
"""What stands around a bomb in each format."""
READ_ALIKE = ("tau-bench", "intercode", "beside", "inspect", "langfuse")
"""Formats that are read as another one is."""
_BODIES: dict[str, tuple[bytes, bytes, bytes]] = {
    "lists": (b"", b"[", b""), "nothing": (b"[", b"[],", b"0]"),
    "escapes": (b'"', rb"\u00e9", b'"'), "spaces": (b"", b" ", b"[" * 200),
    "objects": (b"", b'{"a":', b""), "digits": (b"", b"1", b""), "text": (b'"', b"a", b'"'),
    "quotes": (b'"', rb"\"", b'"'), "names": (b"{", b'"a":{},', b'"b":0}'),
    "texts": (b"[", b'"a",', b"0]"),
}  # fmt: skip
"""How a bomb begins, goes on and ends."""


def bodies(name: str) -> dict[str, tuple[bytes, bytes, bytes]]:
    """Return four bombs of lines, two of others; in an attack each format has four in turn."""
    first, *others = _BODIES
    start = 3 * list(HEADS).index(name) if LONG else 0
    more = 3 if LONG or name == "jsonl" else 1
    kinds = [first, *(others[(start + number) % len(others)] for number in range(more))]
    return {kind: _BODIES[kind] for kind in kinds}


def blocks(unit: bytes, size: int) -> Iterator[bytes]:
    block = unit * (BLOCK // len(unit))
    for _ in range(size // len(block)):
        yield block


def bomb(path: Path, head: bytes, body: tuple[bytes, bytes, bytes], tail: bytes) -> Path:
    first, unit, last = body
    return packed(path, [head, first, blocks(unit, SIZE), last, tail])


def bombs(folder: Path, name: str) -> list[Path]:
    head, tail = HEADS[name]
    return [
        bomb(folder / f"{kind}.json.gz", head, body, tail) for kind, body in bodies(name).items()
    ]


def packed(path: Path, parts: Iterable[bytes | Iterator[bytes]]) -> Path:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts:
            for block in (part,) if isinstance(part, bytes) else part:
                file.write(block)
    return path


def peak(code: str, *arguments: str | Path) -> tuple[int, list[str]]:
    """Run code in a process that gets no more than 3 GB; return its megabytes and its lines."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))

    tell = "\nfrom tests.faults.attack import peak\nprint(peak())"
    done = subprocess.run(
        [sys.executable, "-c", code + tell, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=rounds(120, 3_000),
        check=False,
        preexec_fn=limit,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    *lines, megabytes = done.stdout.splitlines()
    return int(megabytes), lines


SEEDING = """
import sys
from graphmem import Memory
from graphmem.seeding import seed, sources
from graphmem.seeding.reading import Limits
limits = Limits(file=10**11, ratio=10**5)  # so that the other limits are what holds
with Memory.open("memory:") as memory:
    for path in sys.argv[1:]:
        report = seed(memory, sources([path]), limits=limits)
        print(report.created, report.refused)
"""
IMPORTING = """
import sys
from graphmem import Memory
from graphmem.errors import GraphMemError
from graphmem.seeding.reading import Limits
from graphmem.upkeep import exchange
exchange.Limits = lambda: Limits(file=10**11, ratio=10**5)
with Memory.open("memory:") as memory:
    for path in sys.argv[2:]:
        try:
            memory.upkeep.import_(path, sys.argv[1])
        except GraphMemError as error:
            print(memory.stats().episodes, error)
"""


def test_json_in_texts_of_a_trace_takes_no_more_either(tmp_path: Path) -> None:
    lines: list[str] = []
    for name in ("gen_ai.input.messages", "gen_ai.output.messages", "input.value", "output.value"):
        for text in ("[" * 6_000_000, "[" + "[]," * 3_900_000 + "0]"):
            told = {"gen_ai.operation.name": "invoke_agent", name: text}
            given = [{"key": key, "value": {"stringValue": told[key]}} for key in told]
            trace = f"{len(lines) + 1:032}"
            span = {"traceId": trace, "spanId": "1" * 16, "attributes": given}
            lines.append(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(lines))
    megabytes, [line] = peak(SEEDING, path)
    assert line == "0 8"
    assert megabytes < MOST


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name in READ_ALIKE)) for name in HEADS]
)
def test_no_log_takes_more_memory_than_it_may(name: str, tmp_path: Path) -> None:
    paths = bombs(tmp_path, name)
    megabytes, lines = peak(SEEDING, *paths)
    assert len(lines) == len(paths)
    assert ("0 1" in lines) == (name != "beside")  # what is beside episodes is passed over
    assert megabytes < MOST
    if name == "jsonl" or (LONG and name in ("sentinel", "beside")):
        form = "jsonl" if name == "jsonl" else "sentinel"
        paths = paths if LONG else paths[2:]  # reading them is the same, and has been tried
        megabytes, lines = peak(IMPORTING, form, *paths)
        assert [line.split()[0] for line in lines] == ["0"] * len(paths)
        assert all("nothing was imported" in line for line in lines)
        assert megabytes < MOST


def test_a_log_of_trials_without_an_end_takes_no_more_either(tmp_path: Path) -> None:
    head = b"BEGIN TRIAL 1\n----- BEGIN CORRECT AGENTS -----\nQuestion: what?\n"
    units = (
        *(b"a", b"Thought 1: a\nAction 1: b[c]\n", b"\nQuestion: x\nCorrect answer: y\n"),
        *(b"a\n", b"Reflections:\n", b"- a\n", b"\n"),
    )
    paths = [
        packed(tmp_path / f"{number}.json.gz", [head, blocks(unit, SIZE)])
        for number, unit in enumerate(units[: rounds(3, len(units))])
    ]
    megabytes, lines = peak(SEEDING, *paths)
    assert len(lines) == len(paths)
    assert megabytes < MOST


def test_a_record_over_a_limit_is_reported_and_the_others_are_learned(
    unstored: Memory, tmp_path: Path
) -> None:
    deep = json.loads("[" * 60 + "]" * 60)
    run = {"reward": 1, "info": {"task": {"instruction": "x"}}, "traj": []}
    runs = [
        {**run, "task_id": 1}, {**run, "task_id": 2, "more": deep},
        {**run, "task_id": 3, "more": "x" * 5_000}, {**run, "task_id": 4, "more": ["x" * 900] * 20},
        {**run, "task_id": 5, "more": [[]] * 800}, {**run, "task_id": 6},
    ]  # fmt: skip
    (log := tmp_path / "log.json").write_text(json.dumps(runs))
    limits = Limits(depth=50, text=4_000, record=12_000)
    report = seed(unstored, sources([str(log)]), limits=limits)
    assert (report.created, report.refused) == (2, 4)
    reasons = {item.record: item.reason for item in report.refusals}
    for number, limit in ((2, "levels"), (3, "a text"), (4, "a record"), (5, "values")):
        assert limit in reasons[number]


@pytest.mark.parametrize("name", HEADS)
def test_a_file_that_becomes_too_large_ends_there(
    unstored: Memory, name: str, tmp_path: Path
) -> None:
    head, tail = HEADS[name]
    path = bomb(tmp_path / "log.json.gz", head, _BODIES["spaces"], tail)
    for limits, limit in ((Limits(file=1_000_000), "of a file"), (Limits(ratio=20), "its size")):
        report = seed(unstored, sources([str(path)]), limits=limits)
        assert report.created == 0 or name == "beside"
        assert limit in report.refusals[-1].reason


@pytest.mark.parametrize("format_name", ["sentinel", "jsonl"])
def test_an_import_over_a_limit_imports_nothing(
    tmp_path: Path, format_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, tail = HEADS[format_name]
    good = [head + b"1" + tail] if format_name == "jsonl" else []
    path = packed(tmp_path / "in.json.gz", [*good, head, b'"', b"x" * 20_000, b'"', tail])
    for limit in ("text", "record", "file"):
        limits = Limits(**{limit: 10_000})
        monkeypatch.setattr("graphmem.upkeep.exchange.Limits", lambda limits=limits: limits)
        with Memory.open("memory:") as memory:
            with pytest.raises(SeedingError, match=f"of a {limit}.*nothing was imported"):
                memory.upkeep.import_(path, format_name)  # type: ignore[arg-type]
            assert memory.stats().episodes == 0
