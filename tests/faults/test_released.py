"""A closed memory leaves no thread and no descriptor; a child with an index ends quietly."""

from __future__ import annotations

import os
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from graphmem.errors import StoreError
from tests.faults.attack import rounds
from tests.faults.learner import REPOSITORY

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="counts threads and descriptors in /proc"
)

OPENING = """
import os, sys, time
from pathlib import Path
from graphmem import Memory, Settings

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

FORKING = """
import gc, multiprocessing, os, sys, threading, time
import numpy as np
from graphmem import Memory, Settings
from graphmem.store.embedded_search import EmbeddedIndex

memory = Memory.open(sys.argv[1], settings=Settings(embedder="hashing"))
reader = Memory.open("memory:", settings=Settings(embedder="hashing"))
for each in (memory, reader):
    each.learn_many({"task": f"task {n}", "strategy": f"s {n}", "success": True} for n in range(30))
    each.recall("task 3")
index = EmbeddedIndex(lambda *_, **__: [{"id": "a", "text": "refund a flight"}],
                      None, "ns", writable=False, durable=False)
index.open("hashing", 256)
assert index.hits(np.zeros(256, np.float32), ["refund"], 1)["Task"][1] == [("a", 0.0)]

def child(how):
    global memory, reader, index
    if how == "freed":
        del memory, reader, index
        gc.collect()

def forked(how):
    if how == "process":
        process = multiprocessing.get_context("fork").Process(target=child, args=[how])
        process.start()
        process.join()
        return process.exitcode
    pid = os.fork()
    if pid == 0:
        child(how)
        os._exit(0) if how == "_exit" else sys.exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

ended = [forked(how) for how in ("exit", "_exit", "process", "freed")]

def work():
    for turn in range(2):
        memory.learn_many({"task": f"{turn} task {n}", "strategy": f"{turn} s {n}", "success": True}
                          for n in range(600))
        memory.recall("task 3")

working = threading.Thread(target=work)
working.start()
for _ in range(int(sys.argv[2])):
    ended.append(forked("_exit"))
    time.sleep(0.05)
working.join()
memory.close()
print(len(ended), set(ended))
"""


def run(script: str, *arguments: str) -> str:
    """Run a script that must print nothing on standard error; return what it prints.

    From version 3.12 on, Python warns of each fork beside threads.
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *arguments],
        cwd=REPOSITORY,
        env={name: value for name, value in os.environ.items() if "GRAPHMEM" not in name},
        capture_output=True,
        text=True,
        timeout=rounds(300, 1_100),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


@needs_proc
def test_closed_memories_leave_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    run(OPENING, str(tmp_path), str(rounds(20, 60)))


def test_a_child_that_inherits_an_index_ends_quietly(tmp_path: Path) -> None:
    count, codes = run(FORKING, str(tmp_path / "memory.graph"), str(rounds(8, 300))).split(
        maxsplit=1
    )
    assert int(count) >= 12
    assert codes.strip() == "{0}"


BUSY = """
import os, sys, threading, time
from graphmem.arrays import np, product

rows = np.random.default_rng(0).standard_normal((600, 256), np.float32)
stop = threading.Event()
products = 0

def work():
    global products
    while not stop.is_set():
        product(rows, rows.T)
        products += 1

working = threading.Thread(target=work)
working.start()
while not products:
    time.sleep(0.001)
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        product(rows, rows.T)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
before = products
while products == before:
    time.sleep(0.001)
stop.set()
working.join()
print("done")
"""


def test_a_fork_stops_no_multiplication_of_arrays(tmp_path: Path) -> None:
    assert run(BUSY, str(rounds(50, 1_000))) == "done\n"


def test_arrays_are_multiplied_in_one_place() -> None:
    """Elsewhere a fork could come in between."""
    package = Path(REPOSITORY) / "graphmem"
    found = set()
    for path in package.rglob("*.py"):
        with tokenize.open(path) as file:
            for token in tokenize.generate_tokens(file.readline):
                decorates = not token.line[: token.start[1]].strip()
                if token.type == tokenize.OP and token.string in ("@", "@=") and not decorates:
                    found.add(path.relative_to(package).as_posix())
    assert found == {"arrays.py"}


def test_a_closed_memory_searches_no_more(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "memory.graph", settings=Settings(embedder="hashing"))
    memory.learn("a task", ["a strategy", "another"], success=True)
    memory.recall("a task")
    memory.close()
    for call in (
        lambda: memory.recall("a task"),
        lambda: memory.similar("another"),
        lambda: memory._similarity.cosines("Strategy", ["a"], ["b"]),
    ):
        with pytest.raises(StoreError, match="the memory is closed"):
            call()
