"""Lines of an export about levels, their entries and lenses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue

from graphmem.models.fields import AS_TUPLE, Input, JsonObject, Line, Moment, Name
from graphmem.models.lenses import LensSettings, lens_name
from graphmem.models.levels import (
    MAX_NAME,
    LevelName,
    LevelSettings,
    NewEntry,
    TagSet,
    source_name,
)


def _level_name(name: str) -> str:
    return LevelName.of(name, "level").name


def _source_name(name: str) -> str:
    return source_name(name).name


LevelText = Annotated[Name, AfterValidator(_level_name)]
Source = Annotated[Name, AfterValidator(_source_name)]


class PullRecord(Input):
    """What a level pulls from: a level, or an agent's stream."""

    source: Source
    transformer: Annotated[Name, Field(max_length=MAX_NAME)] | None = None
    arguments: JsonObject = Field(default_factory=dict)
    pulled: Annotated[int, Field(ge=0)] = 0
    """How many of the entries of the source, in order, it has pulled."""


class LevelRecord(Line):
    """The line of a level."""

    held: Literal["level"]
    name: LevelText
    settings: LevelSettings
    pulls: Annotated[tuple[PullRecord, ...], AS_TUPLE] = ()


class BecameRecord(Input):
    """What an entry became: an episode, by its source key, or a fact."""

    episode: Name | None = None
    domain: Name | None = None
    fact: str | None = None


class EntryRecord(Line):
    """The line of an entry; ``id`` is its id in the memory that was exported."""

    held: Literal["entry"]
    id: Name
    level: LevelText
    content: JsonValue
    tags: TagSet = ()
    key: Name | None = None
    metadata: JsonObject = Field(default_factory=dict)
    relevance: float = 1.0
    at: Moment
    expires_at: Moment | None = None
    reads: Annotated[int, Field(ge=0)] = 0
    last_read_at: Moment | None = None
    made_from: Annotated[tuple[Name, ...], AS_TUPLE] = ()
    became: Annotated[tuple[BecameRecord, ...], AS_TUPLE] = ()

    def new(self) -> NewEntry:
        """Return it as an entry to add."""
        names = ("content", "tags", "key", "metadata", "relevance", "at")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        return NewEntry(**fields)


class LensRecord(Line):
    """The line of a lens."""

    held: Literal["lens"]
    name: Annotated[Name, AfterValidator(lambda name: lens_name(name).name)]
    levels: Annotated[tuple[LevelText, ...], AS_TUPLE, Field(min_length=1)]
    settings: LensSettings


LevelsRecord = LevelRecord | EntryRecord | LensRecord
LEVELS_RECORDS: Mapping[str, type[LevelsRecord]] = MappingProxyType(
    {"level": LevelRecord, "entry": EntryRecord, "lens": LensRecord}
)
"""The models of lines, by what they hold."""
