"""Programs that are killed at a step: before or after a call that matters."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from graphmem import Settings
from tests.faults.learner import environment, run_program

P = ParamSpec("P")
R = TypeVar("R")


class Steps:
    """The steps of this process, of which the one with a number is its last."""

    def __init__(self, kill: int) -> None:
        self._kill = kill
        self._next = 0

    def _pass(self) -> None:
        if self._next == self._kill:
            os._exit(9)
        self._next += 1

    def __call__(self, call: Callable[P, R]) -> Callable[P, R]:
        """Return a call with a step before it, and one after it."""

        def then(*args: P.args, **kwargs: P.kwargs) -> R:
            self._pass()
            answer = call(*args, **kwargs)
            self._pass()
            return answer

        return then

    def sessions(self, load: Callable[..., Any], method: str) -> Callable[..., Any]:
        """Return what loads sessions of the engine of which a method has steps."""
        return lambda *args, **more: _Session(load(*args, **more), method, self)


class _Session:
    """A session of the engine; its own attributes cannot be set."""

    def __init__(self, inner: Any, method: str, steps: Steps) -> None:
        self._inner, self._method, self._steps = inner, method, steps

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._steps(found) if name == self._method else found


def killed(program: str, kill: int, folder: Path, settings: Settings) -> tuple[str, bool]:
    """Run a program with ``steps`` that ends at one of them; return what it printed.

    Also return whether it was killed: otherwise it came to its end.
    """
    begin = f"from tests.faults.steps import Steps\nsteps = Steps({kill})\n"
    surroundings = environment(str(folder), "default", settings)
    answer = run_program(begin + program, surroundings=surroundings, timeout=60)
    assert answer.returncode in {0, 9}, answer.stderr
    return answer.stdout, answer.returncode == 9
