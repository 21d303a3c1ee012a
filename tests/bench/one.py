"""Run one benchmark and print its results as a line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from tests.bench import (
    asked_server,
    embedded,
    embedding,
    erasing,
    forecasting,
    integrations,
    lessons,
    lessons_server,
    levels,
    loop,
    loop_scale,
    loop_speed,
    loop_value,
    mcp,
    otlp,
    policies,
    policies_server,
    recall,
    recall_scale,
    recall_server,
    relevance,
    scale,
    server,
    ui,
    workers,
    writers,
    writers_server,
)


def main() -> None:
    """Run the benchmark that the arguments name."""
    name, share = sys.argv[1], float(sys.argv[2])
    modules = (
        embedded,
        server,
        policies,
        policies_server,
        lessons,
        lessons_server,
        recall,
        recall_scale,
        recall_server,
        relevance,
        embedding,
        erasing,
        forecasting,
        integrations,
        levels,
        loop,
        loop_scale,
        loop_speed,
        loop_value,
        otlp,
        scale,
        workers,
        ui,
        writers,
        writers_server,
        asked_server,
        mcp,
    )
    benchmark = next(m.BENCHMARKS[name] for m in modules if name in m.BENCHMARKS)
    with tempfile.TemporaryDirectory(prefix="graphmem-bench-") as folder:
        results = benchmark(Path(folder), share)
    print(json.dumps([asdict(result) for result in results]))


if __name__ == "__main__":
    main()
