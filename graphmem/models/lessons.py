"""Lessons: what is believed of strategies, errors and mistakes, and on what evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.reports import Status

Verdict = Literal["WORKS", "AVOID"]


class Heuristic(Output):
    """What works for an agent on a type of task: one strategy, from all of its outcomes there.

    ``confidence`` is the posterior mean of the success rate, ``lower`` and ``upper`` its Wilson
    bounds, all in [0, 1]; ``status`` follows from the bounds. ``supporting`` and ``opposing`` are
    ids of the latest episodes for and against (5 each). Times are those of dated episodes.
    """

    id: str
    agent: str
    task_type: str
    strategy: str
    trials: int
    successes: int
    confidence: float
    lower: float
    upper: float
    status: Status
    mean_score: float | None
    first_at: datetime | None
    last_at: datetime | None
    supporting: tuple[str, ...]
    opposing: tuple[str, ...]


class Alternative(Output):
    """A strategy that did better where another failed.

    ``lift`` is the difference of the two posterior means in [-1, 1], over the same ground:
    "task" are the tasks of the latest failures, "task type" all tasks of their type. ``lower`` is
    the Wilson bound of the alternative there, ``trials`` its trials.
    """

    strategy: str
    lift: float
    trials: int
    successes: int
    lower: float
    ground: Literal["task", "task type"]


class AntiPattern(Output):
    """What fails for an agent: one strategy with one class of errors.

    ``occurrences`` are failures with that class, ``successes`` what the strategy achieved for the
    same agent on the types of tasks where it failed so; ``confidence`` is the posterior mean of
    occurrences among both, ``lower`` and ``upper`` its Wilson bounds; ``status`` follows from
    them. ``example`` is the latest error in its own words; ``evidence`` the ids of the latest
    failures (5).
    """

    id: str
    agent: str
    strategy: str
    error_class: str
    task_types: tuple[str, ...]
    example: str | None
    occurrences: int
    successes: int
    confidence: float
    lower: float
    upper: float
    status: Status
    first_at: datetime | None
    last_at: datetime | None
    evidence: tuple[str, ...]
    better_alternative: Alternative | None


class Rule(Output):
    """A sentence about a task (or, without one, about all tasks), with its evidence.

    ``supporting`` and ``opposing`` count episodes: for a rule that WORKS those with a score of .85
    or more that list it as a success, against those with a score under .5 that list it at all; for
    one to AVOID those under .5 that list it as a mistake, against those of .85 or more that list
    it at all. ``confidence`` is (supporting + 1) / (supporting + opposing + 2). ``source`` tells
    what found it: "episodes", "repetition" (consolidation without a model) or "model".
    """

    id: str
    verdict: Verdict
    text: str
    task: str | None
    source: Literal["episodes", "repetition", "model"]
    supporting: int
    opposing: int
    confidence: float
    first_at: datetime | None
    last_at: datetime | None
    evidence: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{self.verdict}] {self.text}"


class Mistake(Output):
    """A mistake that was made ``seen`` times; evidence and lesson are those of the latest card.

    ``first_episode`` and ``last_episode`` are ids of episodes.
    """

    id: str
    type: str
    task: str
    worker: str | None
    correct_decision: str | None
    seen: int
    evidence: str | None
    lesson: str | None
    first_episode: str
    last_episode: str
    first_at: datetime | None
    last_at: datetime | None


class Score(Output):
    """The score of one episode of a task, in [0, 1]."""

    episode_id: str
    score: float
    success: bool
    at: datetime | None
    agent: str
    summary: str | None


class TaskScore(Output):
    """How well a task went: number of episodes and their mean score in [0, 1]."""

    task: str
    task_type: str
    episodes: int
    mean_score: float


class MemorySummary(Output):
    """What a memory holds in lessons: counts, the mistakes seen most, and how well tasks went.

    Counted are lessons that are shown: heuristics and anti-patterns over their thresholds, rules
    that hold. ``scores`` are those of the 100 tasks with most episodes.
    """

    episodes: int
    tasks: int
    heuristics: int
    anti_patterns: int
    rules: int
    """Those of tasks."""
    general_rules: int
    mistakes: int
    top_mistakes: tuple[Mistake, ...]
    scores: tuple[TaskScore, ...]
