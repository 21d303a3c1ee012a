"""What people say, and what agents may learn: preferences of users, knowledge, and scopes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from graphmem.errors import ValidationError
from graphmem.models.fields import AS_SET, DISTINCT, Input, Moment, Name, Output, Unit

PreferenceSource = Literal["explicit_instruction", "correction", "inferred"]

PREFERENCE_CONFIDENCE: Mapping[PreferenceSource, float] = MappingProxyType(
    {"explicit_instruction": 1.0, "correction": 0.7, "inferred": 0.7}
)
"""Confidence in a preference: the user said it, corrected something, or somebody concluded it."""


class Wish(Input):
    """The validated arguments of ``prefer``."""

    user: Name
    category: Name
    text: Name
    source: PreferenceSource = "explicit_instruction"
    at: Moment | None = None


class Preference(Output):
    """A preference of a user in a category, with its source.

    For each user and category the latest preference is in force; it supersedes the one before.
    """

    id: str
    user: str
    category: str
    text: str
    source: PreferenceSource
    confidence: Unit
    """1 for an explicit instruction, else 0.7."""
    at: datetime | None
    recorded_at: datetime
    in_force: bool
    supersedes: str | None
    superseded_by: str | None
    created: bool = False


KnowledgeSource = Literal["user_stated", "documented", "observed", "inferred"]

KNOWLEDGE_CONFIDENCE: Mapping[KnowledgeSource, float] = MappingProxyType(
    {"user_stated": 1.0, "documented": 0.8, "observed": 0.8, "inferred": 0.8}
)
"""Confidence in a fact that a user said, a document states, an agent observed, or one concluded."""


class KnowledgeRef(Output):
    """A short reference to another piece of knowledge."""

    id: str
    domain: str
    fact: str
    source_confidence: Unit
    """The confidence of its best source."""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """From when, and until when, it holds: as the latest statements say that give it."""


class Statement(Output):
    """One source stating a fact."""

    id: str
    source: KnowledgeSource
    confidence: Unit
    """1 if a user said it, else 0.8."""
    user: str | None
    at: datetime | None
    recorded_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    """From when, and until when, it holds, if that was said."""


class Knowledge(KnowledgeRef):
    """A fact of a domain, with its statements and contradictions.

    ``confidence`` is ``source_confidence`` times the fact's share in the sum of source confidences
    of itself and all facts that contradict it.
    """

    confidence: Unit
    statements: tuple[Statement, ...]
    contradicts: tuple[KnowledgeRef, ...]
    contradicted_by: tuple[KnowledgeRef, ...]
    may_contradict: tuple[KnowledgeRef, ...] = ()
    """Facts of the domain in nearly the same words, but with another number or a negation, that
    hold at the same time. Only you decide: tell it by ``contradicts``, or by when each is valid."""
    created: bool = False


def _ids(value: object) -> object:
    if value is None:
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(item.id if isinstance(item, KnowledgeRef) else item for item in items)


class Claim(Input):
    """The validated arguments of ``know``."""

    domain: Name
    fact: Name
    source: KnowledgeSource = "user_stated"
    user: Name | None = None
    contradicts: Annotated[
        tuple[Name, ...], Field(max_length=1_000), BeforeValidator(_ids), DISTINCT
    ] = ()
    at: Moment | None = None
    valid_from: Moment | None = None
    valid_to: Moment | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check that it holds at some time."""
        if self.valid_from and self.valid_to and self.valid_from >= self.valid_to:
            remedy = "give a later time"
            raise ValidationError("valid_to", self.valid_to, "is not after valid_from", remedy)


class Fact(Output):
    """What is known for a text: a fact that is near it in meaning, or a preference of its user."""

    kind: Literal["knowledge", "preference"]
    id: str
    about: str
    """The domain of a fact, the category of a preference."""
    text: str
    source: KnowledgeSource | PreferenceSource
    """The surest source, of equal ones the latest."""
    at: datetime
    """When it was said, else when that was recorded."""
    confidence: Unit
    similarity: float | None = None
    contradicted_by: tuple[str, ...] = ()
    may_be_replaced_by: tuple[str, ...] = ()
    """Facts told later, in nearly the same words, but with another number or a negation."""
    valid_to: datetime | None = None

    def __str__(self) -> str:
        said = f"{self.source.replace('_', ' ')}, {self.at:%-d %b %Y}"
        until = f", until {self.valid_to:%-d %b %Y}" if self.valid_to else ""
        return f"{self.about}: {self.text} ({said}{until})"


EVERYONE = "*"
"""In ``share_with``: all agents. In ``can_learn`` and ``cannot_learn``: matches any text."""


def _check_agent(agent: str) -> str:
    if agent == EVERYONE:
        raise ValueError("must be the name of one agent")
    return agent


_N = TypeVar("_N", bound=str)
_Agent = Annotated[Name, AfterValidator(_check_agent)]
_List = Annotated[tuple[_N, ...], AS_SET, Field(max_length=1_000), DISTINCT]


class Scope(Input):
    """What an agent may learn, with whom it shares, and from whom it inherits.

    Types of tasks are patterns in which ``*`` matches any text, also an empty one: ``sql_*``.
    """

    agent: _Agent
    can_learn: _List[Name] | None = None
    """Types of tasks that it may learn; None: all."""
    cannot_learn: _List[Name] = ()
    """Types of tasks that it may not learn; overrides ``can_learn``."""
    share_with: _List[Name] = ()
    """Agents that may read what it learned; ``*`` lets all of them."""
    inherit_from: _List[_Agent] = ()
    """Agents whose lessons it reads if they share them, and the agents that these inherit from."""
    min_occurrences: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Occurrences that a lesson needs before this agent reads it; None: the memory's settings."""

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    def allows(self, task_type: str) -> bool:
        """Return whether the agent may learn tasks of a type, and read lessons about them."""
        if any(_fits(name, task_type) for name in self.cannot_learn):
            return False
        return self.can_learn is None or any(_fits(name, task_type) for name in self.can_learn)

    def shares_with(self, agent: str) -> bool:
        """Return whether another agent may read this agent's lessons."""
        return agent in self.share_with or EVERYONE in self.share_with


def _fits(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern in which only ``*`` has a meaning."""
    return fnmatchcase(text, re.sub(r"([?[])", r"[\1]", pattern))
