"""Whatever is done in whatever order, the stored numbers are those that the facts say."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import Bundle, invariant, multiple, rule

from graphmem import Episode
from graphmem.errors import ConflictError
from tests.conftest import Opener
from tests.contract.teaching import day, uses
from tests.machines import MemoryMachine, run

episodes = st.builds(
    Episode,
    task=st.sampled_from(["book", "cancel", "refund"]),
    task_key=st.sampled_from([None, None, "k"]),
    task_type=st.sampled_from([None, "a", "b"]),
    strategy=uses.filter(bool),
    score=st.floats(0, 1),
    agent=st.sampled_from(["anna", "ben"]),
    ended_at=st.none() | st.integers(0, 400).map(day),
    source_key=st.integers(0, 30).map(str),
)


class Machine(MemoryMachine):
    """Learn, learn in batches, erase, reopen, rebuild; a plain model counts along."""

    learned = Bundle("learned")

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Episode] = {}

    @rule(target=learned, episode=episodes)
    def learn(self, episode: Episode) -> Any:
        key = str(episode.source_key)
        try:
            answer = self.memory._learner.learn(episode)
        except ConflictError:
            assert self.known[key] != episode
            return multiple()
        assert answer.created == (key not in self.known)
        self.known.setdefault(key, episode)
        return key

    @rule(target=learned, batch=st.lists(episodes, max_size=6), size=st.integers(1, 4))
    def learn_many(self, batch: list[Episode], size: int) -> Any:
        expected = dict(self.known)
        for episode in batch:
            expected.setdefault(str(episode.source_key), episode)
        report = self.memory.learn_many(batch, batch_size=size, on_error="collect")
        assert report.created == len(expected) - len(self.known)
        self.known = expected
        return multiple(*{str(episode.source_key) for episode in batch})

    @rule(key=learned)
    def erase(self, key: str) -> None:
        if key in self.known:
            found = self.memory.query(
                "MATCH (e:Episode {source_key: $key}) WHERE e.ns = $ns RETURN e.id AS id", key=key
            )
            self.memory.upkeep.erase(found[0]["id"])
            del self.known[key]

    @rule()
    def reopen(self) -> None:
        super().reopen()

    @rule()
    def rebuild(self) -> None:
        self.memory.upkeep.rebuild()

    @invariant()
    def the_facts_say_so(self) -> None:
        report = self.memory.verify()
        assert report.ok, report.differences
        counted = {row.text: (row.trials, row.successes) for row in self.memory.strategies()}
        expected: dict[str, tuple[int, int]] = {}
        for episode in self.known.values():
            success = (episode.score or 0.0) >= 0.5
            for use in episode.strategy:
                if use.applied:
                    trials, successes = expected.get(use.text, (0, 0))
                    expected[use.text] = (trials + 1, successes + success)
        assert counted == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_any_order_of_calls_leaves_numbers_that_the_facts_say(opened: Opener, engine: str) -> None:
    examples, steps = (60, 25) if engine == "embedded" else (8, 12)
    run(Machine, opened, examples, steps)
