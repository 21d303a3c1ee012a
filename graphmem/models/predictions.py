"""Predictions: expectations, their resolutions, and the reliability of probabilities."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import Input, JsonObject, Moment, Name, Output, Unit

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
    kind: PredictionKind | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check conditions that span several fields."""
        if self.probability is None and self.outcome is None:
            raise ValidationError(
                "probability", None, "is missing, so nothing is expected", "give it, or an outcome"
            )
        if self.at is not None and self.due is not None and self.due < self.at:
            raise ValidationError("due", self.due, f"is before at ({self.at.isoformat()})")


class Resolution(Input):
    """The resolution: an actual outcome, whether the expectation came true, or both."""

    actual: Outcome | None = None
    happened: bool | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check that something is given."""
        if self.actual is None and self.happened is None:
            raise ValidationError(
                "actual", None, "is missing, so nothing came", "give it, or happened=True or False"
            )


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
    """The agent that predicts."""
    probability: float | None
    outcome: dict[str, JsonValue] | None
    status: PredictionStatus
    recorded_at: datetime
    at: datetime | None
    """When the prediction was made, if given."""
    due: datetime | None
    """When it expires."""
    resolved_at: datetime | None = None
    actual: dict[str, JsonValue] | None = None
    error: float | None = None
    happened: bool | None = None
    how: How | None = None
    created: bool = False
    """Whether this call stored it."""


class ReliabilityBin(Output):
    """Predictions whose probability is in [low, high) (in the last bin: [low, high]).

    ``mean`` is their mean probability, ``share`` the share in [0, 1] that happened, with its Wilson
    bounds ``lower`` and ``upper``. An empty bin has neither mean nor share.
    """

    low: float
    high: float
    count: int = 0
    happened: int = 0
    mean: float | None = None
    share: float | None = None
    lower: float = 0.0
    upper: float = 1.0


class Reliability(Output):
    """The reliability of the probabilities of resolved predictions; None without any.

    ``brier`` is the mean squared distance of probability and outcome, from 0 (perfect) to 1, and
    ``baseline`` the Brier score of always predicting the base rate. ``log_loss`` is the mean
    negative logarithm of the probability given to the actual outcome. ``calibration_error`` is the
    mean distance of probability and share over the bins, weighted by their counts.
    """

    _rows = "bins"

    count: int
    happened: int
    base_rate: float | None
    brier: float | None
    baseline: float | None
    log_loss: float | None
    calibration_error: float | None
    bins: tuple[ReliabilityBin, ...]
    z: float
    """Normal quantile (z) of the bounds."""
