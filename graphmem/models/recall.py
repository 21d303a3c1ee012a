"""What a memory recalls before an agent acts."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.lessons import AntiPattern


class RecallItem(Output):
    """A strategy that was recalled, how well it may do, and why it is here.

    ``score`` is ``relevance * lower * freshness``, all of them in [0, 1]. ``mean`` is the success
    rate to expect on a task like the one that was asked about: what came of the strategy on the
    tasks that were found, weighted by their relevance, added to a prior of its outcomes on all
    tasks. ``lower`` is the lower bound of that rate, ``freshness`` halves every half-life since its
    last trial (1 without dates).
    """

    kind: Literal["strategy"] = "strategy"
    id: str
    text: str
    score: float
    relevance: float
    mean: float
    lower: float
    freshness: float
    trials: int
    """On all tasks, by the agents that are read."""
    successes: int
    near_trials: int
    """Those on the tasks that were found."""
    near_successes: int
    last_at: datetime | None
    """The last dated trial."""
    path: tuple[str, ...]
    """How it was found: nodes and edges from the text to it, in words."""
    evidence: tuple[str, ...]
    """Ids of the latest episodes on the task that led to it, at most 5."""


class NearTask(Output):
    """A known task that is like what was asked about.

    ``relevance`` is the square of the cosine, in [0, 1].
    """

    id: str
    text: str
    task_type: str
    relevance: float


class Recall(Output):
    """What a memory holds for a task: what may work, best first, and what to keep from.

    ``warnings`` are strategies that failed on tasks of the same types, with the same error again
    and again, more often than they worked. ``tasks`` are the known tasks that the answer rests on,
    the most relevant first (at most 5). All are empty where nothing is known.
    """

    text: str
    embedder: str | None = None
    """What the text was compared by; None where there was nothing to compare it with."""
    items: tuple[RecallItem, ...]
    warnings: tuple[AntiPattern, ...]
    tasks: tuple[NearTask, ...]
