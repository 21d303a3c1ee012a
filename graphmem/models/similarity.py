"""Similar strategies, and what drawing their edges anew did."""

from __future__ import annotations

from typing import Literal

from graphmem.models.fields import Output

Status = Literal["established", "tentative", "refuted"]


class SimilarStrategy(Output):
    """A strategy that says nearly the same as another, and how well it did.

    ``similarity`` is the cosine of the vectors of their texts, in [-1, 1]. ``mean`` is the
    posterior mean of its success rate and ``lower`` the Wilson lower bound, in [0, 1], over all
    tasks and agents.
    """

    id: str
    text: str
    similarity: float
    linked: bool
    """Whether an edge SIMILAR_TO leads there: it is over the embedder's threshold."""
    trials: int
    successes: int
    mean: float
    lower: float
    status: Status


class RelinkReport(Output):
    """What was embedded and linked."""

    embedder: str
    dimensions: int
    strategies: int
    tasks: int
    embedded: int
    """Texts that were embedded now; the others had a vector."""
    links: int
    """Edges SIMILAR_TO that there are now."""
