"""Splits long lists into pages, one for each statement or transaction, and rows into groups."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from graphmem.store.port import Row

T = TypeVar("T")
BEYOND = "~"  # behind every id

PAGE = 200  # nodes in a page, if much of each is read or written


def pages(items: Sequence[T], size: int = PAGE) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``size``; no list if there are no items."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def weighed(items: Iterable[tuple[T, int]], most: int, size: int = PAGE) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most ``size`` that weigh ``most`` together."""
    page: list[T] = []
    total = 0
    for item, weight in items:
        if page and (len(page) >= size or total + weight > most):
            yield page
            page, total = [], 0
        page.append(item)
        total += weight
    if page:
        yield page


def ranges(count: int, most: int) -> Iterator[tuple[str, str]]:
    """Yield ranges of ids, in order: from the first text on, before the second."""
    parts = max(1, -(-count // most))
    between = (f"{number * 16**8 // parts:08x}" for number in range(1, parts))
    return itertools.pairwise(("", *between, BEYOND))


def grouped(rows: Iterable[Row], name: str) -> dict[str, list[Row]]:
    """Return rows by one of their columns, in their order."""
    groups = defaultdict[str, list[Row]](list)
    for row in rows:
        groups[row[name]].append(row)
    return groups
