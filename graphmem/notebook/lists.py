"""Lists of answers, and what an answer holds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Listed(list[T]):
    """A list of answers, or of rows: a line for each if printed, a table in a notebook."""

    def __str__(self) -> str:
        from graphmem.text.answers import printed

        return printed(self) if self else "[]"

    def _repr_html_(self) -> str:
        from graphmem.notebook.html import rows

        return rows(self)


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
