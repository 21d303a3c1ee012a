"""Policies: values of actions in states; events, cycles in time, and the ledger of predictions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import (
    Chance,
    Flag,
    Input,
    Json,
    JsonObject,
    Moment,
    Name,
    Output,
    Unit,
    Value,
)
from graphmem.models.forecasts import CalibrationBin, Change
from graphmem.models.reports import Status

State = Mapping[str, Any] | str
"""The features of a state by name, or their fingerprint (16 hex digits)."""


class Transition(Input):
    """One step of an agent: the state, the action, the reward, and what came next.

    States are features or fingerprints. Give one of ``next_state``, ``next_max_q`` (the value of
    the best action there, if the caller knows it; default: the best in the graph) and
    ``terminal=True`` (there is no next state; the step bootstraps from 0). Without a reward give
    ``success`` alone, which is evidence that moves no value.
    """

    state: Any
    action: Name
    """The type of action, for instance "run_playbook"."""
    reward: Value | None = None
    """From -1e100 to 1e100, so that no number of updates overflows."""
    spec: Json = None
    next_state: Any = None
    next_max_q: Value | None = None
    terminal: bool = False
    next_actions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of actions of the next state; untried ones then count with a value of 0."""
    alpha: Chance | None = None
    """Learning rate in (0, 1]; default: the setting (0.1)."""
    gamma: Unit | None = None
    """Discount in [0, 1]; default: the setting (0.95)."""
    success: Flag | None = None
    """Counts the step also as a successful or failed trial."""
    agent: Name = "default"
    at: Moment | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check what concerns several fields."""
        following = {name: getattr(self, name) for name in ("next_state", "next_max_q")}
        following["next_actions"] = self.next_actions
        if self.reward is None:
            if self.success is None:
                raise ValidationError("reward", None, "is missing", "give it, or success")
            following |= {"terminal": self.terminal or None, "alpha": self.alpha}
            _check_absent({**following, "gamma": self.gamma}, "needs a reward")
        elif self.terminal:
            _check_absent(following, "comes after a terminal step")
        elif self.next_state is None and self.next_max_q is None:
            problem = "is missing, so what came next is unknown"
            remedy = "give next_state, next_max_q or terminal=True"
            raise ValidationError("next_state", None, problem, remedy)


def _check_absent(given: Mapping[str, Any], problem: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValidationError(name, value, problem, "leave out one of the two")


class Policy(Output):
    """An action of an agent in a state, with its value and evidence.

    ``q`` is the learned value, ``score`` the value used for ranking. ``trials`` counts the episodes
    and outcomes in which it was tried; ``mean``, ``lower`` and ``upper`` are the posterior mean and
    the Wilson bounds of its success rate in [0, 1]; ``confidence`` the running mean of ``signals``.
    """

    id: str
    agent: str
    state: str
    """Fingerprint of the state."""
    features: dict[str, JsonValue] | None = None
    action: str
    spec: JsonValue = None
    q: float = 0.0
    score: float = 0.0
    updates: int = 0
    trials: int = 0
    successes: int = 0
    mean: float = 0.5
    lower: float = 0.0
    upper: float = 1.0
    status: Status = "tentative"
    confidence: float = 0.5
    signals: int = 0
    crystallized: bool = False
    last_updated_at: datetime | None = None


class TDUpdate(NamedTuple):
    """The answer of an update: the new value, the TD error, and its place in the stream."""

    q: float
    td_error: float
    policy_id: str
    seq: int
    """Number in the agent's stream (of an unrecorded update: of the event before it)."""


class EpisodesLearned(Output):
    """The answer of ``learn_episodes``: how many episodes and transitions were applied."""

    episodes: int
    transitions: int
    incomplete: int
    """Steps with a state, but without a reward or what came next."""


class LinkedPolicy(Output):
    """A policy linked with another one; the weight of the link is in [0, 1]."""

    id: str
    weight: float
    count: int
    """Episodes that took both policies."""


