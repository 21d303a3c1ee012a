"""Another process that writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.learner import Learner, environment, holding


@pytest.fixture
def holder(folder: str) -> Iterator[Learner]:
    with holding(environment(folder)) as holder:
        yield holder


@pytest.fixture
def always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader takes a new snapshot as soon as another process wrote."""
    monkeypatch.setattr("graphmem.store.embedded_sessions.SNAPSHOT_SECONDS", 0.0)
    monkeypatch.setattr("graphmem.store.embedded_sessions._COSTLY", 0.0)
