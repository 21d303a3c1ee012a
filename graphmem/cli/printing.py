"""How answers are printed: as JSON, as facts, as tables in the width that there is, and bars."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

import click

from graphmem.printable import listed, percent, unguarded
from graphmem.text.cells import CELL, cell, name_field

if TYPE_CHECKING:
    from rich.table import Table

    from graphmem.cli.main import Options

TEXT = 90  # most characters of a text in a list of rows; --json has all
WIDTH = 120  # columns of a table where there is no terminal, and ``COLUMNS`` does not say how many
ROWS = 50  # most rows of a list within an answer; --json has all
WHOLE = 32  # characters of an id or a name, which is not broken over lines
READABLE = 16  # room that a column of sentences needs
_ID = re.compile(r"^([0-9a-f]{12})[0-9a-f]{20}$")
_NUMBER = re.compile(r"[<>+-]?[\d.,]+ ?%?( (of|to) [\d.,]+ ?%?)?")


def to_plain(value: Any) -> Any:
    """Return ``value`` as what JSON can hold."""
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, fallback=str, bytes_mode="base64")


def print_json(data: Any) -> None:
    """Print ``data`` as indented JSON on standard output."""
    click.echo(json.dumps(to_plain(data), indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table as wide as the terminal; where it does not fit, a block of lines for each row.

    Where there is little room, ids are cut to their beginning; `graphmem explain` takes that too.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Column, Table
    from rich.text import Text

    width = get_terminal_size((WIDTH, 0)).columns
    console = Console(file=unguarded(sys.stdout), width=width, highlight=False)
    heads = [cell(heading) for heading in headings]
    whole = [[cell(value) for value in row] for row in rows]
    brief = [[_ID.sub(r"\1", text) for text in row] for row in whole]
    ample = console.options.update(width=10 * CELL * len(heads))
    for table in (_make_table(heads, whole), _make_table(heads, brief)):
        if Measurement.get(console, ample, table).minimum <= width:
            break
    else:
        table = Table.grid(Column(style="bold"), Column(overflow="fold"), padding=(0, 2, 0, 1))
        for row in brief:
            for head, text in zip(heads, row, strict=True):
                if text:
                    table.add_row(Text(head), Text(text))
            table.add_row()
        click.echo()
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        console.file.write(f"{line.rstrip()}\n")


def _make_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for head, *texts in zip(heads, *rows, strict=True):
        longest = max(map(cell_len, texts), default=0)
        is_numeric = any(texts) and all(_NUMBER.fullmatch(text) for text in texts if text)
        is_name = longest <= WHOLE and not any(" " in text for text in texts)
        is_whole = is_numeric or is_name
        table.add_column(
            Text(head),
            justify="right" if is_numeric else "left",
            min_width=max(longest, cell_len(head)) if is_whole else min(longest, READABLE),
            no_wrap=is_whole,
            overflow="fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def print_rows(
    rows: Sequence[Any], columns: str, limit: int = TEXT, /, **cells: Callable[[Any], Any]
) -> None:
    """Print models or mappings as a table; a column without any value is left out.

    A column is a path or ``heading=path``, in which ``_`` is a space. A path is a field, ``a.b``,
    ``part/whole`` (3 of 4), ``low..high`` (0.10 to 0.50), ``share%``, or what ``cells`` has.
    """
    shown = {}
    for column in columns.split():
        heading, _, path = column.partition("=")
        read = cells.get(path or heading) or partial(_read, path=path or heading)
        texts = [cell(read(row), limit) for row in rows]
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
        if row is not None:
            row = row[name] if isinstance(row, Mapping) else getattr(row, name)
    return row


def print_answer(answer: Any) -> None:
    """Print an answer: its values by name, then each list of answers as a table."""
    fields = type(answer).model_fields
    values = {name: getattr(answer, name) for name in fields}
    tables = {
        name: value
        for name, value in values.items()
        if isinstance(value, list | tuple) and value and hasattr(type(value[0]), "model_fields")
    }
    facts = {
        name: listed(value) if fields[name].annotation == Mapping[str, int] else value
        for name, value in values.items()
        if value and name not in tables
    }
    if facts:
        print_facts(facts)
    for name, rows in tables.items():
        click.echo(name_field(name).capitalize())
        columns = " ".join(type(rows[0]).model_fields)
        columns = columns.replace("trials successes", "worked=successes/trials")
        print_rows(rows[:ROWS], columns.replace("lower upper", "bounds=lower..upper"))
        if len(rows) > ROWS:
            click.echo(f"... and {len(rows) - ROWS:,} more; --json lists all")
    if not facts and not tables:
        click.echo("nothing was to do")


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line, without those that have no value."""
    shown = {
        name_field(name): value for name, value in facts.items() if value not in (None, "", ())
    }
    wide = max([15, *(len(name) + 2 for name in shown)])
    for name, value in shown.items():
        click.echo(f"{name:<{wide}}{cell(value)}")


def span(seconds: float | None, without: str = "for good") -> str:
    """Return a time in words."""
    return without if seconds is None else f"{seconds:,.6g} s"


@contextmanager
def progress(label: str, options: Options) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a callback (done, total) that draws a bar on a terminal, else None."""
    if options.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    with Progress(
        *Progress.get_default_columns(),
        MofNCompleteColumn(),
        console=Console(file=unguarded(sys.stderr)),
        transient=True,
        redirect_stdout=False,  # they would not be guarded
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