class Point(Output):
    """One event in the history of a policy, and the policy after it."""

    seq: int
    kind: str
    at: datetime
    q: float
    td_error: float | None
    updates: int
    trials: int
    successes: int
    confidence: float


class Candidate(Output):
    """A policy in the report; ``missing`` is how far its lower bound is below the threshold."""

    id: str
    agent: str
    state: str
    action: str
    spec: JsonValue = None
    trials: int
    successes: int
    lower: float
    missing: float
    more: int
    """Successes in a row that would suffice."""


class CrystallizeReport(Output):
    """The answer of ``crystallize``.

    ``needed`` is the smallest number of trials that pass these thresholds if all succeed.
    """

    created: tuple[Candidate, ...]
    updated: tuple[Candidate, ...]
    taken_back: tuple[Candidate, ...]
    kept: int
    below: tuple[Candidate, ...]
    """The nearest candidates among those that did not qualify."""
    below_count: int
    min_events: int
    threshold: float
    z: float
    needed: int


# Events

EdgeKind = Literal["linked", "strengthened", "weakened", "unlinked"]
"""Kinds of events that change only an edge, not the policies at its ends."""
LevelKind = Literal["entry", "level", "pull", "maintained"]
"""Kinds of events of levels."""
_PolicyKind = Literal["transition", "outcome", "set", "signal", "crystallized", "taken_back"]
EventKind = Literal["episode", "changed", "erased", _PolicyKind, EdgeKind, LevelKind]


class Event(Output):
    """One change of the policy, entry or episode ``subject`` (an id).

    ``agent`` is the name of the agent, or of the level that changed. ``other`` is the policy at the
    other end of an edge. ``value`` of an erasure is the number of episodes. ``facts`` holds the
    fields of a transition: next_state, reward, alpha ...
    """

    id: str
    agent: str
    seq: int
    """Number in the agent's stream, from 1; only erased events leave gaps."""
    kind: EventKind
    subject: str | None
    other: str | None = None
    value: float | None = None
    success: bool | None = None
    recorded_at: datetime
    at: datetime | None = None
    facts: dict[str, JsonValue] = {}  # noqa: RUF012 - pydantic copies it
    changes: tuple[Change, ...] = ()
    """What began to work better or worse, and became certain with this episode; only for who asks
    for events of kind ``changed``, which are such episodes."""
    deliveries: int = 1
    """How often a consumer of the group received it; more than 1 after a re-claim."""


class Pending(Output):
    """Events that a consumer received and has not acknowledged."""

    consumer: str
    agent: str
    count: int
    claimed_at: datetime
    deliveries: int


# Cycles

CycleKind = Literal["hour of day", "day of week", "week of month", "month of year"]
Only = Literal["success", "failure"]

BUCKETS: Mapping[CycleKind, tuple[str, ...]] = {
    "hour of day": tuple(f"{hour:02}:00" for hour in range(24)),
    "day of week": (
        *("Monday", "Tuesday", "Wednesday", "Thursday", "Friday"),
        *("Saturday", "Sunday"),
    ),
    "week of month": ("days 1-7", "days 8-14", "days 15-21", "days 22-28", "days 29-31"),
    "month of year": (
        *("January", "February", "March", "April", "May", "June", "July"),
        *("August", "September", "October", "November", "December"),
    ),
}
"""The names of the buckets of each kind."""

PERIODS: Mapping[CycleKind, float] = {
    "hour of day": 86_400.0,
    "day of week": 604_800.0,
    "week of month": 2_592_000.0,
    "month of year": 31_536_000.0,
}
"""The period of each kind in seconds: a day, a week, 30 days, 365 days."""


class Cycle(Output):
    """A detected cycle; its ``id`` is None if it is not stored.

    ``buckets`` are the counts of events, ``expected`` those of an even spread; ``p_value`` is
    corrected for multiple tests. ``phase`` is the middle of the peak in seconds of
    :func:`graphmem.policies.cycles.clock`. ``only`` successes or failures were counted, or all.
    """

    id: str | None = None
    subject: str | None = None
    kind: CycleKind
    period: float
    amplitude: float
    phase: float
    p_value: float
    chi2: float
    buckets: tuple[int, ...]
    expected: tuple[float, ...]
    peak: int
    """Index of the bucket that exceeds its expected count most; the first if several tie."""
    timezone: str
    events: int
    only: Only | None = None

    @property
    def when(self) -> str:
        """The peak in words, such as "Monday" or "09:00"."""
        return BUCKETS[self.kind][self.peak]


