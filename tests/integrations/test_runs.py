"""What the integrations of frameworks share: one episode of each run, whatever happens in it."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import math
import sys
import threading
from collections.abc import Awaitable
from typing import Any

import pytest

from graphmem import Memory
from graphmem.errors import GraphMemError, NotFoundError, ValidationError
from graphmem.integrations.outcomes import Run
from graphmem.integrations.runs import Runs
from tests.conftest import Opener

_EPISODES = (
    "MATCH (a:Agent)-[:RAN]->(e:Episode) WHERE e.ns = $ns AND a.ns = $ns "
    "OPTIONAL MATCH (e)-[u:USED]->(s:Strategy) "
    "WITH a, e, u, s ORDER BY u.rank "
    "WITH a, e, collect(s.text) AS strategies "
    "OPTIONAL MATCH (e)-[:HAS_STEP]->(t:Step) "
    "WITH a, e, strategies, t ORDER BY t.index "
    "RETURN e.id AS id, a.name AS agent, e.task AS task, e.success AS success, e.score AS score, "
    "e.error AS error, "
    "e.source AS source, strategies, collect(t.action_type) AS tools, "
    "collect(coalesce(t.action, '')) AS actions, collect(coalesce(t.observation, '')) AS seen, "
    "collect(coalesce(t.error, '')) AS errors, e.started_at AS started_at, "
    "e.ended_at AS ended_at ORDER BY ended_at, id"
)


def episodes(memory: Memory) -> list[dict[str, Any]]:
    """The episodes with their strategies and steps, the earliest first."""
    return list(memory.query(_EPISODES))


def abandoned(memory: Memory) -> list[dict[str, Any]]:
    return list(memory.query("attempts.abandoned"))


def arguments(episode: dict[str, Any]) -> list[Any]:
    return [json.loads(action) if action else None for action in episode["actions"]]


_BEGUN = threading.Event()


async def for_ever() -> None:
    """Do what such a tool does."""
    _BEGUN.set()
    await asyncio.sleep(600)


async def cancelled_there(run: Awaitable[object]) -> None:
    """Cancel a run when it waits for a tool."""
    _BEGUN.clear()
    running = asyncio.ensure_future(run)
    while not (_BEGUN.is_set() or running.done()):
        await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


TASK = "count the users"


def test_the_outcome_alone_says_what_counts(memory: Memory) -> None:
    """That a run raised is no failure by itself, and that it did not is no success."""
    asked: list[Run] = []

    def outcome(run: Run) -> bool | float | None:
        asked.append(run)
        verdict: bool | float | None = run.metadata["verdict"]
        return verdict

    runs = Runs(memory, "test", outcome=outcome, task_type="sql")
    for verdict in (True, False, 0.7, 1, None):
        running = runs.begin(TASK, agent="ada")
        running.step("look", '{"table": "users"}', {"rows": 3})
        running.end("3", metadata={"verdict": verdict})
        running.end("a second end is ignored", metadata={"verdict": True})
        running.step("after the end")
    for verdict in (True, False, None):
        runs.begin(TASK).end(error=ValueError("no such table"), metadata={"verdict": verdict})
    learned = episodes(memory)
    assert sorted((row["success"], row["score"]) for row in learned) == sorted(
        [(True, 1.0), (False, 0.0), (True, 0.7), (True, 1.0), (True, 1.0), (False, 0.0)]
    )
    assert [row["error"] for row in abandoned(memory)] == ["ValueError: no such table", None]
    first = learned[0]
    assert (first["agent"], first["source"], first["tools"]) == ("ada", "test", ["look"])
    assert (arguments(first), first["seen"]) == ([{"table": "users"}], ['{"rows":3}'])
    assert [step.action_type for step in asked[0].steps] == ["look"]
    assert (asked[0].task, asked[0].answer, asked[0].agent) == (TASK, "3", "ada")
    assert [run.error for run in asked[-3:]] == ["ValueError: no such table"] * 3


def test_nobody_asks_how_an_interrupted_run_went(memory: Memory) -> None:
    runs = Runs(memory, "test", outcome=lambda _: False)
    for error in (asyncio.CancelledError(), KeyboardInterrupt(), GeneratorExit()):
        runs.begin(TASK).end(error=error)
    runs.begin(TASK).end("wait for a person", paused=True)
    Runs(memory, "test").begin(TASK).end("done")
    assert episodes(memory) == []
    assert sorted(str(row["error"]) for row in abandoned(memory)) == [
        "CancelledError", "GeneratorExit", "KeyboardInterrupt", "None", "None",
    ]  # fmt: skip


def test_what_counts_as_the_strategy(memory: Memory) -> None:
    ways: list[tuple[Any, list[str]]] = [
        ("tools", ["look > ask", "look", "ask"]), ("model", ["small"]), ("agent", ["ada"]),
        ("plan", ["first look"]), (lambda run: [f"{len(run.steps)} steps"], ["3 steps"]),
    ]  # fmt: skip
    for strategy, _ in ways:
        running = Runs(memory, "test", outcome=lambda _: True, strategy=strategy).begin(
            TASK, agent="ada"
        )
        running.model = "small"
        for tool in ("look", "ask", "look"):
            running.step(tool)
        running.end(metadata={"plan": "first look"})
    learned = {tuple(row["strategies"]) for row in episodes(memory)}
    assert learned == {tuple(found) for _, found in ways}


def test_a_tool_that_raised_gets_no_credit_for_what_another_saved(memory: Memory) -> None:
    running = Runs(memory, "test", outcome=lambda _: True, strict=True).begin(TASK)
    running.step("pdf_text", {"name": "ocr"}, error=ValueError("no text layer"))
    running.step("ocr", observation="3")
    running.end("3")
    rows = {row.text: (row.successes, row.trials) for row in memory.strategies()}
    assert rows == {"pdf_text > ocr": (1, 1), "pdf_text": (0, 1), "ocr": (1, 1)}


def test_whatever_a_tool_gets_or_returns_is_kept_as_far_as_it_can(memory: Memory) -> None:
    circle: list[Any] = []
    circle.append(circle)
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    odd: list[Any] = [circle, deep, math.nan, {1: b"\xff", "\ud800": object()}, "x" * 1_000_001, {}]

    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    running = Runs(memory, "test", outcome=lambda _: True, strict=True).begin(
        f"\ud800 {TASK}" * 999
    )
    for value in odd:
        running.step("look\ud800", value, value)
    running.step("", "{not JSON", error=SilentError())
    running.step(" ", "[" * 100_000, error=ValueError("\ud800" * 1_000_001))
    running.end("done")
    [episode] = episodes(memory)
    assert (len(episode["tools"]), episode["tools"][-2:]) == (len(odd) + 2, ["tool", "tool"])
    assert (arguments(episode)[-2], episode["errors"][-2]) == ("{not JSON", "SilentError")
    assert arguments(episode)[2] == "nan"


def test_a_run_without_words_is_left_out(memory: Memory) -> None:
    running = Runs(memory, "test", outcome=lambda _: True, strict=True).begin(" \n")
    assert running.context() == ""
    running.step("look")
    running.end("done")
    assert (episodes(memory), abandoned(memory)) == ([], [])


def has_three(run: Run) -> bool:
    return "3" in run.answer


def test_a_function_that_fails_on_runs_that_raised_is_told_once_with_the_remedy(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    runs = Runs(memory, "test", outcome=lambda run: run.output["rows"] == 3)
    for _ in range(2):
        runs.begin(TASK).end(error=ValueError("no such table"))
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "failed with TypeError at " in told.getMessage()
    assert 'run.answer is ""' in told.getMessage()
    text = Runs(memory, "test", outcome=f"{__name__}:has_three")
    text.begin(TASK).end(error=ValueError("no such table"))
    text.begin(TASK).end({"rows": 3})
    assert sorted(row["success"] for row in episodes(memory)) == [False, True]


def test_errors_of_the_memory_do_not_break_a_run(
    opened: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    memory = opened()

    def broken(_: Run) -> bool:
        raise KeyError("a secret")

    wrong: list[dict[str, Any]] = [
        {"outcome": broken}, {"outcome": lambda _: "fine"}, {"strategy": broken},
    ]  # fmt: skip
    for given in wrong:
        running = Runs(memory, "test", **given).begin(TASK)
        running.end("done")
        with pytest.raises((KeyError, ValidationError)):
            Runs(memory, "test", strict=True, **given).begin(TASK).end("done")
    assert (episodes(memory), len(abandoned(memory))) == ([], 6)
    running = Runs(memory, "test", outcome=lambda _: True).begin(TASK)
    strict = Runs(memory, "test", outcome=lambda _: True, strict=True)
    begun = [strict.begin(TASK), strict.begin(TASK)]
    memory.close()
    assert (running.context(), asyncio.run(running.acontext())) == ("", "")
    running.end("done")
    with pytest.raises(GraphMemError):
        begun[0].end("done")
    begun[1].end(error=ValueError("the error of the run goes on"))
    assert {
        record.levelno for record in caplog.records if record.name == "graphmem.integrations.runs"
    } == {logging.WARNING}
    assert "secret" not in caplog.text
    assert TASK not in caplog.text
    assert "the outcome is not known: KeyError" in caplog.text
    assert caplog.text.count("the run was not learned") == 2


@pytest.mark.parametrize(("module", "framework"), [
    ("openai_agents", "agents"), ("pydantic_ai", "pydantic_ai"), ("gymnasium", "gymnasium"),
    ("langchain", "langchain.agents.middleware"),
])  # fmt: skip
def test_a_framework_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, framework: str
) -> None:
    name = f"graphmem.integrations.{module}"
    for known in [*sys.modules]:
        if known.partition(name)[1]:
            monkeypatch.delitem(sys.modules, known)
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(ImportError, match=rf"pip install .*\[{module.replace('_', '-')}\]"):
        importlib.import_module(name)


def test_wrong_arguments_are_said_at_once(unstored: Memory) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"outcome": 3}, "outcome"), ({"agent": ""}, "agent"),
        ({"max_tokens": 0}, "max_tokens"), ({"strict": 1}, "strict"),
        ({"outcome": f"{__name__}:TASK"}, "its name"),
    ]  # fmt: skip
    for given, named in wrong:
        with pytest.raises(ValidationError, match=named):
            Runs(unstored, "test", **given)
    for name in ("exact", "no_such_package:exact", f"{__name__}:exact", "", ":", "é è"):
        with pytest.raises(NotFoundError, match="give package"):
            Runs(unstored, "test", outcome=name)
    with pytest.raises(ValidationError, match="memory"):
        Runs("desk.graph", "test")  # type: ignore[arg-type]
