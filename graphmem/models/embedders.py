"""What is known of embedders without loading one."""

from __future__ import annotations

from graphmem.models.fields import Output


class EmbedderInfo(Output):
    """An embedder that can be named in the settings."""

    name: str
    """What to write in ``GRAPHMEM_EMBEDDER``."""
    dimensions: int | None = None
    """Numbers in a vector; None where only loading it would tell."""
    what: str
    missing: str | None = None
    """What it takes to use it; None where nothing is missing."""
    in_force: bool = False
    """The settings name it."""
    of_memory: bool = False
    """The memory was built with it."""
