"""Files go in and come back as they were; nothing is half read, and nothing half written."""

from __future__ import annotations

import gzip
import json
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Step, StrategyUse
from graphmem.episodes.rows import read_contents
from graphmem.errors import (
    ConflictError,
    GraphMemError,
    NotFoundError,
    ScopeError,
    SeedingError,
    StorageError,
    ValidationError,
)
from graphmem.ids import canonical_json
from graphmem.kinds import FILE_FORMATS, FileFormat
from graphmem.seeding import seed, sources
from tests.conftest import Opener
from tests.contract.teaching import graph_of
from tests.faults.learner import content
from tests.seeding.test_sentinel import CARD, FORM

FILE: dict[str, Any] = {
    "episodes": [
        FORM,
        {**FORM, "score": 1, "steps": 7.0, "timestamp": "2026-05-01T12:00:00.123456Z"},
        {"task_id": 12, "score": 0.25, "mistakes": ["", " padded "], "worker": None, "n": 10**30},
        {"task_id": "t", "success": True, "agent_id": "overseer ", "timestamp": 1_777_636_800.5},
        {"task_id": "t", "score": 0.5, "mistake_cards": [{"type": "x", "lesson": [1]}, CARD]},
        FORM,
    ],
    "task_rules": {"t": ["[WORKS] something"]},
    "mistake_cards": [{**CARD, "seen_count": 40}],
    "score_history": [0.82, 1],
    "episodes_since_consolidation": 6,
    "anything": {"else": [1, 1.0, None, "\u00e9\u0000"]},
}


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: 1 is not 1.0, and the order of names does not count."""
    return canonical_json(one) == canonical_json(other)


def put(folder: Path, value: Any, name: str = "agent_memory.json") -> Path:
    (file := folder / name).write_text(json.dumps(value), encoding="utf-8")
    return file


def exported(memory: Memory, folder: Path, **options: Any) -> Any:
    memory.upkeep.export(folder / "out.json", "sentinel", **options)
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


def test_an_imported_file_comes_back_as_it_was(memory: Memory, tmp_path: Path) -> None:
    file = put(tmp_path, FILE)
    report = memory.upkeep.import_(file, "sentinel")
    assert (report.created, report.skipped, report.refused) == (6, 0, ())
    assert report.kept == tuple(name for name in FILE if name != "episodes")

    assert same(exported(memory, tmp_path), FILE)
    again = memory.upkeep.import_(file, "sentinel")
    assert (again.created, again.skipped) == (0, 6)
    assert same(exported(memory, tmp_path), FILE)
    assert memory.stats().episodes == 6
    assert memory.verify().ok
    memory.upkeep.rebuild()
    assert same(exported(memory, tmp_path), FILE)


def test_what_the_file_had_derived_is_kept_and_not_learned(memory: Memory, tmp_path: Path) -> None:
    memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    assert {str(rule) for rule in memory.lessons.rules("t")} == set()
    assert max(mistake.seen for mistake in memory.lessons.mistakes()) == 4  # not 40


names = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
labels = names.filter(lambda text: bool(text.strip()))
cards = st.builds(
    lambda known, unknown: {**unknown, **known},
    st.fixed_dictionaries(
        {"mistake_type": labels},
        optional={
            "task_id": st.none() | labels | st.integers(),
            "worker_id": st.none() | texts | st.booleans(),
            "correct_decision": texts,
            "evidence": json_values,
            "lesson": json_values,
        },
    ),
    st.dictionaries(names.filter(lambda name: name not in ("task", "worker")), json_values),
)
forms = st.builds(
    lambda known, unknown: {**unknown, **known},
    st.fixed_dictionaries(
        {"task_id": labels | st.integers(), "score": st.floats(0, 1) | st.sampled_from([0, 1])},
        optional={
            "steps": json_values,
            "trajectory_summary": st.none() | texts,
            "mistakes": st.none() | st.lists(texts, max_size=3),
            "successes": st.none() | st.lists(texts, max_size=3),
            "mistake_cards": st.none() | st.lists(cards, max_size=2),
            "timestamp": json_values | st.floats(0, 4e9) | st.datetimes().map(str),
            "agent": json_values,
            "success": json_values,
        },
    ),
    st.dictionaries(names.filter(lambda name: name not in ("graphmem", "episodes")), json_values),
)
documents = st.builds(
    lambda episodes, rest: {**rest, "episodes": episodes},
    st.lists(forms, max_size=4),
    st.dictionaries(names.filter(lambda name: name != "version"), json_values, max_size=4),
)


@hypothesis.settings(max_examples=40)
@hypothesis.given(document=documents)
def test_any_file_comes_back_as_it_was(document: Any, opened: Opener, tmp_path: Path) -> None:
    """Also through a second memory: what was exported is what is imported there."""
    memory = opened(f"{opened().namespace}-{os.urandom(4).hex()}")
    memory.upkeep.import_(put(tmp_path, document), "sentinel")
    assert same(exported(memory, tmp_path), document)
    with Memory.open("memory:") as other:
        other.upkeep.import_(tmp_path / "out.json", "sentinel", document="agent_memory")
        assert same(exported(other, tmp_path), document)
        assert other.verify().ok


def fill(memory: Memory) -> None:
    """Episodes of every kind, that no file holds."""
    chosen = StrategyUse("map", explore="thompson", candidates={"map": 0.6, "ask": 0.4})
    memory.learn("look", [chosen, "ask"], success=True, agent="ada", source_key="1", reward=7.0)
    memory.learn(
        "look",
        "map",
        score=0.25,
        task_type="search",
        error="lost",
        duration=1.5,
        steps=[Step(action={"go": 1}, state={"x": 1}, reward=0.5, next_state={"x": 2})],
        extra={"task_id": "mine", "graphmem": 1},
    )
    memory.learn_many(
        [
            {"task": "w", "task_key": "k", "strategy": [], "score": 0.95, "successes": ["s"]},
            {
                "task": "w",
                "strategy": [],
                "score": 0.1,
                "mistakes": ["m"],
                "mistake_cards": [{"type": "c", "lesson": "l", "extra": {"lesson": 5}}],
                "ended_at": "2026-05-01T12:00:00.250Z",
            },
        ]
    )
    memory.record_episode(FORM)
    memory.record_episode({**FORM, "episode_id": 5})


def test_episodes_from_elsewhere_make_a_file_that_gives_the_same_memory(
    memory: Memory, opened: Opener, tmp_path: Path
) -> None:
    fill(memory)
    file = exported(memory, tmp_path)
    assert file["version"] == 1
    for form in file["episode_log"]:
        assert {"timestamp", "task_id", "score", "steps", "summary"} <= form.keys()
    assert file["task_rules"]["k"] == ["[WORKS] s"]
    assert file["task_rules"]["w"] == ["[AVOID] m"]
    assert file["score_history"]["look"] == [0.25, 1.0] or file["score_history"]["look"] == [
        1,
        0.25,
    ]
    [card] = [card for card in file["mistake_cards"] if card["mistake_type"] == "c"]
    assert (card["lesson"], card["seen_count"]) == ("l", 1)
    assert file["episode_log"][card["first_seen_episode"] - 1]["score"] == 0.1
    by_task = {form["task_id"]: form for form in file["episode_log"]}
    assert "graphmem" in by_task["look"]

    other = opened(f"{memory.namespace}-other")
    report = other.upkeep.import_(tmp_path / "out.json", "sentinel")
    assert (report.created, report.skipped) == (6, 0)
    assert held(other) == held(memory)
    assert other.verify().ok
    assert same(exported(other, tmp_path), file)

    back = memory.upkeep.import_(tmp_path / "out.json", "sentinel")
    assert (back.created, back.skipped) == (0, 6)


def held(memory: Memory) -> list[str]:
    """All episodes as lines, without their order."""
    rows = memory.query("exchange.episodes")
    contents = [content_of(memory, row["id"]) for row in rows]
    return sorted(
        canonical_json([row["source_key"], held]) for row, held in zip(rows, contents, strict=True)
    )


def content_of(memory: Memory, identity: str) -> Any:
    return read_contents(graph_of(memory), [identity])[identity]


def test_new_episodes_join_an_imported_file(memory: Memory, tmp_path: Path) -> None:
    memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    memory.record_episode({"task_id": "t", "score": 0.9, "successes": ["new"]})
    report = memory.upkeep.export(tmp_path / "out.json", "sentinel")
    assert report.derived == ("task_rules", "general_rules", "mistake_cards", "score_history")
    assert set(report.kept) == {"episodes_since_consolidation", "anything"}
    file = json.loads((tmp_path / "out.json").read_text())

    assert len(file["episodes"]) == 7
    for form, before in zip(file["episodes"], FILE["episodes"], strict=False):
        own = form.pop("graphmem")
        assert own["source_key"].startswith("agent_memory/")
        assert same(form, before)
    assert file["task_rules"]["t"] == ["[WORKS] new"]
    # A list where the file had a list, in the order of the tasks' first episodes.
    assert len(file["score_history"]) == 7
    assert same(file["anything"], FILE["anything"])
    assert memory.upkeep.import_(tmp_path / "out.json", "sentinel").created == 0


def test_lists_of_another_shape_are_kept(memory: Memory, tmp_path: Path) -> None:
    shaped = {**FILE, "score_history": [{"task": "t", "score": 1}], "task_rules": "none yet"}
    memory.upkeep.import_(put(tmp_path, shaped), "sentinel")
    memory.record_episode(FORM)
    report = memory.upkeep.export(tmp_path / "out.json", "sentinel")
    assert report.derived == ("general_rules", "mistake_cards")
    assert {"score_history", "task_rules"} <= set(report.kept)


def test_a_file_that_grew_is_imported_again(memory: Memory, tmp_path: Path) -> None:
    memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    grown = {**FILE, "episodes": [*FILE["episodes"], FORM], "score_history": [1]}
    report = memory.upkeep.import_(put(tmp_path, grown), "sentinel")
    assert (report.created, report.skipped) == (1, 6)
    assert same(exported(memory, tmp_path), grown)


def test_seeding_and_importing_learn_the_same_episodes(memory: Memory, tmp_path: Path) -> None:
    file = put(tmp_path, FILE)
    seed(memory, sources([str(file)]))
    assert memory.upkeep.import_(file, "sentinel").skipped == 6
    assert same(exported(memory, tmp_path), FILE)


def test_several_files_are_exported_by_name_or_together(memory: Memory, tmp_path: Path) -> None:
    other = {"episodes": [{"task_id": "b", "score": 0.5}], "anything": FILE["anything"], "x": 1}
    memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    memory.upkeep.import_(put(tmp_path, other), "sentinel", document="the other")
    assert same(exported(memory, tmp_path, document="agent_memory"), FILE)
    assert same(exported(memory, tmp_path, document="the other"), other)
    both = exported(memory, tmp_path)
    assert (len(both["episodes"]), both["x"], both["episodes_since_consolidation"]) == (7, 1, 6)

    with pytest.raises(NotFoundError, match="there are agent_memory, the other"):
        memory.upkeep.export(tmp_path / "out.json", "sentinel", document="none")
    memory.upkeep.import_(put(tmp_path, {**other, "anything": 2}), "sentinel", document="the other")
    before = (tmp_path / "out.json").read_bytes()
    with pytest.raises(ValidationError, match="differ in 'anything'"):
        memory.upkeep.export(tmp_path / "out.json", "sentinel")
    assert (tmp_path / "out.json").read_bytes() == before


def test_erasing_an_episode_takes_what_its_file_may_tell_of_it(
    memory: Memory, tmp_path: Path
) -> None:
    marked = {
        "episodes": [{"task_id": "t", "score": 0.9, "successes": ["MARK"]}, FORM],
        "task_rules": {"t": ["[WORKS] MARK"]},
    }
    memory.upkeep.import_(put(tmp_path, marked), "sentinel")
    [row] = [row for row in memory.query("exchange.episodes") if row["source_key"].endswith("/1")]
    memory.upkeep.erase(row["id"])

    file = exported(memory, tmp_path)
    assert len(file["episodes"]) == 1
    assert "MARK" not in json.dumps(file)
    assert (
        memory.query("MATCH (n) WHERE n.ns = $ns AND n.rest CONTAINS 'MARK' RETURN n.id AS id")
        == []
    )
    assert memory.verify().ok
    [last] = memory.query("exchange.episodes")
    memory.upkeep.erase(last["id"])
    assert memory.query("exchange.documents") == []


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "cut off or damaged"),
    "cut off": (json.dumps(FILE).encode()[:-40], "cut off or damaged"),
    "no UTF-8": (b'{"episodes": ["\xff\xfe"]}', r"episodes\.0 is not UTF-8"),
    "NaN": (b'{"episodes": [], "x": NaN}', "NaN is not a JSON number"),
    "too large a number": (b'{"episodes": [], "x": 1e999}', "too large"),
    "a name twice": (b'{"episodes": [], "x": 1, "x": 2}', "'x' stands twice"),
    "half a character": (b'{"episodes": [], "x": "\\ud800"}', "half a surrogate pair"),
    "too deep": (
        b'{"episodes": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        "nested too deeply",
    ),
    "no object": (b"[1]", "is not a Sentinel file"),
    "no episodes": (b'{"rules": []}', "is not a Sentinel file"),
    "episodes no list": (b'{"episodes": {}}', "is not a Sentinel file"),
    "newer": (b'{"episodes": [], "version": 2}', "written by version 2, this graphmem knows 1"),
    "lines": (b'{"task_id": "t", "score": 1}\n' * 2, "more after the end"),
    "gzip cut off": (gzip.compress(json.dumps(FILE).encode() * 50)[:200], "gzip"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_an_error_and_is_left_as_it_is(
    name: str, memory: Memory, tmp_path: Path
) -> None:
    text, problem = BAD[name]
    (file := tmp_path / "agent_memory.json").write_bytes(text)
    with pytest.raises(SeedingError, match=problem):
        memory.upkeep.import_(file, "sentinel")
    assert file.read_bytes() == text
    assert memory.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id") == []


@pytest.mark.parametrize(
    ("form", "field"),
    [
        (5, "episodes.6"),
        ({**FORM, "score": "good"}, "episodes.6.score"),
        ({**FORM, "mistake_cards": [{"lesson": "x"}]}, "episodes.6.mistake_cards.0.type"),
        ({**FORM, "successes": ["x" * 1_000_000]}, "episodes.6.successes.0"),
    ],
    ids=["no object", "score", "card", "text"],
)
def test_one_wrong_episode_keeps_the_whole_file_out(
    form: Any, field: str, memory: Memory, tmp_path: Path
) -> None:
    file = put(tmp_path, {**FILE, "episodes": [*FILE["episodes"], form]})
    with pytest.raises(ValidationError) as caught:
        memory.upkeep.import_(file, "sentinel")
    assert caught.value.field == field
    assert memory.query("MATCH (n) WHERE n.ns = $ns RETURN n.id AS id") == []


@pytest.mark.parametrize("refuse", ["conflict", "scope"])
def test_what_the_memory_refuses_keeps_the_whole_file_out(
    refuse: str, memory: Memory, tmp_path: Path
) -> None:
    if refuse == "scope":
        memory.scopes.set("overseer", can_learn=["nothing"])
    else:
        memory.learn("t", "s", success=True, source_key="agent_memory/6")
    before = memory.stats()
    with pytest.raises(ScopeError if refuse == "scope" else ConflictError):
        memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    assert memory.stats().episodes == before.episodes
    assert memory.query("exchange.documents") == []


def test_files_that_cannot_be_read_or_written(memory: Memory, tmp_path: Path) -> None:
    calls: list[tuple[Callable[..., object], Path, type[GraphMemError], str]] = []
    for format_name in FILE_FORMATS:
        load = partial(memory.upkeep.import_, format_name=format_name)
        calls += [(load, tmp_path / "none", SeedingError, "No such file")]
        calls += [(load, tmp_path, SeedingError, "directory|folder")]
        calls += [(load, Path("-"), ValidationError, "must be a file")]
        save = partial(memory.upkeep.export, format_name=format_name)
        calls += [(save, tmp_path, StorageError, "is a folder")]
        calls += [(save, tmp_path / "none" / "x.json", StorageError, "there is no folder")]
    for call, path, error, problem in calls:
        with pytest.raises(error, match=problem):
            call(path)


def test_an_export_that_fails_leaves_what_was_there(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(memory)
    folder = tmp_path / "files"
    folder.mkdir()
    (file := folder / "out.json").write_text("before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for format_name in FILE_FORMATS:
            with pytest.raises(StorageError, match="No space left on device; nothing was written"):
                memory.upkeep.export(file, format_name)
    assert ([found.name for found in folder.iterdir()], file.read_text()) == (
        ["out.json"],
        "before",
    )


def test_an_export_keeps_permissions_and_links(memory: Memory, tmp_path: Path) -> None:
    (file := tmp_path / "private.json").write_text("{}")
    file.chmod(0o600)
    (link := tmp_path / "link.json").symlink_to(file)
    memory.upkeep.export(link, "sentinel")
    assert link.is_symlink()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["episode_log"] == []


def test_lines_give_the_same_memory(memory: Memory, opened: Opener, tmp_path: Path) -> None:
    fill(memory)
    memory.upkeep.import_(put(tmp_path, FILE), "sentinel")
    report = memory.upkeep.export(tmp_path / "all.jsonl", "jsonl")
    assert (report.episodes, report.format) == (12, "jsonl")

    other = opened(f"{memory.namespace}-other")
    assert other.upkeep.import_(tmp_path / "all.jsonl", "jsonl").created == 12
    assert content(other) == content(memory)
    assert held(other) == held(memory)
    assert other.verify().ok
    again = memory.upkeep.import_(tmp_path / "all.jsonl", "jsonl")
    assert (again.created, again.skipped, again.refused) == (0, 12, ())


@pytest.mark.parametrize("form", FILE_FORMATS)
def test_equal_episodes_without_a_key_keep_their_ids(
    memory: Memory, opened: Opener, tmp_path: Path, form: FileFormat
) -> None:
    """Live ones and records, also where an equal one is no longer there."""
    record = {"task": "t", "strategy": "s", "success": True}
    bare = {"task": "t", "strategy": [], "score": 0.5, "mistakes": ["was slow"]}
    memory.learn_many([record, bare, record, record, bare, {**record, "source_key": "k"}])
    for _ in range(3):
        memory.learn("t", "s", success=True)
        memory.record_episode({"task_id": "t", "score": 0.5})
    first = [row["id"] for row in memory.query(IDS) if row["occurrence"] is None]
    memory.upkeep.erase(next(found for found in first if found in _ids_of(memory, "s")))
    before = memory.query(IDS)
    assert len(before) == 11

    memory.upkeep.export(file := tmp_path / "all", form)
    assert memory.upkeep.import_(file, form).skipped == 11
    for row in before:
        memory.upkeep.erase(row["id"])
    assert memory.query(IDS) == []
    assert memory.upkeep.import_(file, form).created == 11
    assert memory.query(IDS) == before
    assert memory.upkeep.import_(file, form).created == 0

    other = opened(f"{memory.namespace}-other")
    with file.open("rb") as stream:
        head = stream.read(1)
    assert head == b"{"
    report = seed(other, sources([str(file)]))
    assert (report.created, report.refused) == (11, 0)  # seeding takes them for the same
    assert other.upkeep.import_(file, form).skipped == 11
    assert other.verify().ok


IDS = (
    "MATCH (e:Episode) WHERE e.ns = $ns "
    "RETURN e.id AS id, e.occurrence AS occurrence, e.source_key AS source_key ORDER BY id"
)


def _ids_of(memory: Memory, strategy: str) -> set[str]:
    return {row.id for row in memory.evidence(strategy, limit=99) if row.source_key is None}


def test_a_line_after_an_export_is_another_occurrence(memory: Memory, tmp_path: Path) -> None:
    record = {"task": "t", "strategy": "s", "success": True}
    memory.learn_many([record, record])
    memory.upkeep.export(file := tmp_path / "all.jsonl", "jsonl")
    with file.open("a", encoding="utf-8") as log:
        log.write(json.dumps(record) + "\n")
    assert memory.upkeep.import_(file, "jsonl").created == 1
    assert memory.upkeep.import_(file, "jsonl").created == 0


def test_a_wrong_line_keeps_all_lines_out(memory: Memory, tmp_path: Path) -> None:
    fill(memory)
    memory.upkeep.export(file := tmp_path / "all.jsonl", "jsonl")
    for damage, problem in (
        (file.read_text() + '{"task": "t"}\n', "line 7: strategy"),
        (file.read_text()[:-20], "line 6: "),
    ):
        (bad := tmp_path / "bad.jsonl").write_text(damage)
        with Memory.open("memory:") as other:
            with pytest.raises(SeedingError, match=problem):
                other.upkeep.import_(bad, "jsonl")
            assert other.stats().episodes == 0


def test_lines_that_the_memory_refuses_are_reported(memory: Memory, tmp_path: Path) -> None:
    memory.learn("t", "s", success=True, source_key="1")
    (file := tmp_path / "all.jsonl").write_text(
        '{"task": "t", "strategy": "s", "success": false, "source_key": "1"}\n'
        '{"task": "t", "strategy": "s", "success": false, "source_key": "2"}\n'
    )
    report = memory.upkeep.import_(file, "jsonl")
    assert (report.created, [item.source_key for item in report.refused]) == (1, ["1"])
