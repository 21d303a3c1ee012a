"""Run one benchmark and print its results as a line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.bench.catalog import EMBEDDED, SERVER


def main() -> None:
    """Run the benchmark that the arguments name."""
    name, share = sys.argv[1], float(sys.argv[2])
    benchmark = {**EMBEDDED, **SERVER}[name]
    with tempfile.TemporaryDirectory(prefix="graphmem-bench-") as folder:
        results = benchmark(Path(folder), share)
    print(json.dumps([asdict(result) for result in results]))


if __name__ == "__main__":
    main()
