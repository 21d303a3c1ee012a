"""A process whose children search, erase and close, and are killed before each step in turn.

    python -m tests.faults.dying VECTORS ACTION ROUNDS [durability]

A step is a call that changes files, of Python or of the engine. After each death another child
looks at what is left. It must find what was there before or what is there after the action, and
answer as a memory that nobody killed. Prints the number of steps, and of those that were tried.
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
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

from graphmem import Memory, Settings
from graphmem.search.embedding import Hashing
from graphmem.store.embedded_files import VECTORS

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


def build(folder: Path, count: int = 30, settings: Settings | None = None) -> None:
    """Learn and search, then learn some more that waits; one agent has a secret."""
    with Memory.open(folder, settings=settings or chosen()) as memory:
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


if __name__ == "__main__":
    main()
