"""How things are printed: as JSON, as tables, and progress as a bar."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from graphmem.printable import unguarded

if TYPE_CHECKING:
    from rich.console import Console

    from graphmem.cli.options import Options


WHOLE = 16
"""Characters of a cell that are not broken over lines, if there is room."""
LEAST = 9
"""Room that this leaves for every other column."""
BEGINNING = 12
"""Letters of an id where there is no room for it; `graphmem show` finds it by them."""
_ID = re.compile("[0-9a-f]{32}")


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
    title: str | None,
    columns: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Any]],
) -> None:
    """Print a table; ``columns`` are (heading, "left" or "right")."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    title_text = None if title is None else Text(cell(title))
    table = Table(title=title_text, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown = console()
    cells = [[cell(value) for value in row] for row in rows]
    heads = [cell(heading) for heading, _ in columns]
    ids = [place for place in range(len(heads)) if cells and _are_ids(cells, place)]
    widest, needed = _room(heads, cells, ids)
    if needed > shown.width:
        for row in cells:
            for place in ids:
                row[place] = row[place][:BEGINNING]
        widest, needed = _room(heads, cells, ids)
    for place, (heading, justify) in enumerate(columns):
        table.add_column(
            Text(heads[place]),
            justify="right" if justify == "right" else "left",
            overflow="fold",
            no_wrap=heading == "procedure"
            or place in ids
            or (widest[place] <= WHOLE and needed <= shown.width),
        )
    for row in cells:
        table.add_row(*map(Text, row))
    with shown.capture() as captured:
        shown.print(table)
    for line in captured.get().splitlines():
        shown.file.write(f"{line.rstrip()}\n")


def _are_ids(cells: Sequence[Sequence[str]], place: int) -> bool:
    """Return whether a column holds nothing but whole ids."""
    return all(_ID.fullmatch(row[place]) for row in cells)


def _room(
    heads: Sequence[str], cells: Sequence[Sequence[str]], ids: Sequence[int]
) -> tuple[list[int], int]:
    """Return the widest cell of each column, and the width that a table needs at least."""
    widest = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    least = (size if size <= WHOLE or place in ids else LEAST for place, size in enumerate(widest))
    return widest, sum(3 + size for size in least)


def listed(counts: Mapping[str, int]) -> str:
    """Return counts as words, without what is not there: "3 strategies, 1 co-occurrence"."""
    return ", ".join(
        f"{count:,} {_one(name) if count == 1 else name}".replace("_", "-")
        for name, count in counts.items()
        if count
    )


def _one(name: str) -> str:
    """Return the singular of a plural."""
    for plural, end in (("ies", "y"), ("ses", "s"), ("s", "")):
        if name.endswith(plural):
            return name.removesuffix(plural) + end
    return name


def cell(value: Any, limit: int = 400) -> str:
    """Return ``value`` as a cell: short, without control characters."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    text = value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def fact(name: str, value: Any) -> None:
    """Print a name and a value on a line, if there is a value."""
    if value not in (None, "", ()):
        click.echo(f"{name:<15}{cell(value)}")


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
            said = f"{label} {done:,}{of} {unit}".rstrip()
            bar.update(task, description=said, completed=done, total=total)

        yield advance
