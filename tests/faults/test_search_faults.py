"""Vectors and edges after a crash between the two, and beside another process that writes."""

from __future__ import annotations

from pathlib import Path

from graphmem import Memory, Settings
from tests.faults.learner import STRATEGIES, environment, holding


def test_a_reader_searches_beside_a_writer(tmp_path: Path) -> None:
    url = str(tmp_path / "shared.graph")
    settings = Settings(wait=0.1, embedder="hashing")
    with holding(environment(url, "default", settings), 3) as learner:
        patient = settings.model_copy(update={"wait": 600.0})  # who waited would not end
        with Memory.open(url, settings=patient) as reader:
            for _ in range(2):
                assert reader.choose("task 3", agent=None).text in STRATEGIES
                assert {item.text for item in reader.recall("task 3", kinds=["strategy"]).items}
                assert reader.predict("task 8", STRATEGIES[0]).basis.task.borrowed
                assert reader.context("task 3")
                assert reader.explain(STRATEGIES[0])
                found = {row.text for row in reader.similar(STRATEGIES[0])}
                assert found == set(STRATEGIES[1:])
            assert reader.upkeep.pending() == {"Strategy": 3, "Task": 7}  # nothing is written
        learner.let_go()
        learner.finish()
    with Memory.open(url, settings=settings) as memory:
        assert memory.similar(STRATEGIES[0])
        assert memory.upkeep.pending() == {"Strategy": 3, "Task": 7}  # nor where nobody writes
        memory.learn("task 3", STRATEGIES[0], success=True)
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 0}
        assert memory.verify().ok


def test_who_only_asks_does_not_take_the_lease(tmp_path: Path) -> None:
    settings = Settings(embedder="hashing")
    with Memory.open(tmp_path / "own.graph", settings=settings) as memory:
        memory.learn("refund a flight", ["check the fare", "ask first"], success=True)
    with Memory.open(tmp_path / "own.graph", settings=settings) as memory:
        memory.choose("refund a train", ["check the fare", "ask first"])
        memory.recall("refund a flight")
        assert memory.context("refund a flight")
        assert not memory.store.writing
        assert memory.upkeep.pending() == {"Strategy": 2, "Task": 1}
        memory.learn("refund a train", "check the fare", success=True)  # stores what they embedded
        assert memory.upkeep.pending() == {"Strategy": 0, "Task": 1}
    with Memory.open(tmp_path / "own.graph", settings=settings) as again:
        assert again.upkeep.relink().embedded == 1  # the rest is stored
