"""Predictions: what was expected, what came of it, and how well probabilities were met."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Any, Literal

from pydantic import JsonValue

from graphmem.errors import ValidationError
from graphmem.models.fields import Input, JsonObject, Moment, Name, Output, Unit

PredictionKind = Literal["policy", "strategy", "free"]
PredictionStatus = Literal["open", "resolved", "expired"]
Behaviour = Literal["acted", "dismissed", "contradicted", "used"]
How = Literal["outcome", "happened", "acted", "dismissed", "contradicted", "used"]


class Expectation(Input):
    """What is expected: a probability in [0, 1], an outcome, or both."""

    probability: Unit | None = None
    outcome: JsonObject | None = None
    agent: Name | None = None
    at: Moment | None = None
    due: Moment | None = None
    key: Name | None = None
    kind: PredictionKind | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check what concerns several fields, and numbers."""
        if self.probability is None and self.outcome is None:
            raise ValidationError(
                "probability", None, "is missing, so nothing is expected", "give it, or an outcome"
            )
        if self.at is not None and self.due is not None and self.due < self.at:
            raise ValidationError("due", self.due, f"is before at ({self.at.isoformat()})")
        if self.outcome is not None:
            _check_numbers("outcome", self.outcome)


class Resolution(Input):
    """What came: an outcome, whether what was expected happened, or both."""

    actual: JsonObject | None = None
    happened: bool | None = None

    def model_post_init(self, _: Any, /) -> None:
        """Check that there is something, and numbers."""
        if self.actual is None and self.happened is None:
            raise ValidationError(
                "actual", None, "is missing, so nothing came", "give it, or happened=True or False"
            )
        if self.actual is not None:
            _check_numbers("actual", self.actual)


class Prediction(Output):
    """What was expected of a subject and, once it is resolved, what came.

    ``subject`` is the id of a policy or strategy, or a text of any other kind; ``text`` is it in
    words. ``error`` in [0, 1] is how far off the prediction was; ``how`` says where that comes
    from: two outcomes that were compared, a probability and whether it ``happened``, or what was
    done with the subject. ``happened`` stays None where that does not tell.
    """

    id: str
    subject: str
    kind: PredictionKind
    text: str
    agent: str
    """Who expects it."""
    probability: float | None
    outcome: dict[str, JsonValue] | None
    status: PredictionStatus
    recorded_at: datetime
    at: datetime | None
    """When it was expected, where that was given."""
    due: datetime | None
    """When it expires."""
    resolved_at: datetime | None = None
    actual: dict[str, JsonValue] | None = None
    error: float | None = None
    happened: bool | None = None
    how: How | None = None
    created: bool = False
    """Whether the call that returned this stored it."""


class ReliabilityBin(Output):
    """Predictions whose probability is in [low, high) (in the last bin: [low, high]).

    ``mean`` is their mean probability, ``share`` how many of them happened, in [0, 1], with its
    Wilson bounds ``lower`` and ``upper``. An empty bin has neither mean nor share.
    """

    low: float
    high: float
    count: int
    happened: int
    mean: float | None
    share: float | None
    lower: float
    upper: float


class Reliability(Output):
    """How well the probabilities of resolved predictions were met; None where there are none.

    ``brier`` is the mean squared distance of probability and outcome, from 0 (perfect) to 1, and
    ``baseline`` what it would be had each been given the base rate. ``log_loss`` is the mean
    negative logarithm of the probability that was given to what came. ``calibration_error`` is
    the mean distance of probability and share over the bins, weighted by their counts.
    """

    count: int
    happened: int
    base_rate: float | None
    brier: float | None
    baseline: float | None
    log_loss: float | None
    calibration_error: float | None
    bins: tuple[ReliabilityBin, ...]
    z: float
    """Normal quantile of the bounds."""


def _check_numbers(name: str, outcome: dict[str, JsonValue]) -> None:
    """Refuse numbers that cannot be compared."""
    for part, value in outcome.items():
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            raise ValidationError(f"{name}.{part}", value, "is beyond 1.8e308", "give it as a text")
