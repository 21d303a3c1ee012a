"""Logs of Inspect: what its own writer writes, damaged files, and zip files that are traps."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from graphmem import Memory
from graphmem.errors import SeedingError
from graphmem.seeding import Refused
from graphmem.seeding.formats import detect, find
from graphmem.seeding.inspect import FORMAT
from tests.faults.learner import run_program
from tests.seeding.samples import INSPECT, packed
from tests.seeding.test_seeding import reasons as refused
from tests.seeding.test_seeding import records, seeded

SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": "What is x?",
    "target": "GOLD",
    "messages": [{"role": "user", "content": "What is x?"}, {"role": "assistant", "content": "42"}],
    "scores": {"match": {"value": "C"}},
    "flavour": "kept",
}
EVAL = INSPECT["eval"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One log in each form, by Inspect itself."""
    folder = tmp_path_factory.mktemp("inspect")
    done = run_program("from tests.seeding.inspect_logs import main; main()", str(folder))
    assert done.returncode == 0, done.stderr
    told = [line.split(" ", 1) for line in done.stdout.splitlines()]
    return {form: Path(path) for form, path in told if form in ("eval", "json", "chunks")}


def log(*samples: dict[str, Any]) -> bytes:
    """A log of samples as a zip file."""
    named = {f"samples/{number}_epoch_1.json": one for number, one in enumerate(samples)}
    return packed({"header.json": {"eval": EVAL}, **named})


read = partial(records, "inspect")
reasons = partial(refused, "inspect")


@pytest.mark.parametrize("form", ["eval", "json"])
def test_what_inspect_writes_is_learned(memory: Memory, logs: dict[str, Path], form: str) -> None:
    report = seeded(memory, logs[form], evaluator="includes")
    assert (report.created, report.refused) == (4, 0)
    assert seeded(memory, logs[form], evaluator="includes").skipped == 4

    stats = memory.stats()
    assert (stats.episodes, stats.successes, stats.tasks, stats.agents) == (4, 3, 2, 1)
    rows = {row.text: (row.trials, row.successes) for row in memory.strategies()}
    assert rows == {"look_up": (3, 2), "no tools": (1, 0)}  # one look-up failed, its run did not
    assert memory.verify().ok


def test_steps_are_calls_with_what_they_returned_or_raised(logs: dict[str, Path]) -> None:
    [_, told, *_] = sorted(
        read(logs["eval"].read_bytes()), key=lambda one: str(one.fields["source_key"])
    )
    assert told.fields["task_type"] == "lookups"
    assert told.fields["agent"] == "generate"
    assert told.model == "mockllm/model"
    made = {one.fields["task"]: one for one in read(logs["json"].read_bytes())[:2]}
    good, bad = made["What is x?"].fields, made["What is z?"].fields
    assert good["extra"]["metadata"] == {"level": "easy"}
    assert [step.action_type for step in good["steps"]] == ["look_up", "respond"]
    assert good["steps"][0].observation.startswith("x is 42. More is known of it.")
    assert bad["steps"][0].error == "z is secret."
    assert made["What is x?"].outcomes == {"includes": True, "brief": 0.25, "taste.tone": 0.5}


@pytest.mark.parametrize(
    ("value", "outcome"),
    [
        *(("C", True), ("I", False), ("N", False), ("P", 0.5), (0, 0.0), (1, 1.0), (0.3, 0.3)),
        *((True, True), ("yes", True), ("No", False)),
        *((other, None) for other in (7, -1, "good", None, [1, 1], float("nan"))),
    ],
)
def test_values_of_scores(value: Any, outcome: bool | float | None) -> None:
    [one] = read(log({**SAMPLE, "scores": {"match": {"value": value}}}))
    assert one.outcomes == ({} if outcome is None else {"match": outcome})
    assert type(one.outcomes.get("match")) is type(outcome)
    assert (one.unknown is None) == (outcome is not None)
    assert one.fields["extra"]["flavour"] == "kept"
    assert "GOLD" not in str(one)


def test_an_error_is_no_outcome(unstored: Memory, tmp_path: Path) -> None:
    failed = {**SAMPLE, "scores": {}, "error": {"message": "no connection"}}
    (path := tmp_path / "log.eval").write_bytes(log(failed, {**SAMPLE, "id": 2}))
    report = seeded(unstored, path)
    assert (report.created, report.refused) == (1, 1)
    assert "an error ended it" in report.refusals[0].reason
    report = seeded(unstored, path, outcomes={"1": False})
    assert (report.created, report.skipped) == (1, 1)
    assert "was invalidated" in reasons(log({**SAMPLE, "invalidation": {"reason": "x"}}))[0]


def test_texts_that_are_stored_apart_are_put_in() -> None:
    asked = {"role": "user", "content": "attachment://cd"}
    attached = {"messages": [asked, {"role": "assistant", "content": "attachment://ab"}]}
    beside = {"attachments": {"ab": "long", "cd": "asked", "ef": "unused"}}
    [one] = read(log({**SAMPLE, **attached, "input": [asked], **beside}))
    assert one.fields["task"] == "asked"
    assert [step.action for step in one.fields["steps"]] == ["long"]


