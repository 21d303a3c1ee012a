"""Fixtures for the command line: a place for a memory, a memory, and a log to seed it from."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from graphmem import Memory
from tests.cli.running import DEPLOY, lines
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
    """Two actions with values, one that was only observed, one of another agent; and events."""
    may = datetime(2026, 5, 1, tzinfo=UTC)
    with Memory.open(url) as memory:
        policies = memory.policies
        for place in range(10):
            policies.update(
                DEPLOY, "run", 1.0, next_state={"task": "check"}, success=place != 3, at=may
            )
        policies.update(DEPLOY, "wait", -1.0, spec={"for": 60}, terminal=True, at=may)
        policies.signal(DEPLOY, "run", 0.75)
        policies.update(DEPLOY, "page $x$ 写", success=False)
        time.sleep(0.002)  # events of one millisecond come in the order of their agents
        policies.update(DEPLOY, "run", 5.0, terminal=True, agent="ada")
    return url


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 12 episodes."""
    file = tmp_path / "runs.jsonl"
    file.write_bytes(lines(*range(12)))
    return file
