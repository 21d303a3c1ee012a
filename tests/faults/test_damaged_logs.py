"""Files beside the graph that are damaged or cannot be read: nobody is stuck, nothing is lost."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import StorageError
from graphmem.store.embedded_files import GRAPH, LOG
from graphmem.store.manifest import MANIFEST
from tests.faults.learner import episode, keys

SETTINGS = Settings(wait=0.2)
LEARNED = 6


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a killed process left: a graph file and a log."""
    base = tmp_path_factory.mktemp("left")
    with Memory.open(base / "memory") as memory:
        memory.learn_many([episode(100)])
    with Memory.open(base / "memory") as memory:
        for number in range(LEARNED):
            memory.learn_many([episode(number)])
        shutil.copytree(base / "memory", base / "left")
    return base / "left"


@pytest.fixture
def folder(left: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(left, tmp_path / "memory.graph"))


def check_whole(folder: Path) -> None:
    """All that was learned is there, and more can be learned."""
    expected = [f"run/{place}" for place in (100, *range(LEARNED))]
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert keys(memory) == sorted(expected)
        assert memory.learn_many([episode(200)]).created == 1
        assert memory.verify().ok
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert keys(memory) == sorted([*expected, "run/200"])
        assert not memory.upkeep.accept_loss().problems


def test_a_log_without_a_manifest_is_read(folder: Path) -> None:
    """As earlier versions left it."""
    (folder / MANIFEST).unlink()
    check_whole(folder)


def test_a_damaged_log_without_a_manifest_is_an_error(folder: Path) -> None:
    """The engine sets a part of it aside; that is an error until it is accepted."""
    data = bytearray((folder / LOG).read_bytes())
    data[len(data) // 2] ^= 0x10
    (folder / LOG).write_bytes(data)
    (folder / MANIFEST).unlink()
    for _ in range(2):
        with Memory.open(folder, settings=SETTINGS) as memory:
            with pytest.raises(StorageError, match=r"set aside.*doctor --accept-loss"):
                memory.learn("a task", "a strategy", success=True)
    with Memory.open(folder, settings=SETTINGS) as memory:
        report = memory.upkeep.accept_loss()
        assert any(Path(path).read_bytes() for path in report.kept)
        assert 0 < len(keys(memory)) <= LEARNED
        memory.upkeep.rebuild()
        assert memory.verify().ok


def test_a_file_that_cannot_be_read_is_no_loss(folder: Path) -> None:
    for name in (GRAPH, LOG, MANIFEST):
        away = folder.parent / "away"
        (folder / name).rename(away)
        (folder / name).mkdir()
        with Memory.open(folder, settings=SETTINGS) as memory:
            for use in (memory.stats, memory.upkeep.accept_loss):
                with pytest.raises(
                    StorageError, match=f"{re.escape(str(folder / name))}.*director"
                ):
                    use()
        (folder / name).rmdir()
        away.rename(folder / name)
    check_whole(folder)
