"""The dataflow between levels: which pulls what from which, and what a tick did."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from graphmem.models.fields import Input, JsonObject, Name, Output
from graphmem.models.levels import MAX_NAME, Tags, TagSet


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


class Made(Input):
    """What a transformer makes: a new entry, and the entries that it was made from."""

    content: JsonValue
    tags: TagSet = ()
    key: Annotated[Name, Field(max_length=MAX_NAME)] | None = None
    metadata: JsonObject = Field(default_factory=dict)
    relevance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0
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
