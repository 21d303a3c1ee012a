"""How a table is laid out in the width that there is, without breaking words.

Words are kept whole as long as that is possible. Where there is less room, ids are cut to their
beginning, columns without a value are left out, and names such as ``get_user_details`` are broken
after a ``_``. Where even that does not fit, each row is written as a record: a line for each field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

WHOLE = 16
"""Characters of a cell that are not broken over lines, if there is room."""
SHORT = 9
"""Characters of a cell that are never broken, such as "91 of 94"."""
READABLE = 24
"""Room that a column of sentences needs."""
BEGINNING = 12
"""Letters of an id where there is no room for it; `graphmem explain` finds it by them."""
_ID = re.compile("[0-9a-f]{32}")
_WITHIN = re.compile(r"(?<=[^\W\d][_/.:=-])(?=\w)|(?<=[_/])(?=[^\W\d])")
"""Where a name can go on in the next line."""

Styling = Callable[[str], str]


@dataclass(frozen=True)
class Table:
    """A table: headings, whether a column is set to the right, and cells, all of them one line."""

    heads: Sequence[str]
    right: Sequence[bool]
    rows: Sequence[Sequence[str]]

    def lines(self, width: int, heading: Styling = str) -> list[str]:
        """Return the lines of the table in ``width`` columns; ``heading`` styles the headings."""
        table = self
        for gap, change, break_names, whole in (
            (3, None, False, True),
            (3, Table._with_short_ids, False, True),
            (2, Table._without_empty_columns, False, True),
            (2, None, True, True),
            (2, None, True, False),
        ):
            table = change(table) if change else table
            room = width - 1 - gap * (len(table.heads) - 1)
            least = [table._least(place, break_names, whole) for place in range(len(table.heads))]
            if sum(least) <= room:
                return table._drawn(_shared(least, table._widest(), room), gap, heading)
        return table._records(width, heading)

    def _column(self, place: int) -> list[str]:
        return [row[place] for row in self.rows]

    def _widest(self) -> list[int]:
        return [
            max(map(_size, [head, *self._column(place)])) for place, head in enumerate(self.heads)
        ]

    def _least(self, place: int, break_names: bool, whole: bool) -> int:
        """Return the width that a column needs at least."""
        cells = self._column(place)
        longest = max(map(_size, cells), default=0)
        head = max(map(_size, self.heads[place].split()), default=0)
        if longest <= (WHOLE if whole else SHORT):
            return max(longest, head)
        names = break_names and longest > WHOLE
        words = max((_size(word) for text in cells for word in _words(text, names)), default=0)
        enough = longest // 2 + 1 if longest <= WHOLE else READABLE if whole else WHOLE
        return max(head, words, min(longest, enough))

    def _with_short_ids(self) -> Table:
        def short(text: str) -> str:
            return text[:BEGINNING] if _ID.fullmatch(text) else text

        return replace(self, rows=[[short(text) for text in row] for row in self.rows])

    def _without_empty_columns(self) -> Table:
        kept = [place for place in range(len(self.heads)) if any(self._column(place))]
        return Table(
            [self.heads[place] for place in kept],
            [self.right[place] for place in kept],
            [[row[place] for place in kept] for row in self.rows],
        )

    def _drawn(self, widths: Sequence[int], gap: int, heading: Styling) -> list[str]:
        def set_in_columns(cells: Sequence[str], styled: Styling, *, low: bool) -> list[str]:
            blocks = [wrapped(text, width) for text, width in zip(cells, widths, strict=True)]
            height = max(map(len, blocks), default=1)
            lines = []
            for at in range(height):
                parts = []
                for block, width, right in zip(blocks, widths, self.right, strict=True):
                    line = at - (height - len(block) if low else 0)
                    text = block[line] if 0 <= line < len(block) else ""
                    space = " " * (width - _size(text))
                    text = styled(text) if text else ""
                    parts.append(space + text if right else text + space)
                lines.append((" " + (" " * gap).join(parts)).rstrip())
            return lines

        rule = " " + "─" * (sum(widths) + gap * (len(widths) - 1))
        body = [line for row in self.rows for line in set_in_columns(row, str, low=False)]
        return ["", *set_in_columns(self.heads, heading, low=True), rule.rstrip(), *body, ""]

    def _records(self, width: int, heading: Styling) -> list[str]:
        """Return a block for each row, with a line for each field that has a value."""
        indent = max(map(_size, self.heads), default=0) + 3
        lines = [""]
        for row in self.rows:
            for head, text in zip(self.heads, row, strict=True):
                if text:
                    first, *more = wrapped(text, max(width - indent, 1))
                    space = " " * (indent - 1 - _size(head))
                    lines.append(f" {heading(head)}{space}{first}")
                    lines += [" " * indent + line for line in more]
            lines.append("")
        return lines


def wrapped(text: str, width: int) -> list[str]:
    """Return ``text`` in lines of ``width``; a word is broken within a name, else where it ends."""
    lines, line = [], ""
    for word in text.split(" "):
        if line and _size(line) + 1 + _size(word) <= width:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        line = word
        while _size(line) > width:
            part = ""
            for piece in _WITHIN.split(line):
                if _size(part + piece) > width:
                    break
                part += piece
            part = part or _fitting(line, width)
            lines.append(part)
            line = line[len(part) :]
    return [*lines, line] if line or not lines else lines


def _words(text: str, break_names: bool) -> list[str]:
    words = text.split()
    return [piece for word in words for piece in _WITHIN.split(word)] if break_names else words


def _shared(least: Sequence[int], widest: Sequence[int], room: int) -> list[int]:
    """Return widths that fill the room: the widest columns give way first."""
    widths = list(widest)
    while (over := sum(widths) - room) > 0:
        wide = [place for place, size in enumerate(widths) if size > least[place]]
        top = max(widths[place] for place in wide)
        tops = [place for place in wide if widths[place] == top]
        below = max([widths[place] for place in wide if widths[place] < top] or [0])
        for place in tops:
            give = min(top - below, -(-over // len(tops)), top - least[place], over)
            widths[place] -= give
            over -= give
    return widths


def _size(text: str) -> int:
    """Return how many columns a terminal takes for a text."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _fitting(text: str, width: int) -> str:
    """Return the beginning of a text that fits, a character at least."""
    end = 1
    while end < len(text) and _size(text[: end + 1]) <= width:
        end += 1
    return text[:end]
