"""Lessons: conclusions about strategies, errors and mistakes, with their evidence."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.reports import Status
from graphmem.text.task_types import GENERAL

Verdict = Literal["WORKS", "AVOID"]


class Wording(Output):
    """A similar strategy whose trials were pooled, each multiplied by the similarity.

    ``similarity`` is the cosine of the two texts, in [-1, 1]; ``trials`` and ``successes`` are not
    multiplied.
    """

    strategy: str
    similarity: float
    trials: int
    successes: int


class Heuristic(Output):
    """What works for an agent on a type of task: one strategy, with all its outcomes there.

    ``confidence`` is the posterior mean of the success rate, ``lower`` and ``upper`` its Wilson
    bounds, all in [0, 1]; ``status`` follows from the bounds. ``supporting`` and ``opposing`` are
    ids of the latest episodes for and against (5 each). Times come from dated episodes. If evidence
    was pooled, ``pooled`` names the similar strategies, and confidence, bounds and status are those
    of ``pooled_successes`` in ``pooled_trials``, which include them.
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
    pooled: tuple[Wording, ...] = ()
    pooled_trials: float | None = None
    pooled_successes: float | None = None


class Alternative(Output):
    """A strategy that did better than one that failed.

    ``lift`` is the difference of the two posterior means in [-1, 1]. ``ground`` says which tasks
    were compared: "task" the tasks of the latest failures, "task type" all tasks of their type.
    ``lower`` is the lower Wilson bound of the alternative on these tasks, ``trials`` its trials
    there.
    """

    strategy: str
    lift: float
    trials: int
    successes: int
    lower: float
    ground: Literal["task", "task type"]


class AntiPattern(Output):
    """What fails for an agent: one strategy with one class of errors.

    ``occurrences`` counts failures with that class, ``successes`` the strategy's successes for the
    same agent on the types of tasks of these failures. ``confidence`` is the posterior mean of the
    share of occurrences in both, ``lower`` and ``upper`` its Wilson bounds; ``status`` follows from
    them. ``example`` is the latest error, unmasked; ``evidence`` holds the ids of the latest 5
    failures. In a warning before a task, ``expected`` is what to expect of the strategy on that
    task, and ``said`` the counts behind it: failures on other tasks may say little about this one.
    What is expected to work there, as it recovered, is not warned of, whatever the ``status``.
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
    usual: bool | None = None
    """Whether the strategy worked at times, and no less often than other strategies on tasks of
    these types. Then ``recall`` and ``choose`` leave it out, and ``context`` tells only of failures
    on the task itself or on similar ones. None: not compared, or there is no other strategy."""
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

    ``supporting`` and ``opposing`` count episodes. Episodes that list the sentence as a success
    with a score of .85 or more support a rule that WORKS; those that list it at all with a score
    under .5 oppose it. Episodes that list it as a mistake with a score under .5 support a rule to
    AVOID; those that list it at all with a score of .85 or more oppose it. ``confidence`` is
    (supporting + 1) / (supporting + opposing + 2). ``source`` is "episodes"; for general rules it
    is "repetition" (strategies and listed sentences), "summaries" (what repeats in the summaries of
    episodes that have nothing else) or "model". "sentinel" is a rule of an imported file, which
    counts as one episode beside your own.
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


class Score(Output):
    """The score of one episode of a task, in [0, 1]; one of an imported file has no id."""

    episode_id: str | None
    score: float
    success: bool
    at: datetime | None
    agent: str | None
    summary: str | None


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
