"""Checks of common arguments."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from graphmem.errors import ValidationError, has_surrogate
from graphmem.models.fields import Name, checked

T = TypeVar("T")
Progress = Callable[[int, int], None]  # called with how much is done, and how much there is
MOST = 1_000_000_000  # the greatest limit; it stands for all


def check_text(name: str, value: object) -> None:
    """Check that an engine can search for a text."""
    if not isinstance(value, str) or has_surrogate(value):
        raise ValidationError(name, value, "is not a text, or contains a lone surrogate")


def checked_agent(agent: str | None) -> str | None:
    """Return the normalized name of an agent, or None for all agents."""
    return checked_text("agent", agent)


def checked_text(name: str, value: str | None) -> str | None:
    """Return a normalized text, which is not empty, or None."""
    return None if value is None else str(checked(name, value, Name))


def check_limit(limit: int, name: str = "limit") -> None:
    """Check a limit."""
    if type(limit) is not int or not 1 <= limit <= MOST:
        raise ValidationError(name, limit, f"must be a whole number from 1 to {MOST:,}")


def check_flag(name: str, value: bool) -> None:
    """Check a flag."""
    if type(value) is not bool:
        raise ValidationError(name, value, "must be True or False")


def check_function(name: str, value: Callable[..., object] | None) -> None:
    """Check a callable."""
    if value is not None and not callable(value):
        raise ValidationError(name, value, "is not a function", "give one, or leave it out")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check a word that must be one of a few."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise ValidationError(name, value, "is unknown", f"give one of {', '.join(known)}")


def checked_items(name: str, items: Iterable[T]) -> Iterator[T]:
    """Return an iterator over items."""
    if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping):
        with contextlib.suppress(Exception):  # an object of the caller may raise anything
            return iter(items)
    raise ValidationError(name, items, "must be a list")


def one_or_many(name: str, value: str | Iterable[T]) -> list[str | T]:
    """Return a list of one text, or of all items."""
    return [value] if isinstance(value, str) else list(checked_items(name, value))


def checked_path(name: str, path: str | Path) -> Path:
    """Return a path."""
    if isinstance(path, str | Path) and str(path) and "\0" not in str(path):
        with contextlib.suppress(UnicodeEncodeError):  # a lone surrogate, which no file name has
            os.fsencode(path)
            return Path(path)
    raise ValidationError(name, path, "is not a path")


def name_arguments(owner: type) -> None:
    """Let the public methods of a class say which argument a wrong name is likely to mean."""
    for name, method in vars(owner).copy().items():
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(owner, name, _naming(method))
        elif isinstance(method, classmethod):
            setattr(owner, name, classmethod(_naming(method.__func__)))


def _naming(method: Callable[..., T]) -> Callable[..., T]:
    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> T:
        try:
            return method(*args, **named)
        except TypeError:
            known = inspect.signature(method).parameters
            free = any(one.kind is one.VAR_KEYWORD for one in known.values())
            wrong = next((name for name in named if name not in known), None)
            if wrong is None or free:
                raise
            near = get_close_matches(wrong, known, 1, 0.7)
            names = ", ".join(name for name in known if name not in ("self", "cls"))
            remedy = f"did you mean {near[0]!r}?" if near else f"there are {names}"
            raise TypeError(f"{method.__name__}() has no argument {wrong!r}; {remedy}") from None

    return call
