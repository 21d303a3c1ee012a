"""A forked child leaves the memories of its parent alone, and works with its own."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from tests.faults.learner import BATCH, environment, holding, run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def run(program: str, surroundings: dict[str, str], timeout: float = 300) -> list[str]:
    """Run a program that forks; return the lines it prints. It must be silent otherwise."""
    answer = run_program(program, surroundings=surroundings, timeout=timeout)
    assert (answer.stderr, answer.returncode) == ("", 0)
    return answer.stdout.splitlines()


ENDINGS = (
    "os._exit(0)", "sys.exit(0)", "raise ValueError", "memory.close()\nsys.exit(0)",
    "memory = None\ngc.collect()\nsys.exit(0)", "if os.fork():\n    os.wait()\nsys.exit(0)",
)  # fmt: skip
"""How a child may end: at once, in good order, by an error, after it closed or forgot the memory,
or had a child of its own."""
ENDS = f"""
import gc, os, subprocess, sys
from graphmem import Memory, Settings

# Without a timer for counts of reads, which would keep the memory alive in the child.
memory = Memory.open(settings=Settings(embedder="hashing", count_reads=False))
{{before}}
for ending in {ENDINGS!r}:
    child = os.fork()
    if child == 0:
        sys.excepthook = lambda *_: None
        exec(ending)
    os.waitpid(child, 0)
{{after}}
memory.close()
"""
THIRD = """
from graphmem import Memory, Settings
try:
    Memory.open(settings=Settings(wait=0)).learn("a task", "stolen", success=True)
except Exception as error:
    print(type(error).__name__, end="")
"""


def test_a_child_leaves_the_lease_to_its_parent(folder: str) -> None:
    """A third process is refused, and the parent goes on."""
    before = """
memory.learn("a task", "before", success=True)
memory.recall("a task")
"""
    after = f"""
third = [sys.executable, "-c", {THIRD!r}]
print(subprocess.run(third, capture_output=True, text=True).stdout)
memory.learn("a task", "after", success=True)
print(len(memory.recall("a task").items), memory.stats().episodes)
"""
    surroundings = environment(folder)
    assert run(ENDS.format(before=before, after=after), surroundings) == ["LockedError", "2 2"]
    with Memory.open(folder) as memory:
        assert {row.text for row in memory.strategies()} == {"before", "after"}
        assert memory.verify().ok


def test_a_child_deletes_nothing_of_its_parent(folder: str, tmp_path: Path) -> None:
    """A memory without a folder has nothing to delete; a reader beside a writer has."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = environment("memory:", TMPDIR=str(temporary))
    before = 'memory.learn("a task", "before", success=True)'
    after = 'print(memory.stats().episodes, len(os.listdir(os.environ["TMPDIR"])))'
    assert run(ENDS.format(before=before, after=after), own) == ["1 0"]
    with holding(environment(folder)):
        shared = environment(folder, TMPDIR=str(temporary))
        before = 'memory.recall("task 1")'
        after = "print(memory.stats().episodes, memory.verify().ok)"
        assert run(ENDS.format(before=before, after=after), shared) == [f"{BATCH} True"]
    assert list(temporary.iterdir()) == []


REFUSED = """
import os, sys, tempfile
from graphmem import Memory, Settings
from graphmem.errors import ForkedError, LockedError

settings = Settings(wait=0, embedder="hashing")
memory = Memory.open(settings=settings)
memory.learn("a task", "a strategy", success=True)
memory.recall("a task")
if os.fork() == 0:
    for call in (
        lambda: memory.learn("a task", "in the child", success=True),
        lambda: memory.recall("a task"),
        lambda: memory.policies.best({"at": 1}),
        lambda: memory.context("a task"),
        memory.upkeep.rebuild,
        memory.verify,
    ):
        try:
            call()
        except ForkedError as error:
            assert "Memory.open" in str(error)
            continue
        raise AssertionError(call)
    memory.close()
    with tempfile.TemporaryDirectory() as own:
        for url in ("memory:", own + "/own.graph"):
            with Memory.open(url, settings=settings) as mine:
                mine.learn("a task", "mine", success=True)
                assert [item.text for item in mine.recall("a task").items] == ["mine"]
    with Memory.open(settings=settings) as read:
        assert read.strategies()
        try:
            read.learn("a task", "stolen", success=True)
        except LockedError:
            os._exit(0)
    os._exit(1)
assert os.wait()[1] == 0
memory.learn("a task", "after", success=True)
print(len(memory.strategies()), memory.verify().ok)
"""


