"""Answers as tables of pandas or polars, whichever is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, Literal, TypeVar

from graphmem.errors import SettingsError, ValidationError

T = TypeVar("T")
Library = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")


class Listed(list[T]):
    """A list of answers, or of rows: a line for each if printed, a table in a notebook."""

    def to_frame(self, library: Library | None = None) -> Any:
        """Return the list as a frame, a row for each of its items.

        Args:
            library: ``pandas`` or ``polars``; None: pandas if it is installed, else polars.

        Raises:
            SettingsError: it is not installed.
            ValidationError: ``library`` is another.
        """
        return frame(self, library)

    def __str__(self) -> str:
        from graphmem.text.answers import printed

        return printed(self) if self else "[]"

    def _repr_html_(self) -> str:
        from graphmem.notebook.html import rows

        return rows(self)


def frame(rows: Sequence[Any], library: Library | None = None, model: Any = None) -> Any:
    """Return rows as a frame; ``model`` has the names of the columns if there are no rows.

    A cell holds an answer within an answer as JSON.
    """
    make = _import(library).DataFrame
    cells = [{name: _cell(value) for name, value in fields(row).items()} for row in rows]
    names = list(dict.fromkeys(name for row in cells for name in row))
    names = names or list(getattr(model, "model_fields", ()))
    columns = {name: [row.get(name) for row in cells] for name in names}
    strict = {"strict": False} if make.__module__.startswith("polars") else {}
    return make(columns, **strict)


def _import(library: Library | None) -> Any:
    if library is not None and library not in LIBRARIES:
        raise ValidationError("library", library, "is neither 'pandas' nor 'polars'")
    for name in LIBRARIES if library is None else (library,):
        try:
            return import_module(name)
        except ImportError:
            continue
    raise SettingsError(
        f"to_frame needs {library or 'pandas or polars'}, which is not installed: "
        f"pip install {library or 'pandas (or: pip install polars)'}"
    )


def fields(row: Any) -> dict[str, Any]:
    """Return what an answer, or a row, holds by name."""
    if names := getattr(type(row), "model_fields", None):
        return {name: getattr(row, name) for name in names}
    return dict(row) if isinstance(row, Mapping) else {"value": row}


def as_json(value: Any) -> str:
    """Return a value in a form that a cell can hold."""

    def plain(one: Any) -> Any:
        return one.model_dump(mode="json") if hasattr(one, "model_dump") else str(one)

    return json.dumps(value, ensure_ascii=False, default=plain)


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str | datetime):
        return value
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return list(value)
    return as_json(value)
