"""Run the command line as a person runs it, and see its output and its exit code."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from graphmem.cli import main
from tests.faults.learner import episode

CODE = "from graphmem.cli import main; main()"
HUSH = {"GRAPHMEM_PASSWORD": "hush"}  # of no server


def start(*arguments: str, **options: Any) -> subprocess.Popen[Any]:
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", CODE, *arguments], **{**pipes, **options})


def shown_on(terminal: int) -> bytes:
    """What is shown on a terminal until its other end is closed."""
    shown = b""
    with contextlib.suppress(OSError):
        while data := os.read(terminal, 65_536):
            shown += data
    os.close(terminal)
    return shown


class Done:
    """What a command did: ``code``, ``out``, ``err``."""

    def __init__(self, code: int, out: bytes, err: bytes) -> None:
        self.code = code
        self.out = out.decode()
        self.err = err.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def call(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run ``graphmem`` to its end in this process, which is ten times as fast as another."""
    given = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    out, err = io.BytesIO(), io.BytesIO()
    streams = {"stdin": given, "stdout": out, "stderr": err}
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir("."):
        for name, stream in streams.items():
            wrapped = io.TextIOWrapper(stream, encoding="utf-8", write_through=True)
            patch.setattr(sys, name, wrapped)
        for name, value in {"OPENBLAS_NUM_THREADS": "1", **env}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


def run(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run a command without ``--debug``: none shows a traceback by itself."""
    done = call(*arguments, text=text, **env)
    assert "Traceback" not in done.err, done.err
    return done


def good(*arguments: str, text: bytes | str = b"", **env: str) -> Done:
    """Run a command that must succeed and has nothing to complain of."""
    done = run(*arguments, text=text, **env)
    assert (done.code, done.err) == (0, "")
    return done


def complaint(*arguments: str, code: int = 2, **env: str) -> str:
    """Run a command that must print a complaint and nothing else; return it."""
    done = run(*arguments, **env)
    assert (done.code, done.out) == (code, "")
    return done.err


def lines(*numbers: int) -> bytes:
    return "".join(
        episode(number).model_dump_json(exclude_defaults=True) + "\n" for number in numbers
    ).encode()


DEPLOY = {"task": "deploy", "replicas": 3}
