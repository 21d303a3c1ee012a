"""Similar strategies, and the report of relinking them."""

from __future__ import annotations

from graphmem.models.fields import Output
from graphmem.models.reports import Status


class SimilarStrategy(Output):
    """A strategy with nearly the same text as another, and its success rate.

    ``similarity`` is the cosine of the vectors of their texts, in [-1, 1]. ``mean`` is the
    posterior mean of its success rate and ``lower`` the Wilson lower bound, in [0, 1], over all
    tasks and agents.
    """

    id: str
    text: str
    similarity: float
    linked: bool
    """Whether an edge SIMILAR_TO leads to it: the similarity is over the embedder's threshold."""
    trials: int
    successes: int
    mean: float
    lower: float
    status: Status


class RelinkReport(Output):
    """Counts of texts that were embedded and linked."""

    embedder: str
    dimensions: int
    strategies: int
    tasks: int
    embedded: int
    """Texts that were embedded now; the others already had a vector."""
    links: int
    """Number of edges SIMILAR_TO now."""
