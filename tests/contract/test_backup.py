"""A backup: one moment of the whole memory, in a folder that is a memory itself."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import NotAMemoryError, StorageError, StoreError, ValidationError
from tests.conftest import Opener
from tests.faults.learner import BATCH, batch, content, environment, holding, keys

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
