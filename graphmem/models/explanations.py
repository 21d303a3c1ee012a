"""Explanations: the evidence for a belief, and what would change it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from graphmem.kinds import ItemKind
from graphmem.models.fields import Output
from graphmem.models.forecasts import Change, OutcomePrediction
from graphmem.models.lessons import Alternative, Verdict
from graphmem.models.policies import Policy
from graphmem.models.reports import Status
from graphmem.text import answers

Relation = Literal[
    "similar", "used together", "merged", "recommended", "warned against", "same state", "linked"
]


class Why(Output):
    """The evidence for a belief: trials, how many support it, and the bounds that follow.

    ``successes`` counts the trials that support the belief: those that worked; for an anti-pattern
    the failures with its class of errors; for a rule the supporting episodes. ``mean`` is the
    posterior mean of their share, ``lower`` and ``upper`` its Wilson bounds, all in [0, 1].
    """

    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
    status: Status
    sentence: str


class Trend(Output):
    """The later half of the latest 2,000 dated trials (with the middle one) and the earlier half.

    ``change`` is the difference of the posterior means in [-1, 1]; it is ``certain`` if the Wilson
    bounds of the halves do not overlap. The later half begins at ``later_from``.
    """

    direction: Literal["rises", "falls", "steady"]
    change: float
    certain: bool
    earlier_trials: int
    earlier_successes: int
    later_trials: int
    later_successes: int
    later_from: datetime


class CoursePoint(Output):
    """The counts and bounds of the latest dated trials at a time: what worked then.

    They are a quarter of all, from 5 to 20 (the first points have less), of the latest 2,000.
    """

    at: datetime
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float


class Evidence(Output):
    """An episode for or against a belief; its score is in [0, 1], ``at`` its end, else its start.

    ``error`` is that of the episode, else the last one of its steps. Where what is explained
    ``failed`` though the run succeeded, ``saved_by`` is the strategy that saved the run.
    """

    id: str
    task: str
    agent: str
    at: datetime | None
    score: float
    success: bool
    error: str | None
    source_key: str | None
    failed: bool = False
    saved_by: str | None = None


class Share(Output):
    """The trials of one task or agent (``name``: key of the task, ``text``: its wording)."""

    name: str
    text: str | None = None
    trials: int
    successes: int
    lower: float
    upper: float


class Shares(Output):
    """Trials by task or agent, most trials first; ``groups`` counts all tasks or agents."""

    rows: tuple[Share, ...] = ()
    groups: int = 0


class Neighbour(Output):
    """A neighbour in the graph, and its success rate.

    ``weight`` is the cosine of the texts for similar items, else the weight of the edge as of its
    latest episode. ``episodes`` counts the episodes that used both. Rates are as in :class:`Why`.
    """

    relation: Relation
    id: str
    text: str
    agent: str | None = None
    weight: float | None = None
    episodes: int | None = None
    trials: int = 0
    successes: int = 0
    lower: float | None = None
    upper: float | None = None


class Turn(Output):
    """How many trials in a row ``for`` or ``against`` a belief would change its verdict.

    ``more`` is the smallest such number, 0 if none is needed. ``lower`` and ``upper`` are the
    Wilson bounds after them, if the verdict depends on bounds.
    """

    direction: Literal["for", "against"]
    more: int
    becomes: str
    lower: float | None = None
    upper: float | None = None
    sentence: str


class Explanation(Output):
    """The evidence for a belief; ``str(explanation)`` is its text, one fact a line.

    ``agent``, ``task_types``, ``error_class``, ``verdict``, ``task`` and ``source`` describe the
    item, as far as its kind has them. ``read_as`` is the agent whose access rights applied.
    ``first_at`` and ``last_at`` are the times of the first and the latest dated trial; ``dated``
    counts those with a date (None: a general rule, of which only the two times are stored). Samples
    and tables are bounded; ``course`` shows the dated trials at 40 points at most.
    """

    kind: ItemKind
    id: str
    text: str
    agent: str | None
    task_types: tuple[str, ...]
    error_class: str | None
    verdict: Verdict | None
    task: str | None
    source: str | None
    read_as: str | None
    why: Why
    first_at: datetime | None
    last_at: datetime | None
    dated: int | None
    trend: Trend | None
    course: tuple[CoursePoint, ...]
    changes: tuple[Change, ...]
    supporting: tuple[Evidence, ...]
    opposing: tuple[Evidence, ...]
    by_task: Shares
    by_agent: Shares
    neighbours: tuple[Neighbour, ...]
    better_alternative: Alternative | None
    policy: Policy | None
    what_would_change: tuple[Turn, ...]
    on_task: str | None = None
    expected: OutcomePrediction | None = None
    """What to expect of its strategy on that task, and what that rests on."""

    def __str__(self) -> str:
        return "\n".join(answers.explanation(self))
