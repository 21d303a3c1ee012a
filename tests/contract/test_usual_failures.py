"""What every run uses fails as often as the runs do: nobody is warned against it."""

from __future__ import annotations

from graphmem import Memory
from graphmem.episodes.naming import strategies

HARD, EASY = "repair the old ledger", "repair the new ledger"
ERROR = "the books do not balance"


def learn(memory: Memory, task_type: str | None) -> None:
    """Each run searches; only guessing fails more often than the others."""
    for task, how, wins, losses in (
        (HARD, "guess", 0, 4),
        (HARD, "count twice", 0, 2),
        (EASY, "count twice", 2, 1),
    ):
        for number in range(wins + losses):
            success = number < wins
            memory.learn(
                task,
                [how, "search"],
                success=success,
                error=None if success else ERROR,
                task_type=task_type,
            )


def test_what_every_run_uses_is_no_warning(memory: Memory) -> None:
    learn(memory, "ledger")

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
