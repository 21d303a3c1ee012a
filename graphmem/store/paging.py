"""Long lists go to a store in pages, each for one statement or transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

PAGE = 200
"""Nodes of which much is read or written at once."""


def pages(items: Sequence[T], size: int = PAGE) -> Iterator[list[T]]:
    """Yield the items in their order, in lists of at most ``size``; of no items, none."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])
