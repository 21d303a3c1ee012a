"""popoto, with a Redis of its own: what the benchmarks of policies are compared with.

Redis runs on the loopback address, without a disk, as long as the benchmark. popoto is installed
into an environment of its own below ``.cache``, so that what it needs stays out of ours.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POPOTO = "popoto==1.10.1"
HOME = Path(__file__).resolve().parents[2] / ".cache" / "bench-popoto"
WORKER = Path(__file__).with_name("popoto_worker.py")
START_SECONDS = 10.0


class PeerMissingError(Exception):
    """popoto or Redis cannot be had here; says how to get it."""


class Popoto:
    """A process with popoto, on one database."""

    def __init__(self, python: Path, url: str) -> None:
        self._process = subprocess.Popen(
            [str(python), str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "REDIS_URL": url},
        )

    def ask(self, name: str, *arguments: Any) -> Any:
        """Have a method of ``popoto_worker.Worker`` run and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"popoto failed at {name}; what it said is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


@contextlib.contextmanager
def popoto(count: int) -> Iterator[list[Popoto]]:
    """Yield so many workers, each with an empty database; none, said loudly, where that fails."""
    with contextlib.ExitStack() as stack:
        workers: list[Popoto] = []
        try:
            python = _environment()
            port = stack.enter_context(_redis())
        except PeerMissingError as missing:
            print(f"NO POPOTO, its figures are left out: {missing}", file=sys.stderr, flush=True)
        else:
            for database in range(count):
                worker = Popoto(python, f"redis://127.0.0.1:{port}/{database}")
                stack.callback(worker.close)
                workers.append(worker)
        yield workers


@contextlib.contextmanager
def _redis() -> Iterator[int]:
    """Run a Redis that keeps nothing; yield its port."""
    server = shutil.which("redis-server")
    if server is None:
        raise PeerMissingError("no redis-server; apt-get install redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="graphmem-bench-redis-") as folder:
        place = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        process = subprocess.Popen(
            [server, *place, "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL
        )
        try:
            _wait(port, process)
            yield port
        finally:
            process.terminate()
            process.wait()


def _wait(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise PeerMissingError(f"redis-server did not start within {START_SECONDS:g} s")


def _environment() -> Path:
    """Return the interpreter of an environment that has popoto, made when it is first needed."""
    python = HOME / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = HOME / POPOTO
    if stamp.exists():
        return python
    print(f"installing {POPOTO} into {HOME}", file=sys.stderr, flush=True)
    try:
        venv.create(HOME, clear=True, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", POPOTO],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerMissingError(f"{POPOTO} could not be installed: {error}") from error
    stamp.touch()
    return python
