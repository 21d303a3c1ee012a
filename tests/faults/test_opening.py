"""Opening a folder again: what is loaded for reading and for writing, and a log is read once."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import kglite
import pytest

from graphmem import Memory
from graphmem.store import embedded_files
from tests.faults.learner import BATCH, batch, learn_one

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the lease is held until closing there"),
    pytest.mark.usefixtures("always_fresh"),
]


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    load = kglite.open_session

    def noting(path: str, **options: Any) -> kglite.Session:
        seen.append(path)
        return load(path, **options)

    monkeypatch.setattr(kglite, "open_session", noting)
    return seen


def test_a_graph_is_loaded_to_read_and_once_to_write(folder: str, loads: list[str]) -> None:
    """To be read it is loaded without the lease, in less time; the first write loads it again."""
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
    loads.clear()
    with Memory.open(folder) as memory, Memory.open(folder) as same:
        assert memory.stats().episodes == BATCH
        assert not memory.store.writing
        assert len(loads) == 1
        assert learn_one(memory, "own", 0).created
        assert memory.store.writing
        assert same.stats().episodes == BATCH + 1
        assert learn_one(same, "own", 1).created
        assert len(loads) == 2


def reads(memory: Memory) -> int:
    return sum(row["n"] or 0 for row in memory.query("MATCH (s:Strategy) RETURN s.reads AS n"))


def test_reads_are_counted_by_who_also_writes(folder: str, loads: list[str]) -> None:
    """Who only asked loads nothing to count them, and leaves the files as they are."""
    with Memory.open(folder) as memory:
        memory.learn_many(batch(0))
        memory.upkeep.relink()
    before = {file.name: file.stat().st_mtime_ns for file in Path(folder).glob("graph.kgl*")}
    loads.clear()
    with Memory.open(folder) as memory:
        assert memory.recall("task 3").items
    assert len(loads) == 1
    after = {file.name: file.stat().st_mtime_ns for file in Path(folder).glob("graph.kgl*")}
    assert after == before
    with Memory.open(folder) as memory:
        assert reads(memory) == 0
        assert memory.recall("task 3").items
        assert learn_one(memory, "own", 0).created
    with Memory.open(folder) as memory:
        assert reads(memory) > 0
        assert memory.verify().ok


def test_a_log_that_rests_is_folded_into_the_graph_file(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine takes long to read a log; so who is killed while it does nothing leaves none."""
    monkeypatch.setattr(embedded_files, "SELDOM", 0.1)
    with Memory.open(folder) as memory:
        assert learn_one(memory, "own", 0).created
        end = time.monotonic() + 60
        while embedded_files.holds_log(Path(folder)):
            assert time.monotonic() < end
            time.sleep(0.01)
        assert memory.store.writing
