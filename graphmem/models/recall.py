"""The answer of ``recall``: strategies for a task, and warnings; the arguments of ``context``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from graphmem.models.fields import Input, Name, Output
from graphmem.models.forecasts import OutcomeCounts
from graphmem.models.lessons import AntiPattern, Verdict
from graphmem.models.people import Fact

Kind = Literal["strategy", "rule", "heuristic", "policy", "prior"]


class ContextQuery(Input):
    """The validated arguments of ``context``."""

    task: Name
    max_tokens: Annotated[int, Field(ge=1)]
    agent: Name | None = None
    user: Name | None = None
    lens: Name | None = None


class RecallItem(OutcomeCounts):
    """A recalled strategy (or rule, heuristic, policy or prior), what to expect of it, and why.

    A prior is a strategy that was not tried on such tasks, and of which an imported file says
    something; ``trials`` and ``successes`` are the counts of the file.

    ``score`` is ``relevance * lower * freshness``, all in [0, 1]; that of a strategy that failed in
    all its trials near is at most that of the best one that is expected to do better. ``mean`` is
    the expected success rate on this task, as ``predict`` gives it, and ``lower`` its lower bound.
    ``freshness`` halves every half-life since the last trial (1 without dates).
    """

    kind: Kind = "strategy"
    id: str
    score: float
    relevance: float
    mean: float
    lower: float
    freshness: float
    said: str
    """What is known of it, in words: ``likely: 9 of 10 on 'refund a flight', like this one``."""
    last_at: datetime | None
    """The time of the last dated trial."""
    agent: str | None = None
    """The owner of a heuristic or policy."""
    verdict: Verdict | None = None
    """Of a rule or a prior: what to do with it."""
    path: tuple[str, ...]
    """The path in the graph from the text to the strategy, in words."""
    evidence: tuple[str, ...]
    """Ids of the latest episodes (at most 5) on the task through which it was recalled."""


class NearTask(Output):
    """A known task that is similar to the given text.

    ``relevance`` is the square of the similarity, in [0, 1].
    """

    id: str
    text: str
    task_type: str
    similarity: float
    """Cosine of its description and the given text, in [-1, 1]."""
    relevance: float


class Recall(Output):
    """Recalled strategies for a task, the best first, and what to avoid.

    Strategies are in the order of what is expected of them, then of certainty; too little known
    counts as one half. ``warnings`` are strategies that failed repeatedly with the same error on
    tasks of the same types, and are not expected to work now, or that stopped working. ``tasks``
    are the known tasks behind the answer, the most relevant first (at most 5). All are empty if no
    text is as similar as the floor demands; ``nearest`` is the most similar known task, relevant or
    not.
    """

    text: str
    embedder: str | None = None
    """The embedder that compared the texts; None if there was nothing to compare with."""
    items: tuple[RecallItem, ...]
    warnings: tuple[AntiPattern, ...]
    tasks: tuple[NearTask, ...]
    task_type: str | None = None
    """The type of the text: of the known task, its wording, or the nearest task; None: none."""
    type_rule: str | None = None
    """What decided the type: ``given``, the rule that fired, or ``near: <id of the task>``."""
    nearest: NearTask | None = None
    floor: float | None = None
    """The similarity below which a task is not relevant; None if there was nothing to compare."""
    facts: tuple[Fact, ...] = ()
    """The preferences of the given user, then facts near the text, the nearest first."""
