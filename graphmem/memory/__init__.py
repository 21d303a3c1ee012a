"""Memory: the one object that a user needs. It delegates and holds no logic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmem.memory.memory import Memory

if TYPE_CHECKING:
    from graphmem.memory.awaited import AsyncMemory, Awaited

__all__ = ["AsyncMemory", "Awaited", "Memory"]


def __getattr__(name: str) -> Any:
    """Import what is for asyncio when it is first used, so that the command line need not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from graphmem.memory import awaited

    return getattr(awaited, name)
