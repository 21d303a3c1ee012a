"""Splits long lists into pages, one for each statement or transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

PAGE = 200
"""Nodes in a page, if much of each is read or written."""


def pages(items: Sequence[T], size: int = PAGE) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``size``; no list if there are no items."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
