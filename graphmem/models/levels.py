"""Levels: what an agent holds now, for an hour, or for good, and the entries in them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import (
    AS_SET,
    AS_TUPLE,
    DISTINCT,
    Input,
    Json,
    JsonObject,
    Moment,
    Name,
    Output,
    Rate,
    Searched,
    Unit,
    checked,
)
from graphmem.text import answers

OwnerKind = Literal["agent", "capability", "task", "collective", "system"]
Holds = Literal["entries", "episodes", "knowledge", "strategies"]

MAX_NAME = 1_000
"""Most characters in the name of a level, or in a tag."""
MAX_TAGS = 100
"""Most tags of one entry."""
MAX_SECONDS = 1e10
"""Longest time to live in seconds: some 300 years."""

_OWNERS: tuple[OwnerKind, ...] = ("agent", "capability", "task", "collective", "system")
_SHARED = ("collective", "system")
"""Kinds of owners without a name: all may read their levels."""


class Preset(NamedTuple):
    """The purpose of a default level, and how long it holds its entries."""

    purpose: str
    ttl: float | None = None
    capacity: int | None = None
    holds: Holds = "entries"


PRESETS: Mapping[str, Preset] = {
    "sensory": Preset("raw events and observations", ttl=60.0),
    "working": Preset("recent actions, the plan, what is at hand", ttl=3_600.0),
    "stm": Preset("summaries of recent work", ttl=86_400.0, capacity=500),
    "ltm:episodic": Preset("past attempts and their outcomes", holds="episodes"),
    "ltm:semantic": Preset("facts and ideas", holds="knowledge"),
    "ltm:procedural": Preset("strategies and how they worked", holds="strategies"),
}
"""The default levels of an agent, by kind."""
FLOW = (
    ("sensory", "working", "dedup"),
    ("working", "stm", "summarise"),
    ("stm", "ltm:episodic", None),
    ("stm", "ltm:semantic", None),
)
"""Which default level feeds which, and by which transformer; strategies come from episodes."""


class LevelName(NamedTuple):
    """The parts of a level's name, for instance ``agent:ada:working``."""

    name: str
    owner_kind: OwnerKind
    owner: str | None
    kind: str
    """The rest of the name: ``working``, ``stm``, ``ltm:episodic`` ..."""

    @classmethod
    def of(cls, name: object, field: str = "name") -> LevelName:
        """Return the parts of a name."""
        return _parse_known(name, field) if type(name) is str else _parse(name, field)


def _parse(
    name: object, field: str, kinds: Iterable[str] = tuple(PRESETS), what: str = "level"
) -> LevelName:
    text: str = checked(field, name, ShortName)
    owner_kind, _, rest = text.partition(":")
    parts = rest.split(":")
    if (
        owner_kind not in _OWNERS
        or not all(part and part == part.strip() for part in parts)
        or (len(parts) == 1 and owner_kind not in _SHARED)
    ):
        remedy = "give agent:WHO:WHAT, capability:WHO:WHAT, task:WHICH:WHAT, collective:WHAT, or "
        problem = f"is not the name of a {what}"
        raise ValidationError(field, name, problem, f"{remedy}system:WHAT")
    for kind in sorted(kinds, key=len, reverse=True) if owner_kind == "agent" else ():
        owner = rest.removesuffix(f":{kind}")
        if owner != rest:  # the name of an agent may have colons
            return LevelName(text, owner_kind, owner, kind)
    if len(parts) == 1:
        return LevelName(text, owner_kind, None, rest)
    return LevelName(text, owner_kind, parts[0], ":".join(parts[1:]))


_parse_known = lru_cache(maxsize=4_096)(_parse)


class LensPreset(NamedTuple):
    """What a lens of every agent looks at."""

    kinds: tuple[str, ...]
    max_age: float | None = None
    limit: int = 10


LENSES: Mapping[str, LensPreset] = {
    "planning": LensPreset(("working", "stm"), max_age=3_600.0),
    "reflection": LensPreset(("stm", "ltm:episodic")),
    "skill": LensPreset(("ltm:procedural",), limit=5),
}
"""The lenses that every agent has, by kind."""


def lens_name(name: object) -> LevelName:
    """Return the parts of the name of a lens: like that of a level, it says who owns it."""
    return _parse(name, "name", (*PRESETS, *LENSES), "lens")


def default_name(agent: str, kind: str) -> str:
    """Return the name of an agent's level of a kind."""
    return f"agent:{agent}:{kind}"