class CycleTest(Output):
    """One test: the counts, the expected counts, and the result or why there is none."""

    kind: CycleKind
    buckets: tuple[int, ...]
    expected: tuple[float, ...]
    chi2: float | None = None
    p_value: float | None = None
    """From the chi-squared distribution, not corrected."""
    p_corrected: float | None = None
    """Corrected for the number of tests."""
    reason: str | None = None


class CycleReport(Output):
    """The answer of ``examine``: the cycles, all tests, and the facts that were not counted.

    ``undated`` facts have no date, ``unjudged`` ones no outcome; these are skipped with ``only``.
    """

    subject: str | None = None
    cycles: tuple[Cycle, ...]
    tests: tuple[CycleTest, ...]
    events: int
    undated: int
    unjudged: int = 0
    timezone: str
    only: Only | None = None


# Predictions

PredictionKind = Literal["policy", "strategy", "free"]
PredictionStatus = Literal["open", "resolved", "expired"]
Behaviour = Literal["acted", "dismissed", "contradicted", "used"]
How = Literal["outcome", "happened", "acted", "dismissed", "contradicted", "used"]


def _finite(outcome: dict[str, JsonValue]) -> dict[str, JsonValue]:
    for value in outcome.values():
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValueError("holds a number beyond 1.8e308; give it as a text")
    return outcome


Outcome = Annotated[
    JsonObject,
    BeforeValidator(lambda given: dict(given) if isinstance(given, Mapping) else given),
    AfterValidator(_finite),
]


class Expectation(Input):
    """The expectation: a probability in [0, 1], an outcome, or both."""

    probability: Unit | None = None
    outcome: Outcome | None = None
    agent: Name | None = None
    at: Moment | None = None
    due: Moment | None = None
    key: Name | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check conditions that span several fields."""
        if self.probability is None and self.outcome is None:
            problem = "is missing, so nothing is expected"
            raise ValidationError("probability", None, problem, "give it, or an outcome")
        if self.at is not None and self.due is not None and self.due < self.at:
            raise ValidationError("due", self.due, f"is before at ({self.at.isoformat()})")


class Prediction(Output):
    """An expectation about a subject and, once resolved, the actual outcome.

    ``subject`` is the id of a policy or strategy, or any other text; ``text`` is its readable form.
    ``error`` in [0, 1] is how far off the prediction was. ``how`` names its origin: two compared
    outcomes, a probability and whether it ``happened``, or what was done with the subject.
    ``happened`` stays None if that does not decide it.
    """

    id: str
    subject: str
    kind: PredictionKind
    text: str
    agent: str
    probability: float | None
    outcome: dict[str, JsonValue] | None
    status: PredictionStatus
    recorded_at: datetime
    at: datetime | None
    due: datetime | None
    resolved_at: datetime | None = None
    actual: dict[str, JsonValue] | None = None
    error: float | None = None
    happened: bool | None = None
    how: How | None = None
    created: bool = False


class Reliability(Output):
    """The reliability of the probabilities of resolved predictions; None without any.

    ``successes`` of a bin are the predictions that came true.

    ``brier`` is the mean squared distance of probability and outcome, from 0 (perfect) to 1, and
    ``baseline`` that of always predicting the base rate. ``log_loss`` is the mean negative
    logarithm of the probability given to the actual outcome, ``calibration_error`` the mean
    distance of probability and share over the bins, weighted by their counts.
    """

    count: int
    happened: int
    base_rate: float | None
    brier: float | None
    baseline: float | None
    log_loss: float | None
    calibration_error: float | None
    bins: tuple[CalibrationBin, ...]
    z: float
    """Normal quantile (z) of the bounds."""
