"""An attempt: from the beginning of a task to its end, of which exactly one episode is learned."""
# ruff: noqa: PT012 - what a block with several statements raises is what is tested

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Memory, Settings, StrategyUse
from graphmem.errors import (
    ForkedError,
    GraphMemError,
    NotFoundError,
    ScopeError,
    StoreError,
    ValidationError,
)
from graphmem.models.fields import MAX_STEPS
from tests.conftest import Clock, Opener
from tests.contract.teaching import dump

TASK = "refund a cancelled flight"
WAY = "check the fare rules"


def abandoned(memory: Memory) -> list[dict[str, Any]]:
    """The attempts without an outcome."""
    return list(memory.query("attempts.abandoned"))


class TestBlock:
    """``with memory.attempt(...) as attempt``."""

    def test_one_episode_at_its_end(self, memory: Memory, clock: Clock) -> None:
        clock.now = 1_780_000_000_000
        with memory.attempt(TASK, agent="ada", task_type="refund", source="shop") as attempt:
            assert attempt.context == ""
            attempt.used(WAY, StrategyUse("ask first", credit=0.5))
            attempt.step("lookup", {"pnr": "ABC"}, observation="flexible fare")
            attempt.step("refund", reward=1.0, terminal=True)
            attempt.succeed(score=0.9, feedback="well done", successes=["read the rules first"])
            clock.now += 1_500
            assert (attempt.episode_id, memory.episodes()) == (None, [])
        [episode] = memory.episodes()
        assert (episode.id, episode.task) == (attempt.episode_id, TASK)
        assert (episode.success, episode.score, episode.error) == (True, 0.9, None)
        assert episode.strategies == (WAY, "ask first")
        [times] = memory.query(
            "MATCH (e:Episode) WHERE e.ns = $ns RETURN e.started_at AS started_at, "
            "e.ended_at AS ended_at, e.duration AS duration"
        )
        assert list(times.values()) == [1_780_000_000_000, 1_780_000_001_500, 1.5]
        [row] = memory.strategies(TASK, agent="ada", limit=1)
        assert (row.trials, row.successes) == (1, 1)
        assert memory.stats().steps == 2
        assert memory.verify().ok

    def test_an_exception_is_a_failure_unless_something_was_said(self, memory: Memory) -> None:
        class OddError(Exception):
            def __str__(self) -> str:
                raise RuntimeError

        for error in (KeyError("ABC"), OddError(), ValueError("\ud800")):
            with pytest.raises(type(error)), memory.attempt(TASK) as attempt:
                attempt.used(WAY)
                raise error
        with pytest.raises(KeyError), memory.attempt(TASK) as attempt:
            attempt.succeed()
            raise KeyError("ABC")
        ends = {(episode.success, episode.error) for episode in memory.episodes()}
        failures = {"KeyError: 'ABC'", "OddError", "ValueError: ?"}
        assert ends == {(True, None), *((False, error) for error in failures)}

    def test_strategies_are_named_chosen_or_left_out(self, memory: Memory) -> None:
        """A text changes nothing; a StrategyUse replaces what is there."""
        with memory.attempt(TASK) as attempt:
            with pytest.raises(NotFoundError):
                attempt.choose()
            attempt.succeed()
        assert memory.strategies() == []
        assert memory.episodes(TASK)[0].score == 1.0
        with memory.attempt(TASK) as attempt:
            attempt.used(WAY)
            attempt.used(StrategyUse(WAY, applied=False), "ask first")
            attempt.used(WAY)
            attempt.succeed()
        assert {row.text: row.trials for row in memory.strategies()} == {"ask first": 1}
        with memory.attempt(TASK, agent="ada") as attempt:
            attempt.used("ask first")
            choice = attempt.choose([WAY, "ask first"], explore="epsilon", epsilon=0.5, seed=1)
            attempt.used(choice.text)  # which changes nothing
            attempt.used(StrategyUse(choice.text, credit=0.5))
            attempt.succeed()
        text = (
            "MATCH (e:Episode {id: $id})-[u:USED]->(s:Strategy {text: $text}) WHERE e.ns = $ns "
            "RETURN u.propensity AS propensity, u.explore AS explore, u.credit AS credit"
        )
        assert list(memory.query(text, text=choice.text, id=attempt.episode_id)) == [
            {"propensity": choice.propensity, "explore": "epsilon", "credit": 0.5}
        ]

    def test_the_context_is_that_of_the_agent_and_the_user(self, memory: Memory) -> None:
        memory.learn(TASK, WAY, success=True, agent="ada")
        memory.people.prefer("ann", "tone", "short")
        given: dict[str, Any] = {"agent": "ada", "user": "ann", "max_tokens": 90}
        with memory.attempt(TASK, **given) as attempt:
            assert attempt.context == memory.context(TASK, **given) != ""
            attempt.succeed()

    def test_attempts_within_attempts_and_threads(self, memory: Memory) -> None:
        def work(number: int) -> None:
            for step in range(20):
                attempt.step("count", step)
                attempt.used(f"way {number}")

        with memory.attempt(TASK) as attempt:
            threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with pytest.raises(ValueError), memory.attempt("look the fare up"):  # noqa: PT011
                raise ValueError
            attempt.succeed()
        ends = {row.task: row.success for row in memory.episodes()}
        assert ends == {TASK: True, "look the fare up": False}
        assert memory.stats().steps == 100
        assert len(memory.strategies()) == 5


