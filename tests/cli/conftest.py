"""Fixtures for the command line: a place for a memory, a memory, and a log to seed it from."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import lines, teach
from tests.faults.learner import episode


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "runs.graph")


@pytest.fixture
def seeded(url: str) -> str:
    """A memory of 30 episodes."""
    with Memory.open(url) as memory:
        memory.learn_many([episode(number) for number in range(30)])
    return url


@pytest.fixture
def learned(url: str) -> str:
    """A memory of policies and events."""
    teach(url)
    return url


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 12 episodes."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines(*range(12)))
    return file
