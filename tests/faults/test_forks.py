"""A forked child works with memories of its own, whatever its parent does at that moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from graphmem import Memory, Settings
from tests.faults.attack import rounds
from tests.faults.learner import BATCH, REPOSITORY, environment, learning

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "memory.graph")


def run(program: str, surroundings: dict[str, str], timeout: float = 300) -> list[str]:
    """Run a program that forks; return the lines it prints. It must be silent otherwise."""
    answer = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        cwd=REPOSITORY,
        env=surroundings,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert answer.stderr == ""
    assert answer.returncode == 0
    return answer.stdout.splitlines()


ENDINGS = (
    "os._exit(0)",
    "sys.exit(0)",
    "raise ValueError",
    "memory.close()\nsys.exit(0)",
    "memory = None\ngc.collect()\nsys.exit(0)",
    "if os.fork():\n    os.wait()\nsys.exit(0)",
)
"""How a child may end: at once, in good order, by an error, after it closed or forgot the memory,
or had a child of its own."""
ENDS = f"""
import gc, os, subprocess, sys
from graphmem import Memory, Settings
from graphmem.store import embedded

# Without a timer for counts of reads, which would keep the memory alive in the child.
embedded.LEASE_IDLE = 600.0
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
    surroundings = environment(folder, "default", Settings())
    assert run(ENDS.format(before=before, after=after), surroundings) == ["LockedError", "2 2"]
    with Memory.open(folder) as memory:
        assert {row.text for row in memory.strategies()} == {"before", "after"}
        assert memory.verify().ok


def test_a_child_deletes_nothing_of_its_parent(folder: str, tmp_path: Path) -> None:
    """A memory without a folder has nothing to delete; a reader beside a writer has."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = environment("memory:", "default", Settings(), TMPDIR=str(temporary))
    before = 'memory.learn("a task", "before", success=True)'
    after = 'print(memory.stats().episodes, len(os.listdir(os.environ["TMPDIR"])))'
    assert run(ENDS.format(before=before, after=after), own) == ["1 0"]
    with learning(environment(folder, "default", Settings()), 0, 1, "hold") as holder:
        holder.wait_for("done")
        shared = environment(folder, "default", Settings(), TMPDIR=str(temporary))
        before = 'memory.recall("task 1")'
        after = "print(memory.stats().episodes, memory.verify().ok)"
        assert run(ENDS.format(before=before, after=after), shared) == [f"{BATCH} True"]
    assert list(temporary.iterdir()) == []


LEASE_OF_THE_DEAD = """
import os, sys, time
from graphmem import Memory

memory = Memory.open()
memory.learn("a task", "a strategy", success=True)
if os.fork() == 0:
    print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
time.sleep(60)
"""


def test_a_child_does_not_keep_the_lease_of_a_killed_parent(folder: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LEASE_OF_THE_DEAD],
        cwd=REPOSITORY,
        env=environment(folder, "default", Settings()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout
        assert parent.stdin
        assert parent.stdout.readline() == "child\n"
        parent.kill()
        parent.wait()
        with Memory.open(folder, settings=Settings(wait=2)) as memory:
            assert memory.learn("a task", "another strategy", success=True).created
            assert memory.stats().episodes == 2
        parent.stdin.close()


AT_ANY_MOMENT = """
import faulthandler, os, sys, tempfile, threading, time
from graphmem import Memory, Settings
from graphmem.store import embedded
from graphmem.errors import ForkedError, LockedError, StoreError

embedded.LEASE_IDLE = 600.0
settings = Settings(wait=30, embedder="hashing")
memory = Memory.open("{folder}", settings=settings)
memory.learn("a task", "a strategy", success=True)
held = Memory.open(settings=settings)  # another process writes it
memory.recall("a task")
stop = threading.Event()


def forever(work):
    def run():
        number = 0
        while not stop.is_set():
            number += 1
            try:
                work(number)
            except StoreError:
                return
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def comes_and_goes(number):
    with Memory.open("{folder}-2", settings=settings) as other:
        other.learn("a task", f"way {{number % 9}}", success=True, source_key=str(number))


threads = [forever(work) for work in (
    lambda n: memory.learn(f"task {{n}}", f"way {{n % 99}}", success=True, source_key=str(n)),
    lambda n: memory.recall(f"task {{n}}"),
    lambda n: memory.policies.best({{"at": n}}),
    lambda n: memory.policies.update({{"at": n}}, "go", 1.0, terminal=True),
    comes_and_goes,
    lambda n: Memory.open("{folder}-2", settings=settings).stats(),
    lambda n: held.learn("a task", "never", success=True),
    lambda n: held.stats(),
)]


def in_child():
    faulthandler.dump_traceback_later({patience}, exit=True)  # the log grows
    for inherited in (memory, held):
        for call in (
            lambda: inherited.learn("a task", "in the child", success=True),
            lambda: inherited.recall("a task"),
            lambda: inherited.policies.best({{"at": 1}}),
            lambda: inherited.context("a task"),
            inherited.upkeep.rebuild,
            inherited.verify,
        ):
            try:
                call()
            except ForkedError:
                continue
            raise AssertionError(call)
        inherited.close()
    with tempfile.TemporaryDirectory() as own:
        for url in ("memory:", own + "/own.graph"):
            with Memory.open(url, settings=settings) as mine:
                mine.learn("a task", "mine", success=True)
                assert [item.text for item in mine.recall("a task").items] == ["mine"]
        with Memory.open("{folder}", settings=Settings(wait=0)) as read:
            assert read.strategies()  # few, however many episodes there are by then
            try:
                read.learn("a task", "stolen", success=True)
            except LockedError:
                pass
            else:
                raise AssertionError("the parent has the lease")


