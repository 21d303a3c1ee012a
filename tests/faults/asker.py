"""Asks a memory hostile queries; prints how each ended, and the peaks of memory in MB."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from graphmem import Memory, Settings
from graphmem.errors import QueryError
from tests.faults.attack import peak
from tests.faults.hostile import LARGE, SLOW


def main(names: list[str]) -> None:
    """Ask each of these, for at most a second and 256 MB."""
    with Memory.open("memory:", settings=Settings(query_seconds=1.0)) as memory:
        memory.learn_many(
            [
                {
                    "task": f"task {n % 20}",
                    "strategy": [f"way {n % 7}", f"turn {n}"],
                    "success": True,
                }
                for n in range(60)
            ]
        )
        for name in names:
            began, end = time.monotonic(), "answered"
            try:
                memory.query({**SLOW, **LARGE}[name])
            except QueryError as error:
                end = str(error)
            print(f"{name}|{time.monotonic() - began:.2f}|{end}")
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, peak())


if __name__ == "__main__":
    main(sys.argv[1:])
