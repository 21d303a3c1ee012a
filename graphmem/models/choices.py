"""Choices of strategies, and what another way to choose would have got."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from graphmem.models.fields import Output
from graphmem.models.forecasts import Change, OutcomeCounts
from graphmem.models.lessons import AntiPattern

Explore = Literal["thompson", "greedy", "ucb", "epsilon"]
OwnWay = Callable[[str, Sequence[str]], Mapping[str, float]]
"""A way of your own: from a task and the texts of candidates, the probability of each."""


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
    ``effective`` is the number of episodes with equal weights that would be as certain (from 1 to
    ``episodes``). ``unsupported`` in [0, 1] is the mean probability with which the way takes
    candidates that had no chance of being chosen; ``inverse_propensity`` is too low by what these
    would have got.
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
