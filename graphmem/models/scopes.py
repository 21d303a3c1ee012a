"""Scopes: what an agent may learn, whom it lets read that, and from whom it reads."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from graphmem.models.fields import Input, Name

EVERYONE = "*"
"""In ``share_with``: all agents. In ``can_learn`` and ``cannot_learn`` it stands for any text."""
MAX_NAMES = 1_000
"""Names in one list of a scope."""
MAX_OCCURRENCES = 1_000_000_000


def _listed(value: object) -> object:
    if isinstance(value, str):
        raise ValueError("must be a list of texts")  # noqa: TRY004 - pydantic wants this one
    return tuple(value) if isinstance(value, list | AbstractSet) else value


def _named(agent: str) -> str:
    if agent == EVERYONE:
        raise ValueError("must be the name of one agent")
    return agent


def _sorted(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_NAMES:
        raise ValueError(f"must have at most {MAX_NAMES:,} names")
    return tuple(sorted(set(names)))


_Agent = Annotated[Name, AfterValidator(_named)]
_Names = Annotated[tuple[Name, ...], BeforeValidator(_listed), AfterValidator(_sorted)]
_Agents = Annotated[tuple[_Agent, ...], BeforeValidator(_listed), AfterValidator(_sorted)]


class Scope(Input):
    """What an agent may learn, whom it lets read that, and from whom it reads.

    Types of tasks are names, in which ``*`` stands for any text, also for none: ``sql_*``.
    """

    agent: _Agent
    can_learn: _Names | None = None
    """Types of tasks that it may learn; None: all."""
    cannot_learn: _Names = ()
    """Types of tasks that it may not learn, whatever ``can_learn`` says."""
    share_with: _Names = ()
    """Agents that may read what it learned; ``*`` lets all of them."""
    inherit_from: _Agents = ()
    """Agents whose lessons it reads, and those that they inherit from, where these share."""
    min_occurrences: Annotated[int, Field(ge=1, le=MAX_OCCURRENCES)] | None = None
    """Occurrences that a lesson needs before it reads it; None: as the memory has it."""

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def allows(self, task_type: str) -> bool:
        """Return whether the agent may learn tasks of a type, and read what is known of them."""
        if any(_fits(name, task_type) for name in self.cannot_learn):
            return False
        return self.can_learn is None or any(_fits(name, task_type) for name in self.can_learn)

    def shares_with(self, agent: str) -> bool:
        """Return whether another agent may read what this one learned."""
        return agent in self.share_with or EVERYONE in self.share_with


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text is one that a pattern with ``*`` describes, in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *between, last = rest
    if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for part in between:  # the first place that fits leaves the most for the others
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
