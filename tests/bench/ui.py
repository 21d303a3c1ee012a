"""How long the first view of the page takes in a real Chromium, beside that of an empty memory.

The server is the command `graphmem ui`, in a process of its own. The browser takes the time, from
the moment the address is opened until what works best stands there; the counts come later.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver

from graphmem import Memory
from graphmem.search.embedding import open_embedder
from tests.bench.loop_scale import fill
from tests.bench.report import Result
from tests.view.chromium import found, opened

EPISODES = 100_000
ROUNDS = 15
ASKED = 1_000
"""Milliseconds."""
_SHOWN = "return performance.getEntriesByName('shown')[0]?.startTime ?? null"


@contextmanager
def _page(folder: Path) -> Iterator[str]:
    """Serve a memory; give the address that the command prints."""
    command = [sys.executable, "-m", "graphmem", "--url", str(folder), "ui", "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.terminate()
        server.wait()


def _first_view(window: webdriver.Chrome, address: str) -> float:
    """Open the page; return the milliseconds until it stood there."""
    window.get("about:blank")
    window.get(address)
    deadline = time.monotonic() + 120
    while (shown := window.execute_script(_SHOWN)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError("the page shows nothing")
        time.sleep(0.02)
    time.sleep(1)  # what comes after it
    return float(shown)


def ui(folder: Path, scale: float) -> list[Result]:
    """Open both pages in turn."""
    size = max(int(EPISODES * scale), 200)
    there = found()
    if there is None:
        return [Result("the first view of the page", "no Chromium", "", "", "")]
    full, empty = folder / "full", folder / "empty"
    with Memory.open(full, embedder=open_embedder("hashing")) as memory:
        fill(memory, size)
    with Memory.open(empty) as memory:
        memory.learn("a task", "a way", success=True)
    window = opened(*there)
    try:
        with _page(full) as address, _page(empty) as other:
            first = _first_view(window, address)
            pairs = [
                (_first_view(window, address), _first_view(window, other)) for _ in range(ROUNDS)
            ]
    finally:
        window.quit()
    took, base = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [
        Result(
            f"the first view of the page at {size:,} episodes, in Chromium",
            f"p50 {took:,.0f} ms, the very first {first:,.0f} ms",
            f"a memory of one episode: {base:,.0f} ms",
            f"{took / base:.2f}",
            f"under {ASKED:,} ms",
        )
    ]


BENCHMARKS: Mapping[str, Callable[[Path, float], list[Result]]] = {"ui": ui}