def _plain(value: JsonValue) -> JsonValue:
    if value is None or value == "":
        raise ValueError("is empty")
    return value


Seconds = Annotated[float, Field(ge=0.001, le=MAX_SECONDS, allow_inf_nan=False)]
ShortName = Annotated[Name, Field(max_length=MAX_NAME)]
TagSet = Annotated[tuple[ShortName, ...], AS_SET, Field(max_length=MAX_TAGS), DISTINCT]


class LevelUpkeep(Input):
    """What maintenance does with the entries of a level."""

    decay: Rate | None = None
    """Share of its relevance that an entry loses in a minute; None: it keeps a half, and at least
    ``prune``, until its end, and all of it if it has no end."""
    prune: Unit = 0.1
    """Relevance below which an entry is removed."""
    dedup: Unit | None = 0.95
    """Similarity from which on two entries without keys are one; None: they never are."""
    reindex: Seconds = 300.0
    """Seconds after which texts without vectors are embedded."""


class LevelSettings(Input):
    """The validated settings of ``put``."""

    ttl: Seconds | None = None
    capacity: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    purpose: Annotated[str, Field(max_length=10_000)] = ""
    members: TagSet | None = None
    upkeep: LevelUpkeep = LevelUpkeep()


class Level(Output):
    """A level and its settings."""

    id: str
    name: str
    kind: str
    """``sensory``, ``working``, ``stm``, ``ltm:episodic`` ..., or the name behind the owner."""
    owner_kind: OwnerKind
    owner: str | None
    """Its owner; None if it is for all."""
    purpose: str
    ttl: float | None
    """Seconds that an entry stays; None: no end."""
    capacity: int | None
    """Most entries that maintenance leaves; None: any number."""
    members: tuple[str, ...] | None
    """The agents that alone may write it, if it is a collective level; None: everybody."""
    holds: Holds
    """``entries``; a long-term level shows the ``episodes``, ``knowledge`` or ``strategies`` of its
    owner, and has no entries of its own."""
    decay: float | None
    prune: float
    dedup: float | None
    reindex: float
    created_at: datetime

    @property
    def view(self) -> bool:
        """Whether it is a view, and takes no entries."""
        return self.holds != "entries"


class _Totals(Output):
    entries: int
    """Entries that have not expired."""
    expired: int
    """Entries that expired, and that maintenance did not remove yet."""
    missed: int
    """Entries that expired, or were removed, before a subscriber ingested them."""
    failed: int
    """Calls of functions that a producer could not remember."""
    pending: int
    """Entries that a tick would ingest: new or changed ones that match and have not expired."""


class LevelInfo(_Totals, Level):
    """A level, and its contents at a time."""

    subscribed_to: tuple[str, ...]
    """The levels from which it pulls, by name."""
    tags: dict[str, int]
    """The number of living entries of each tag, most first."""


class Entry(Output):
    """What a level holds: a text or JSON, with tags, for a time."""

    id: str
    level: str
    key: str | None
    content: JsonValue
    tags: tuple[str, ...]
    metadata: dict[str, JsonValue]
    base: float
    """Relevance when it was added."""
    relevance: float
    """Relevance when asked: it decays by the minute, the more slowly the more it is read."""
    at: datetime
    expires_at: datetime | None
    reads: int


class Found(Entry):
    """An entry that fits a question."""

    similarity: float | None = None
    """Cosine of its words and the given text; None if none was given."""


class Added(Output):
    """What ``add`` did."""

    id: str
    level: str
    key: str | None
    created: bool
    """False if the same content was there for the key; nothing was written then."""
    replaced: bool = False
    """Whether it replaced other content of the key."""


class NewEntry(Input):
    """The validated arguments of ``add``."""

    content: Annotated[Json, AfterValidator(_plain)]
    tags: TagSet = ()
    key: ShortName | None = None
    metadata: JsonObject = Field(default_factory=dict)
    ttl: Seconds | None = None
    at: Moment | None = None
    relevance: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 1.0


