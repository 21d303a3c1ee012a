"""Memory: the one object that a user needs. It delegates and holds no logic."""

from graphmem.memory.awaited import AsyncMemory, Awaited
from graphmem.memory.memory import Memory

__all__ = ["AsyncMemory", "Awaited", "Memory"]
