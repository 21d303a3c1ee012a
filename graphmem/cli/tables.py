"""Lays a table out in the width that there is, without breaking words.

Where there is less room, ids are cut to their beginning, and names such as ``get_user_details`` go
on in the next line after a ``_``. Where that does not fit, each row is a block: a line for each
field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

WHOLE = 16
"""Characters of a cell that are not broken over lines."""
READABLE = 24
"""Room that a column of sentences needs."""
BEGINNING = 12
"""Letters of an id where there is no room for it; `graphmem explain` finds it by them."""
_ID = re.compile("[0-9a-f]{32}")
_NUMBER = re.compile(r"[<>+-]?[\d.,]+ ?%?( (of|to) [\d.,]+ ?%?)?")
_WITHIN = re.compile(r"(?<=[^\W\d][_/.:=-])(?=\w)|(?<=[_/])(?=[^\W\d])")
"""Where a name can go on in the next line."""


def lay_out(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    style: Callable[[str], str] = str,
) -> list[str]:
    """Return the lines of a table in ``width`` columns; numbers are set to the right."""
    for gap, short_ids, break_names in ((3, False, False), (3, True, False), (2, True, True)):
        if short_ids:
            rows = [[t[:BEGINNING] if _ID.fullmatch(t) else t for t in row] for row in rows]
        columns = list(zip(heads, *rows, strict=True))
        least = [_least(*column, break_names=break_names) for column in columns]
        room = width - 1 - gap * (len(heads) - 1)
        if sum(least) <= room:
            widths = _share(least, [max(map(_size, column)) for column in columns], room)
            right = [_is_numeric(column[1:]) for column in columns]
            rule = " " + "─" * (sum(widths) + gap * (len(widths) - 1))
            head = _draw(heads, widths, right, gap, style)
            body = [line for row in rows for line in _draw(row, widths, right, gap)]
            return ["", *head, rule.rstrip(), *body, ""]
    return list(_draw_blocks(heads, rows, width, style))


def _least(head: str, *cells: str, break_names: bool) -> int:
    """Return the width that a column needs at least."""
    longest = max(map(_size, cells), default=0)
    least = max(map(_size, head.split()), default=0)
    if longest <= WHOLE:
        return max(longest, least)
    words = [word for text in cells for word in text.split()]
    if break_names:
        words = [piece for word in words for piece in _WITHIN.split(word)]
    return max(least, *map(_size, words), min(longest, READABLE))


def _share(least: Sequence[int], widest: Sequence[int], room: int) -> list[int]:
    """Return widths that fill the room: the widest columns give way first."""
    widths = list(least)
    for _ in range(room - sum(widths)):
        wanting = [place for place, width in enumerate(widths) if width < widest[place]]
        if wanting:
            widths[min(wanting, key=widths.__getitem__)] += 1
    return widths


def _is_numeric(cells: Sequence[str]) -> bool:
    return any(cells) and all(_NUMBER.fullmatch(text) for text in cells if text)


def _draw(
    cells: Sequence[str],
    widths: Sequence[int],
    right: Sequence[bool],
    gap: int,
    style: Callable[[str], str] = str,
) -> Iterator[str]:
    blocks = [wrap(text, width) for text, width in zip(cells, widths, strict=True)]
    for texts in zip_longest(*blocks, fillvalue=""):
        parts = []
        for text, width, at_right in zip(texts, widths, right, strict=True):
            space = " " * (width - _size(text))
            styled = style(text) if text else ""
            parts.append(space + styled if at_right else styled + space)
        yield (" " + (" " * gap).join(parts)).rstrip()


def _draw_blocks(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, style: Callable[[str], str]
) -> Iterator[str]:
    """Yield a block for each row, with a line for each field that has a value."""
    indent = max(map(_size, heads), default=0) + 3
    yield ""
    for row in rows:
        for head, text in zip(heads, row, strict=True):
            if text:
                first, *more = wrap(text, max(width - indent, 1))
                yield f" {style(head)}{' ' * (indent - 1 - _size(head))}{first}"
                yield from (" " * indent + line for line in more)
        yield ""


def wrap(text: str, width: int) -> list[str]:
    """Return ``text`` in lines of ``width``; a long word is broken within a name, else anywhere."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and _size(line) + 1 + _size(word) <= width:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = word
        while _size(line) > width:
            pieces = _WITHIN.split(line)
            if _size(pieces[0]) > width:
                pieces = list(line)
            part, *pieces = pieces
            while _size(part + pieces[0]) <= width:
                part += pieces.pop(0)
            lines.append(part)
            line = line[len(part) :]
    return [*lines, line] if line or not lines else lines


def _size(text: str) -> int:
    """Return how many columns a terminal takes for a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
