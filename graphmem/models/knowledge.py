"""Knowledge: facts of a domain, who states them, and what contradicts them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator

from graphmem.models.fields import Input, Moment, Name, Output, Unit

KnowledgeSource = Literal["user_stated", "documented", "observed", "inferred"]

# The numbers are those of ALMA's domain knowledge.
KNOWLEDGE_CONFIDENCE: Mapping[KnowledgeSource, float] = MappingProxyType(
    {"user_stated": 1.0, "documented": 0.8, "observed": 0.8, "inferred": 0.8}
)
"""How sure a fact is, by its source: a user said so, it is written somewhere, an agent saw it, or
somebody concluded it."""
MAX_CONTRADICTED = 1_000
"""Pieces of knowledge that one statement can contradict."""


class KnowledgeRef(Output):
    """Another piece of knowledge, in short."""

    id: str
    domain: str
    fact: str
    source_confidence: Unit


class Statement(Output):
    """That a source states a fact."""

    id: str
    source: KnowledgeSource
    confidence: Unit
    """1 where a user said so, else 0.8."""
    user: str | None
    """Who said it, where that was given."""
    at: datetime | None
    """When it was said, where that was given."""
    recorded_at: datetime


class Knowledge(Output):
    """A fact of a domain, with everything that states or contradicts it.

    ``confidence`` is ``source_confidence`` times its share of the source confidences of this fact
    and all that it contradicts or is contradicted by: of two sure facts that contradict each other
    each is left with 0.5.
    """

    id: str
    domain: str
    fact: str
    confidence: Unit
    source_confidence: Unit
    """That of its best source."""
    statements: tuple[Statement, ...]
    """Who states it, in the order of time."""
    contradicts: tuple[KnowledgeRef, ...]
    contradicted_by: tuple[KnowledgeRef, ...]
    created: bool = False
    """Whether the call that returned it stored anything."""

    @property
    def contested(self) -> bool:
        """Whether something contradicts it, or it contradicts something."""
        return bool(self.contradicts or self.contradicted_by)


def _ids(value: object) -> object:
    """Return the ids of one or several pieces of knowledge."""
    if value is None:
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(item.id if isinstance(item, Knowledge | KnowledgeRef) else item for item in items)


def _distinct(ids: tuple[str, ...]) -> tuple[str, ...]:
    if len(ids) > MAX_CONTRADICTED:
        raise ValueError(f"must have at most {MAX_CONTRADICTED:,} ids")
    return tuple(sorted(set(ids)))


class Claim(Input):
    """A fact that somebody states, as it comes in."""

    domain: Name
    fact: Name
    source: KnowledgeSource = "user_stated"
    user: Name | None = None
    contradicts: Annotated[tuple[Name, ...], BeforeValidator(_ids), AfterValidator(_distinct)] = ()
    at: Moment | None = None

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]


class Asked(Input):
    """The domain that is asked for."""

    domain: Name | None = None
