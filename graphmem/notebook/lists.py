"""Lists of answers."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Listed(list[T]):
    """A list of answers, or of rows: a line for each if printed, a table in a notebook."""

    def __str__(self) -> str:
        from graphmem.text.answers import printed

        return printed(self) if self else "[]"

    def _repr_html_(self) -> str:
        from graphmem.notebook.html import rows

        return rows(self)
