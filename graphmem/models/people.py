"""Preferences of users; knowledge: facts of a domain, their sources, and contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from graphmem.models.fields import DISTINCT, Input, Moment, Name, Output, Unit

KnowledgeSource = Literal["user_stated", "documented", "observed", "inferred"]

# The numbers follow ALMA's domain knowledge.
KNOWLEDGE_CONFIDENCE: Mapping[KnowledgeSource, float] = MappingProxyType(
    {"user_stated": 1.0, "documented": 0.8, "observed": 0.8, "inferred": 0.8}
)
"""Confidence in a fact by its source: a user said it, a document states it, an agent observed it,
or somebody concluded it."""


class KnowledgeRef(Output):
    """A short reference to another piece of knowledge."""

    id: str
    domain: str
    fact: str
    source_confidence: Unit


class Statement(Output):
    """One source stating a fact."""

    id: str
    source: KnowledgeSource
    confidence: Unit
    """1 if a user said it, else 0.8."""
    user: str | None
    """Who said it, if given."""
    at: datetime | None
    """When it was said, if given."""
    recorded_at: datetime


class Knowledge(Output):
    """A fact of a domain, with its statements and contradictions.

    ``confidence`` is ``source_confidence`` times the fact's share in the sum of source confidences
    of itself and all facts in contradiction with it: two contradicting facts with confidence 1 get
    0.5 each.
    """

    id: str
    domain: str
    fact: str
    confidence: Unit
    source_confidence: Unit
    """The confidence of its best source."""
    statements: tuple[Statement, ...]
    """Its statements, in order of time."""
    contradicts: tuple[KnowledgeRef, ...]
    contradicted_by: tuple[KnowledgeRef, ...]
    created: bool = False
    """Whether this call stored anything."""

    @property
    def contested(self) -> bool:
        """Whether it contradicts another fact or is contradicted by one."""
        return bool(self.contradicts or self.contradicted_by)


def _ids(value: object) -> object:
    """Return the ids of one or several pieces of knowledge."""
    if value is None:
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(item.id if isinstance(item, Knowledge | KnowledgeRef) else item for item in items)


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


PreferenceSource = Literal["explicit_instruction", "correction", "inferred"]

# The numbers follow ALMA's preferences.
PREFERENCE_CONFIDENCE: Mapping[PreferenceSource, float] = MappingProxyType(
    {"explicit_instruction": 1.0, "correction": 0.7, "inferred": 0.7}
)
"""Confidence in a preference by its source: the user said it, corrected something, or somebody
concluded it."""


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
    """When it was said, if given."""
    recorded_at: datetime
    in_force: bool
    supersedes: str | None
    """The id of the preference before it."""
    superseded_by: str | None
    """The id of the preference after it."""
    created: bool = False
    """Whether this call stored it."""