def test_a_run_that_did_not_end_is_read_by_its_journal() -> None:
    made = {"_journal/start.json": {"eval": EVAL}, "samples/1_epoch_1.json": SAMPLE}
    assert len(read(packed(made))) == 1
    with pytest.raises(SeedingError, match=r"no header\.json"):
        read(packed({"samples/1_epoch_1.json": SAMPLE}))
    with pytest.raises(SeedingError, match="does not say its task"):
        read(packed({"header.json": {"eval": {}}, "samples/1_epoch_1.json": SAMPLE}))
    with pytest.raises(SeedingError, match="does not say its task"):
        read(json.dumps({"samples": [SAMPLE], "eval": EVAL}).encode())


def test_files_are_recognised(logs: dict[str, Path]) -> None:
    for path in logs.values():
        assert detect(path.read_bytes()[:65_536], "log").name == "inspect"
    assert detect(log(SAMPLE), "log").name == "inspect"
    assert not FORMAT.detect(packed({"other.json": {}}))
    assert find("inspect") is FORMAT


def test_samples_in_parts_are_refused_with_the_remedy(logs: dict[str, Path]) -> None:
    """Inspect can cut large samples into members."""
    if "chunks" not in logs:
        pytest.skip("this Inspect writes none")
    told = reasons(logs["chunks"].read_bytes())
    assert len(told) == 4
    assert all("put it together by `inspect log convert`" in reason for reason in told)


def test_a_damaged_member_does_not_stop_the_others() -> None:
    made = {
        "header.json": {"eval": EVAL},
        "samples/1_epoch_1.json": b'{"id": 1, "epoch": ',
        "samples/2_epoch_1.json": {**SAMPLE, "messages": [{"role": "assistant", "tool_calls": 5}]},
        "samples/3_epoch_1.json": b"[1]",
        "samples/4_epoch_1/sample.json": {"id": 4, "message_refs": [[0, 10**12]]},
        "samples/5_epoch_1.json": {**SAMPLE, "more": "\ud800"},
        "samples/6_epoch_1.json": SAMPLE,
    }
    found = read(packed(made))
    assert [type(one) for one in found].count(Refused) == 4
    assert len(found) == 6
    whole = packed(made)
    for cut in (len(whole) // 2, len(whole) - 10):
        with pytest.raises(SeedingError, match="cut off or damaged"):
            read(whole[:cut])


def test_names_that_lead_out_and_strange_packings_are_refused() -> None:
    made = {"header.json": {"eval": EVAL}, "samples/../../x_epoch_1.json": SAMPLE}
    assert "leads out of the zip file" in reasons(packed(made))[0]
    strange = packed({"header.json": {"eval": EVAL}, "samples/1_epoch_1.json": SAMPLE})
    large = packed({"samples/1_epoch_1.json": SAMPLE}, zipfile.ZIP_LZMA)
    assert read(strange)
    with pytest.raises(SeedingError, match=r"no header\.json"):
        read(large)
    both = io.BytesIO(strange)
    with zipfile.ZipFile(both, "a", zipfile.ZIP_BZIP2) as more:
        more.writestr("samples/2_epoch_1.json", json.dumps(SAMPLE))
    assert "is packed by method 12" in reasons(both.getvalue())[0]


def test_zip_bombs_end_where_they_become_too_large() -> None:
    body = b"{" + b" " * 30_000_000 + json.dumps(SAMPLE).encode()[1:]
    bomb = packed({"header.json": {"eval": EVAL}, "samples/1_epoch_1.json": body})
    with pytest.raises(SeedingError, match="times its size"):
        read(bomb, ratio=20)
    with pytest.raises(SeedingError, match="limit of a file"):
        read(bomb, file=20_000_000, ratio=10_000)
    assert not reasons(bomb, ratio=10_000)
    text = {**SAMPLE, "input": "x" * 20_000}
    assert "limit of a text" in reasons(log(text, SAMPLE), text=10_000)[0]
    long = {**SAMPLE, "one": ["x" * 900] * 10, "two": ["x" * 900] * 10}
    assert "limit of a record" in reasons(log(long, SAMPLE), record=12_000)[0]
    many = {**SAMPLE, "one": [[]] * 300, "two": [[]] * 300}
    assert "values, the limit of a record" in reasons(log(many), record=8_000)[0]
    passed = {**SAMPLE, "store": "x" * 20_000, "events": [{"event": "model", "x": "x" * 20_000}]}
    assert not reasons(log(passed), text=10_000, record=12_000)
    entries = packed({f"samples/{number}": b"" for number in range(200)})
    with pytest.raises(SeedingError, match="directory"):
        read(entries, record=20_000)


def zstd(content: bytes) -> bytes:
    """The log with its members packed by zstd, in two frames each."""
    import zipfile_zstd  # type: ignore[import-untyped] # noqa: F401 - teaches zipfile

    return packed({**members(content)}, 93)


def members(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def test_members_packed_by_zstd_are_read_and_damaged_ones_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = zstd(log(SAMPLE, {**SAMPLE, "id": 2}))
    assert [one.fields["task_key"] for one in read(content)] == ["lookups/1", "lookups/2"]
    at = content.index(zstandard.FRAME_HEADER, content.index(b"samples/1_epoch_1.json"))
    damaged = content[: at + 6] + b"\xff" * 30 + content[at + 36 :]
    assert "is damaged" in reasons(damaged)[0]
    big = b"{" + b" " * 30_000_000 + json.dumps(SAMPLE).encode()[1:]
    bomb = zstd(packed({"header.json": {"eval": EVAL}, "samples/1_epoch_1.json": big}))
    with pytest.raises(SeedingError, match="times its size"):
        read(bomb)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    if sys.version_info < (3, 14):
        with pytest.raises(SeedingError, match=r"pip install -e '\.\[inspect\]'"):
            read(content)