def test_a_child_is_refused_the_memory_of_its_parent_and_opens_its_own(folder: str) -> None:
    assert run(REFUSED, environment(folder)) == ["2 True"]


WITHOUT_THREADS = """
import faulthandler, os, sys
from graphmem import Episode, Memory, Settings
from graphmem.errors import ForkedError

settings = Settings(embedder="hashing")


def many(first):
    return [Episode(task="a task", strategy=f"way {n}", success=True, source_key=str(n))
            for n in range(first, first + 4_100)]


def small(memory):
    print(memory.learn("another task", "a way", success=True).created,
          len(memory.strategies("another task")), flush=True)


def child():
    faulthandler.dump_traceback_later(500, exit=True)
    with Memory.open(settings=settings) as memory:
        small(memory)
        for call in (lambda: memory.strategies(limit=3), lambda: memory.recall("a task"),
                     memory.verify):
            try:
                call()
            except ForkedError as error:
                assert "spawn" in str(error), error
            else:
                raise AssertionError(call)
        for size in (4_100, 100):
            try:
                print(memory.learn_many(many(4_100), batch_size=size).created, flush=True)
            except ForkedError:
                print("nothing", flush=True)
    with Memory.open("memory:", settings=settings) as other:
        small(other)
    os._exit(0)


with Memory.open(settings=settings) as memory:
    memory.learn_many(many(0))
with Memory.open(settings=settings) as memory:
    memory.strategies(limit=3)
if os.fork() == 0:
    if os.fork() == 0:  # a child of a child
        child()
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
assert os.wait()[1] == 0
with Memory.open(settings=settings) as memory:
    print(memory.stats().episodes, memory.verify().ok)
"""


def test_a_child_is_refused_what_needs_the_threads_of_its_parent(folder: str) -> None:
    """It has none of the engine's threads, so it would wait for ever; less than that it can do."""
    surroundings = environment(folder)
    lines = ["True 1", "nothing", "4100", "True 1", "8201 True"]
    assert run(WITHOUT_THREADS, surroundings, timeout=600) == lines


ON_A_SERVER = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from graphmem import Memory
from graphmem.errors import ForkedError

memory = Memory.open()
with ThreadPoolExecutor(8) as pool:  # so that there are several connections
    list(pool.map(lambda n: memory.learn("a task", "parent", success=True, source_key=f"p{n}"),
                  range(16)))
for ending in range(3):
    if os.fork() == 0:
        for call in (lambda: memory.learn("a task", "x", success=True), memory.stats):
            try:
                call()
            except ForkedError as error:
                assert "Memory.open" in str(error)
            else:
                raise AssertionError("two processes use one connection")
        with Memory.open() as mine:
            mine.learn("a task", "child", success=True, source_key=f"c{ending}")
        if ending == 1:
            memory.close()
        if ending == 2:
            memory = pool = None
        sys.exit(0)
    assert os.wait()[1] == 0
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: memory.strategies("a task"), range(16)))
    memory.learn("a task", "parent", success=True, source_key=f"a{ending}")
print({row.text: row.trials for row in memory.strategies("a task")})
memory.close()
"""


@pytest.mark.neo4j
@pytest.mark.parametrize("engine", ["neo4j"], indirect=True)
def test_a_child_leaves_the_connections_to_its_parent(url: str, settings: Settings) -> None:
    """Two processes on one socket would read each other's answers."""
    surroundings = environment(url, f"test-{uuid4().hex}", settings, PYTHONWARNINGS="error")
    assert run(ON_A_SERVER, surroundings) == ["{'parent': 19, 'child': 3}"]
