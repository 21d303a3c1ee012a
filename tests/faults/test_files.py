"""Files that do not belong together: each is told, and nothing is made permanent unasked."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import StorageError
from graphmem.store.embedded_files import GRAPH, LOG, accept_loss
from graphmem.store.manifest import MANIFEST
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, Talker, batch, environment, holding, keys, killed

SETTINGS = Settings(wait=0.2)
LOGGED = 4
"""Batches in the log."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of three checkpoints; its writer was killed with more in the log. And an older one.

    The folder ``memory`` is that, ``older`` is what it was a checkpoint before.
    """
    base = tmp_path_factory.mktemp("made")
    folder = base / "memory"
    for number in range(3):
        if number == 2:
            shutil.copytree(folder, base / "older")
        with Memory.open(folder) as memory:
            memory.learn_many(batch(number))
    with holding(environment(str(folder)), 3 + LOGGED, 3):
        return base


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made / "memory", tmp_path / "memory.graph"))


def foreign_graph(folder: Path, _: Path) -> None:
    with Memory.open(folder.parent / "other", namespace="other") as memory:
        memory.learn_many(batch(9))
    shutil.copy(folder.parent / "other" / GRAPH, folder)


def foreign_log(folder: Path, _: Path) -> None:
    """A log of the same length in transactions, and longer in bytes."""
    url = str(folder.parent / "other")
    with holding(environment(url), 9 + LOGGED, 9):
        pass
    shutil.copy(Path(url) / LOG, folder)


def noise(folder: Path, _: Path) -> None:
    (folder / LOG).write_bytes(random.Random(1).randbytes((folder / LOG).stat().st_size))


def both_gone(folder: Path, _: Path) -> None:
    (folder / GRAPH).unlink()
    (folder / LOG).unlink()


def flipped(name: str, place: Callable[[int], int], folder: Path, _: Path) -> None:
    data = bytearray((folder / name).read_bytes())
    data[place(len(data))] ^= 0x10
    (folder / name).write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path, Path], object], str, int | None]] = {
    "graph gone": (lambda folder, _: (folder / GRAPH).unlink(), "graph.kgl is missing", None),
    "older graph": (lambda path, made: shutil.copy(made / "older" / GRAPH, path), "older", None),
    "foreign graph": (foreign_graph, "of another memory", None),
    "log gone": (
        lambda folder, _: (folder / LOG).unlink(), "missing or cut off at byte 0.* lacks", 3,
    ),
    "log noise": (noise, "is damaged.* lacks", 3),
    "last cut": (
        lambda folder, _: (folder / LOG).write_bytes((folder / LOG).read_bytes()[:-9]),
        "cut off at byte .* lacks", None,
    ),
    "last flipped": (partial(flipped, LOG, lambda size: size - 9), "is damaged.* lacks", None),
    "middle flipped": (partial(flipped, LOG, lambda size: size // 2), "is damaged.* lacks", None),
    "foreign log": (foreign_log, "lacks some of the", None),
    "both gone": (both_gone, "graph.kgl is missing", 0),
    "manifest damaged": (partial(flipped, MANIFEST, lambda _: 60), "damaged", 3 + LOGGED),
}  # fmt: skip


def files(folder: Path) -> dict[str, str]:
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in (GRAPH, LOG, MANIFEST)
        if (folder / name).exists()
    }


@pytest.mark.parametrize(("damage", "says", "batches"), DAMAGES.values(), ids=DAMAGES)
def test_files_that_do_not_belong_together_are_told(
    folder: Path, made: Path, damage: Callable[[Path, Path], None], says: str, batches: int | None
) -> None:
    damage(folder, made)
    left = files(folder)

    with Memory.open(folder, settings=SETTINGS) as memory:
        for use in (memory.stats, lambda: memory.learn("a task", "a strategy", success=True)):
            with pytest.raises(StorageError, match=says) as caught:
                use()
            assert "graphmem doctor --accept-loss" in str(caught.value)
            assert str(folder) in str(caught.value)
    assert files(folder) == left

    log = (folder / LOG).read_bytes() if (folder / LOG).exists() else b""
    loss = accept_loss(folder)
    assert any(re.search(says, problem) for problem in loss.problems)
    assert [Path(path).read_bytes() for path in loss.kept] == ([log] if log else [])
    with Memory.open(folder, settings=SETTINGS) as memory:
        memory.upkeep.rebuild()
        if batches is not None:
            assert len(keys(memory)) == batches * BATCH
        memory.learn_many(batch(20))
        assert memory.verify().ok
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert memory.verify().ok
    assert not accept_loss(folder).problems


def check_whole(folder: Path) -> None:
    """All that was learned is there, and more can be learned."""
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert len(keys(memory)) == (3 + LOGGED) * BATCH
        assert memory.learn_many(batch(20)).created == BATCH
        assert memory.verify().ok
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert len(keys(memory)) == (4 + LOGGED) * BATCH
        assert not memory.upkeep.accept_loss().problems


def test_a_log_without_a_manifest_is_read(folder: Path) -> None:
    """As earlier versions left it."""
    (folder / MANIFEST).unlink()
    check_whole(folder)


def test_a_damaged_log_without_a_manifest_is_an_error(folder: Path) -> None:
    """The engine sets a part of it aside; that is an error until it is accepted."""
    flipped(LOG, lambda size: size // 2, folder, folder)
    (folder / MANIFEST).unlink()
    for _ in range(2):
        with Memory.open(folder, settings=SETTINGS) as memory:
            with pytest.raises(StorageError, match=r"set aside.*doctor --accept-loss"):
                memory.learn("a task", "a strategy", success=True)
    with Memory.open(folder, settings=SETTINGS) as memory:
        report = memory.upkeep.accept_loss()
        assert any(Path(path).read_bytes() for path in report.kept)
        assert 3 * BATCH <= len(keys(memory)) < (3 + LOGGED) * BATCH
        memory.upkeep.rebuild()
        assert memory.verify().ok


def test_a_file_that_cannot_be_read_is_no_loss(folder: Path) -> None:
    for name in (GRAPH, LOG, MANIFEST):
        away = folder.parent / "away"
        (folder / name).rename(away)
        (folder / name).mkdir()
        said = f"{re.escape(str(folder / name))}.*director"
        with Memory.open(folder, settings=SETTINGS) as memory:
            for use in (memory.stats, memory.upkeep.accept_loss):
                with pytest.raises(StorageError, match=said):
                    use()
        (folder / name).rmdir()
        away.rename(folder / name)
    check_whole(folder)


@pytest.mark.parametrize("durability", ["normal", "full"])
def test_every_cut_of_the_log_before_its_last_acknowledged_end_is_noticed(
    made: Path, folder: Path, durability: str
) -> None:
    """Also where the log ends between two transactions, which no checksum can notice."""
    if durability == "full":
        with holding(environment(str(folder), GRAPHMEM_DURABILITY="full"), 22, 20):
            pass
    data = (folder / LOG).read_bytes()
    chance = random.Random(7)
    ends = [5, *sorted(chance.sample(range(6, len(data)), rounds(20, 400)))]
    for end in ends:
        (folder / LOG).write_bytes(data[:end])
        with Memory.open(folder, settings=SETTINGS) as memory, pytest.raises(StorageError):
            memory.stats()
    (folder / LOG).write_bytes(data + b"of a transaction that nobody was told of")
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert memory.verify().ok


def test_who_may_write_and_does_not_leaves_the_files_as_they_are(folder: Path) -> None:
    """What the graph file declares is not declared again, so closing writes no graph file."""
    for _ in range(2):  # the first time, there is a log to fold
        with Memory.open(folder, settings=SETTINGS) as memory:
            memory.learn("a task", "a way", success=True, source_key="once")
        files = {name: (folder / name).stat() for name in (GRAPH, LOG, MANIFEST)}
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert not memory.learn("a task", "a way", success=True, source_key="once").created
        assert memory.store.writing
    for name, before in files.items():
        now = (folder / name).stat()
        assert (now.st_ino, now.st_mtime_ns) == (before.st_ino, before.st_mtime_ns), name


KILLED = """
from graphmem import Memory
from graphmem.store import embedded_files, manifest
from tests.faults.learner import batch

