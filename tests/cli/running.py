"""Run the command line as a person runs it: a process, its output and its exit code."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from graphmem.seeding.jsonl import dump
from tests.cli import forking
from tests.cli.forking import CODE
from tests.faults.learner import episode

HUSH = {"GRAPHMEM_PASSWORD": "hush"}  # of no server


@functools.cache
def quick() -> Path:
    """A folder with a ``graphmem`` that runs in a fork of a process that has imported everything.

    It does what the real one does, in a tenth of the time. The process is started at the first
    call, and ends with this one.
    """
    folder = Path(tempfile.mkdtemp(prefix="graphmem-quick-"))
    command = folder / "graphmem"
    if hasattr(os, "pidfd_open"):
        socket = str(folder / "socket")
        server = subprocess.Popen(
            [sys.executable, forking.__file__, socket],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us; it ends with its standard input
        )
        assert server.stdout
        assert server.stdout.readline() == b"ready\n"
        run_by = [sys.executable, "-I", "-S", forking.__file__, socket]

        @atexit.register
        def end() -> None:
            server.communicate(timeout=10)
            shutil.rmtree(folder, ignore_errors=True)
    else:
        run_by = [sys.executable, "-c", CODE]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(run_by)} "$@"\n')
    command.chmod(0o755)
    return folder


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
    process = subprocess.Popen(
        [quick() / "graphmem", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
    )
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
