"""Whose doing it was: what failed gets no credit for a run that something else saved."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from graphmem import Memory, Step, StrategyUse
from tests.contract.teaching import checked

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
    assert attempt.episode_id is not None
    return attempt.episode_id


def test_what_failed_before_a_fallback_is_told_apart_from_what_did_the_work(memory: Memory) -> None:
    ids = [read_invoice(memory, number) for number in range(10)]

    assert counts(memory) == {"ocr": (10, 10), "pdf_text": (0, 10)}
    [failing] = memory.lessons.anti_patterns()
    assert (failing.strategy, failing.error_class) == ("pdf_text", NO_TEXT.format("<number>"))
    assert (failing.occurrences, failing.successes) == (10, 0)
    assert failing.example == NO_TEXT.format(9)
    assert set(failing.evidence) <= set(ids)
    assert failing.better_alternative is not None
    assert failing.better_alternative.strategy == "ocr"
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
