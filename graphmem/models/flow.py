"""The dataflow between levels, what a tick and maintenance did, and lines of exports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, JsonValue

from graphmem.models.fields import AS_TUPLE, Input, JsonObject, Line, Moment, Name, Output
from graphmem.models.levels import (
    MAX_NAME,
    LensSettings,
    LevelName,
    LevelSettings,
    NewEntry,
    Seconds,
    Tags,
    lens_name,
    source_name,
)


class PullOptions(Input):
    """How a level pulls from another."""

    arguments: JsonObject = Field(default_factory=dict)
    """Of the transformer."""
    where: Tags | None = None
    """The condition on the tags of pulled entries."""


class Timing(Input):
    """Times that callers give: an instant, seconds to live, and seconds between ticks."""

    at: Moment | None = None
    ttl: Seconds = 1.0
    every: Seconds = 300.0


class Subscription(Output):
    """A level that pulls from another."""

    target: str
    """The level that pulls."""
    source: str
    transformer: str | None
    """What makes its entries from those of the source; None: they are taken as they are."""
    arguments: dict[str, JsonValue]
    where: Tags | None
    """The condition on the tags of pulled entries; None: it pulls all."""
    created: bool
    """False if it existed, and was changed or left as it was."""


class Made(NewEntry):
    """What a transformer makes: a new entry, and the entries that it was made from."""

    sources: tuple[str, ...] | None = None
    """Ids of the entries that it was made from; None: all that the transformer got."""


class Pulled(Output):
    """What one level pulled from another in a tick."""

    target: str
    source: str
    transformer: str | None
    ingested: int = 0
    """Entries of the source that were pulled."""
    made: int = 0
    """Entries of the target that are new, or got other content."""
    became: int = 0
    """Entries that became episodes or knowledge, if the target shows these."""
    missed: int = 0
    """Entries that expired, or were removed, before they could be pulled."""
    left_out: int = 0
    """Entries whose tags do not match."""
    skipped: int = 0
    """Entries that cannot become what the target shows."""
    reasons: tuple[str, ...] = ()
    """Why entries were skipped: the first few reasons."""
    error: str | None = None
    """Why it stopped; what it did not pull is still pending."""

    @property
    def did(self) -> bool:
        """Whether it found anything to do."""
        counts = (self.ingested, self.made, self.became, self.missed, self.left_out, self.skipped)
        return any(counts) or self.error is not None


class LevelMaintained(Output):
    """What maintenance did in one level."""

    level: str
    expired: int = 0
    """Entries that were removed because their time was over."""
    pruned: int = 0
    """Entries that were removed because they were hardly relevant."""
    merged: int = 0
    """Entries that were merged into an older one that says the same."""
    over_capacity: int = 0
    """The least relevant entries, which were removed because there were too many."""
    reindexed: int = 0
    """Entries that were embedded."""
    error: str | None = None
    """Why no text could be embedded."""

    @property
    def removed(self) -> int:
        """Entries that were removed or merged."""
        return self.expired + self.pruned + self.merged + self.over_capacity

    @property
    def changed(self) -> bool:
        """Whether it did anything."""
        return bool(self.removed or self.reindexed)


class MaintainReport(Output):
    """What maintenance did."""

    at: datetime
    """The instant that it was done for."""
    levels: tuple[LevelMaintained, ...] = ()
    """The levels that changed, by name."""

    @property
    def removed(self) -> int:
        """Entries that were removed or merged."""
        return sum(one.removed for one in self.levels)


class TickReport(Output):
    """What a tick did."""

    at: datetime
    subscriptions: tuple[Pulled, ...] = ()
    """The levels that had something to pull, in the order of the dataflow."""
    levels: dict[str, int] = Field(default_factory=dict)
    """How many entries are new or changed, by level."""
    maintained: tuple[LevelMaintained, ...] = ()
    """What maintenance did at the end, by level."""

    @property
    def ingested(self) -> int:
        """Entries that were pulled, once for each subscription."""
        return sum(one.ingested for one in self.subscriptions)

    @property
    def missed(self) -> int:
        """Entries that expired, or were removed, before they could be pulled."""
        return sum(one.missed for one in self.subscriptions)

    @property
    def became(self) -> int:
        """Entries that became episodes or knowledge."""
        return sum(one.became for one in self.subscriptions)


LevelText = Annotated[Name, AfterValidator(lambda name: LevelName.of(name, "level").name)]


class PullRecord(Input):
    """What a level pulls from: a level, or an agent's stream."""

    source: Annotated[Name, AfterValidator(lambda name: source_name(name).name)]
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


class EntryRecord(NewEntry, Line):
    """The line of an entry; ``id`` is its id in the memory that was exported."""

    held: Literal["entry"]
    id: Name
    level: LevelText
    at: Moment
    expires_at: Moment | None = None
    reads: Annotated[int, Field(ge=0)] = 0
    last_read_at: Moment | None = None
    made_from: Annotated[tuple[Name, ...], AS_TUPLE] = ()
    became: Annotated[tuple[BecameRecord, ...], AS_TUPLE] = ()


class LensRecord(Line):
    """The line of a lens."""

    held: Literal["lens"]
    name: Annotated[Name, AfterValidator(lambda name: lens_name(name).name)]
    levels: Annotated[tuple[LevelText, ...], AS_TUPLE, Field(min_length=1)]
    settings: LensSettings


LevelsRecord = LevelRecord | EntryRecord | LensRecord
LEVELS_RECORDS: Mapping[str, type[LevelsRecord]] = {
    "level": LevelRecord,
    "entry": EntryRecord,
    "lens": LensRecord,
}
"""The models of lines, by what they hold."""
