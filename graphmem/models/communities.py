"""Communities of strategies."""

from __future__ import annotations

from graphmem.models.fields import Output


class Community(Output):
    """Strategies that belong together, the most used first."""

    strategies: tuple[str, ...]
    """Their texts."""
    ids: tuple[str, ...]
    """Their ids, in the same order."""
    uses: int
    """How often they were used, in sum."""
    successes: int
    """How many of these uses worked."""
    together: int
    """How often two of them were used in one episode, summed over all pairs."""
    alike: int
    """How many pairs have texts that are alike (SIMILAR_TO)."""
