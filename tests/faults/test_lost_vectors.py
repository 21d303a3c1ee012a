"""Vectors may be lost, damaged, swapped or old: answers are right, and what is missing is made.

Also where the children of a process search, erase and close, and are killed before each step in
turn: ``main`` takes VECTORS ACTION ROUNDS [durability]. A step is a call that changes files, of
Python or of the engine. After each death another child looks at what is left. It must find what was
there before or what is there after the action, and answer as a memory that nobody killed. It prints
the number of steps, and of those that were tried.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from graphmem import Memory, Settings
from graphmem.search.embedding import Hashing
from graphmem.store.embedded_files import VECTORS
from graphmem.store.vectors import ENDING
from tests.faults.attack import LONG, rounds
from tests.faults.learner import environment, holding, run_program

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
WORDS = ("refund", "flight", "train", "seat", "hotel", "visa")
MARKED = "refund the secret marker of the flight"
STEPS = {
    *("open", "write", "truncate", "unlink", "remove", "rename", "replace", "mkdir", "fsync"),
    *("execute", "begin", "commit", "save", "close"),
}
"""Names of calls that change files, of Python and of kglite."""
CHANCE = 20_261_122


def text(number: int) -> str:
    return f"{WORDS[number % 6]} the {WORDS[number // 6 % 6]} number {number // 5}"


def build(folder: Path, count: int = 30) -> None:
    """Learn and search, then learn some more that waits; one agent has a secret."""
    with Memory.open(folder, settings=chosen()) as memory:
        memory.learn_many(
            {"task": f"how to {text(number)}", "strategy": text(number), "success": number % 3 > 0}
            | {"agent": "other", "source_key": str(number), "started_at": NOON}
            for number in range(count)
        )
        told: dict[str, Any] = {"success": True, "started_at": NOON}
        memory.learn(f"how to {MARKED}", MARKED, agent="gone", source_key="s", **told)
        memory.recall("refund")
        memory.learn("the train to the visa", text(count), agent="other", **told)


def chosen(durability: Any = "normal") -> Settings:
    return Settings(embedder="hashing", durability=durability)


def answers(memory: Memory) -> dict[str, Any]:
    asked = ("refund the flight", "a seat in a hotel", "secret marker")
    recalled = [memory.recall(question, at=NOON).model_dump(mode="json") for question in asked]
    similar = [one.model_dump(mode="json") for one in memory.similar(text(0), limit=50)]
    found: dict[str, Any] = json.loads(json.dumps({"recall": recalled, "similar": similar}))
    return found


def search(memory: Memory) -> None:
    """A search with the lease, which stores what it embeds."""
    memory.store.try_writing()
    memory.recall("refund")


def erase_agent(memory: Memory) -> None:
    """Erase the agent with the secret, after a search."""
    memory.recall("refund")
    memory.upkeep.erase(agent="gone")


def erase_episode(memory: Memory) -> None:
    """Erase one episode, without a search before."""
    row = memory.query(
        "MATCH (e:Episode) WHERE e.ns = $ns AND e.source_key = 's' RETURN e.id AS id"
    )
    memory.upkeep.erase(row[0]["id"])


def relink(memory: Memory) -> None:
    memory.upkeep.relink()


ACTIONS: dict[str, Callable[[Memory], None]] = {
    action.__name__: action for action in (search, erase_agent, erase_episode, relink)
}


class Dying:
    """Counts steps, and kills the process before one of them."""

    def __init__(self, before: int | None) -> None:
        self.steps = 0
        self._before = before

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and getattr(argument, "__name__", "") in STEPS:
            if self.steps == self._before:
                os.kill(os.getpid(), signal.SIGKILL)
            self.steps += 1


def live(folder: Path, action: str, durability: str, before: int | None = None) -> int:
    """Do it and close; return the number of steps."""
    dying = Dying(before)
    sys.setprofile(dying)
    try:
        with Memory.open(folder, settings=chosen(durability)) as memory:
            ACTIONS[action](memory)
    finally:
        sys.setprofile(None)
    return dying.steps


def look(folder: Path, either: list[Any], erased: Any, durability: str) -> None:
    copy = folder.with_suffix(".read")
    shutil.copytree(folder, copy)
    with Memory.open(folder, settings=chosen(durability)) as memory:
        reading = memory.stats().episodes
        memory.upkeep.pending()
        assert memory.verify().ok, memory.verify().differences
        search(memory)  # which links what was learned
        found = answers(memory)
        assert found in either, "other answers"
        assert memory.stats().episodes == reading
        assert memory.verify().ok, memory.verify().differences
        memory.upkeep.relink()
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        assert memory.verify().ok, memory.verify().differences
        assert answers(memory) == found
        gone = not memory.query(
            "MATCH (s:Strategy) WHERE s.ns = $ns AND s.text = $text RETURN s.id AS id", text=MARKED
        )
        if gone:
            vector = Hashing().embed([MARKED])[0].tobytes()
            files = [path for path in (folder / VECTORS).rglob("*") if path.is_file()]
            assert not any(vector in path.read_bytes() for path in files), "not erased"
    with Memory.open(copy, settings=chosen(durability)) as memory:  # erasing what is half erased
        if memory.stats().agents == 2:
            memory.upkeep.erase(agent="gone")
        search(memory)  # which lets go of vectors that outlived their texts
        assert answers(memory) == erased
        assert memory.verify().ok
    shutil.rmtree(copy)


def child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> None:
    base, action, rounds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    durability = sys.argv[4] if len(sys.argv) > 4 else "normal"
    start, whole = base / "start", base / "whole"
    found, counted = base / "found", base / "counted"

    def prepare() -> None:
        build(start)
        either = []
        for number, step in enumerate((search, ACTIONS[action], erase_agent)):
            shutil.copytree(start, copy := base / f"copy{number}")
            with Memory.open(copy, settings=chosen()) as memory:
                search(memory)
                step(memory)
                either.append(answers(memory))
        found.write_text(json.dumps(either))

    def count() -> None:  # in a child like those that die: imports are steps, too
        shutil.copytree(start, whole)
        counted.write_text(str(live(whole, action, durability)))

    for module in ("graphmem.store.embedded", "graphmem.store.embedded_search"):
        import_module(module)  # once, and not in every child
    assert child(prepare) == child(count) == 0
    *either, erased = json.loads(found.read_text())
    steps = int(counted.read_text())
    chance = random.Random(CHANCE)
    tried = sorted(chance.sample(range(steps), min(rounds, steps)))
    for before in tried:
        shutil.copytree(start, folder := base / "dying")
        died = child(lambda: live(folder, action, durability, before))  # noqa: B023
        assert died == -signal.SIGKILL, f"step {before} of {steps}: ended with {died}"
        assert child(lambda: look(folder, either, erased, durability)) == 0, (
            f"step {before} of {steps}"
        )
        shutil.rmtree(folder)
    print(steps, len(tried))


KILLED = [("erase_agent", "normal", 5), ("search", "full", 3)]
if LONG:
    KILLED += [("erase_agent", "full", 0), ("erase_episode", "normal", 0), ("relink", "normal", 0)]


@pytest.mark.parametrize(("action", "durability", "short"), KILLED)
def test_whoever_is_killed_at_any_step_leaves_right_answers(
    tmp_path: Path, action: str, durability: str, short: int
) -> None:
    tried = rounds(short, 1_000)
    program = "from tests.faults.test_lost_vectors import main; main()"
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