for number in range({rounds}):
    time.sleep(0.01 * (number % 7))
    child = os.fork()
    if child == 0:
        in_child()
        if number % 2:
            os._exit(0)
        sys.exit(0)
    status = os.waitpid(child, 0)[1]
    assert status == 0, status
stop.set()
held.close()
for thread in threads:
    thread.join(30)
assert memory.verify().ok
memory.close()
print("done")
"""


def test_a_child_forked_at_any_moment_goes_on(folder: str, tmp_path: Path) -> None:
    """Other threads hold whatever lock they hold, or wait for the lease of another process."""
    program = AT_ANY_MOMENT.format(
        folder=tmp_path / "busy.graph", rounds=rounds(4, 150), patience=rounds(200, 600)
    )
    with learning(environment(folder, "default", Settings()), 0, 1, "hold") as holder:
        holder.wait_for("done")
        surroundings = environment(folder, "default", Settings())
        assert run(program, surroundings, timeout=rounds(900, 1_100)) == ["done"]


WHILE_ASKING = """
import os, sys, threading, time
from graphmem import Memory, Settings
from graphmem.forks import UNFORKED
from graphmem.store.embedded_rows import rows

LONG = "UNWIND range(1, 1000000) AS n WITH n WHERE n % 7 = 3 RETURN count(n) AS n"
memory = Memory.open("memory:", settings=Settings(embedder="hashing"))
memory.stats()


def fork():
    child = os.fork()
    if child == 0:
        os.write(1, f"done: {done}\\n".encode())  # at once: children may run side by side
        with Memory.open("memory:") as mine:
            mine.learn("a task", "mine", success=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def ask(text, params):
    rows = memory.store._writer.session.cypher(text, params=params).to_list()
    done.append(rows[0]["n"])
    return rows


def within():
    with UNFORKED.lock:
        begun.wait()
        fork()


done, begun = [], threading.Barrier(3)
asking = threading.Thread(target=rows, args=[ask, LONG, {}])
asking.start()
while asking.is_alive() and not done:
    frame = sys._current_frames().get(asking.ident)
    if frame and frame.f_code.co_name == "ask":
        break  # it is in the engine
    time.sleep(0.001)
fork()
asking.join()
threads = [threading.Thread(target=within) for _ in range(2)]
for thread in threads:
    thread.start()
begun.wait()
fork()
for thread in threads:
    thread.join()
memory.close()
"""


def test_a_fork_waits_for_the_statements_of_other_threads(folder: str) -> None:
    """The engine has locks of its own, which a child would find taken.

    It does not wait for the thread that forks, nor for others that are about to fork.
    """
    surroundings = environment(folder, "default", Settings())
    assert run(WHILE_ASKING, surroundings) == ["done: [142857]"] * 4


WHILE_INDEXING = """
import os, sys, threading, time
from graphmem.store.embedded_search import _Words

words = _Words()
for number in range(10_000):
    words.add(number, f"text {number}")
words.begin_commit()


def adding():
    for frame in sys._current_frames().values():
        while frame:
            if frame.f_code.co_name == "words":
                return True
            frame = frame.f_back


while not adding() and not words._committing.done():
    time.sleep(0.001)
child = os.fork()
if child == 0:
    os.write(1, f"{words._index.searcher().num_docs}\\n".encode())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
words.end_commit()
"""


def test_a_fork_waits_until_words_are_indexed(folder: str) -> None:
    """That starts threads, whose memory a child forked meanwhile could free twice."""
    surroundings = environment(folder, "default", Settings())
    assert run(WHILE_INDEXING, surroundings) == ["10000"]


WHILE_IMPORTING = """
import faulthandler, os, sys, threading, time
from graphmem import Memory, Settings

settings = Settings(embedder="hashing")
memory = Memory.open("memory:", settings=settings)
memory.learn("a task", "a strategy", success=True)
thread = threading.Thread(target=memory.recall, args=["a task"])
thread.start()
while "{module}" not in sys.modules:
    time.sleep(0.0001)
child = os.fork()
if child == 0:
    faulthandler.dump_traceback_later(200, exit=True)
    with Memory.open("memory:", settings=settings) as mine:
        mine.learn("a task", "mine", success=True)
        print(len(mine.recall("a task").items), flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
memory.close()
"""


@pytest.mark.parametrize("module", ["numpy", "tantivy"])
def test_a_child_forked_in_the_middle_of_an_import_goes_on(folder: str, module: str) -> None:
    """Another thread has its lock, and would keep it in the child for ever."""
    surroundings = environment(folder, "default", Settings())
    assert run(WHILE_IMPORTING.format(module=module), surroundings) == ["1"]


WITHOUT_THREADS = """
import faulthandler, os, sys
from graphmem import Episode, Memory, Settings
from graphmem.errors import ForkedError

settings = Settings(embedder="hashing")


def many(first):
    return [Episode(task="a task", strategy=f"way {n}", success=True, source_key=str(n))
            for n in range(first, first + 5_000)]


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
        for size in (5_000, 100):
            try:
                print(memory.learn_many(many(5_000), batch_size=size).created, flush=True)
            except ForkedError:
                print("nothing", flush=True)
    with Memory.open("memory:", settings=settings) as other:
        small(other)
    os._exit(0)


with Memory.open(settings=settings) as memory:
    memory.learn_many(many(0))
if os.fork() == 0:
    with Memory.open(settings=settings) as memory:  # the engine has no threads yet
        print(len(memory.strategies(limit=3)), flush=True)
    os._exit(0)
assert os.wait()[1] == 0
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
    surroundings = environment(folder, "default", Settings())
    lines = ["3", "True 1", "nothing", "5000", "True 1", "10001 True"]
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
