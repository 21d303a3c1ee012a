"""What a closed, killed or interrupted process leaves: no thread, no descriptor, files in order."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from graphmem import Episode, Memory, Step
from tests.faults.attack import rounds
from tests.faults.learner import Talker, run_program

posix = pytest.mark.skipif(os.name == "nt", reason="signals and permissions of POSIX")

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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts what is in /proc")
def test_closed_memories_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    arguments = (str(tmp_path), str(rounds(8, 60)))
    done = run_program(OPENING, *arguments, timeout=rounds(300, 1_100))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


READER = """
import sys
from graphmem import Memory
memory = Memory.open(sys.argv[1])
memory.query("MATCH (s:Step) RETURN count(s)")
print("asked", flush=True)
if sys.argv[2] == "waits":
    sys.stdin.read()
"""
"""It leaves the memory open."""
WITHOUT_DISK = """
import sys
from graphmem import Memory, Settings
memory = Memory.open("memory:", settings=Settings(embedder="hashing"))
memory.learn("a task", "a way", success=True)
memory.store.compact()
memory.learn("a task", "another way", success=False)
print(memory.stats().episodes, memory.verify().ok, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large") / "memory.graph"
    steps = [Step(action="look")] * 1_000
    with Memory.open(str(folder)) as memory:
        memory.learn_many(
            Episode(task=f"task {number}", strategy="look", success=True, steps=steps)
            for number in range(40)
        )
    return folder


def running(program: str, temporary: Path, *arguments: str, says: str) -> Talker:
    """Start a program with a temporary folder of its own, and wait for what it says."""
    process = Talker({**os.environ, "TMPDIR": str(temporary)}, "-c", program, *arguments)
    process.wait_for(says)
    return process


@posix
def test_what_a_killed_process_leaves_is_private_and_removed_by_the_next_that_writes(
    large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = running(READER, tmp_path, str(large), "waits", says="asked")
    loaded = list(tmp_path.iterdir())
    assert loaded, "the graph is large enough for columns in files"
    for there in loaded:
        files = [file for file in there.rglob("*") if file.is_file()]
        private = stat.S_IMODE(there.stat().st_mode) == 0o700
        assert private or all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    process.kill()
    # Its child, which ran the query, removes its own columns a moment later.
    left = list(tmp_path.glob(f"*_{process.pid}_*"))
    assert left
    for there in left:
        os.utime(there, (time.time() - 3_600,) * 2)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Memory.open(str(large)) as memory:
        memory.learn("task 1", "look", success=True)
        assert not [there for there in left if there.exists()]


@posix
def test_a_killed_memory_without_disk_leaves_nothing(tmp_path: Path) -> None:
    """The engine wants a folder for its lock only; nobody else would remove it."""
    process = running(WITHOUT_DISK, tmp_path, says="2 True")
    process.kill()
    assert (process.finish(), list(tmp_path.iterdir())) == (-signal.SIGKILL, [])


INTERRUPTING = """
import os, signal, sys

class Interrupting:
    \"\"\"Presses Ctrl-C once, in the middle of an import.\"\"\"
    pressed = False

    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1] and not Interrupting.pressed:
            Interrupting.pressed = True
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""
COMMAND = INTERRUPTING + "\nfrom graphmem.cli import main\nmain(sys.argv[2:])\n"


@posix
def test_a_command_ends_without_a_traceback(folder: str) -> None:
    learned = run_program(COMMAND, "-", "--url", folder, "learn", "a task", "a way", "--success")
    assert learned.returncode == 0, learned.stderr
    done = run_program(COMMAND, "numpy.linalg", "--url", folder, "recall", "a task")
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert run_program(COMMAND, "-", "--url", folder, "recall", "a task").returncode == 0


KILLED = """
import os, sys
from graphmem import Memory
from tests.faults.learner import run_program

memory = Memory.open(sys.argv[1])
for _ in range(2):
    memory.learn("a task", "a way", success=True)
os._exit(0)
"""


@pytest.mark.parametrize("known", [False, True])
def test_the_files_belong_together_after_an_interrupted_checkpoint(
    tmp_path: Path, *, known: bool
) -> None:
    """Its session goes on, and the process after that is killed."""

    def pressed(_: FrameType, event: str, called: Any) -> None:
        if event == "c_return" and called.__name__ == "save":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    folder = tmp_path / "memory.graph"
    if known:  # a graph file
        with Memory.open(folder) as memory:
            memory.learn("a task", "a way", success=True)
    with Memory.open(folder) as memory:
        for _ in range(5):
            memory.learn("a task", "a way", success=True)
        before = sys.getprofile()
        sys.setprofile(pressed)
        try:
            with pytest.raises(KeyboardInterrupt):
                memory.store.compact()
        finally:
            sys.setprofile(before)
        memory.learn("a task", "a way", success=True)
    assert run_program(KILLED, str(folder)).returncode == 0
    with Memory.open(folder) as memory:
        assert memory.stats().episodes == known + 8
        assert memory.verify().ok
