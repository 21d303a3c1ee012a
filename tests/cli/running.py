"""Run the command line as a person runs it: a process, its output and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from graphmem.seeding.jsonl import dump
from tests.faults.learner import episode

HUSH = {"GRAPHMEM_PASSWORD": "hush"}  # of no server
CODE = "from graphmem.cli import main; main()"


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start ``graphmem`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        stdin=options.pop("stdin", subprocess.DEVNULL),
        **options,
    )


class Done:
    """What a command did: ``code``, ``out``, ``err``."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run ``graphmem`` to its end. No command ever shows a traceback by itself."""
    process = start(*arguments, stdin=subprocess.PIPE, env={**os.environ, **env})
    out, err = process.communicate(text if isinstance(text, bytes) else text.encode(), timeout=180)
    done = Done(process.returncode, out, err)
    assert "Traceback" not in done.err, done.err
    return done


def good(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run a command that must succeed and has nothing to complain of."""
    done = run(*arguments, text=text, **env)
    assert (done.code, done.err) == (0, "")
    return done


def lines(*numbers: int) -> bytes:
    """Episodes as a log of graphmem's own format."""
    return "".join(dump(episode(number)) + "\n" for number in numbers).encode()
