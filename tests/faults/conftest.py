"""A folder, and another process that writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graphmem import Settings
from tests.faults.learner import Learner, environment, learning


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Where a memory will be."""
    return str(tmp_path / "memory.graph")


@pytest.fixture
def holder(folder: str) -> Iterator[Learner]:
    """Another process that writes."""
    with learning(environment(folder, "default", Settings()), 0, 1, "hold") as holder:
        holder.wait_for("done")
        yield holder
