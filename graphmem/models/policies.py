"""Policies: the learned value and success rate of an action in a state."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import Field, JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import Chance, Input, Json, Moment, Name, Output, Unit, Value
from graphmem.models.reports import Status

State = Mapping[str, Any] | str
"""The features of a state by name, or their fingerprint (16 hex digits)."""


class Transition(Input):
    """One step of an agent: the state, the action, the reward, and what came next.

    States are features or fingerprints. Give one of ``next_state``, ``next_max_q`` (the value of
    the best action there, if the caller knows it; default: the best in the graph) and
    ``terminal=True`` (there is no next state; the step bootstraps from 0).
    """

    state: Any
    action: Name
    """The type of action, for instance "run_playbook"."""
    reward: Value
    """From -1e100 to 1e100, so that no number of updates overflows."""
    spec: Json = None
    """Further identification of the action."""
    next_state: Any = None
    next_max_q: Value | None = None
    terminal: bool = False
    next_actions: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """The number of actions of the next state; untried ones then count with a value of 0."""
    alpha: Chance | None = None
    """Learning rate in (0, 1]; default: the setting (0.1)."""
    gamma: Unit | None = None
    """Discount in [0, 1]; default: the setting (0.95)."""
    success: bool | None = None
    """Counts the step also as a successful or failed trial."""
    agent: Name = "default"
    at: Moment | None = None
    """When it happened; default: unknown."""

    def model_post_init(self, _: Any, /) -> None:
        """Check what concerns several fields."""
        if self.terminal:
            for name in ("next_state", "next_max_q", "next_actions"):
                if (value := getattr(self, name)) is not None:
                    problem = "comes after a terminal step"
                    raise ValidationError(name, value, problem, "leave out one of the two")
        elif self.next_state is None and self.next_max_q is None:
            problem = "is missing, so what came next is unknown"
            remedy = "give next_state, next_max_q or terminal=True"
            raise ValidationError("next_state", None, problem, remedy)


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
