"""Scopes: what an agent may learn, with whom it shares, and from whom it inherits."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from graphmem.models.fields import DISTINCT, Input, Name

EVERYONE = "*"
"""In ``share_with``: all agents. In ``can_learn`` and ``cannot_learn``: matches any text."""


def _to_tuple(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("must be a list of texts")  # noqa: TRY004 - pydantic wants this one
    return tuple(value) if isinstance(value, list | AbstractSet) else value


def _check_agent(agent: str) -> str:
    if agent == EVERYONE:
        raise ValueError("must be the name of one agent")
    return agent


_N = TypeVar("_N", bound=str)
_Agent = Annotated[Name, AfterValidator(_check_agent)]
_List = Annotated[tuple[_N, ...], Field(max_length=1_000), BeforeValidator(_to_tuple), DISTINCT]
_Names = _List[Name]
_Agents = _List[_Agent]


class Scope(Input):
    """What an agent may learn, with whom it shares, and from whom it inherits.

    Types of tasks are patterns in which ``*`` matches any text, also an empty one: ``sql_*``.
    """

    agent: _Agent
    can_learn: _Names | None = None
    """Types of tasks that it may learn; None: all."""
    cannot_learn: _Names = ()
    """Types of tasks that it may not learn; overrides ``can_learn``."""
    share_with: _Names = ()
    """Agents that may read what it learned; ``*`` lets all of them."""
    inherit_from: _Agents = ()
    """Agents whose lessons it reads if they share them, and the agents that these inherit from."""
    min_occurrences: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Occurrences that a lesson needs before this agent reads it; None: the memory's settings."""

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def allows(self, task_type: str) -> bool:
        """Return whether the agent may learn tasks of a type, and read lessons about them."""
        if any(_fits(name, task_type) for name in self.cannot_learn):
            return False
        return self.can_learn is None or any(_fits(name, task_type) for name in self.can_learn)

    def shares_with(self, agent: str) -> bool:
        """Return whether another agent may read this agent's lessons."""
        return agent in self.share_with or EVERYONE in self.share_with


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern with ``*``, in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *between, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for part in between:  # the first match leaves the most text for the other parts
        at = text.find(part, place, end)
        if at < 0:
            return False
        place = at + len(part)
    return True
