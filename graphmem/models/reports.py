"""What comes out: answers of calls and reports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from graphmem.models.fields import Output


class Learned(Output):
    """The answer of ``learn``: ``created`` is False when the memory had the episode already."""

    episode_id: str
    created: bool


class Rejection(Output):
    """One record that was refused: where it stood, and why."""

    index: int
    """Position in the input, from 0."""
    field: str
    reason: str
    source_key: str | None = None


class LearnReport(Output):
    """The answer of ``learn_many``: counts, and the refused ones with their reasons."""

    created: int
    skipped: int
    rejected: tuple[Rejection, ...] = ()


Status = Literal["established", "refuted", "tentative"]


class StrategyRow(Output):
    """What is known of a strategy (on a task, of an agent, or overall).

    ``mean`` is the posterior mean of the success rate under a Beta prior, ``lower`` and ``upper``
    the Wilson score bounds (Wilson 1927, JASA 22:209-212), all in [0, 1].
    """

    id: str
    text: str
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
    status: Status
    mean_score: float | None
    last_used_at: datetime | None
    tasks: int
    agents: tuple[str, ...]


class Stats(Output):
    """Counts of one namespace, and the engine that holds it."""

    url: str
    engine: str
    namespace: str
    schema_version: int
    episodes: int = 0
    successes: int = 0
    steps: int = 0
    tasks: int = 0
    agents: int = 0
    strategies: int = 0
    outcomes: int = 0
    co_occurrences: int = 0
    states: int = 0
    policies: int = 0
    events: int = 0
    """Changes of strategies and policies so far, those erased since included."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    snapshot_age: float | None = None
    """Seconds since the snapshot was taken, where another process writes; else None."""


class Difference(Output):
    """One number that is not what the facts say (``stored`` or ``expected`` is None if absent)."""

    kind: str
    key: str
    field: str
    stored: JsonValue
    expected: JsonValue


class VerifyReport(Output):
    """The answer of ``verify``: ``ok`` when every derived number follows from the facts."""

    ok: bool
    differences: tuple[Difference, ...] = ()
    checked: Mapping[str, int] = {}


class RebuildReport(Output):
    """The answer of ``rebuild``: how many derived items were written and removed."""

    strategies: int
    tasks: int
    agents: int
    outcomes: int
    co_occurrences: int
    heuristics: int
    anti_patterns: int
    rules: int
    mistakes: int
    supersessions: int
    similar: int
    """Edges SIMILAR_TO."""
    policies: int
    policy_links: int
    removed: int


class EraseReport(Output):
    """The answer of ``erase``: what went."""

    episode_id: str | None = None
    agent: str | None = None
    user: str | None = None
    episodes: int = 0
    steps: int = 0
    policies: int = 0
    predictions: int = 0
    preferences: int = 0
    knowledge: int = 0
    """Facts that nobody else stated."""
    removed: tuple[str, ...] = ()
    """Labels of nodes that nothing else supported and that went along."""
    compacted: bool = False
    """Whether the files were written anew, so that nothing of it is left on disk. Erasing one
    episode leaves that to the next checkpoint; a server never says so."""


class ForgetReport(Output):
    """The answer of ``forget``: what went, or would go in a dry run."""

    dry_run: bool
    before: datetime | None
    """Episodes from before this time were old."""
    episodes: int
    steps: int
    removed: Mapping[str, int]
    """Nodes that nothing else supported and that went along, by label."""
    episode_ids: tuple[str, ...]
    compacted: bool = False
    """Whether the files were written anew, so that nothing of it is left on disk."""
