"""A closed memory leaves no thread and no descriptor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.attack import rounds
from tests.faults.learner import run_program

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts threads and descriptors in /proc"
)

OPENING = """
import logging, os, sys, time
from pathlib import Path
from graphmem import Memory, Settings

logging.disable()  # a search says that it embeds many texts first

def held():
    return {name: len(os.listdir(f"/proc/self/{name}")) for name in ("task", "fd")}

def opened(number, count):
    memory = Memory.open(Path(sys.argv[1]) / str(number), settings=Settings(embedder="hashing"))
    memory.learn_many({"task": f"task {n}", "strategy": f"s {n}", "success": True}
                      for n in range(count))
    assert memory.recall("task 3").items
    return memory

first = opened(0, 1_100)  # which also starts the threads of a multiplication, which stay
assert first.similar("s 1")
first.close()
before = held()
memories = [opened(number, 1_100 if number == 1 else 5) for number in range(1, int(sys.argv[2]))]
assert memories[0].similar("s 1")
for memory in memories:
    memory.close()
for _ in range(600):
    after = held()
    if all(after[name] <= before[name] for name in before):
        break  # some that were counted before may be gone
    time.sleep(0.05)  # the threads of an index end by themselves
else:
    sys.exit(f"{before} {after}")
"""


def run(script: str, *arguments: str) -> str:
    """Run a script that must print nothing on standard error; return what it prints.

    From version 3.12 on, Python warns of each fork beside threads.
    """
    surroundings = {name: value for name, value in os.environ.items() if "GRAPHMEM" not in name}
    timeout = rounds(300, 1_100)
    done = run_program(script, *arguments, surroundings=surroundings, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@needs_proc
def test_closed_memories_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    run(OPENING, str(tmp_path), str(rounds(8, 60)))
