"""A memory for agents: learns episodes, and returns strategies with their evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from graphmem.async_memory import AsyncMemory as AsyncMemory
    from graphmem.config import Settings as Settings
    from graphmem.errors import GraphMemError as GraphMemError
    from graphmem.ids import fingerprint as fingerprint
    from graphmem.memory import Memory as Memory
    from graphmem.models.episodes import Episode as Episode
    from graphmem.models.episodes import MistakeCard as MistakeCard
    from graphmem.models.episodes import Step as Step
    from graphmem.models.episodes import StrategyUse as StrategyUse
    from graphmem.models.levels import Tags as Tags
    from graphmem.models.policies import Transition as Transition

_HOMES = {
    "async_memory": ("AsyncMemory",),
    "config": ("Settings",),
    "errors": ("GraphMemError",),
    "ids": ("fingerprint",),
    "memory": ("Memory",),
    "models.episodes": ("Episode", "MistakeCard", "Step", "StrategyUse"),
    "models.levels": ("Tags",),
    "models.policies": ("Transition",),
}
__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]  # noqa: PLE0604
__all__.sort()


def __getattr__(name: str) -> Any:
    """Import a public name on first use, which keeps ``graphmem --help`` fast."""
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"graphmem.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
