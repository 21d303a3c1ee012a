"""What callers look at: episodes, tasks, and anything that has an id."""

from __future__ import annotations

from datetime import datetime

from pydantic import JsonValue

from graphmem.models.fields import Output


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
    """How many strategies were tried on it."""
    best: str | None
    """The strategy with the best lower bound there; None where none has worked."""
    best_trials: int
    best_successes: int
    last_at: datetime
    """The time of its latest episode."""


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
