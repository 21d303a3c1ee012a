"""Ways to choose: the probabilities with which they take candidates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from graphmem.models.fields import Input, Unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator as Rng

    from graphmem.advice.formula import Belief
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
    sharpness: float = 3.0


def probabilities(
    belief: Belief, met: int, cell: float, way: Explore, chances: Chances, rng: Rng
) -> Floats:
    """Return the probability of taking each of some candidates; equal ones share.

    Thompson sampling draws a run of outcomes and then a rate for all candidates :data:`DRAWS`
    times, and takes one of these draws by chance. One more draw gives each candidate the same
    chance. So no candidate is ever given up, and the choices can show what any other way would have
    got.

    Args:
        belief: what is believed of the candidates.
        met: how often the task was met. One that came often will come again, so it pays to find
            out how it differs; that takes several trials of each candidate.
        cell: how many trials what is expected of the task counts for.
        way: the way to choose.
        chances: what the ways need besides.
        rng: draws.
    """
    from graphmem.arrays import np

    means, count = belief.probability, len(belief.probability)
    rest = belief.elsewhere / (1.0 + belief.elsewhere * met / ((met + 4.0 * count) * cell))
    if way == "thompson":
        order = rng.permutation(count)  # so that equal rates do not always go to the first
        ends = belief.weights[order].cumsum(axis=1)
        drawn = rng.random((DRAWS, count)) * ends[:, -1]
        parts = np.stack(
            [np.searchsorted(row, column) for row, column in zip(ends, drawn.T, strict=True)]
        ).T.clip(0, ends.shape[1] - 1)
        at = np.broadcast_to(order, parts.shape), parts
        known, rates = (belief.here + rest)[at] * chances.sharpness, belief.rates[at]
        best = rng.beta(rates * known, (1.0 - rates) * known).argmax(axis=1)
        won = np.bincount(order[best], minlength=count)
        taken: Floats = (won + 1.0 / count) / (DRAWS + 1)
        return taken
    if way == "ucb":
        worth = belief.size(rest)
        means = means + chances.width * np.sqrt(means * (1.0 - means) / (worth + 1.0))
    highest = means >= means.max() - _EQUAL
    greedy: Floats = highest / highest.sum()
    if way == "epsilon":
        return chances.epsilon / count + (1.0 - chances.epsilon) * greedy
    return greedy
