"""Levels: what agents hold now, for an hour, or for good, as a part of the graph."""

from __future__ import annotations

from graphmem.levels.becoming import Outlets
from graphmem.levels.entries import Entries
from graphmem.levels.lenses import Lens, Lenses, told
from graphmem.levels.looking import Looking
from graphmem.levels.ticking import Ticking
from graphmem.levels.topology import Topology

__all__ = ["Lens", "Levels", "Outlets", "told"]


class Levels(Ticking, Topology, Entries, Lenses, Looking):
    """The levels of one namespace, and their entries: ``memory.levels``."""
