"""How answers are printed: as JSON, as facts, as tables in the width that there is, and bars."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from graphmem.printable import listed, percent, unguarded

if TYPE_CHECKING:
    from graphmem.cli.options import Options

CELL = 400
"""Most characters of a cell; --json has all."""
TEXT = 90
"""Most characters of a text in a list of rows; --json has all."""
WIDTH = 120
"""Columns of a table where there is no terminal, and ``COLUMNS`` does not say how many."""
ROWS = 50
"""Most rows of a list within an answer; --json has all."""
_WORDS = {
    "abandoned": "attempts without an outcome",
    "below_count": "below the threshold",
    "co_occurrences": "pairs used together",
    "compacted": "files written anew",
    "first_at": "first episode",
    "last_at": "latest episode",
    "needed": "least that passes",
    "outcomes": "results on tasks",
    "read_by": "an older snapshot is held by",
}
"""Fields that do not say well what they hold."""


def to_plain(value: Any) -> Any:
    """Return ``value`` as what JSON can hold."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def print_json(data: Any) -> None:
    """Print ``data`` as indented JSON on standard output."""
    click.echo(json.dumps(to_plain(data), indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table, as wide as the terminal."""
    stream, style = sys.stdout, str
    if stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb":
        stream, style = unguarded(stream), partial(click.style, bold=True)  # type: ignore[assignment]
    cells = [[cell(value) for value in row] for row in rows]
    width = get_terminal_size((WIDTH, 0)).columns
    for line in lay_out([cell(heading) for heading in headings], cells, width, style):
        stream.write(f"{line}\n")


def print_rows(rows: Sequence[Any], columns: str, /, **cells: Callable[[Any], Any]) -> None:
    """Print models as a table; a column without any value is left out.

    A column is a path or ``heading=path``, in which ``_`` is a space. A path is a field, ``a.b``,
    ``part/whole`` (3 of 4), ``low..high`` (0.10 to 0.50), ``share%``, or what ``cells`` has.
    """
    shown = {}
    for column in columns.split():
        heading, _, path = column.partition("=")
        read = cells.get(path or heading) or partial(_read, path=path or heading)
        texts = [cell(read(row), TEXT) for row in rows]
        if any(texts):
            shown[heading.replace("_", " ")] = texts
    print_table(list(shown), zip(*shown.values(), strict=True))


def _read(row: Any, path: str) -> Any:
    if "/" in path:
        part, whole = (_read(row, one) for one in path.split("/"))
        return f"{part:,} of {whole:,}" if whole else None
    if ".." in path:
        low, high = (_read(row, one) for one in path.split(".."))
        return None if low is None else f"{low:.2f} to {high:.2f}"
    if path.endswith("%"):
        share = _read(row, path[:-1])
        return None if share is None else percent(share)
    for name in path.split("."):
        row = None if row is None else getattr(row, name)
    return row


def print_answer(answer: Any) -> None:
    """Print an answer: its values by name, then each list of answers as a table."""
    values = {name: getattr(answer, name) for name in type(answer).model_fields}
    tables = {
        name: value
        for name, value in values.items()
        if isinstance(value, list | tuple) and value and hasattr(type(value[0]), "model_fields")
    }
    facts = {name: value for name, value in values.items() if value and name not in tables}
    if facts:
        print_facts(facts)
    for name, rows in tables.items():
        click.echo(_words(name).capitalize())
        columns = " ".join(type(rows[0]).model_fields)
        columns = columns.replace("trials successes", "worked=successes/trials")
        print_rows(rows[:ROWS], columns.replace("lower upper", "bounds=lower..upper"))
        if len(rows) > ROWS:
            click.echo(f"... and {len(rows) - ROWS:,} more; --json lists all")
    if not facts and not tables:
        click.echo("nothing was to do")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line, without those that have no value."""
    shown = {_words(name): value for name, value in facts.items() if value not in (None, "", ())}
    wide = max([15, *(len(name) + 2 for name in shown)])
    for name, value in shown.items():
        counts = isinstance(value, Mapping) and all(type(one) is int for one in value.values())
        click.echo(f"{name:<{wide}}{cell(listed(value) if counts else value)}")


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " "))


def cell(value: Any, limit: int = CELL) -> str:
    """Return ``value`` as a cell: short, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    text = value if isinstance(value, str) else json.dumps(to_plain(value), ensure_ascii=False)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def span(seconds: float | None, without: str = "for good") -> str:
    """Return a time in words."""
    return without if seconds is None else f"{seconds:,.6g} s"


@contextmanager
def progress(
    label: str, options: Options, unit: str = ""
) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a callback (done, total) that draws a bar on a terminal, else None."""
    if options.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(
        console=Console(file=unguarded(sys.stderr)),
        transient=True,
        redirect_stdout=False,  # they would not be guarded
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int | None) -> None:
            of = "" if total is None else f" of {total:,}"
            speed = bar.tasks[0].speed
            rate = f" ({speed:,.0f} a second)" if speed else ""
            text = f"{label} {done:,}{of} {unit}".rstrip() + rate
            bar.update(task, description=text, completed=done, total=total)

        yield advance


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
    """Return the lines of a table in ``width`` columns; numbers are set to the right.

    Where there is less room, ids are cut to their beginning, and names go on in the next line after
    a ``_``. Where that does not fit, each row is a block: a line for each field.
    """
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
