"""What AsyncMemory returns, as type checkers see it; mypy checks this file with all others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, assert_type

from graphmem import AsyncMemory
from graphmem.episodes.attempts import AsyncAttempt
from graphmem.levels.producers import Watch
from graphmem.models.advice import Choice
from graphmem.models.lessons import Heuristic
from graphmem.models.levels import Found, Level
from graphmem.models.people import Preference, Scope
from graphmem.models.policies import Cycle, Policy, Prediction
from graphmem.models.reports import Learned, RebuildReport, VerifyReport
from graphmem.notebook import Listed
from graphmem.policies.events import Consumer
from graphmem.store.port import Rows

P = ParamSpec("P")
R = TypeVar("R")


def result(method: Callable[P, Coroutine[Any, Any, R]]) -> R:
    """Stand for what a method returns that is awaited."""
    raise NotImplementedError(method)


def made(method: Callable[P, R]) -> R:
    """Stand for what a method returns that is not."""
    raise NotImplementedError(method)


def checked(memory: AsyncMemory) -> None:
    """Is never called: one method of each wrapper, and of each part."""
    assert_type(result(memory.close), None)
    assert_type(result(memory.learn), Learned)
    assert_type(made(memory.attempt), AsyncAttempt)
    assert_type(made(memory.watch), Watch)
    assert_type(result(memory.choose), Choice)
    assert_type(result(memory.query), Rows)
    assert_type(result(memory.verify), VerifyReport)
    assert_type(result(memory.lessons.heuristics), Listed[Heuristic])
    assert_type(result(memory.policies.best), Policy | None)
    assert_type(result(memory.levels.put), Level)
    assert_type(result(memory.people.prefer), Preference)
    assert_type(result(memory.scopes.get), Scope | None)
    assert_type(made(memory.events.listen), Consumer)
    assert_type(result(memory.predictions.expect), Prediction)
    assert_type(result(memory.cycles.list), Listed[Cycle])
    assert_type(result(memory.upkeep.rebuild), RebuildReport)
    assert_type(result(memory.levels.recall), Listed[Found])


async def used(memory: AsyncMemory) -> None:
    """Is never called, either: arguments are known, too, and decorators keep what they get."""
    assert_type(await memory.learn("a task", "a way", success=True), Learned)
    await memory.learn("a task", 1, success=True)  # type: ignore[arg-type]
    await memory.learn("a task", "a way", succes=True)  # type: ignore[call-arg]

    @memory.remember("agent:ada:working")
    def seen(number: int) -> str:
        return str(number)

    assert_type(seen(1), str)
    seen("one")  # type: ignore[arg-type]
