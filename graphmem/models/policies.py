"""Policies: the learned value and success rate of an action in a state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field, JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import Input, Json, Moment, Name, Output, Unit, Value
from graphmem.models.reports import Status

MAX_ACTIONS = 1_000_000
"""Most actions that can be declared for one state."""

State = Mapping[str, Any] | str
"""The features of a state by name, or their fingerprint (16 hex digits)."""


class Transition(Input):
    """One step of an agent: the state, the action, the reward, and what came next.

    Give one of ``next_state`` (features or fingerprint), ``next_max_q`` (the value of the best
    action there, if the caller knows it) and ``terminal=True``. ``next_actions`` is the number of
    actions of the next state; untried ones count with a value of 0. The reward is from -1e100 to
    1e100, so that no number of updates overflows. With ``success`` the step counts as a trial.
    ``alpha`` in (0, 1] and ``gamma`` in [0, 1] default to the settings.
    """

    state: Any
    action: Name
    reward: Value
    spec: Json = None
    next_state: Any = None
    next_max_q: Value | None = None
    terminal: bool = False
    next_actions: Annotated[int, Field(ge=1, le=MAX_ACTIONS)] | None = None
    alpha: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    gamma: Unit | None = None
    success: bool | None = None
    agent: Name = "default"
    at: Moment | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check what concerns several fields."""
        if self.terminal:
            for name in ("next_state", "next_max_q", "next_actions"):
                value = getattr(self, name)
                if value is not None:
                    raise ValidationError(
                        name, value, "comes after a terminal step", "leave out one of the two"
                    )
        elif self.next_state is None and self.next_max_q is None:
            raise ValidationError(
                "next_state",
                None,
                "is missing, so what came next is unknown",
                "give next_state, next_max_q or terminal=True",
            )


class Observation(Input):
    """Whether an action worked in a state: evidence without a reward."""

    state: Any
    action: Name
    success: bool
    spec: Json = None
    agent: Name = "default"
    at: Moment | None = None


class Policy(Output):
    """An action of an agent in a state, with its value and evidence.

    ``q`` is the learned value, ``score`` the value used for ranking. ``trials`` counts the episodes
    and outcomes in which the action was tried; ``mean``, ``lower`` and ``upper`` are the posterior
    mean and the Wilson bounds of its success rate in [0, 1]; ``confidence`` is the running mean of
    ``signals`` signals.
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

    policy: str
    """The id of the policy."""
    seq: int
    kind: str
    at: datetime
    q: float
    td_error: float | None
    updates: int
    trials: int
    successes: int
    mean: float
    lower: float
    upper: float
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
