"""State machines of hypothesis that work with a memory, and how they run on an engine."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from graphmem import Memory
from tests.conftest import Opener


class MemoryMachine(RuleBasedStateMachine):
    """Calls of one memory in any order; each run has a namespace of its own."""

    open_memory: Any = None
    base = ""
    runs = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).runs += 1
        self.namespace = f"{self.base}-{self.runs}"
        self.memory: Memory = type(self).open_memory(self.namespace)

    def reopen(self) -> None:
        """Close the memory, and open it again."""
        self.memory.close()
        self.memory = type(self).open_memory(self.namespace)

    def teardown(self) -> None:
        """Close the memory, which a rule may have closed."""
        with contextlib.suppress(Exception):
            self.memory.close()


def run(machine: type[MemoryMachine], opened: Opener, examples: int, steps: int) -> None:
    """Run a machine so many times, with at most so many calls each, on an engine."""

    class Running(machine):  # type: ignore[misc, valid-type]
        pass

    first = opened()
    Running.base = first.namespace
    first.close()
    Running.open_memory = staticmethod(opened)
    run_state_machine_as_test(
        Running, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )
