"""Ctrl-C while a library is imported for the first time, or a checkpoint is written."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from graphmem import Memory
from tests.faults.learner import run_program

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


@pytest.mark.skipif(sys.platform == "win32", reason="no process presses Ctrl-C for itself there")
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
