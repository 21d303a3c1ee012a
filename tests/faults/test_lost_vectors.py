"""Vectors may be lost, damaged, swapped or old: answers are right, and what is missing is made."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from graphmem import Memory
from graphmem.store.embedded_files import VECTORS
from graphmem.store.vectors import ENDING
from tests.faults.attack import LONG, rounds
from tests.faults.dying import answers, build, chosen, erase_agent, search
from tests.faults.learner import environment, holding, run_program

CHANCE = 20_261_123


KILLED = [("erase_agent", "normal", 5), ("search", "full", 3)]
if LONG:
    KILLED += [("erase_agent", "full", 0), ("erase_episode", "normal", 0), ("relink", "normal", 0)]


@pytest.mark.parametrize(("action", "durability", "short"), KILLED)
def test_whoever_is_killed_at_any_step_leaves_right_answers(
    tmp_path: Path, action: str, durability: str, short: int
) -> None:
    tried = rounds(short, 1_000)
    program = "from tests.faults.dying import main; main()"
    arguments = (str(tmp_path), action, str(tried), durability)
    done = run_program(program, *arguments, timeout=rounds(600, 100_000))
    assert done.returncode == 0, done.stderr
    steps, killed = map(int, done.stdout.split())
    assert killed == min(tried, steps)
    assert steps > 20


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with two namespaces, an older copy of its vectors, and others with other texts."""
    base = tmp_path_factory.mktemp("whole")
    build(base / "memory.graph", 20)
    shutil.copytree(base / "memory.graph" / VECTORS, base / "older")
    with Memory.open(base / "memory.graph", namespace="other", settings=chosen()) as memory:
        for number in range(9):
            memory.learn(f"another task {number}", f"another strategy {number}", success=True)
        memory.recall("another")
    with Memory.open(base / "memory.graph", settings=chosen()) as memory:
        search(memory)
    return base


@pytest.fixture(scope="module")
def expected(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What it answers undamaged, and after erasing."""
    copy = tmp_path_factory.mktemp("expected") / "memory.graph"
    shutil.copytree(whole / "memory.graph", copy)
    shutil.rmtree(copy / VECTORS)  # made anew from the texts
    with Memory.open(copy, settings=chosen()) as memory:
        memory.upkeep.relink()
        before = answers(memory)
        erase_agent(memory)
        return [before, answers(memory)]


def flipped(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 3, 100])):
        changed[chance.randrange(len(changed))] ^= chance.randrange(1, 256)
    return bytes(changed)


CHANGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut": lambda content, chance: content[: chance.randrange(len(content))],
    "flipped": flipped,
    "empty": lambda _, __: b"",
    "noise": lambda content, chance: chance.randbytes(len(content)),
    "grown": lambda content, chance: content + content[chance.randrange(len(content)) :],
}
"""What may happen to the content of a file."""


def swap(folder: Path, _: Path) -> None:
    one, other = folder.glob(f"*{ENDING}")
    one.rename(folder / "aside")
    other.rename(one)
    (folder / "aside").rename(other)


def remove_files(folder: Path, _: Path, *, leave_folders: bool = False) -> None:
    for file in list(folder.iterdir()):
        file.unlink()
        if leave_folders:
            file.mkdir()


def replace_by_file(folder: Path, _: Path) -> None:
    shutil.rmtree(folder)
    folder.write_bytes(b"a file")


LOSSES: dict[str, Callable[[Path, Path], object]] = {
    "no folder": lambda folder, _: shutil.rmtree(folder),
    "no files": remove_files,
    "no file": lambda folder, _: next(folder.iterdir()).unlink(),
    "a file as folder": replace_by_file,
    "folders as files": partial(remove_files, leave_folders=True),
    "swapped": swap,
    "older": lambda folder, whole: shutil.copytree(whole / "older", folder, dirs_exist_ok=True),
}
"""What may happen to the files."""


def damage(folder: Path, whole: Path, chance: random.Random) -> str:
    """Do something to the vectors; return what."""
    how = chance.choice([*LOSSES, *CHANGES])
    if how in LOSSES:
        LOSSES[how](folder, whole)
    else:
        file = chance.choice(sorted(folder.glob(f"*{ENDING}")))
        file.write_bytes(CHANGES[how](file.read_bytes(), chance))
    return how


ASKED: list[Callable[[Memory], object]] = [
    lambda memory: memory.verify().ok or pytest.fail("not verified"),
    lambda memory: memory.upkeep.pending(),
    lambda memory: memory.similar("refund the refund number 0"),
    lambda memory: memory.recall("refund"),
    lambda memory: memory.stats(),
    lambda memory: memory.predict("refund the flight", "refund the refund number 0"),
]


@pytest.mark.parametrize("round_", range(rounds(12, 600)))
def test_damage_changes_no_answer(
    whole: Path, expected: list[Any], tmp_path: Path, round_: int
) -> None:
    chance = random.Random(CHANCE + round_)
    folder = tmp_path / "memory.graph"
    shutil.copytree(whole / "memory.graph", folder)
    done = damage(folder / VECTORS, whole, chance)
    with Memory.open(folder, settings=chosen()) as memory:
        for ask in chance.sample(ASKED, chance.randrange(3)):
            ask(memory)
        if chance.random() < 0.3:
            erase_agent(memory)
            assert answers(memory) == expected[1], done
        else:
            assert answers(memory) == expected[0], done
            assert memory.verify().ok, done
            memory.upkeep.relink()
            assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
            erase_agent(memory)
        assert answers(memory) == expected[1], done
        assert memory.verify().ok, done
    with Memory.open(folder, settings=chosen()) as memory:
        assert answers(memory) == expected[1], done
    with Memory.open(folder, namespace="other", settings=chosen()) as memory:
        assert len(memory.similar("another strategy 3")) == 8
        assert memory.verify().ok, done


def test_a_reader_beside_a_writer_is_right_whatever_happens_to_the_file(
    whole: Path, expected: list[Any], tmp_path: Path
) -> None:
    folder = tmp_path / "memory.graph"
    shutil.copytree(whole / "memory.graph", folder)
    surroundings = environment(str(folder), "held", chosen(), GRAPHMEM_EMBEDDER="hashing")
    quiet = chosen().model_copy(update={"wait": 0.1, "count_reads": False})
    with holding(surroundings):
        for round_ in range(rounds(4, 200)):
            if (folder / VECTORS).is_file():
                (folder / VECTORS).unlink()
            shutil.rmtree(folder / VECTORS, ignore_errors=True)
            shutil.copytree(whole / "memory.graph" / VECTORS, folder / VECTORS)
            done = damage(folder / VECTORS, whole, random.Random(CHANCE + round_))
            with Memory.open(folder, settings=quiet) as reader:
                assert answers(reader) == expected[0], done
                assert reader.verify().ok, done
                assert reader.upkeep.pending() == {"Strategy": 0, "Task": 0}
                assert not reader.store.writing
