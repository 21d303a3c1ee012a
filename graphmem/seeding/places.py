"""Where in a record something is wrong, in the words of the record: the names that lead there.

A format takes a record apart as if all were there. Where that fails, the record is taken apart once
more, and what is looked at is written down. A record that can be read costs nothing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from graphmem.errors import ValidationError

FAILURES = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What taking a record apart raises where it is of another form."""
_KEPT = 1_000
"""Latest looks that are kept."""
_LOOKED = 20_000
"""Most values among which one is looked for."""
_KIND = re.compile(r"'(\w+)' object|not '?(\w+)'?$|: '(\w+)'|, (\w+) found")
"""How a TypeError names the type of what it was about."""
_MISSING = object()
_Look = tuple[str, Any]


class _Looks:
    """What was looked at of a record, the latest last."""

    def __init__(self) -> None:
        self.latest: deque[_Look] = deque(maxlen=_KEPT)

    def at(self, path: str, value: Any) -> Any:
        """Write down a look, and return the value so that looks into it are written down, too."""
        if type(value) is dict:
            value = _Object(value, self, path)
        elif type(value) is list:
            value = _List(value, self, path)
        self.latest.append((path, value))
        return value


class _Object(dict[str, Any]):
    """An object of a record."""

    def __init__(self, told: dict[str, Any], looks: _Looks, path: str) -> None:
        super().__init__(told)
        self._looks = looks
        self._path = path

    def _at(self, name: object) -> str:
        return f"{self._path}.{name}" if self._path else str(name)

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            self._looks.at(self._at(name), _MISSING)
        return self._looks.at(self._at(name), super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        if name not in self:
            if default is None:
                self._looks.at(self._at(name), None)
            return default
        return self[name]

    def __iter__(self) -> Iterator[str]:  # so that a copy looks at each value, too
        return super().__iter__()

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class _List(list[Any]):
    """A list of a record."""

    def __init__(self, told: list[Any], looks: _Looks, path: str) -> None:
        super().__init__(told)
        self._looks = looks
        self._path = path

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return super().__getitem__(place)
        place = range(len(self))[place] if -len(self) <= place < len(self) else place
        if not 0 <= place < len(self):
            self._looks.at(f"{self._path}.{place}", _MISSING)
        return self._looks.at(f"{self._path}.{place}", super().__getitem__(place))

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __reversed__(self) -> Iterator[Any]:
        return (self[place] for place in reversed(range(len(self))))


def wrap_neighbour(record: Any, told: dict[str, Any], name: str) -> dict[str, Any]:
    """Return what stands in a file beside a record, to be looked at as the record is."""
    if isinstance(record, _Object):
        return _Object(told, record._looks, name)
    return told


def explain_failure(record: Any, what: str, make: Callable[[Any], object]) -> ValidationError:
    """Return what is wrong with a record, of which ``make`` cannot make a ``what``."""
    if not isinstance(record, dict | list):
        return ValidationError("record", record, f"is no {what}")
    looks = _Looks()
    try:
        with suppress(ValidationError):
            make(looks.at(_root(record), record))
    except FAILURES as error:
        path, value = _find_cause(error, looks.latest)
        path = _relative_path(record, path)
        if path and value in (_MISSING, None):
            return ValidationError(path, None, f"is missing in this {what}")
        if path:
            return ValidationError(path, value, f"cannot be so in this {what}")
    return ValidationError("record", None, f"is no {what}: a part of it is of another kind")


def _root(record: Any) -> str:
    return "record" if isinstance(record, list) else ""


def _relative_path(record: Any, path: str) -> str:
    """Return a path without the place of the only object of a list."""
    return path.removeprefix("record.0.") if len(record) == 1 else path


def rename_field(error: ValidationError, record: Any) -> ValidationError:
    """Return an error of a field with the names that lead to its value in a record, if it is there.

    A value that stands there twice is not known by them.
    """
    if type(error) is not ValidationError or error.value is None or isinstance(error.value, bool):
        return error
    found: list[str] = []
    waiting: deque[_Look] = deque([(_root(record), record)])
    for _ in range(_LOOKED):
        if not waiting or len(found) > 1:
            break
        path, value = waiting.popleft()
        if value is error.value:
            found.append(path)
        parts: Iterable[tuple[object, Any]] = value.items() if isinstance(value, dict) else ()
        parts = enumerate(value) if isinstance(value, list) else parts
        waiting.extend((f"{path}.{name}" if path else str(name), one) for name, one in parts)
    if len(found) != 1 or not found[0]:
        return error
    return ValidationError(
        _relative_path(record, found[0]), error.value, error.problem, error.remedy
    )


def _find_cause(error: Exception, latest: deque[_Look]) -> _Look:
    """Return the look that an error is about: at its object, at one of its type, else the last."""
    looks = list(reversed(latest))
    if isinstance(error, KeyError) and looks[0][1] is not _MISSING:  # of a copy
        return str(error.args[0]), None
    if isinstance(error, AttributeError):
        return next((look for look in looks if look[1] is error.obj), ("", None))
    if isinstance(error, TypeError) and (match := _KIND.search(str(error))):
        kind = next(filter(None, match.groups()))
        return next((look for look in looks if type(look[1]).__name__ == kind), ("", None))
    if isinstance(error, ValueError):
        said = str(error)
        return next(
            (look for look in looks if isinstance(look[1], str) and repr(look[1]) in said), looks[0]
        )
    return looks[0]
