"""popoto, with a Redis of its own, and alma-memory: what benchmarks are compared with.

Redis runs on the loopback address, without a disk, as long as the benchmark. Each peer is installed
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
ALMA = "alma-memory==0.11.0"
MISSING_IN_ALMA = "numpy"
"""What alma-memory imports, and does not require."""
CACHE = Path(__file__).resolve().parents[2] / ".cache"
START_SECONDS = 10.0


class PeerMissingError(Exception):
    """A peer, or what it needs, cannot be had here; says how to get it."""


class Peer:
    """A process with a peer: its interpreter runs a module of this folder."""

    def __init__(self, python: Path, worker: str, **environment: str) -> None:
        self._worker = worker
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name(worker))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def ask(self, name: str, *arguments: Any) -> Any:
        """Have a method of the module's class ``Worker`` run and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._worker} failed at {name}; what it said is above")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()


@contextlib.contextmanager
def popoto(count: int) -> Iterator[list[Peer]]:
    """Yield so many workers, each with an empty database; none, said loudly, where that fails."""
    with contextlib.ExitStack() as stack:
        workers: list[Peer] = []
        try:
            python = _environment("popoto", POPOTO)
            port = stack.enter_context(_redis())
        except PeerMissingError as missing:
            print(f"NO POPOTO, its figures are left out: {missing}", file=sys.stderr, flush=True)
        else:
            for database in range(count):
                url = f"redis://127.0.0.1:{port}/{database}"
                worker = Peer(python, "popoto_worker.py", REDIS_URL=url)
                stack.callback(worker.close)
                workers.append(worker)
        yield workers


@contextlib.contextmanager
def alma(count: int) -> Iterator[list[Peer]]:
    """Yield so many workers, each without a memory yet; none, said loudly, where that fails."""
    with contextlib.ExitStack() as stack:
        workers: list[Peer] = []
        try:
            python = _environment("alma", ALMA, MISSING_IN_ALMA)
        except PeerMissingError as missing:
            print(f"NO ALMA, its figures are left out: {missing}", file=sys.stderr, flush=True)
        else:
            for _ in range(count):
                worker = Peer(python, "alma_worker.py")
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


def _environment(name: str, *requirements: str) -> Path:
    """Return the interpreter of an environment that has a peer, made when it is first needed."""
    home = CACHE / f"bench-{name}"
    python = home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = home / requirements[0]
    if stamp.exists():
        return python
    what = " and ".join(requirements)
    print(f"installing {what} into {home}", file=sys.stderr, flush=True)
    try:
        venv.create(home, clear=True, with_pip=True)
        subprocess.run(
            [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *requirements],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PeerMissingError(f"{what} could not be installed: {error}") from error
    stamp.touch()
    return python
