"""Answers and reports of calls."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from graphmem.models.fields import Output


class Learned(Output):
    """The answer of ``learn``: ``created`` is False if the memory already had the episode."""

    episode_id: str
    created: bool


class Rejection(Output):
    """One refused record: its position, and the reason."""

    index: int
    """Position in the input, from 0."""
    field: str
    reason: str
    source_key: str | None = None


class LearnReport(Output):
    """The answer of ``learn_many``: counts, and the refused records with their reasons."""

    created: int
    skipped: int
    rejected: tuple[Rejection, ...] = ()


Status = Literal["established", "refuted", "tentative"]


class StrategyRow(Output):
    """Counts and success rate of a strategy (on a task, of an agent, or overall).

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
    """Counts of one namespace, and the engine that stores it."""

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
    """Changes of strategies and policies so far, including erased ones."""
    abandoned: int = 0
    """Attempts that ended without an outcome; they count nowhere else."""
    first_at: datetime | None = None
    last_at: datetime | None = None
    snapshot_age: float | None = None
    """Seconds since the snapshot was taken, if another process writes; else None."""


class Difference(Output):
    """A stored number that differs from the facts; ``stored`` or ``expected`` may be absent."""

    kind: str
    key: str
    field: str
    stored: JsonValue
    expected: JsonValue


class VerifyReport(Output):
    """The answer of ``verify``: ``ok`` if every derived number follows from the facts."""

    _rows = "differences"

    ok: bool
    differences: tuple[Difference, ...] = ()
    """The first hundred of each kind."""
    more: int = 0
    """Differences that are not listed."""
    differing: Mapping[str, int] = {}
    """How many differences there are, by kind; those that are not listed count, too."""
    checked: Mapping[str, int] = {}
    """How many items were compared, by kind."""


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
    """Number of edges SIMILAR_TO."""
    policies: int
    policy_links: int
    removed: int


class EraseReport(Output):
    """The answer of ``erase``: counts of what was removed."""

    episode_id: str | None = None
    agent: str | None = None
    user: str | None = None
    episodes: int = 0
    steps: int = 0
    policies: int = 0
    predictions: int = 0
    preferences: int = 0
    knowledge: int = 0
    """Facts that only the erased user stated."""
    abandoned: int = 0
    """Attempts without an outcome."""
    entries: int = 0
    """Entries of the levels of an erased agent."""
    removed: tuple[str, ...] = ()
    """Removed nodes that nothing else supported, by label."""
    compacted: bool = False
    """Whether the files were rewritten, so that nothing of it is left on disk. After erasing one
    episode that happens with ``compact``, else at the next checkpoint; for a server it is always
    false."""
    read_by: tuple[str, ...] = ()
    """Other processes that still have an older snapshot, until they read again or close."""


class ForgetReport(Output):
    """The answer of ``forget``: counts of what was removed (in a dry run: would be)."""

    dry_run: bool
    before: datetime | None
    """Episodes before this time count as old."""
    episodes: int
    steps: int
    removed: Mapping[str, int]
    """Removed nodes that nothing else supported, by label."""
    episode_ids: tuple[str, ...]
    abandoned: int = 0
    """Attempts without an outcome."""
    compacted: bool = False
    """Whether the files were rewritten, so that nothing of it is left on disk."""
    read_by: tuple[str, ...] = ()
    """Other processes that still have an older snapshot, until they read again or close."""


class BackupReport(Output):
    """The answer of ``backup`` and ``restore``: the new folder."""

    path: str
    bytes: int
    """Size of the graph file."""
    nodes: int
    """In all namespaces."""


class LossReport(Output):
    """The answer of ``accept_loss``: what the files lack."""

    problems: tuple[str, ...]
    transactions: int
    """Acknowledged transactions that are known to be missing from the log."""
    kept: tuple[str, ...] = ()
    """Damaged files, which stay in the folder under these names until you remove them."""
