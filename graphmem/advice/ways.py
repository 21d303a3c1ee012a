"""The probabilities with which ways to choose take candidates, for many past choices.

The ways without draws are those of the procedure ``choosing.weigh``; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphmem.arrays import NDArray, np

if TYPE_CHECKING:
    from graphmem.models.choices import Explore

Floats = NDArray[np.float64]
_EQUAL = 1e-12
"""Rates that are no further apart are equal."""


@dataclass(frozen=True, slots=True)
class Chances:
    """What the ways need besides the posteriors."""

    sharpness: float
    epsilon: float
    width: float
    draws: int


def probabilities(
    means: Floats, concentrations: Floats, way: Explore, chances: Chances, rng: np.random.Generator
) -> Floats:
    """Return the probability with which a way takes each of some candidates.

    Args:
        means: the means of their Beta posteriors, of shape [candidates].
        concentrations: the sums of the two parameters of each.
        way: how to choose.
        chances: settings of the ways.
        rng: draws for Thompson sampling.
    """
    if way == "thompson":
        known = concentrations * chances.sharpness
        rates = rng.beta(means * known, (1.0 - means) * known, (chances.draws, len(means)))
        won: Floats = np.bincount(rates.argmax(axis=1), minlength=len(means)) / chances.draws
        return won
    if way == "ucb":
        means = means + chances.width * np.sqrt(means * (1.0 - means) / (concentrations + 1.0))
    best = means >= means.max() - _EQUAL
    greedy: Floats = best / best.sum()
    if way == "epsilon":
        return chances.epsilon / len(means) + (1.0 - chances.epsilon) * greedy
    return greedy
