"""Descriptions of embedders, available without loading them."""

from __future__ import annotations

from graphmem.models.fields import Output


class EmbedderInfo(Output):
    """An embedder that the settings can name."""

    name: str
    """The value for ``GRAPHMEM_EMBEDDER``."""
    dimensions: int | None = None
    """Length of a vector; None if it is unknown before loading."""
    what: str
    missing: str | None = None
    """What must be installed to use it; None if nothing."""
    in_force: bool = False
    """Whether the settings name it."""
    of_memory: bool = False
    """Whether the memory was built with it."""
