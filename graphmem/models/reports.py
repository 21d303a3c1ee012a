"""Answers and reports of calls, and rows of lists."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from pydantic import JsonValue

from graphmem.kinds import ExportFormat, FileFormat, SkillForm
from graphmem.models.fields import Output
from graphmem.models.forecasts import Change


class Learned(Output):
    """The answer of ``learn``: ``created`` is False if the memory already had the episode."""

    episode_id: str
    created: bool
    warnings: tuple[str, ...] = ()
    """What ``record_episode`` mended in a form."""


class Told(Output):
    """An outcome that an episode had: as learned (``at`` is None), or told later, at a time.

    ``success`` and ``score`` are None for an attempt that ended without an outcome.
    """

    at: datetime | None
    success: bool | None
    score: float | None
    error: str | None


class Settled(Output):
    """The answer of ``settle``: ``changed`` is False if the memory knew the outcome already."""

    episode_id: str
    changed: bool
    former: tuple[Told, ...] = ()
    """The outcomes that others replaced, the earliest first."""


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
    the Wilson score bounds (Wilson 1927, JASA 22:209-212), all in [0, 1]; ``status`` follows. If
    the strategy works better or worse since a ``change``, these are of the outcomes since then.
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
    change: Change | None = None


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

    ok: bool
    differences: tuple[Difference, ...] = ()
    """The first hundred of each kind."""
    more: int = 0
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
    similar: int
    policies: int
    policy_links: int
    invalid: int
    """Events of policies with invalid numbers, such as NaN, which were removed."""
    removed: int


class EraseReport(Output):
    """The answer of ``erase``: counts of what was removed."""

    episode_id: str | None = None
    agent: str | None = None
    user: str | None = None
    source: str | None = None
    episodes: int = 0
    steps: int = 0
    policies: int = 0
    predictions: int = 0
    preferences: int = 0
    knowledge: int = 0
    """Facts that only the erased user stated."""
    abandoned: int = 0
    entries: int = 0
    """Entries of the levels of an erased agent."""
    priors: int = 0
    """What an erased source said of strategies."""
    removed: tuple[str, ...] = ()
    """Removed nodes that nothing else supported, by label."""
    compacted: bool = False
    """Whether the files were rewritten, so that nothing of it is left on disk. After erasing one
    episode that happens with ``compact``, else at the next checkpoint; on a server never."""
    read_by: tuple[str, ...] = ()
    """Other processes that still have an older snapshot, until they read again or close."""


class ForgetReport(Output):
    """The answer of ``forget``, as of ``erase``: what was removed (in a dry run: would be)."""

    dry_run: bool
    before: datetime | None
    episodes: int
    steps: int
    removed: Mapping[str, int]
    """Removed nodes that nothing else supported, by label; in a dry run empty."""
    episode_ids: tuple[str, ...]
    abandoned: int = 0
    compacted: bool = False
    read_by: tuple[str, ...] = ()


class BackupReport(Output):
    """The answer of ``backup`` and ``restore``: the new folder."""

    path: str
    bytes: int
    """Size of the graph file."""
    nodes: int
    """In all namespaces."""


class LossReport(Output):
    """The answer of ``accept_loss``: what the files lack."""

    problems: tuple[str, ...] = ()
    transactions: int = 0
    """Acknowledged transactions that are known to be missing from the log."""
    kept: tuple[str, ...] = ()
    """Damaged files, which stay in the folder under these names until you remove them."""


class Moved(Output):
    """What a file holds beside episodes."""

    file: str
    kept: tuple[str, ...] = ()
    abandoned: int = 0
    """Attempts without an outcome; of an import, new ones, as below."""
    settled: int = 0
    """Outcomes of episodes that were told later."""
    levels: int = 0
    entries: int = 0
    lenses: int = 0
    priors: int = 0


class ImportReport(Moved):
    """The answer of an import: how many episodes were new, and how many already known.

    ``kept`` names the other content of the file, which is stored unchanged. ``refused`` holds the
    refused episodes: only of JSON lines, as a Sentinel file is learned as a whole or not at all.
    """

    format: FileFormat
    created: int
    skipped: int
    refused: tuple[Rejection, ...] = ()


class SkillReport(Output):
    """What an export of skills wrote.

    ``changed`` and ``removed`` are names of folders, or the file; what is as it was is in neither.
    """

    path: str
    form: SkillForm
    kinds: int
    """Kinds of tasks that something was learned of."""
    conclusions: int
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class SkillImport(Output):
    """The answer of ``skills.import_``: what the source now says.

    ``skills`` is the number of kinds of tasks, ``priors`` that of strategies. ``replaced`` is how
    many priors of the source gave way. Without a change nothing was written.
    """

    source: str
    files: int
    skills: int
    priors: int
    avoid: int
    """How many of the priors say to avoid the strategy."""
    replaced: int
    changed: bool


class ExportReport(Moved):
    """The answer of an export: how many episodes the file holds, or how many nodes and edges.

    ``derived`` names the lists that come from the memory, ``kept`` the imported ones, unchanged.
    """

    format: ExportFormat
    episodes: int = 0
    derived: tuple[str, ...] = ()
    nodes: int = 0
    edges: int = 0
    """Nodes and edges, in tables for Neo4j."""


class EpisodeRow(Output):
    """An episode in a list. ``at`` is its end, else its start; ``steps`` is their number."""

    id: str
    task: str
    task_type: str
    agent: str
    strategies: tuple[str, ...]
    """The texts of the applied strategies, the main one first."""
    success: bool
    score: float
    error: str | None
    steps: int
    at: datetime | None
    recorded_at: datetime
    source_key: str | None
    settled_at: datetime | None = None
    """When the outcome was told, if that was later (see ``settle``)."""
    former: tuple[Told, ...] = ()
    """The outcomes that it replaced, the earliest first."""


class TaskRow(Output):
    """A task in a list: its episodes, and the Wilson bounds of their success rate, in [0, 1]."""

    id: str
    key: str
    text: str
    task_type: str
    trials: int
    successes: int
    lower: float
    upper: float
    mean_score: float
    strategies: int
    best: str | None
    """The strategy with the best lower bound there, of what works now; None where none worked."""
    best_trials: int
    best_successes: int
    last_at: datetime


class ItemLink(Output):
    """A node that an item is linked with; an agent has no ``id``."""

    relation: str
    kind: str
    id: str | None
    text: str | None


class StepRow(Output):
    """A step of an episode, its texts cut off at 1,000 characters; ``action`` is JSON."""

    index: int
    action_type: str | None
    action: str | None
    observation: str | None
    reward: float | None
    error: str | None


class Item(Output):
    """Anything that has an id: its kind, its fields and its links.

    Only an episode has ``steps``, at most its first 100.
    """

    kind: str
    id: str
    fields: dict[str, JsonValue]
    """The fields that it has; times are ISO 8601."""
    links: tuple[ItemLink, ...] = ()
    steps: tuple[StepRow, ...] = ()


class SimilarStrategy(Output):
    """A strategy with nearly the same text as another, and its success rate.

    ``similarity`` is the cosine of their vectors, in [-1, 1]. ``mean`` is the posterior mean of its
    success rate and ``lower`` the Wilson lower bound, in [0, 1], over all tasks and agents.
    """

    id: str
    text: str
    similarity: float
    linked: bool
    """Whether an edge SIMILAR_TO leads to it: the similarity is over the embedder's threshold."""
    trials: int
    successes: int
    mean: float
    lower: float
    status: Status


class RelinkReport(Output):
    """Counts of texts that were embedded and linked."""

    embedder: str
    dimensions: int
    strategies: int
    tasks: int
    embedded: int
    """Texts that were embedded now; the others already had a vector."""
    links: int


class EmbedderInfo(Output):
    """An embedder that the settings can name: ``GRAPHMEM_EMBEDDER`` is its ``name``.

    ``dimensions`` are None if they are unknown before loading. ``missing`` says what must be
    installed. It is ``in_force`` if the settings name it, ``of_memory`` if that was built with it.
    """

    name: str
    dimensions: int | None = None
    what: str
    missing: str | None = None
    in_force: bool = False
    of_memory: bool = False