class Tags(Input):
    """A condition on the tags of an entry; combine conditions with ``&``, ``|`` and ``~``.

    ``Tags(any_of={"kind:plan", "kind:goal"}) & ~Tags(all_of={"done", "old"})``. A part that is left
    out, or empty, matches all entries.
    """

    any_of: TagSet = ()
    all_of: TagSet = ()
    none_of: TagSet = ()
    parts: Annotated[tuple[Tags, ...], AS_TUPLE] = ()
    join: Literal["and", "or"] = "and"
    """Whether all parts must match, or one."""
    negated: bool = False

    def __init__(self, /, **data: Any) -> None:
        super().__init__(**data)

    def __and__(self, other: Tags) -> Tags:
        return Tags(parts=(self, other))

    def __or__(self, other: Tags) -> Tags:
        return Tags(parts=(self, other), join="or")

    def __invert__(self) -> Tags:
        return self.model_copy(update={"negated": not self.negated})

    def fits(self, tags: Collection[str]) -> bool:
        """Return whether an entry with these tags matches."""
        fits = (
            (not self.any_of or any(tag in tags for tag in self.any_of))
            and all(tag in tags for tag in self.all_of)
            and not any(tag in tags for tag in self.none_of)
        )
        if fits and self.parts:
            join = all if self.join == "and" else any
            fits = join(part.fits(tags) for part in self.parts)
        return fits is not self.negated


class LensSettings(Input):
    """The validated settings of ``put_lens``."""

    tags: Tags | None = None
    max_age: Seconds | None = None
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10
    purpose: Annotated[str, Field(max_length=10_000)] = ""


class LensInfo(Output):
    """A lens: what it looks at."""

    name: str
    purpose: str = ""
    levels: tuple[str, ...]
    tags: Tags | None = None
    """The condition on the tags of the entries that it shows; None: it shows all."""
    max_age: float | None = None
    """The greatest age of entries in seconds; None: any age."""
    limit: int = 10
    created_at: datetime


class EntryQuestion(Input):
    """The validated arguments of ``recall``."""

    text: Searched | None = None
    tags: Tags | None = None
    since: Moment | None = None
    until: Moment | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = None
    max_age: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] | None = None
    min_relevance: Unit = 0.0
    include_expired: bool = False


class LevelEdge(Output):
    """A level that pulls from another, in a map."""

    source: str
    target: str
    """The level that pulls."""
    transformer: str | None
    pending: int


class LevelStatistics(_Totals):
    """The totals of levels."""

    at: datetime
    levels: int
    subscriptions: int
    kinds: dict[str, int]
    """Entries by kind of level: ``sensory``, ``working`` ..."""


class MemoryMap(Output):
    """The levels that a reader may read, their contents, and which pulls from which.

    ``str`` of it is a tree.
    """

    agent: str | None
    """Who reads; None: anybody."""
    at: datetime
    levels: tuple[LevelInfo, ...]
    """The reader's own levels first, then by name."""
    edges: tuple[LevelEdge, ...]

    @property
    def entries(self) -> int:
        """Entries that have not expired."""
        return sum(level.entries for level in self.levels)

    @property
    def pending(self) -> int:
        """Entries that a tick would ingest."""
        return sum(level.pending for level in self.levels)

    def __str__(self) -> str:
        return self.tree()

    def tree(self) -> str:
        """Return the map as text: under each level the levels that pull from it."""
        return answers.tree(self)


class PullOptions(Input):
    """How a level pulls from another, as it is stored: earlier versions also stored arguments."""

    model_config = ConfigDict(extra="ignore")

    where: Tags | None = None


class Made(NewEntry):
    """What a transformer makes: a new entry, and the entries that it was made from."""

    sources: tuple[str, ...] | None = None
    """Ids of the entries that it was made from; None: all that the transformer got."""


class Pulled(Output):
    """What one level pulled from another in a tick: how many entries it ``ingested``.

    Of these ``made`` are new or changed in the target, ``became`` episodes or knowledge there, or
    were ``skipped``, for the first few ``reasons``. ``missed`` expired, or were removed, before;
    ``left_out`` have other tags. ``error`` says why it stopped; the rest is still pending.
    """

    target: str
    source: str
    ingested: int = 0
    made: int = 0
    became: int = 0
    missed: int = 0
    left_out: int = 0
    skipped: int = 0
    reasons: tuple[str, ...] = ()
    error: str | None = None


class LevelMaintained(Output):
    """What maintenance did in one level."""

    level: str
    expired: int = 0
    pruned: int = 0
    """Entries that were removed because they were hardly relevant."""
    merged: int = 0
    """Entries that were merged into an older one that says the same."""
    over_capacity: int = 0
    """The least relevant entries, which were removed because there were too many."""
    reindexed: int = 0
    error: str | None = None


class MaintainReport(Output):
    """What maintenance did."""

    at: datetime
    levels: tuple[LevelMaintained, ...] = ()


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
    def became(self) -> int:
        """Entries that became episodes or knowledge."""
        return sum(one.became for one in self.subscriptions)
