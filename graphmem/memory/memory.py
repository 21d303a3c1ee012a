"""The memory itself: all its methods, in one class."""

from __future__ import annotations

from graphmem.memory.experience import Experience
from graphmem.memory.keeping import Keeping
from graphmem.memory.people import People
from graphmem.memory.recalling import Recalling
from graphmem.memory.teaching import Teaching


class Memory(Experience, Teaching, Recalling, People, Keeping):
    """A memory of what works: one namespace of one store.

    Safe to use from several threads. Close it, or use it in a ``with`` block.
    """
