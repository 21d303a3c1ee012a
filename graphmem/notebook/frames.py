"""Answers as frames of pandas."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import Any, TypeVar

from graphmem.errors import SettingsError

T = TypeVar("T")


class Listed(list[T]):
    """A list of answers, or of rows: a line for each if printed, a table in a notebook."""

    def to_frame(self) -> Any:
        """Return the list as a frame of pandas, a row for each of its items.

        Raises:
            SettingsError: pandas is not installed.
        """
        return frame(self)

    def __str__(self) -> str:
        from graphmem.text.answers import printed

        return printed(self) if self else "[]"

    def _repr_html_(self) -> str:
        from graphmem.notebook.html import rows

        return rows(self)


def frame(rows: Sequence[Any], model: Any = None) -> Any:
    """Return rows as a frame; ``model`` has the names of the columns if there are no rows.

    A cell holds an answer within an answer as JSON.
    """
    try:
        make = import_module("pandas").DataFrame
    except ImportError:
        raise SettingsError(
            "to_frame needs pandas, which is not installed: pip install pandas"
        ) from None
    cells = [{name: _cell(value) for name, value in fields(row).items()} for row in rows]
    names = list(dict.fromkeys(name for row in cells for name in row))
    names = names or list(getattr(model, "model_fields", ()))
    return make({name: [row.get(name) for row in cells] for name in names})


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
