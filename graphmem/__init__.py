"""A memory for agents: learns episodes, and returns strategies with their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "AsyncMemory",
    "Episode",
    "GraphMemError",
    "Memory",
    "MistakeCard",
    "ModelSettings",
    "Settings",
    "Step",
    "StrategyUse",
    "Tags",
    "Transition",
    "__version__",
    "fingerprint",
]

if TYPE_CHECKING:
    from graphmem.async_memory import AsyncMemory
    from graphmem.config import Settings
    from graphmem.errors import GraphMemError
    from graphmem.ids import fingerprint
    from graphmem.memory import Memory
    from graphmem.models import (
        Episode,
        MistakeCard,
        ModelSettings,
        Step,
        StrategyUse,
        Tags,
        Transition,
    )

_HOMES = {
    "AsyncMemory": "async_memory",
    "Episode": "models",
    "GraphMemError": "errors",
    "Memory": "memory",
    "MistakeCard": "models",
    "ModelSettings": "models",
    "Settings": "config",
    "Step": "models",
    "StrategyUse": "models",
    "Tags": "models",
    "Transition": "models",
    "fingerprint": "ids",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, which keeps ``graphmem --help`` fast."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"graphmem.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
