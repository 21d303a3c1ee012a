"""Levels: what agents hold now, for an hour, or for good, as a part of the graph."""

from __future__ import annotations

from graphmem.levels.flow import Flow
from graphmem.levels.queries import Queries
from graphmem.levels.transformers import Outlets

__all__ = ["Levels", "Outlets"]


class Levels(Flow, Queries):
    """The levels of one namespace, and their entries: ``memory.levels``.

    A level that is not there is a NotFoundError; one that ``agent`` may not read, or write, a
    ScopeError; a view that is to take entries a ValidationError. Then nothing was written.
    """
