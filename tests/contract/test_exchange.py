"""Files go in and come back as they were; nothing is half read, and nothing half written."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory, Settings, Step, StrategyUse
from graphmem.episodes.rows import read_contents
from graphmem.errors import (
    GraphMemError,
    NotAMemoryError,
    SeedingError,
    StorageError,
    StoreError,
    ValidationError,
)
from graphmem.ids import canonical_json
from graphmem.kinds import FILE_FORMATS, FileFormat
from graphmem.seeding import seed, sources
from tests.conftest import Opener
from tests.faults.learner import BATCH, batch, content, environment, holding, keys
from tests.seeding.test_sentinel import FORM


def same(one: Any, other: Any) -> bool:
    """Equal as JSON values: 1 is not 1.0, and the order of names does not count."""
    return canonical_json(one) == canonical_json(other)


def put(folder: Path, value: Any, name: str = "agent_memory.json") -> Path:
    (file := folder / name).write_text(json.dumps(value), encoding="utf-8")
    return file


def exported(memory: Memory, folder: Path, **options: Any) -> Any:
    memory.upkeep.export(folder / "out.json", "sentinel", **options)
    return json.loads((folder / "out.json").read_text(encoding="utf-8"))


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


def held(memory: Memory) -> list[str]:
    """All episodes as lines, without their order."""
    rows = memory.query("exchange.episodes")
    contents = read_contents(memory._graph, [row["id"] for row in rows])
    return sorted(canonical_json([row["source_key"], contents[row["id"]]]) for row in rows)


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


def test_lines_give_the_same_memory(memory: Memory, opened: Opener, tmp_path: Path) -> None:
    fill(memory)
    report = memory.upkeep.export(tmp_path / "all.jsonl", "jsonl")
    assert (report.episodes, report.format) == (6, "jsonl")

    other = opened(f"{memory.namespace}-other")
    assert other.upkeep.import_(tmp_path / "all.jsonl", "jsonl").created == 6
    assert content(other) == content(memory)
    assert held(other) == held(memory)
    assert other.verify().ok
    again = memory.upkeep.import_(tmp_path / "all.jsonl", "jsonl")
    assert (again.created, again.skipped, again.refused) == (0, 6, ())


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
    plain = [row for row in memory.query(IDS) if row["source_key"] is None]
    first = [row["id"] for row in plain if row["occurrence"] is None]
    memory.upkeep.erase(next(row.id for row in memory.episodes(strategy="s") if row.id in first))
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


# A backup: one moment of the whole memory, in a folder that is a memory itself

SETTINGS = Settings(wait=0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "memory.graph"


def test_what_is_restored_is_what_was_backed_up(tmp_path: Path, folder: Path) -> None:
    with Memory.open(folder) as memory, Memory.open(folder, namespace="other") as other:
        memory.learn_many(batch(0))
        other.learn("a task of others", "wait", success=True)
        report = memory.upkeep.backup(tmp_path / "backups" / "monday")
        assert (report.nodes, report.bytes) > (BATCH, 1000)
        before = content(memory)
        memory.learn_many(batch(1))

    with Memory.open(tmp_path / "restored.graph") as memory:
        assert memory.upkeep.restore(tmp_path / "backups" / "monday").nodes == report.nodes
        assert content(memory) == before
        assert memory.verify().ok
        assert memory.recall("task 3")
        memory.learn_many(batch(1))
    with Memory.open(tmp_path / "restored.graph", namespace="other") as other:
        assert other.stats().episodes == 1
        assert other.verify().ok
    with Memory.open(tmp_path / "backups" / "monday") as memory:  # a memory itself
        assert content(memory) == before


def test_a_backup_beside_a_writing_process_has_what_was_acknowledged(
    tmp_path: Path, folder: Path
) -> None:
    with holding(environment(str(folder), "default", SETTINGS), 3):
        with Memory.open(folder, settings=SETTINGS) as memory:
            memory.upkeep.backup(tmp_path / "backup")
    with Memory.open(tmp_path / "restored") as memory:
        memory.upkeep.restore(tmp_path / "backup")
        assert len(keys(memory)) == 3 * BATCH
        assert memory.verify().ok


def test_backups_beside_writing_threads_have_whole_batches(tmp_path: Path, folder: Path) -> None:
    with Memory.open(folder) as memory:
        done = threading.Event()

        def learn() -> None:
            for number in range(12):
                memory.learn_many(batch(number))
            done.set()

        memory.learn("first", "s", success=True, source_key="first")
        thread = threading.Thread(target=learn)
        thread.start()
        backups: list[Path] = []
        while not done.is_set() or not backups:
            backups.append(tmp_path / f"backup {len(backups)}")
            memory.upkeep.backup(backups[-1])
            done.wait(0.05)
        thread.join()
    for backup in {backups[0], backups[len(backups) // 2], backups[-1]}:
        with Memory.open(backup) as memory:
            assert (len(keys(memory)) - 1) % BATCH == 0
            assert memory.verify().ok


def test_nothing_is_overwritten(tmp_path: Path, folder: Path) -> None:
    with Memory.open(folder) as memory:
        with pytest.raises(StorageError, match="nothing to back up"):
            memory.upkeep.backup(tmp_path / "backup")
        memory.learn_many(batch(0))
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "diary.txt").write_text("dear diary")
        for taken in (tmp_path / "full", tmp_path / "full" / "diary.txt", folder):
            with pytest.raises(StorageError):
                memory.upkeep.backup(taken)
        memory.upkeep.backup(tmp_path / "backup")
        with pytest.raises(StorageError, match="not empty"):
            memory.upkeep.restore(tmp_path / "backup")
        for wrong in ("", "\0", None, 3):
            with pytest.raises(ValidationError):
                memory.upkeep.backup(wrong)  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "full", "memory.graph"]
    with Memory.open(tmp_path / "new.graph") as memory:
        with pytest.raises(NotAMemoryError):
            memory.upkeep.restore(tmp_path / "nowhere")
        graph = tmp_path / "backup" / "graph.kgl"
        graph.write_bytes(graph.read_bytes()[:-100])
        with pytest.raises(StorageError, match="not complete"):
            memory.upkeep.restore(tmp_path / "backup")
        assert not (tmp_path / "new.graph").exists()


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"])
def test_a_server_has_backups_of_its_own(opened: Opener, tmp_path: Path) -> None:
    memory = opened()
    for call in (memory.upkeep.backup, memory.upkeep.restore):
        with pytest.raises(StoreError, match="neo4j-admin"):
            call(tmp_path / "backup")
    assert not memory.upkeep.accept_loss().problems
