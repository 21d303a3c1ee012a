"""Lessons: conclusions about strategies, errors and mistakes; consolidation."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from graphmem.models.fields import Input, Output
from graphmem.models.forecasts import Change
from graphmem.models.reports import Status
from graphmem.text.task_types import GENERAL

Verdict = Literal["WORKS", "AVOID"]


class Wording(Output):
    """A similar strategy whose trials were pooled, each multiplied by the similarity.

    ``similarity`` is the cosine of the two texts, in [-1, 1]; the counts are not multiplied.
    """

    strategy: str
    similarity: float
    trials: int
    successes: int


class Lesson(Output):
    """What outcomes of an agent tell: a posterior mean, and its Wilson bounds, in [0, 1]."""

    id: str
    agent: str
    strategy: str
    successes: int
    confidence: float
    lower: float
    upper: float
    status: Status
    first_at: datetime | None
    last_at: datetime | None
    change: Change | None = None


class Heuristic(Lesson):
    """What works for an agent on a type of task: one strategy, with all its outcomes there.

    ``confidence`` is that of the success rate. ``supporting`` and ``opposing`` are ids of the
    latest 5 episodes for and against. If evidence was ``pooled`` with that of similar
    strategies, these numbers are those of ``pooled_successes`` in ``pooled_trials``; else, if the
    strategy works better or worse since a ``change``, those of its outcomes since then.
    """

    task_type: str
    trials: int
    mean_score: float | None
    supporting: tuple[str, ...]
    opposing: tuple[str, ...]
    pooled: tuple[Wording, ...] = ()
    pooled_trials: float | None = None
    pooled_successes: float | None = None


class Alternative(Output):
    """A strategy that did better than one that failed.

    ``lift`` is the difference of the two posterior means in [-1, 1]. ``ground`` says which tasks
    were compared: "task" the tasks of the latest failures, "task type" all tasks of their type.
    ``lower`` is the alternative's lower Wilson bound on these tasks, ``trials`` its trials there.
    """

    strategy: str
    lift: float
    trials: int
    successes: int
    lower: float
    ground: Literal["task", "task type"]


class AntiPattern(Lesson):
    """What fails for an agent: one strategy with one class of errors.

    ``occurrences`` counts failures with that class, ``successes`` the strategy's successes for the
    same agent on the types of tasks of these failures. ``confidence`` is that of the share of
    occurrences in both; of those since a ``change``, if the strategy works better or worse since.
    ``example`` is the latest error, unmasked; ``evidence`` holds the ids of the latest 5 failures.
    """

    error_class: str
    task_types: tuple[str, ...]
    example: str | None
    occurrences: int
    evidence: tuple[str, ...]
    better_alternative: Alternative | None
    expected: float | None = None
    """The probability that it works on the given task; None: no task was given."""
    said: str | None = None
    """What that rests on, in words: the conclusion, and the counts behind it."""

    @property
    def sentence(self) -> str:
        """What to expect here, and all its numbers: ``rarely: 1 of 8 here; failed 7 of 9 ...``."""
        types = ", ".join(name for name in self.task_types if name != GENERAL)
        trials = self.occurrences + self.successes
        where = f" on {types}" if types else ""
        sentence = f"failed {self.occurrences} of {trials}{where} with {self.error_class!r}"
        return sentence if self.said is None else f"{self.said}; {sentence}"


class Rule(Output):
    """A sentence about a task (without ``task``: about all tasks), with its evidence.

    ``supporting`` and ``opposing`` count episodes that list the sentence: a rule that WORKS is
    supported where it is listed as a success with a score of .85 or more, and opposed where it is
    listed at all with one under .5; a rule to AVOID is supported where it is listed as a mistake
    with a score under .5, and opposed with one of .85 or more. ``confidence`` is (supporting + 1) /
    (supporting + opposing + 2). ``source`` is "episodes"; of general rules "repetition" (strategies
    and listed sentences), "summaries" or "model"; "sentinel": an imported file, as one episode.
    """

    id: str
    verdict: Verdict
    text: str
    task: str | None
    source: Literal["episodes", "repetition", "summaries", "model", "sentinel"]
    supporting: int
    opposing: int
    confidence: float
    first_at: datetime | None
    last_at: datetime | None
    evidence: tuple[str, ...]

    def __str__(self) -> str:
        return f"[{self.verdict}] {self.text}"


class Mistake(Output):
    """A mistake that was made ``seen`` times.

    ``bad_decision``, ``evidence`` and ``lesson`` each come from the latest card that has one. A
    ``weak`` one is a sentence (its ``type``) that episodes list as a mistake, and that is no rule:
    those with a score under .50 do not list it.
    ``first_episode`` and ``last_episode`` are ids of episodes; an imported file has none.
    """

    id: str
    type: str
    task: str | None = None
    worker: str | None = None
    correct_decision: str | None = None
    bad_decision: str | None = None
    seen: int
    evidence: str | None = None
    lesson: str | None = None
    first_episode: str | None = None
    last_episode: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    weak: bool = False


class TaskScore(Output):
    """How well a task went: number of episodes and their mean score in [0, 1]."""

    task: str
    task_type: str
    episodes: int
    mean_score: float


class MemorySummary(Output):
    """A summary of lessons: counts, the most frequent mistakes, and the scores of tasks.

    The counts include only lessons that are shown: heuristics and anti-patterns over their
    thresholds, and rules that hold. ``scores`` covers the 100 tasks with most episodes.
    """

    episodes: int
    tasks: int
    heuristics: int
    anti_patterns: int
    rules: int
    """Rules about single tasks."""
    general_rules: int
    mistakes: int
    top_mistakes: tuple[Mistake, ...]
    scores: tuple[TaskScore, ...]


# Consolidation

MAX_RULES = 10
"""Most rules in one answer of a model."""
MAX_RULE_TEXT = 300
"""Most characters of one rule in an answer."""


class ProposedRule(Input):
    """A rule in a model's answer; ``episodes`` are the numbers of episodes in the prompt."""

    verdict: Verdict
    text: Annotated[str, Field(min_length=1, max_length=MAX_RULE_TEXT)]
    episodes: Annotated[tuple[int, ...], Field(max_length=1000)]


class ModelAnswer(Input):
    """The whole answer that a model must give."""

    rules: Annotated[tuple[ProposedRule, ...], Field(max_length=MAX_RULES)]


class ConsolidationReport(Output):
    """What a consolidation did.

    It is ``due`` from ``every`` new episodes (``since``) on. ``done`` is false if it was neither
    due nor forced; nothing was written then. ``how`` is "model" if a model's answer was used, else
    "repetition"; ``reason`` then says why a requested model was not used. ``rules`` counts the
    general rules that repetition supports now, ``created`` the new ones, ``removed`` those that no
    longer hold; ``model_rules`` those of models, ``dropped`` the proposals without evidence,
    ``preferred`` the edges from anti-patterns to better alternatives.
    """

    due: bool
    done: bool
    since: int
    every: int
    how: Literal["repetition", "model"] | None = None
    reason: str | None = None
    rules: int = 0
    created: int = 0
    removed: int = 0
    model_rules: int = 0
    dropped: int = 0
    preferred: int = 0
