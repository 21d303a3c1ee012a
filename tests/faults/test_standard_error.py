"""Nothing that graphmem does redirects the standard error of its process, not for a moment."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from graphmem import Memory, Settings
from tests.faults.attack import rounds
from tests.faults.learner import batch, environment, run_program

RECOVERING = """
import os, shutil, subprocess, sys, threading
from graphmem import Memory, Settings

before, stop = os.fstat(2), threading.Event()
counts = {{"thread": 0, "process": 0}}


def write():
    while not stop.wait(0.0005):
        os.write(2, b"thread %d\\n" % counts["thread"])
        counts["thread"] += 1


def spawn():
    while not stop.is_set():
        subprocess.run(["sh", "-c", f"echo process {{counts['process']}} >&2"], check=True)
        counts["process"] += 1


threads = [threading.Thread(target=work) for work in (write, spawn)]
for thread in threads:
    thread.start()
number = 0
while number < {rounds} or counts["process"] < 4:
    number += 1
    copy = f"{folder}-{{number}}"
    shutil.copytree("{folder}", copy)
    with Memory.open(copy, settings=Settings(embedder="hashing")) as memory:
        assert memory.stats().episodes == 20
        memory.learn("a task", "a strategy", success=True)
    shutil.rmtree(copy)
stop.set()
for thread in threads:
    thread.join()
after = os.fstat(2)
print((before.st_dev, before.st_ino) == (after.st_dev, after.st_ino))
print(counts["thread"], counts["process"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it writes by sh")
def test_every_line_arrives_while_torn_logs_are_recovered(tmp_path: Path) -> None:
    torn = tmp_path / "torn.graph"
    memory = Memory.open(tmp_path / "memory.graph")
    memory.learn_many(batch(0))
    shutil.copytree(tmp_path / "memory.graph", torn)  # as if it was killed: with a log
    memory.close()
    log = torn / "graph.kgl-wal"
    log.write_bytes(log.read_bytes() + log.read_bytes()[-40:-20])  # an unfinished transaction
    program = RECOVERING.format(folder=torn, rounds=rounds(15, 1_000))
    surroundings = environment("memory:", "default", Settings())
    answer = run_program(program, surroundings=surroundings, timeout=rounds(120, 1_100))
    assert answer.returncode == 0, answer.stderr[-2_000:]
    same, counted = answer.stdout.splitlines()
    assert same == "True"
    threads, processes = map(int, counted.split())
    lines = answer.stderr.splitlines()
    assert [line for line in lines if line.startswith("thread")] == [
        f"thread {number}" for number in range(threads)
    ]
    assert [line for line in lines if line.startswith("process")] == [
        f"process {number}" for number in range(processes)
    ]
    assert len(lines) == threads + processes
