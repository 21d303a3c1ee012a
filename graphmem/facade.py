"""How the facade passes calls on, and what it says to who is new."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

_log = logging.getLogger("graphmem.memory")
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

OTHER_NAMES = {
    "add": ["learn for an outcome", "people.know for a fact"],
    "search": ["recall"],
    "get": ["show"],
    "evidence": ["episodes with strategy=", "explain"],
    "save": ["learn"],
    "delete": ["upkeep.erase"],
    "update": ["settle for an outcome", "policies.update"],
}
"""What people who know other memories look for."""
ASKING = (
    *("context", "recall", "choose", "changes", "predict", "explain", "strategies"),
    *("episodes", "tasks", "query", "stats"),
)
"""Methods whose first empty answer is explained."""


def delegate(part: str, method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls ``method`` of the object in the attribute ``part``."""

    @wraps(method)
    def call(self: object, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(self, part), *args, **kwargs)

    return call  # type: ignore[return-value]


def like(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[[Callable[..., R]], Callable[Concatenate[Any, P], R]]:
    """Give a method the arguments and the docstring of another one."""
    return wraps(method)


def note_if_new(method: Callable[..., T]) -> Callable[..., T]:
    """Return a method that logs a warning at the first call of a memory that is not there yet."""

    @wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> T:
        if self._unread:
            self._unread = False
            if not self.store.exists():
                _log.warning(
                    "there is no memory at %s yet, so the answer is empty; the first write makes "
                    "one, and Memory.open(url, create=False) refuses a wrong path",
                    self.store.url,
                )
        return method(self, *args, **named)

    return call
