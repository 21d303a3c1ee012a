"""The graph as a network of nodes and edges, for other programs, and what hangs together in it."""

from __future__ import annotations

from graphmem.network.communities import Communities
from graphmem.network.selection import Network

__all__ = ["Communities", "Network"]
