"""A log that is damaged: its whole beginning is kept, the loss is told, and nobody is stuck."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphmem import Memory, Settings
from graphmem.errors import StorageError
from graphmem.store.embedded_files import ASIDE, DAMAGED, GRAPH, LOG
from graphmem.store.embedded_later import LATER
from graphmem.store.manifest import HEAD, MANIFEST
from tests.faults.attack import rounds
from tests.faults.learner import episode, keys

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kglite alone mends a log there")

SETTINGS = Settings(wait=0.2)
LEARNED = 6
REMEDY = "graphmem doctor --accept-loss"


class Left(NamedTuple):
    """What a killed process left, and what its log is made of."""

    folder: Path
    log: bytes
    ends: list[int]
    """Where the log ended after 0, 1, 2 ... episodes."""


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    base = tmp_path_factory.mktemp("left")
    with Memory.open(base / "memory") as memory:
        memory.learn_many([episode(100)])
    ends = [len(HEAD)]
    with Memory.open(base / "memory") as memory:
        for number in range(LEARNED):
            memory.learn_many([episode(number)])
            ends.append((base / "memory" / LOG).stat().st_size)
        shutil.copytree(base / "memory", base / "left")
    return Left(base / "left", (base / "left" / LOG).read_bytes(), ends)


@pytest.fixture
def folder(left: Left, tmp_path: Path) -> Path:
    """A copy of that folder, to be damaged."""
    return Path(shutil.copytree(left.folder, tmp_path / "memory.graph"))


def first(number: int) -> list[str]:
    """The keys of the first episodes of the log, and of the one before it."""
    return sorted(f"run/{place}" for place in (100, *range(number)))


def opened(folder: Path) -> list[str]:
    """The keys of a memory that is whole, and that somebody learns in."""
    with Memory.open(folder, settings=SETTINGS) as memory:
        found = keys(memory)  # a reader
        assert memory.learn_many([episode(200)]).created == 1  # a writer
        assert memory.verify().ok
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert keys(memory) == sorted([*found, "run/200"])
        assert not memory.upkeep.accept_loss().problems
    return found


def refused(folder: Path, says: str = "") -> str:
    """What a reader and a writer are told; the files stay as they are."""
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.endswith(LOG)}
    told = set()
    with Memory.open(folder, settings=SETTINGS) as memory:
        for use in (memory.stats, lambda: memory.learn("a task", "a strategy", success=True)):
            with pytest.raises(StorageError, match=says) as caught:
                use()
            told.add(str(caught.value))
    assert len(told) == 1
    assert all((folder / name).read_bytes() == data for name, data in before.items())
    return told.pop()


def accepted(folder: Path) -> tuple[str, ...]:
    """Go on with what is there; return which files are kept."""
    with Memory.open(folder, settings=SETTINGS) as memory:
        report = memory.upkeep.accept_loss()
        assert report.problems
        return report.kept


def flipped(log: bytes, at: float, bit: int) -> tuple[bytes, int]:
    place = int(at * (len(log) - 1))
    return log[:place] + bytes([log[place] ^ 1 << bit]) + log[place + 1 :], place


def cut(log: bytes, at: float, _: int) -> tuple[bytes, int]:
    return log[: int(at * len(log))], int(at * len(log))


def extended(log: bytes, at: float, junk: int) -> tuple[bytes, int]:
    place = int(at * len(log))
    return log[:place] + bytes(range(junk, 256)) + log[place:], place


@pytest.mark.parametrize("manifest", [True, False])
@pytest.mark.parametrize("name", [LOG, ASIDE])
@given(
    damage=st.sampled_from([flipped, cut, extended]),
    at=st.floats(0, 1) | st.floats(0, 0.002),
    how=st.integers(0, 7),
)
@settings(max_examples=rounds(8, 2_000))
@example(damage=flipped, at=0.0, how=0)
@example(damage=extended, at=1.0, how=0)
def test_any_damage_leaves_the_whole_beginning_of_the_log(
    left: Left,
    name: str,
    manifest: bool,
    damage: Callable[[bytes, float, int], tuple[bytes, int]],
    at: float,
    how: int,
) -> None:
    data, place = damage(left.log, at, how)
    beheaded = place < len(HEAD) - 1 and data[:4] != HEAD[:4]
    if damage is flipped and place < len(HEAD):
        place = len(left.log)  # all that was learned can still be read
    whole = sum(end <= place for end in left.ends[1:])
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(left.folder, Path(scratch) / "memory.graph"))
        (folder / LOG).unlink()
        (folder / name).write_bytes(data)
        if not manifest:
            (folder / MANIFEST).unlink()
        try:
            with Memory.open(folder, settings=SETTINGS) as memory:
                memory.stats()
            assert not manifest or whole == LEARNED
            assert not beheaded or len(data) < len(HEAD)
        except StorageError:
            told = refused(folder, re.escape(str(folder / name)))
            assert REMEDY in told
            if "another version" in told:
                with Memory.open(folder, settings=SETTINGS) as memory:
                    with pytest.raises(StorageError, match="another version"):
                        memory.upkeep.accept_loss()
                (folder / name).rename(folder.parent / "away")
                whole = 0
            if manifest or (folder / name).exists():
                kept = accepted(folder)
                damaged = [path for path in map(Path, kept) if path.read_bytes() == data]
                assert damaged or data[: left.ends[whole]] == data or not whole
        assert opened(folder) == first(whole)


WRONG: list[tuple[str, Callable[[Left], bytes], int, str, bool]] = [
    (
        "random bytes",
        lambda left: bytes(range(256)) * 9,
        0,
        "byte 0.*nothing in it can be read",
        True,
    ),
    ("another head", lambda left: b"\0" * 5 + left.log[5:], LEARNED, "byte 0.*6 trans", True),
    (
        "a hole in the middle",
        lambda left: left.log[: left.ends[2] + 20] + b"--" + left.log[left.ends[2] + 22 :],
        2,
        r"byte {2:,} on, in transaction 3, .*checksum.*the 2 trans.* lacks 4 of the 6 trans",
        True,
    ),
    (
        "an end within a transaction",
        lambda left: left.log[:-9],
        5,
        r"byte {5:,} on, in transaction 6, .*cut off.*the 5 trans.* lacks 1 of the 6 trans",
        True,
    ),
    (
        "an end between two transactions",
        lambda left: left.log[: left.ends[4]],
        4,
        r"ends at byte {4:,}, after 4 transactions.* lacks 2 of the 6 transactions",
        False,
    ),
    ("nothing", lambda left: b"", 0, "ends at byte 0, after 0 trans.* lacks 6 of the 6", False),
]


@pytest.mark.parametrize("name", [LOG, ASIDE])
@pytest.mark.parametrize(
    ("data", "whole", "says", "keeps"),
    [case[1:] for case in WRONG],
    ids=[case[0] for case in WRONG],
)
def test_the_error_says_where_the_damage_begins_and_what_is_whole(
    left: Left,
    folder: Path,
    name: str,
    data: Callable[[Left], bytes],
    whole: int,
    says: str,
    keeps: bool,
) -> None:
    (folder / LOG).unlink()
    (folder / name).write_bytes(data(left))
    told = refused(folder, says.format(*left.ends))
    assert f"{folder / name} " in told
    assert REMEDY in told
    kept = accepted(folder)
    assert [Path(path).read_bytes() for path in kept] == ([data(left)] if keeps else [])
    assert all(path.startswith(str(folder / DAMAGED)) for path in kept)
    assert opened(folder) == first(whole)
    assert all(Path(path).exists() for path in kept)


def test_a_damaged_log_is_told_where_nothing_was_acknowledged(left: Left, folder: Path) -> None:
    with Memory.open(folder, settings=SETTINGS) as memory:
        memory.learn_many([episode(150)])
    (folder / LOG).write_bytes(b"this is not a log at all")
    refused(folder, "byte 0")
    accepted(folder)
    assert opened(folder) == sorted([*first(LEARNED), "run/150"])


@pytest.mark.parametrize("beside", [b"", b"this is no log", HEAD, HEAD + b"damaged" * 9])
def test_a_damaged_log_beside_the_one_that_has_everything_is_not_needed(
    folder: Path, beside: bytes
) -> None:
    (folder / ASIDE).write_bytes(beside)
    assert opened(folder) == first(LEARNED)
    assert not (folder / ASIDE).exists()
    kept = [path.read_bytes() for path in folder.glob(f"{DAMAGED}*")]
    assert kept == ([] if beside in (b"", HEAD) else [beside])


def test_of_two_whole_logs_the_one_that_has_everything_counts(left: Left, folder: Path) -> None:
    for older, name in ((LOG, ASIDE), (ASIDE, LOG)):
        again = Path(shutil.copytree(folder, folder.with_name(older)))
        (again / older).write_bytes(left.log[: left.ends[2]])
        (again / name).write_bytes(left.log)
        assert opened(again) == first(LEARNED)


@pytest.mark.parametrize("name", [LOG, ASIDE])
def test_a_log_of_another_version_is_left_alone(left: Left, folder: Path, name: str) -> None:
    (folder / LOG).unlink()
    (folder / name).write_bytes(HEAD[:4] + b"\xfe" + left.log[5:])
    refused(folder, f"{re.escape(str(folder / name))} is of another version .*254.*graphmem")
    with Memory.open(folder, settings=SETTINGS) as memory:
        with pytest.raises(StorageError, match="another version"):
            memory.upkeep.accept_loss()
    (folder / name).write_bytes(left.log)
    assert opened(folder) == first(LEARNED)


def test_a_file_that_cannot_be_read_is_no_loss(left: Left, folder: Path) -> None:
    for name in (GRAPH, LOG, ASIDE, MANIFEST):
        away = folder.parent / "away"
        if (folder / name).exists():
            (folder / name).rename(away)
        (folder / name).mkdir()
        with Memory.open(folder, settings=SETTINGS) as memory:
            for use in (memory.stats, memory.upkeep.accept_loss):
                with pytest.raises(
                    StorageError, match=f"{re.escape(str(folder / name))}.*director"
                ):
                    use()
        (folder / name).rmdir()
        if away.exists():
            away.rename(folder / name)
    assert opened(folder) == first(LEARNED)


class KilledError(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Ends what runs, as a kill does, before or after one of the calls that change files."""
    passed, last = 0, 0

    def step() -> None:
        nonlocal passed
        passed += 1
        if passed == last:
            raise KilledError

    def around(name: str) -> None:
        call = getattr(Path, name)

        def then(*args: object, **more: object) -> object:
            step()
            answer = call(*args, **more)
            step()
            return answer

        monkeypatch.setattr(Path, name, then)

    def until(number: int) -> None:
        nonlocal passed, last
        passed, last = 0, number

    for name in ("replace", "unlink", "hardlink_to"):
        around(name)
    yield until
    until(0)


