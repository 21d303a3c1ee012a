"""What is public of a memory: its methods, and those of its parts."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

import graphmem.models
from graphmem import AsyncMemory, Memory

PLAIN = {"store", "namespace", "settings"}  # public attributes of a memory that are no parts of it
INTERNAL = {"renew"}
"""Methods of parts for other modules of the package: they take their transactions."""


def methods(
    memory: Memory | AsyncMemory, plain: Collection[str] = PLAIN
) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a memory and its parts, as ``part.method``."""
    owners: dict[str, object] = {"": memory}
    for name, part in vars(memory).items():
        if not name.startswith("_") and name not in plain:
            owners[f"{name}."] = part
    return {
        f"{prefix}{name}": getattr(owner, name)
        for prefix, owner in owners.items()
        for name, _ in inspect.getmembers(type(owner), callable)
        if not name.startswith("_") and name not in INTERNAL
    }


def parameters(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a bound method."""
    return list(inspect.signature(method).parameters.values())


def models() -> dict[str, type]:
    """Return the public classes of all modules of ``graphmem.models``, by their names."""
    package = graphmem.models
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for found in pkgutil.iter_modules(package.__path__)
    ]
    return {
        name: kind
        for module in modules
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and not name.startswith("_")
    }
