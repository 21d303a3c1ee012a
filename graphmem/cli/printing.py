"""How things are printed: as JSON, as tables, and progress as a bar."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from operator import attrgetter
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.tables import Table, wrapped
from graphmem.printable import unguarded

if TYPE_CHECKING:
    from rich.console import Console

    from graphmem.cli.options import Options

CELL = 400
"""Most characters of a cell; --json has all."""
TEXT = 90
"""Most characters of a text in a list of rows; --json has all."""
_NUMBER = re.compile(r"[<>+-]?[\d.,]+ ?%?( (of|to) [\d.,]+ ?%?)?")


def plain(value: Any) -> Any:
    """Return ``value`` as what JSON can hold."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return str(value)


def print_json(data: Any) -> None:
    """Print ``data`` as indented JSON on standard output."""
    click.echo(json.dumps(plain(data), indent=2, ensure_ascii=False))


def console(*, stderr: bool = False) -> Console:
    """Return a rich console; without a terminal it is 120 wide, or as ``COLUMNS`` says.

    On a terminal it writes what styles; texts must then be ``Text`` of printable characters.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    styled = stream.isatty()
    return Console(
        file=unguarded(stream) if styled else stream,
        width=None if styled or os.environ.get("COLUMNS", "").isdigit() else 120,
        highlight=False,
        soft_wrap=False,
    )


def print_table(
    headings: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None
) -> None:
    """Print a table; columns of numbers are set to the right."""
    rows = [[cell(value) for value in row] for row in rows]
    columns = [[row[place] for row in rows if row[place]] for place in range(len(headings))]
    right = [bool(column) and all(map(_NUMBER.fullmatch, column)) for column in columns]
    shown = console()
    if title is not None:
        shown.file.write(f"{cell(title)}\n")
    bold = partial(click.style, bold=True) if shown.is_terminal and not shown.no_color else str
    for line in Table([cell(heading) for heading in headings], right, rows).lines(
        shown.width, bold
    ):
        shown.file.write(f"{line}\n")


def print_rows(rows: Sequence[Any], columns: str, /, **cells: Callable[[Any], Any]) -> None:
    """Print models as a table.

    Args:
        rows: the models, at least one.
        columns: names of fields, separated by spaces; ``heading=field`` gives another heading, in
            which ``_`` is a space. ``worked`` are successes and trials, ``bounds`` lower and upper.
        cells: functions of a row, for columns that are no field.

    A column without any value is left out.
    """
    named = {"worked": worked, "bounds": bounds, **cells}
    shown = {}
    for column in columns.split():
        heading, _, name = column.partition("=")
        read = named.get(name or heading) or attrgetter(name or heading)
        texts = [cell(read(row), TEXT) for row in rows]
        if any(texts):
            shown[heading.replace("_", " ")] = texts
    print_table(list(shown), zip(*shown.values(), strict=True))


def worked(row: Any) -> str:
    """Return successes and trials; nothing without trials, so that such a column can give way."""
    return f"{row.successes} of {row.trials}" if row.trials else ""


def bounds(row: Any) -> str:
    """Return the bounds of a rate."""
    return f"{row.lower:.2f} to {row.upper:.2f}"


def print_lines(text: str, below: int = 4, *, err: bool = False) -> None:
    """Print text; on a screen a line that is too long goes on ``below`` letters further right.

    Elsewhere each line stays whole, so that it can be searched, unless ``COLUMNS`` says how wide
    the screen is.
    """
    narrow = (sys.stderr if err else sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdigit()
    width = get_terminal_size().columns if narrow else 0
    for line in text.split("\n"):
        words = line.lstrip(" ")
        indent = len(line) - len(words)
        room = width - indent - below
        if not width or len(line) <= width or room < 1:
            click.echo(line, err=err)
            continue
        first, *_ = wrapped(words, room + below)
        click.echo(" " * indent + first.rstrip(), err=err)
        for more in wrapped(words[len(first) :].lstrip(" "), room):
            click.echo(" " * (indent + below) + more.rstrip(), err=err)


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
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line, without those that have no value."""
    shown = {name.replace("_", " "): value for name, value in facts.items()}
    shown = {name: value for name, value in shown.items() if value not in (None, "", ())}
    wide = max(15, *(len(name) + 2 for name in shown))
    for name, value in shown.items():
        print_lines(f"{name:<{wide}}{cell(value)}", wide)


def span(seconds: float | None, without: str = "for good") -> str:
    """Return a time in words."""
    return without if seconds is None else f"{seconds:,.6g} s"


@contextmanager
def progress(
    label: str, options: Options, unit: str = ""
) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a callback (done, total) that draws a bar on a terminal, else None.

    Before the bar it says how much is done of what, in ``unit``.
    """
    if options.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(
        console=console(stderr=True),
        transient=True,
        redirect_stdout=False,  # they would not be guarded
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(label, total=None)

        def advance(done: int, total: int | None) -> None:
            of = "" if total is None else f" of {total:,}"
            text = f"{label} {done:,}{of} {unit}".rstrip()
            bar.update(task, description=text, completed=done, total=total)

        yield advance
