"""Levels: what agents hold now, for an hour, or for good, as a part of the graph."""

from graphmem.levels.flow import Levels as Levels
from graphmem.levels.transformers import Outlets as Outlets
