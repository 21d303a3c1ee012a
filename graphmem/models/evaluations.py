"""What another way to choose would have got, estimated from episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from graphmem.models.fields import Output

OwnWay = Callable[[str, Sequence[str]], Mapping[str, float]]
"""A way of your own: from a task and the texts of candidates, the probability of each."""


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

    ``explore`` is the way (None: each of ``strategies`` with the same probability; ``"own"``: a
    function). ``strategies`` are those to choose from (None: all candidates). ``got`` is the
    success rate of the ``episodes`` that were used; ``got_low`` and ``got_high`` bound its 95 %
    interval.

    ``effective`` is the number of episodes with equal weights that would be as certain (between 1
    and ``episodes``), ``largest_weight`` the largest weight. ``unsupported`` in [0, 1] is the mean
    probability with which the way takes candidates that had no chance of being chosen. Nothing is
    known of these, so ``inverse_propensity`` is too low by what they would have got.
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

    def _frame_rows(self) -> Sequence[Mapping[str, object]]:
        names = ("inverse_propensity", "self_normalised", "doubly_robust")
        return [{"estimator": name, **getattr(self, name).model_dump()} for name in names]
