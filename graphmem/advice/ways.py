"""Ways to choose: the probabilities with which they take candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from graphmem.models.fields import Input, Unit

if TYPE_CHECKING:
    import numpy as np

    from graphmem.arrays import NDArray
    from graphmem.models.choices import Explore

    Floats = NDArray[np.float64]

DRAWS = 1_000
"""Draws for Thompson sampling."""
_EQUAL = 1e-12
"""Rates that are no further apart count as equal."""


class Chances(Input):
    """What the ways need besides the posteriors."""

    epsilon: Unit = 0.1
    width: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 1.0
    sharpness: float = 4.0


def probabilities(
    means: Floats, worth: Floats, way: Explore, chances: Chances, rng: np.random.Generator
) -> Floats:
    """Return the probability with which a way takes each of some candidates; equal ones share.

    Thompson sampling draws rates for all candidates :data:`DRAWS` times, and takes one of these
    draws by chance. One more draw gives each candidate the same chance. So no candidate is ever
    given up, and the choices can show what any other way would have got.
    """
    from graphmem.arrays import np

    count = len(means)
    if way == "thompson":
        known = worth * chances.sharpness
        order = rng.permutation(count)  # so that equal rates do not always go to the first
        alpha, beta = (means * known)[order], ((1.0 - means) * known)[order]
        best = rng.beta(alpha, beta, (DRAWS, count)).argmax(axis=1)
        won = np.bincount(order[best], minlength=count)
        drawn: Floats = (won + 1.0 / count) / (DRAWS + 1)
        return drawn
    if way == "ucb":
        means = means + chances.width * np.sqrt(means * (1.0 - means) / (worth + 1.0))
    highest = means >= means.max() - _EQUAL
    greedy: Floats = highest / highest.sum()
    if way == "epsilon":
        return chances.epsilon / count + (1.0 - chances.epsilon) * greedy
    return greedy


def lasting(worth: Floats, here: Floats, met: int, strength: float) -> Floats:
    """Return the worth of candidates for choosing, in trials, on a task that was met so often.

    A task that came often will come again, so it pays to find out how it differs; that takes
    several trials of each candidate.
    """
    known = worth - here
    lasts: Floats = here + known / (1.0 + known * met / ((met + 4.0 * len(worth)) * strength))
    return lasts
