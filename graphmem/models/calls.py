"""Calls of functions that a producer watches, and the words of an entry about them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pydantic import BaseModel, JsonValue

from graphmem.errors import has_surrogate, shown

MOST = 100
"""Most values of a list or dict that the entry of a call shows."""
LONGEST = 10_000
"""Most characters of a text that the entry of a call shows."""
_DEEPEST = 8


@dataclass(frozen=True)
class Call:
    """A call of a function, when it is over."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    error: Exception | None = None
    """What it raised; None if it returned."""

    @property
    def name(self) -> str:
        """The name of the function, with its class: ``Dispatcher.dispatch``."""
        named = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return str(named).rpartition("<locals>.")[2]

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, with defaults, without ``self`` and ``cls``."""
        try:
            bound = inspect.signature(self.function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):  # it does not take them, or its signature is unknown
            unnamed = {str(place): value for place, value in enumerate(self.args)}
            return unnamed | dict(self.kwargs)
        bound.apply_defaults()
        first = next(iter(bound.signature.parameters), "")
        return {
            name: value
            for name, value in bound.arguments.items()
            if name != first or name not in ("self", "cls")
        }


def describe_call(call: Call, result: Any) -> tuple[JsonValue, tuple[str, ...]]:
    """Return the content and the tags of the entry for a call, if there is no extractor."""
    content: dict[str, JsonValue] = {"call": call.name, "arguments": _to_json(call.arguments)}
    if call.error is None:
        return content | {"result": _to_json(result)}, (_tag(call),)
    failure = shown(f"{type(call.error).__name__}: {call.error}", 1_000)
    return content | {"error": failure.strip("'\"")}, (_tag(call), "failed")


def _tag(call: Call) -> str:
    return f"call:{call.name[:900]}"


def _to_json(value: Any, depth: int = 0) -> JsonValue:
    """Return a value as JSON can hold it: other things become text, long texts are cut."""
    if isinstance(value, str) and not has_surrogate(value):
        return str(value[:LONGEST])
    whole = isinstance(value, int) and abs(value) < 2**63
    if value is None or whole or (isinstance(value, float) and math.isfinite(value)):
        return value  # type: ignore[no-any-return]
    if depth < _DEEPEST:
        if isinstance(value, BaseModel):
            value = dict(value)
        if isinstance(value, Mapping):
            pairs = list(value.items())[:MOST]
            return {str(_to_json(str(key))): _to_json(item, depth + 1) for key, item in pairs}
        if isinstance(value, list | tuple | set | frozenset):
            return [_to_json(item, depth + 1) for item in list(value)[:MOST]]
    return shown(value)
