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
"""Rates that are no further apart count as equal."""


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
        return drawn(means * known, (1.0 - means) * known, chances.draws, rng)
    if way == "ucb":
        means = means + chances.width * np.sqrt(means * (1.0 - means) / (concentrations + 1.0))
    best = means >= means.max() - _EQUAL
    greedy: Floats = best / best.sum()
    if way == "epsilon":
        return chances.epsilon / len(means) + (1.0 - chances.epsilon) * greedy
    return greedy


def lasting(worth: Floats, here: Floats, met: int, strength: float) -> Floats:
    """Return the worth of candidates for choosing, in trials; the formula of that name.

    Args:
        worth: what is known of them, of shape [candidates].
        here: their trials on the task.
        met: all trials of the task.
        strength: the most that knowledge of other tasks counts for in the end.
    """
    known = worth - here
    lasts: Floats = here + known / (1.0 + known * met / ((met + 4.0 * len(worth)) * strength))
    return lasts


def drawn(alpha: Floats, beta: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Return the probabilities with which Thompson sampling takes candidates.

    It draws rates for all candidates ``draws`` times, and takes one of these draws by chance. One
    more draw gives each candidate the same chance. So no candidate is ever given up, and the
    choices can show what any other way would have got.

    Args:
        alpha: the first parameters of their Beta distributions, of shape [candidates].
        beta: the second ones.
        draws: how often.
        rng: the source of chance.
    """
    order = rng.permutation(len(alpha))  # so that equal rates do not always go to the first
    rates = rng.beta(alpha[order], beta[order], (draws, len(order)))
    won = np.bincount(order[rates.argmax(axis=1)], minlength=len(order))
    chances: Floats = (won + 1.0 / len(order)) / (draws + 1)
    return chances
