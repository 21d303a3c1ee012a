"""Lenses: named, read-only views of levels."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, NamedTuple

from pydantic import Field

from graphmem.errors import ValidationError
from graphmem.models.fields import Input, Output
from graphmem.models.levels import LevelName, OwnerKind, Seconds, Tags


class LensPreset(NamedTuple):
    """What a lens of every agent looks at."""

    purpose: str
    kinds: tuple[str, ...]
    """Which of its default levels."""
    max_age: float | None = None
    limit: int = 10


LENSES: Mapping[str, LensPreset] = MappingProxyType(
    {
        "planning": LensPreset("what is going on", ("working", "stm"), max_age=3_600.0),
        "reflection": LensPreset("what came of it", ("stm", "ltm:episodic")),
        "skill": LensPreset("what is known to work", ("ltm:procedural",), limit=5),
    }
)
"""The lenses that every agent has, by kind."""


def lens_name(name: object, field: str = "name") -> LevelName:
    """Return the parts of the name of a lens: like that of a level, it says who owns it.

    Raises:
        ValidationError: it is not the name of a lens.
    """
    try:
        parts = LevelName.of(name, field)
    except ValidationError as error:
        problem = error.problem.replace("of a level", "of a lens")
        raise ValidationError(field, error.value, problem, error.remedy) from None
    if parts.owner_kind == "agent":
        for kind in LENSES:
            owner = parts.name.removeprefix("agent:").removesuffix(f":{kind}")
            if f"agent:{owner}:{kind}" == parts.name:  # the name of an agent may have colons
                return parts._replace(owner=owner, kind=kind)
    return parts


class LensSettings(Input):
    """The validated settings of ``put_lens``."""

    tags: Tags | None = None
    max_age: Seconds | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    purpose: Annotated[str, Field(max_length=10_000)] = ""


class LensInfo(Output):
    """A lens: what it looks at."""

    name: str
    kind: str
    """``planning``, ``reflection``, ``skill``, or what its name says after the owner."""
    owner_kind: OwnerKind
    owner: str | None
    """Its owner; None if it is for all."""
    purpose: str
    levels: tuple[str, ...]
    """The names of its levels."""
    tags: Tags | None
    """The condition on the tags of the entries that it shows; None: it shows all."""
    max_age: float | None
    """The greatest age of entries in seconds; None: any age."""
    limit: int
    """Most entries that it shows."""
    created_at: datetime | None
    """When somebody put it; None: it is one that every agent has."""
