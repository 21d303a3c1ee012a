"""Outcomes: whose doing they are, and those that are told later."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import hypothesis.strategies as st
import pytest

from graphmem import Episode, Memory, Step, StrategyUse
from graphmem.episodes.naming import strategies
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
    some,
    tried,
)
from tests.faults.attack import rounds

NO_TEXT = "ValueError: no text layer in page {}"


def counts(memory: Memory) -> dict[str, tuple[int, int]]:
    """Successes and trials of each strategy."""
    return {row.text: (row.successes, row.trials) for row in memory.strategies()}


def read_invoice(memory: Memory, number: int = 0) -> str:
    """A run that asks one tool in vain, and then another one."""
    with memory.attempt("read the invoice", task_type="documents") as attempt:
        attempt.used("pdf_text", "ocr")
        attempt.step("pdf_text", error=NO_TEXT.format(number))
        attempt.step("ocr", error="the page is upside down")
        attempt.step("ocr", observation="total 12.50")
        attempt.succeed()
    return some(attempt.episode_id)


def test_what_failed_before_a_fallback_is_told_apart_from_what_did_the_work(memory: Memory) -> None:
    ids = [read_invoice(memory, number) for number in range(10)]

    assert counts(memory) == {"ocr": (10, 10), "pdf_text": (0, 10)}
    [failing] = memory.lessons.anti_patterns()
    assert (failing.strategy, failing.error_class) == ("pdf_text", NO_TEXT.format("<number>"))
    assert (failing.occurrences, failing.successes) == (10, 0)
    assert failing.example == NO_TEXT.format(9)
    assert set(failing.evidence) <= set(ids)
    assert some(failing.better_alternative).strategy == "ocr"
    [task] = memory.tasks()
    assert (task.successes, task.trials) == (10, 10)  # the runs did succeed
    assert memory.recall("read the invoice").items[0].text == "ocr"
    said = memory.context("read the invoice")
    assert said.index("0 of 10") > said.index("10 of 10")
    assert "instead: ocr" in said
    for strategy, others in (("pdf_text", "10 of 10"), ("ocr", "0 of 10")):
        first, *rest = memory.predict("read the invoice", strategy).basis.lines
        assert "nothing is known" in first
        assert f"other strategies on this task: {others} worked" in str(rest)
    checked(memory)


def test_an_explanation_tells_that_another_one_saved_the_run(memory: Memory) -> None:
    read_invoice(memory)
    found = memory.explain("pdf_text")

    assert (found.why.successes, found.why.trials, found.supporting) == (0, 1, ())
    [episode] = found.opposing
    assert (episode.success, episode.failed, episode.saved_by) == (True, True, "ocr")
    assert episode.error == NO_TEXT.format(0)
    assert 'failed in this run; "ocr" saved it' in str(found)
    [episode] = memory.explain("ocr").supporting
    assert (episode.failed, episode.saved_by) == (False, None)


@pytest.mark.parametrize(
    ("steps", "failed"),
    [
        pytest.param([Step(action_type="a", error="no")], True, id="by type"),
        pytest.param([Step(action=" a ", error="no")], True, id="by action"),
        pytest.param([Step(action={"name": "a"}, error="no")], True, id="by name"),
        pytest.param([Step(action={"tool": "a"}, error="no")], True, id="by tool"),
        pytest.param(
            [Step(action_type="a", error="no"), Step(action_type="a")], False, id="tried again"
        ),
        pytest.param([Step(action_type="c", error="no")], False, id="of another"),
        pytest.param(
            [Step(action_type="b", action={"name": "a"}, error="no"), Step(action_type="b")],
            False,
            id="an argument",
        ),
        pytest.param([Step(action_type="a", error=" ")], False, id="nothing said"),
        pytest.param([], False, id="no steps"),
    ],
)
def test_a_strategy_failed_if_all_its_own_steps_did(
    memory: Memory, steps: Sequence[Step], failed: bool
) -> None:
    memory.learn("t", ["a", "b"], success=True, steps=steps)

    assert counts(memory) == {"a": (0 if failed else 1, 1), "b": (1, 1)}
    checked(memory)


def test_a_failed_run_fails_for_each_with_its_own_error(memory: Memory) -> None:
    steps = [Step(action_type="a", error="no"), Step(action_type="b")]
    for _ in range(2):  # the second time all is known
        memory.learn("t", ["a", "b"], success=False, score=0.3, error="lost", steps=steps)
        memory.learn("t", [StrategyUse("a", applied=False), "b"], success=True, steps=steps)

    assert counts(memory) == {"a": (0, 2), "b": (2, 4)}
    found = {row.strategy: row.error_class for row in memory.lessons.anti_patterns()}
    assert found == {"a": "no", "b": "lost"}
    assert {row.example for row in memory.lessons.anti_patterns()} == {"no", "lost"}
    for strategy, error in found.items():
        lost = [one for one in memory.explain(strategy).opposing if not one.success]
        assert [(one.error, one.failed, one.saved_by) for one in lost] == [(error, False, None)] * 2
    memory.learn("t", "a", success=False, error="lost alone", steps=steps[:1])
    memory.learn("t", "a", success=False, error="lost alone", steps=steps[:1])
    assert "lost alone" in {row.error_class for row in memory.lessons.anti_patterns()}
    checked(memory)


# What every run uses fails as often as the runs do: nobody is warned against it

HARD, EASY = "repair the old ledger", "repair the new ledger"
ERROR = "the books do not balance"


def test_what_every_run_uses_is_no_warning(memory: Memory) -> None:
    """Each searches; only guessing fails more often than the others."""
    tried(memory, HARD, ["guess", "search"], "----", error=ERROR, task_type="ledger")
    tried(memory, HARD, ["count twice", "search"], "--", error=ERROR, task_type="ledger")
    tried(memory, EASY, ["count twice", "search"], "++-", error=ERROR, task_type="ledger")

    context = memory.context(HARD)
    assert context.count("0 of 4 here") == 1
    assert f": guess\n  error: {ERROR}" in context
    assert ": search" not in context

    assert {one.strategy for one in memory.recall(HARD).warnings} == {"guess"}
    choice = memory.choose(HARD, ["guess", "search"], explore="greedy")
    both = (choice, *choice.others)
    warned = {one.text: [told.error_class for told in one.warnings] for one in both}
    assert warned == {"guess": [ERROR], "search": []}

    found = {one.strategy for one in memory.lessons.anti_patterns()}
    assert found == {"guess", "search", "count twice"}


def test_what_was_tried_here_alone_is_told(memory: Memory) -> None:
    """Nothing tells it from the task, but there may be another way."""
    for success, task in ((False, HARD), (False, HARD), (True, EASY), (True, EASY)):
        memory.learn(task, "search", success=success, error=None if success else ERROR)
    assert "rarely works on such tasks" in memory.context(HARD)


def test_what_never_worked_is_warned_of_where_nothing_worked(memory: Memory) -> None:
    for how in ("guess", "search"):
        for _ in range(3):
            memory.learn(HARD, how, success=False, error=ERROR, task_type="ledger")
    assert {one.strategy for one in memory.recall(HARD).warnings} == {"guess", "search"}


def test_many_tools_of_every_run_leave_room_for_a_warning(memory: Memory) -> None:
    tools = [f"tool {letter}" for letter in "abcdefg"]
    for number in range(20):
        memory.learn(HARD, tools, success=number % 3 == 0, error=ERROR if number % 3 else None)
    for _ in range(2):
        memory.learn(HARD, [*tools, "guess"], success=False, error=ERROR)
    assert [one.strategy for one in memory.recall(HARD).warnings] == ["guess"]


def test_tools_that_nearly_every_run_uses_are_no_advice(memory: Memory) -> None:
    """Named by their tools, runs differ by what not all of them use."""
    for number in range(20):
        guessed, order = number % 4 == 0, ["Edit", "Bash"] if number % 2 else ["Bash", "Edit"]
        tools = ["Search", *order] if guessed else order
        success = not guessed and number % 3 > 0
        memory.learn(
            HARD,
            strategies("tools", tools=tools),
            success=success,
            error=None if success else ERROR,
        )
    context = memory.context(HARD)
    assert "0 of 5 here" in context
    assert ": Search\n" in context
    assert not any(f": {tools}\n" in context for tools in ("Bash", "Edit > Bash", "Bash > Edit"))
    assert {one.strategy for one in memory.recall(HARD).warnings} <= {
        "Search",
        "Search > Bash > Edit",
    }


def test_a_tool_is_told_of_from_five_outcomes_on(memory: Memory) -> None:
    for number in range(1, 6):
        for tool, success in (("ocr", True), ("pdf_text", False)):
            memory.learn(HARD, strategies("tools", tools=["open", tool]), success=success)
        assert (": ocr" in memory.context(HARD)) is (number == 5)


# Settling: an outcome that is told later stands in the place of the one that was learned

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


class TestOutcome:
    def test_a_thumbs_down_replaces_the_success(self, memory: Memory) -> None:
        for number in range(3):
            memory.learn("refund", "at once", success=True, source_key=f"run-{number}")
        settled = memory.settle("run-1", success=False, error="timeout: no answer")
        assert settled.changed
        assert counts(memory) == {"at once": (2, 3)}
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
        assert counts(memory) == {"at once": (0, 1)}

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
def test_an_argument_is_named(memory: Memory, given: dict[str, Any], field: str, why: str) -> None:
    memory.learn("a", "x", success=False, source_key="run", ended_at=day(3))
    before = dump(memory)
    with pytest.raises(ValidationError, match=why) as caught:
        memory.settle("run", **given)
    assert caught.value.field == field
    assert dump(memory) == before


def test_an_unknown_key_is_named(memory: Memory) -> None:
    with pytest.raises(NotFoundError, match="run-7"):
        memory.settle("run-7", success=True)