def test_who_is_killed_while_accepting_loses_no_more(
    left: Left, tmp_path: Path, steps: Callable[[int], None]
) -> None:
    data = left.log[: left.ends[3]] + b"damaged" + left.log[left.ends[3] + 7 :]
    for name in (LOG, ASIDE):
        number, killed = 0, True
        while killed:
            number += rounds(2, 1)
            folder = Path(shutil.copytree(left.folder, tmp_path / f"{name}-{number}"))
            (folder / LOG).write_bytes(left.log[: left.ends[1]])
            (folder / name).write_bytes(data)
            with Memory.open(folder, settings=SETTINGS) as memory:
                steps(number)
                with contextlib.suppress(KilledError):
                    memory.upkeep.accept_loss()
                    killed = False
                steps(0)
            with Memory.open(folder, settings=SETTINGS) as memory:
                memory.upkeep.accept_loss()
            assert opened(folder) == first(3)
            assert data in [path.read_bytes() for path in folder.glob(f"{DAMAGED}*")]
        assert number > rounds(4, 8)


BIG = b'{"procedure": "learning.count_reads", "params": {"ns": "default", "rows": [%s]}}' % (
    b'{"id": "x", "reads": 1%s, "at": 1}' % (b"0" * 30)
)
COUNTED = [b"\xff\0random\n[1]\nnull\n" + b"[" * 100_000, b"", BIG, None]


@pytest.mark.parametrize("data", COUNTED)
def test_damaged_read_counts_hinder_nobody(folder: Path, data: bytes | None) -> None:
    """They are dropped; where a folder has the name, or nobody may read it, they are not left."""
    if data is None:
        (folder / LATER).mkdir()
    else:
        (folder / LATER).write_bytes(data)
    with Memory.open(folder, settings=SETTINGS) as memory:
        assert memory.recall("task 1")
    assert opened(folder) == first(LEARNED)
    assert (folder / LATER).is_dir() == (data is None)
