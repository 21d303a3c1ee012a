"""Settling: an outcome that is told later stands in the place of the one that was learned."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Episode, Memory, Step
from graphmem.errors import ConflictError, NotFoundError, ValidationError
from graphmem.models.reports import Told
from tests.conftest import Clock, Opener
from tests.contract.teaching import (
    ERRORS,
    Dump,
    attempts,
    checked,
    day,
    dump,
    histories,
    known,
    learn_each,
    reference,
)
from tests.faults.attack import rounds

HOUR = timedelta(hours=1)


told = st.lists(
    st.tuples(
        st.integers(0, 14), st.sampled_from([0.0, 0.4, 0.6, 1.0]), st.sampled_from([None, *ERRORS])
    ),
    min_size=1,
    max_size=6,
)
"""Which episodes are settled, with what score and error."""


def derived(memory: Memory) -> Dump:
    """What a memory holds, but for how it got to know its outcomes."""
    found = dump(memory)
    ours = ("Settlement ", "Pending ", "Consolidation ")
    for key in [key for key in found if key.startswith(ours) or " SETTLES " in key]:
        del found[key]
    for key, held in found.items():
        if key.startswith("Episode"):
            held.pop("content_hash")
    return found


def rate(memory: Memory, strategy: str) -> tuple[int, int]:
    """Successes and trials of a strategy."""
    return next((row.successes, row.trials) for row in memory.strategies() if row.text == strategy)


class TestOutcome:
    def test_a_thumbs_down_replaces_the_success(self, memory: Memory) -> None:
        for number in range(3):
            memory.learn("refund", "at once", success=True, source_key=f"run-{number}")
        settled = memory.settle("run-1", success=False, error="timeout: no answer")
        assert settled.changed
        assert rate(memory, "at once") == (2, 3)
        row = memory.episodes(success=False)[0]
        assert (row.id, row.score, row.error) == (settled.episode_id, 0.0, "timeout: no answer")
        checked(memory)

    def test_the_former_outcomes_stay_readable(self, memory: Memory) -> None:
        learned = memory.learn("refund", "at once", score=0.9, source_key="run")
        first = datetime.now(UTC)
        memory.settle("run", score=0.2, error="timeout", at=first)
        settled = memory.settle(learned.episode_id, success=True)
        row = memory.episodes()[0]
        assert (row.success, row.score, row.error) == (True, 1.0, None)
        millisecond = first.replace(microsecond=first.microsecond // 1000 * 1000)
        assert row.former == settled.former
        assert row.former == (
            Told(at=None, success=True, score=0.9, error=None),
            Told(at=millisecond, success=False, score=0.2, error="timeout"),
        )
        assert row.settled_at is not None
        shown = memory.show(row.id).fields
        assert shown["former"] == [one.model_dump(mode="json") for one in row.former]
        assert "settled_at" in shown

    def test_the_record_that_was_learned_stays_known(self, memory: Memory) -> None:
        given: dict[str, Any] = {"task": "refund", "strategy": "at once", "source_key": "run"}
        memory.learn(**given, success=True)
        memory.settle("run", success=False)
        assert not memory.learn(**given, success=True).created
        with pytest.raises(ConflictError):
            memory.learn(**given, success=False)
        assert rate(memory, "at once") == (0, 1)

    def test_the_latest_that_was_told_counts_whatever_came_first(self, memory: Memory) -> None:
        memory.learn("refund", "at once", success=True, source_key="run", ended_at=day(0))
        memory.settle("run", score=0.7, at=day(3))
        assert memory.settle("run", score=0.1, at=day(2)).changed
        assert memory.episodes()[0].score == 0.7
        assert [one.score for one in memory.episodes()[0].former] == [1.0, 0.1]
        checked(memory)

    def test_an_error_that_was_learned_stays_and_a_given_reward_too(self, memory: Memory) -> None:
        memory.learn("a", "x", success=False, error="timeout", reward=7.0, source_key="run")
        memory.settle("run", score=0.2)
        row = memory.query(
            "MATCH (e:Episode {ns: $ns}) RETURN e.reward AS reward, e.error AS error"
        )[0]
        assert dict(row) == {"reward": 7.0, "error": "timeout"}


class TestDerived:
    """Everything is as if the episode had been learned with the later outcome."""

    @hypothesis.settings(max_examples=rounds(15, 1_000))
    @hypothesis.given(history=histories(5, 15), told=told)
    def test_it_equals_a_memory_that_learned_the_later_outcome(
        self, opened: Opener, clock: Clock, history: list[Episode], told: list[Any]
    ) -> None:
        now = {episode.source_key: episode for episode in history}
        with opened(f"settle-{uuid4().hex[:12]}") as memory, reference(memory) as other:
            learn_each(memory, clock, enumerate(history))
            memory.lessons.consolidate(force=True)
            for place, score, error in told:
                episode = history[place % len(history)]
                memory.settle(str(episode.source_key), score=score, error=error)
                later = {"score": score, "error": error or episode.error}
                now[episode.source_key] = episode.model_copy(update=later)
            checked(memory)
            learn_each(other, clock, enumerate(now.values()))
            other.lessons.consolidate(force=True)
            assert derived(memory) == derived(other)
            memory.upkeep.rebuild()
            assert derived(memory) == derived(other)

    def test_policies_follow(self, memory: Memory) -> None:
        step = Step(action_type="push", state={"door": "shut"}, terminal=True)
        for number in range(3):
            memory.learn("a", "x", success=True, steps=[step], source_key=str(number))
        memory.settle("1", success=False)
        policy = known(memory, {"door": "shut"}, "push")
        assert (policy.successes, policy.trials) == (2, 3)
        checked(memory)

    def test_erasing_the_episode_erases_what_was_told(self, memory: Memory) -> None:
        attempts(memory, "plan", 2)
        before = dump(memory)
        learned = memory.learn("deploy", "plan", success=True)
        memory.settle(learned.episode_id, success=False, error="timeout")
        memory.settle(learned.episode_id, score=0.8)
        memory.upkeep.erase(learned.episode_id)
        assert dump(memory) == before
        with pytest.raises(NotFoundError):
            memory.settle(learned.episode_id, success=True)

    def test_verify_finds_an_outcome_that_was_changed_past_it(self, memory: Memory) -> None:
        memory.learn("a", "x", success=True, source_key="run")
        memory.settle("run", success=False)
        graph = memory._graph
        outcome = {"success": True, "score": 1.0, "reward": 1.0}
        [row] = graph.read("maintenance.classes", ids=[memory.episodes()[0].id])
        graph.write("settling.put", rows=[{**row, **outcome}])
        assert memory.verify().differing["episodes"] == 3
        memory.upkeep.rebuild()
        assert memory.episodes()[0].score == 0.0
        checked(memory)


class TestAbandoned:
    def attempt(self, memory: Memory) -> str:
        with memory.attempt("book a flight") as attempt:
            attempt.used("ask first")
            attempt.step("look", {"pnr": "ABC"})
        return str(attempt.episode_id)

    def test_it_comes_alive(self, memory: Memory) -> None:
        key = self.attempt(memory)
        settled = memory.settle(key, score=0.9)
        assert (memory.stats().episodes, memory.stats().abandoned) == (1, 0)
        row = memory.episodes()[0]
        assert (row.id, row.success, row.steps) == (settled.episode_id, True, 1)
        assert row.strategies == ("ask first",)
        assert row.former == (Told(at=None, success=None, score=None, error=None),)
        assert not memory.settle(key, score=0.9).changed
        assert memory.settle(key, score=0.1).changed
        assert [one.score for one in memory.episodes()[0].former] == [None, 0.9]
        checked(memory)

    def test_it_stays_alive_when_it_is_imported_again(self, memory: Memory, tmp_path: Path) -> None:
        key = self.attempt(memory)
        memory.upkeep.export(tmp_path / "before.jsonl", "jsonl")
        memory.settle(key, success=True)
        assert memory.upkeep.import_(tmp_path / "before.jsonl", "jsonl").abandoned == 0
        assert memory.stats().abandoned == 0


def test_an_export_carries_what_was_told(memory: Memory, opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    memory.learn("a", "x", success=True, source_key="keyed")
    own = [memory.learn("a", "x", success=True).episode_id for _ in range(2)]
    with memory.attempt("b") as attempt:
        attempt.used("y")
    memory.settle("keyed", success=False, error="timeout")
    memory.settle(own[1], score=0.6)
    memory.settle(str(attempt.episode_id), score=0.3)
    memory.settle(str(attempt.episode_id), score=0.4)
    assert memory.upkeep.export(path, "jsonl").settled == 4
    other = opened(f"settle-{uuid4().hex[:12]}")
    assert other.upkeep.import_(path, "jsonl").settled == 4

    def told(one: Memory) -> list[Any]:
        return sorted((row.score, row.error or "", row.former) for row in one.episodes())

    assert told(other) == told(memory)
    assert other.upkeep.import_(path, "jsonl").settled == 0
    checked(other)


def test_the_past_counts_what_was_told_by_then(memory: Memory) -> None:
    memory.learn("refund", "ask", success=True, source_key="run 1")
    before = datetime.now(UTC)
    time.sleep(0.01)
    memory.settle("run 1", success=False, error="the customer came back")
    after = datetime.now(UTC)
    assert memory.predict("refund", "ask", as_of=before).probability > 0.6
    assert memory.predict("refund", "ask", as_of=after).probability < 0.4
    assert memory.predict("refund", "ask").probability < 0.4


class TestWrong:
    @pytest.mark.parametrize(
        ("given", "field", "why"),
        [
            ({}, "success", "the outcome is unknown"),
            ({"success": True, "score": 0.9}, "success", "beside score 0.9"),
            ({"score": 1.5}, "score", "1.5"),
            ({"success": True, "at": datetime.now(UTC) + HOUR}, "at", "in the future"),
            ({"success": True, "at": day(3) - HOUR}, "at", "before the end of the episode"),
            ({"success": True, "at": datetime(2026, 2, 1)}, "at", "zone"),
        ],
    )
    def test_an_argument_is_named(
        self, memory: Memory, given: dict[str, Any], field: str, why: str
    ) -> None:
        memory.learn("a", "x", success=False, source_key="run", ended_at=day(3))
        before = dump(memory)
        with pytest.raises(ValidationError, match=why) as caught:
            memory.settle("run", **given)
        assert caught.value.field == field
        assert dump(memory) == before

    def test_an_unknown_key_is_named(self, memory: Memory) -> None:
        with pytest.raises(NotFoundError, match="run-7"):
            memory.settle("run-7", success=True)
