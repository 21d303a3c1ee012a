"""Where in a record something is wrong: the names that lead there.

A format takes a record apart as if all were there. Where that fails, the record is taken apart once
more, and the last place that is looked at is what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from graphmem.errors import ValidationError

FAILURES = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError)
"""What taking a record apart raises where it is of another form."""
_MOST = 20_000
"""Most values among which one is looked for."""


class _Look:
    """The last place of a record that was looked at, and its value; None: nothing is there."""

    path = ""
    value: Any = None

    def at(self, path: str, value: Any) -> Any:
        """Move to a place, and return its value so that looks into it move on."""
        if type(value) in (dict, list):
            value = _Object(value) if type(value) is dict else _List(value)
            value.look, value.path = self, path
        self.path, self.value = path, value
        return value


class _Object(dict[str, Any]):
    look: _Look
    path: str

    def __getitem__(self, name: str) -> Any:
        path = f"{self.path}.{name}" if self.path else str(name)
        self.look.at(path, None)
        return self.look.at(path, super().__getitem__(name))

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 - it would not end

    def __iter__(self) -> Iterator[str]:  # so that a copy looks at each value, too
        return super().__iter__()

    def items(self) -> Any:
        return [(name, self[name]) for name in self]

    def values(self) -> Any:
        return [self[name] for name in self]


class _List(list[Any]):
    look: _Look
    path: str

    def __getitem__(self, place: Any) -> Any:
        value = super().__getitem__(place)
        return value if isinstance(place, slice) else self.look.at(f"{self.path}.{place}", value)

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))


def explain_failure(record: Any, what: str, make: Callable[[Any], object]) -> ValidationError:
    """Return what is wrong with a record, of which ``make`` cannot make a ``what``."""
    look = _Look()
    if isinstance(record, dict | list):
        try:
            with suppress(ValidationError):
                make(look.at("record" if isinstance(record, list) else "", record))
        except FAILURES as error:
            path = look.path.removeprefix("record.0.") if len(record) == 1 else look.path
            if isinstance(error, KeyError) and look.value is not None:  # of a copy
                path, look.value = str(error.args[0]), None
            if path:
                missing = "is missing" if look.value is None else "cannot be so"
                return ValidationError(path, look.value, f"{missing} in this {what}")
    content = None if isinstance(record, dict | list) else record
    return ValidationError("record", content, f"is no {what}")


def rename_field(error: ValidationError, record: Any) -> ValidationError:
    """Return an error with the names that lead to its value in a record, if it is there once."""
    if type(error) is not ValidationError or error.value is None or isinstance(error.value, bool):
        return error
    values = islice(_walk("", record), _MOST)
    paths = [path for path, value in values if value is error.value]
    if len(paths) != 1 or not paths[0]:
        return error
    path = paths[0].removeprefix("0.") if len(record) == 1 else paths[0]
    return ValidationError(path, error.value, error.problem, error.remedy)


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    yield path, value
    parts = value.items() if isinstance(value, dict) else ()
    for name, part in enumerate(value) if isinstance(value, list) else parts:
        yield from _walk(f"{path}.{name}" if path else str(name), part)