class TestWithoutOutcome:
    """It is recorded as abandoned, and counts nowhere."""

    def test_nothing_else_sees_it(self, memory: Memory, still: Clock) -> None:
        memory.learn(TASK, WAY, success=True, ended_at=datetime(2026, 1, 1, tzinfo=UTC))
        before, stats = dump(memory), memory.stats()
        with memory.attempt(TASK, agent="ada", task_type="refund") as attempt:
            attempt.used(WAY)
            attempt.step("lookup")
        assert abandoned(memory) == [
            {
                "id": attempt.episode_id,
                "agent": "ada",
                "task": TASK,
                "task_type": "refund",
                "strategies": [WAY],
                "error": None,
                "started_at": still.now,
                "ended_at": still.now,
                "step_count": 1,
            }
        ]
        after = dump(memory)
        own = f"Abandoned {attempt.episode_id}"
        assert {key: value for key, value in after.items() if key != own} == before
        assert memory.stats() == stats.model_copy(update={"abandoned": 1})
        assert memory.strategies(agent="ada") == []
        assert memory.verify().ok
        memory.upkeep.rebuild()
        assert dump(memory) == after

    def test_an_interruption_or_an_error_of_the_memory_is_no_failure(self, memory: Memory) -> None:
        for raised in (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            with pytest.raises(raised), memory.attempt(TASK, strict=True) as attempt:
                attempt.used(WAY)
                raise raised
        with pytest.raises(ValidationError, match="score"), memory.attempt(TASK) as attempt:
            attempt.used(WAY)
            attempt.succeed(score=7)
        assert memory.episodes() == []
        errors = sorted(row["error"].split(" (")[0] for row in abandoned(memory))
        assert errors[:3] == ["CancelledError", "KeyboardInterrupt", "SystemExit"]
        assert errors[3].startswith("ValidationError: score")

    def test_it_is_erased_by_itself_or_with_its_agent(self, memory: Memory) -> None:
        for agent in ("ada", "bob", "bob"):
            with memory.attempt(TASK, agent=agent) as attempt:
                pass
        assert attempt.episode_id
        assert memory.upkeep.erase(agent="ada").abandoned == 1
        with pytest.raises(NotFoundError, match="of 'ada'"):
            memory.upkeep.erase(attempt.episode_id, agent="ada")
        assert memory.upkeep.erase(attempt.episode_id, agent="bob").abandoned == 1
        assert [row["agent"] for row in abandoned(memory)] == ["bob"]
        with pytest.raises(NotFoundError):
            memory.upkeep.erase(agent="ada")
        with pytest.raises(NotFoundError):
            memory.upkeep.erase(attempt.episode_id)

    def test_it_is_forgotten_by_age_alone(self, memory: Memory, clock: Clock) -> None:
        clock.now = 1_780_000_000_000
        with memory.attempt(TASK):
            pass
        clock.now += 10 * 86_400_000
        with memory.attempt(TASK) as young:
            pass
        forget = memory.upkeep.forget
        assert forget(below_confidence=0.9).abandoned == 0
        assert forget(older_than=5, dry_run=True).abandoned == 1
        assert len(abandoned(memory)) == 2
        assert forget(older_than=5).abandoned == 1
        assert [row["id"] for row in abandoned(memory)] == [young.episode_id]

    def test_json_lines_hold_it(self, memory: Memory, opened: Opener, tmp_path: Path) -> None:
        from graphmem.seeding import seed, sources

        for agent in ("ada", "bob"):
            with memory.attempt(TASK, agent=agent, extra={"pnr": "ABC"}, task_key="k") as attempt:
                attempt.used(WAY, StrategyUse("ask first", credit=0.5))
                attempt.step("lookup", {"pnr": "ABC"}, state={"x": 1}, observation="a fare")
        with memory.attempt(TASK, agent="ada") as attempt:
            attempt.succeed()
        file = tmp_path / "all.jsonl"
        report = memory.upkeep.export(file, "jsonl")
        assert (report.episodes, report.abandoned) == (1, 2)
        assert memory.upkeep.export(tmp_path / "all.json", "sentinel").abandoned == 0
        other = opened(f"{memory.namespace}-other")
        other.scopes.set("bob", cannot_learn=["*"])
        taken = other.upkeep.import_(file, "jsonl")
        assert (taken.created, taken.abandoned, len(taken.refused)) == (1, 1, 1)
        other.scopes.remove("bob")
        assert other.upkeep.import_(file, "jsonl").abandoned == 1
        assert other.upkeep.import_(file, "jsonl").abandoned == 0
        text = "MATCH (a:Abandoned) WHERE a.ns = $ns RETURN a.record AS record ORDER BY record"
        assert list(other.query(text)) == list(memory.query(text))
        assert other.verify().ok
        seeded = seed(opened(f"{memory.namespace}-third"), sources([str(file)]))
        assert seeded.refused == 2
        assert "outcome" in seeded.refusals[0].reason

    def test_a_scope_holds_for_it(self, memory: Memory) -> None:
        memory.scopes.set("ada", cannot_learn=["refund"])
        with pytest.raises(ScopeError), memory.attempt(TASK, agent="ada", task_type="refund"):
            pass
        assert abandoned(memory) == []


class TestMisuse:
    """Clear errors, and nothing half-written."""

    def test_an_outcome_is_said_once_and_within_the_block(self, memory: Memory) -> None:
        calls: list[Callable[[Any], Any]] = [
            lambda attempt: attempt.succeed(),
            lambda attempt: attempt.fail(),
            lambda attempt: attempt.step(),
            lambda attempt: attempt.used(WAY),
            lambda attempt: attempt.context,
            lambda attempt: attempt.choose([WAY]),
        ]
        for first in ("succeed", "fail"):
            attempt = memory.attempt(TASK)
            for call in calls:
                with pytest.raises(ValidationError, match="has not begun"):
                    call(attempt)
            with attempt:
                with pytest.raises(ValidationError, match="contradicts"):
                    getattr(attempt, first)(score=0.1 if first == "succeed" else 0.9)
                getattr(attempt, first)()
                for second in ("succeed", "fail"):
                    told = f"{second}: comes after the attempt {first}"
                    with pytest.raises(ValidationError, match=told):
                        getattr(attempt, second)()
                with pytest.raises(ValidationError, match="begun twice"):
                    attempt.__enter__()
            for call in calls:
                with pytest.raises(ValidationError, match="has ended"):
                    call(attempt)
            with pytest.raises(ValidationError, match="begun twice"):
                attempt.__enter__()
        assert sorted(row.success for row in memory.episodes()) == [False, True]

    @pytest.mark.parametrize("engine", ["embedded"])  # no engine is asked what is too many
    def test_too_many(self, memory: Memory) -> None:
        with memory.attempt(TASK) as attempt:
            attempt.used(*map(str, range(200)))
            with pytest.raises(ValidationError, match="200"):
                attempt.used("one more")
            for _ in range(MAX_STEPS):
                attempt.step()
            with pytest.raises(ValidationError, match="20000"):
                attempt.step()
            attempt.succeed()
        assert len(memory.strategies(limit=1000)) == 200

    def test_a_block_has_no_arguments_and_nothing_to_judge(self, memory: Memory) -> None:
        with pytest.raises(ValidationError, match="task: is a function"):
            memory.attempt(lambda: TASK).__enter__()
        with pytest.raises(ValidationError, match="judge: is for decorated functions"):
            memory.attempt(TASK, judge=bool).__enter__()

    def test_a_child_process_writes_nothing(self, memory: Memory) -> None:
        with memory.attempt(TASK) as attempt:
            child = os.fork() if hasattr(os, "fork") else pytest.skip("no fork here")
            if child == 0:
                code = 0
                calls: list[Callable[[], None]] = [
                    attempt.succeed,
                    lambda: attempt.__exit__(None, None, None),
                ]
                for call in calls:
                    try:
                        call()
                    except ForkedError as error:
                        code += "was begun in process" in str(error)
                own = ValueError()
                attempt.__exit__(ValueError, own, None)  # which goes on
                code += "not learned" in own.__notes__[0]
                os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            attempt.succeed()
        assert len(memory.episodes()) == 1


def test_the_error_of_a_block_goes_before_that_of_the_store(opened: Opener) -> None:
    memory, other = opened(), opened(f"test-attempts-{id(opened)}")
    attempt = memory.attempt(TASK)
    with pytest.raises(StoreError):
        with attempt:
            attempt.succeed()
            memory.close()
    assert attempt.episode_id is None
    with pytest.raises(KeyError) as caught:
        with other.attempt(TASK):
            other.close()
            raise KeyError("ABC")
    assert "the attempt was not learned: " in caught.value.__notes__[0]


CALLS: dict[str, Callable[[Any], Any]] = {
    "succeed": lambda attempt: attempt.succeed(),
    "succeed by score": lambda attempt: attempt.succeed(score=0.7),
    "fail": lambda attempt: attempt.fail("no"),
    "a wrong score": lambda attempt: attempt.succeed(score=-1),
    "use": lambda attempt: attempt.used(WAY),
    "a wrong use": lambda attempt: attempt.used(3),
    "step": lambda attempt: attempt.step("look"),
    "choose": lambda attempt: attempt.choose([WAY, "ask first"]),
    "choose from nothing": lambda attempt: attempt.choose(),
    "a wrong step": lambda attempt: attempt.step(3),
    "enter": lambda attempt: attempt.__enter__(),
    "raise": lambda _: 1 / 0,
    "interrupt": lambda _: (_ for _ in ()).throw(KeyboardInterrupt),
    "end": lambda attempt: attempt.__exit__(None, None, None),
}


@hypothesis.given(
    calls=st.lists(st.tuples(st.sampled_from(sorted(CALLS)), st.booleans()), max_size=8),
    strict=st.booleans(),
)
def test_whatever_is_called_there_is_one_episode_or_one_error(
    calls: list[tuple[str, bool]], strict: bool
) -> None:
    """Errors of calls are caught or not; one node comes of it, or an error that says why not."""
    with Memory.open("memory:", settings=Settings()) as memory:
        raised: BaseException | None = None
        try:
            with memory.attempt(TASK, strict=strict) as attempt:
                for name, caught in calls:
                    try:
                        CALLS[name](attempt)
                    except (GraphMemError, ZeroDivisionError):
                        if not caught:
                            raise
        except BaseException as error:  # noqa: BLE001 - whatever went on
            raised = error
        stats = memory.stats()
        stored = stats.episodes + stats.abandoned
        assert stored <= 1
        if not stored:
            assert isinstance(raised, ValidationError)
            assert strict
        if raised is None:
            assert stored == 1
        assert memory.verify().ok
