"""Completion in a shell: the scripts are made, and commands and options are found."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.running import good

ASKED = "_GRAPHMEM_COMPLETE"


@pytest.mark.parametrize(("typed", "found"), [
    ("graphmem reca", "recall"), ("graphmem --names", "--namespace"),
    ("graphmem recall --li", "--limit"), ("graphmem list anti", "anti-patterns"),
])  # fmt: skip
def test_a_command_and_an_option_are_completed(typed: str, found: str) -> None:
    place = str(len(typed.split()) - 1)
    asked = {ASKED: "bash_complete", "COMP_WORDS": typed, "COMP_CWORD": place}
    assert good(**asked).out == f"plain,{found}\n"


def test_completing_does_not_import_what_a_memory_needs() -> None:
    code = (
        "import os, sys; from graphmem.cli import main\n"
        "os.environ.update(COMP_WORDS='graphmem recall --', COMP_CWORD='2')\n"
        f"os.environ['{ASKED}'] = 'bash_complete'\n"
        "try: main([])\n"
        "except SystemExit: pass\n"
        "print({'pydantic', 'numpy', 'kglite'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"
