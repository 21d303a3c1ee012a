"""What is answered for a task and of a belief: recalled strategies, choices, and explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from graphmem.kinds import ItemKind
from graphmem.models.fields import Input, Name, Output
from graphmem.models.forecasts import Change, OutcomeCounts, OutcomePrediction
from graphmem.models.lessons import Alternative, AntiPattern, Verdict
from graphmem.models.people import Fact
from graphmem.models.policies import Policy
from graphmem.models.reports import Status
from graphmem.text import answers

Explore = Literal["thompson", "greedy", "ucb", "epsilon"]
OwnWay = Callable[[str, Sequence[str]], Mapping[str, float]]
"""A way of your own: from a task and the texts of candidates, the probability of each."""
Relation = Literal[
    "similar", "used together", "merged", "recommended", "warned against", "same state", "linked"
]


class ContextQuery(Input):
    """The validated arguments of ``context``."""

    task: Name
    max_tokens: Annotated[int, Field(ge=1)]
    agent: Name | None = None
    user: Name | None = None
    lens: Name | None = None


class RecallItem(OutcomeCounts):
    """A recalled strategy or prior, what to expect of it, and why.

    A prior is a strategy that was not tried on such tasks, and of which an imported file says
    something; ``trials`` and ``successes`` are the counts of the file.

    ``score`` is ``relevance * lower * freshness``, all in [0, 1]; that of a strategy that failed in
    all its trials near is at most that of the best one that is expected to do better. ``mean`` is
    the expected success rate on this task, as ``predict`` gives it, and ``lower`` its lower bound.
    ``freshness`` halves every half-life since the last trial (1 without dates).
    """

    kind: Literal["strategy", "prior"] = "strategy"
    id: str
    score: float
    relevance: float
    mean: float
    lower: float
    freshness: float = 1.0
    said: str
    """What is known of it, in words: ``likely: 9 of 10 on 'refund a flight', like this one``."""
    last_at: datetime | None = None
    """The time of the last dated trial."""
    verdict: Verdict | None = None
    """Of a prior: what to do with it."""
    path: tuple[str, ...]
    """The path in the graph from the text to the strategy, in words."""
    evidence: tuple[str, ...] = ()
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
    text is as similar as the floor demands; ``nearest`` is the most similar task, relevant or not.
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


class Considered(OutcomeCounts):
    """A candidate, and what is believed of it on the task.

    ``probability`` in (0, 1) is the expected success rate on the task; ``low`` and ``high`` are its
    95 % credible interval. In choosing, that rate counts for ``worth`` (over 0) trials.
    ``propensity`` in [0, 1] is the probability with which the way to choose takes this candidate.
    ``known`` says whether the memory has the strategy. ``why`` says which outcomes moved these
    numbers; ``change`` is the change that they assume, if any. ``warnings`` are anti-patterns
    against the strategy; they change no number, because the numbers include its failures already.
    """

    id: str
    known: bool
    probability: float
    low: float
    high: float
    worth: float
    propensity: float
    why: str
    change: Change | None
    warnings: tuple[AntiPattern, ...]


class Choice(Considered):
    """The candidate that was taken, and how; the others, by what is expected of them.

    Give it to ``learn`` as the strategy: the episode then keeps with which probability, and in
    which way, the strategy was chosen. Its ``propensity`` is over 0. Nothing is written until then.
    """

    task: str
    explore: Explore
    others: tuple[Considered, ...]

    @property
    def candidates(self) -> dict[str, float]:
        """The propensities of all candidates by text, the taken one first; they sum to 1."""
        return {one.text: one.propensity for one in (self, *self.others)}


class Estimate(Output):
    """An estimated success rate, with the bounds of its 95 % interval.

    ``gain`` is the value minus the recorded success rate. Its bounds come from the same resamples,
    so both can be over 0 even if the intervals of the two rates overlap.
    """

    value: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


class LeftOut(Output):
    """Episodes that cannot be used, by reason.

    ``no_propensity``: no strategy says with which probability it was chosen. ``several_choices``:
    more than one does. ``no_candidates``: the way needs the strategies that could be chosen, and
    they are not known. ``none_offered``: none of the given strategies was among them.
    """

    no_propensity: int
    several_choices: int
    no_candidates: int
    none_offered: int


class Evaluation(Output):
    """What another way to choose would have got, estimated from past choices.

    ``explore`` is the way (None: each of ``strategies`` alike; ``"own"``: a function).
    ``strategies`` are those to choose from (None: all candidates). ``got`` is the success rate of
    the ``episodes`` that were used; ``got_low`` and ``got_high`` bound its 95 % interval.
    ``effective`` is how many episodes of equal weight would be as certain (from 1 to ``episodes``).
    ``unsupported`` in [0, 1] is the mean probability with which the way takes candidates that could
    not be chosen; ``inverse_propensity`` is too low by what these would have got.
    """

    explore: str | None
    strategies: tuple[str, ...] | None
    episodes: int
    left_out: LeftOut
    got: float
    got_low: float
    got_high: float
    inverse_propensity: Estimate
    self_normalised: Estimate
    doubly_robust: Estimate
    effective: float
    largest_weight: float
    unsupported: float
    seed: int
    resamples: int


class Why(Output):
    """The evidence for a belief: trials, how many support it, and the bounds that follow.

    ``successes`` counts the trials that support the belief: those that worked; for an anti-pattern
    the failures with its class of errors; for a rule the supporting episodes. ``mean`` is the
    posterior mean of their share, ``lower`` and ``upper`` its Wilson bounds, all in [0, 1]. They
    and the status are those of the trials since the strategy changed for certain, if it did.
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
    by_task: Shares = Shares()
    by_agent: Shares = Shares()
    neighbours: tuple[Neighbour, ...] = ()
    better_alternative: Alternative | None = None
    policy: Policy | None = None
    what_would_change: tuple[Turn, ...]
    on_task: str | None = None
    expected: OutcomePrediction | None = None
    """What to expect of its strategy on that task, and what that rests on."""

    def __str__(self) -> str:
        return "\n".join(answers.explanation(self))
