"""What is near a text: what a search by meaning tells those that know nothing of searching."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from graphmem.graph.access import View


class NearTasks(NamedTuple):
    """The known tasks to which a text is similar enough to say something of it."""

    tasks: tuple[tuple[str, float], ...] = ()
    """Their ids and similarities, the nearest first; none is under the floor of relevance."""
    task_type: str | None = None
    """The type of the nearest one, where that is near enough to lend it and has one."""
    type_rule: str | None = None
    """What decided the type: ``near: <id of the task>``."""


Near = Callable[[str, View], NearTasks]
"""Finds the tasks near a text in a part of the memory."""
