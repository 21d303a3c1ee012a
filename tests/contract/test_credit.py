"""Whose doing it was: what failed gets no credit for a run that something else saved."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphmem import Memory, Step, StrategyUse
from graphmem.episodes.naming import strategies
from tests.contract.teaching import checked, some, tried

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


def test_a_failed_run_and_what_was_only_shown_count_as_before(memory: Memory) -> None:
    steps = [Step(action_type="a", error="no"), Step(action_type="b")]
    for _ in range(2):
        memory.learn("t", ["a", "b"], success=False, error="lost", steps=steps)
        memory.learn("t", [StrategyUse("a", applied=False), "b"], success=True, steps=steps)

    assert counts(memory) == {"a": (0, 2), "b": (2, 4)}
    found = {row.strategy: row.error_class for row in memory.lessons.anti_patterns()}
    assert found == {"a": "lost", "b": "lost"}


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
