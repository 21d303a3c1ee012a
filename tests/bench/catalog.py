"""All benchmarks: a function by each name, apart by the engine that they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.bench import (
    embedded,
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
    policies,
    recall,
    recall_scale,
    recall_server,
    relevance,
    scale,
    server,
    writers,
)
from tests.bench.report import Result

Benchmark = Callable[[Path, float], list[Result]]
"""Runs in a folder, with a share of the full sizes."""


def _merged(*parts: Mapping[str, Benchmark]) -> dict[str, Benchmark]:
    return {name: benchmark for part in parts for name, benchmark in part.items()}


EMBEDDED = _merged(
    embedded.BENCHMARKS,
    erasing.BENCHMARKS,
    policies.BENCHMARKS,
    recall.BENCHMARKS,
    recall_scale.BENCHMARKS,
    relevance.BENCHMARKS,
    embedding.BENCHMARKS,
    forecasting.BENCHMARKS,
    integrations.BENCHMARKS,
    levels.BENCHMARKS,
    loop.BENCHMARKS,
    loop_scale.BENCHMARKS,
    loop_speed.BENCHMARKS,
    loop_value.BENCHMARKS,
    otlp.BENCHMARKS,
    scale.BENCHMARKS,
    writers.BENCHMARKS,
)
SERVER = _merged(
    server.BENCHMARKS,
    erasing.ON_SERVER,
    recall_server.BENCHMARKS,
)