manifest.Manifest.write = steps(manifest.Manifest.write)
embedded_files.write_mark = steps(embedded_files.write_mark)
embedded_files.CHECKPOINT_BYTES = 20_000
load = embedded_files.kglite.open_session
embedded_files.kglite.open_session = steps.sessions(load, "save")
memory = Memory.open()
for number in range(6):
    memory.learn_many(batch(number))
    print("acknowledged", number + 1, flush=True)
memory.close()
print("closed", flush=True)
"""


def test_a_process_killed_at_any_step_of_a_checkpoint_leaves_a_whole_memory(tmp_path: Path) -> None:
    """No false alarm: where nothing is missing, the next process just goes on."""
    ended = False
    for kill in range(0, 1_000, rounds(11, 1)):
        folder = tmp_path / str(kill)
        printed, died = killed(KILLED, kill, folder, SETTINGS)
        lines = printed.split()
        acknowledged = int(lines[-1]) if lines and lines[-1].isdigit() else 0
        with Memory.open(folder, settings=SETTINGS) as memory:
            there = len(keys(memory))  # a reader
            assert there in {acknowledged * BATCH, (acknowledged + 1) * BATCH} or "closed" in lines
            assert memory.learn_many(batch(30)).created == BATCH  # a writer
            assert memory.verify().ok
        with Memory.open(folder, settings=SETTINGS) as memory:
            assert len(keys(memory)) == there + BATCH
        if "closed" in lines:
            ended = True
            break
        assert died
    assert ended


def test_what_killed_processes_left_is_removed_at_the_next_opening(folder: Path) -> None:
    left = [
        folder / name
        for name in (f"{LOG}.torn-20260101T000000Z-at-9", f"{GRAPH}.tmp.99.0", f"{MANIFEST}.tmp")
    ]
    for file in left:
        file.write_bytes(b"what was erased since")
    with Memory.open(folder, settings=SETTINGS) as memory:
        memory.learn("a task", "a strategy", success=True)
    assert not any(file.exists() for file in left)


def traces(of: str, *places: Path) -> list[str]:
    """The files below some folders that hold a text."""
    return [
        str(file)
        for place in places
        for file in place.rglob("*")
        if file.is_file() and of.encode() in file.read_bytes()
    ]


MARKER = "the quick brown fox erased"
READER = """
import sys
from graphmem import Memory
with Memory.open() as memory:
    print("read", memory.stats().episodes, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("left", ["log", "checkpoint", "torn"])
def test_after_erasing_with_compact_no_file_holds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """Not the log, not what crashes left, and not a copy of a reader, alive or killed."""
    (temporary := tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    folder = tmp_path / "memory.graph"

    def learn(memory: Memory) -> str:
        memory.learn_many(batch(0))
        return memory.learn(
            f"task {MARKER}", f"strategy {MARKER}", success=False, error=f"{MARKER} failed"
        ).episode_id

    if left == "checkpoint":
        with Memory.open(folder, settings=SETTINGS) as memory:
            learn(memory)
    with Memory.open(folder, settings=SETTINGS) as memory:
        identity = learn(memory)
        memory.recall(f"task {MARKER}")
        if left == "torn":
            (folder / f"{LOG}.torn-20260101T000000Z-at-9").write_text(MARKER)
            (folder / f"{GRAPH}.tmp.99.0").write_text(MARKER)
        readers = [Talker(environment(str(folder)), "-c", READER) for _ in range(2)]
        try:
            for reader in readers:
                reader.wait_for("read")
            readers[0].kill()
            for row in memory.query(
                "MATCH (e:Episode) WHERE e.ns = $ns AND e.error CONTAINS $marker RETURN e.id AS id",
                marker=MARKER,
            ):
                report = memory.upkeep.erase(row["id"], compact=True)
            assert identity
            assert report.compacted
            assert report.read_by == (f"process {readers[1].pid}",)
            assert traces(MARKER, folder, temporary) == []
        finally:
            for reader in readers:
                reader.kill()
        assert memory.upkeep.erase(agent="agent 1").read_by == ()
