"""What every command shares: the memory that the options name, and how things are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from graphmem.config import Settings
    from graphmem.memory import Memory


@dataclass
class Context:
    """The options before the command."""

    url: str | None
    namespace: str | None
    as_json: bool
    wait: float | None
    debug: bool
    _memory: Memory | None = field(default=None, repr=False)

    def settings(self) -> Settings:
        """Return settings from the environment and the options."""
        from graphmem.config import Settings

        given = {"url": self.url, "namespace": self.namespace, "wait": self.wait}
        return Settings(**{name: value for name, value in given.items() if value is not None})

    def memory(self, *, must_exist: bool = True) -> Memory:
        """Open the memory that the options name.

        Raises:
            NotFoundError: there is none and ``must_exist``.
        """
        from graphmem.errors import NotFoundError
        from graphmem.memory import Memory

        if self._memory is None:
            settings = self.settings()
            # What a person looks at is no read by an agent, and looking need not write.
            quiet = settings.model_copy(update={"count_reads": False})
            memory = Memory.open(settings.url, namespace=settings.namespace, settings=quiet)
            if must_exist and not memory.store.exists():
                memory.close()
                raise NotFoundError(
                    f"no memory at {memory.store.url}; create one with `graphmem init` or "
                    "`graphmem seed`, or name another with --url"
                )
            self._memory = memory
        return self._memory

    def close(self) -> None:
        """Close the memory, if a command opened it."""
        if self._memory is not None:
            memory, self._memory = self._memory, None
            memory.close()

    def note_snapshot(self) -> None:
        """Tell on stderr that what was shown may be older than what a writer has."""
        age = self._memory.store.snapshot_age if self._memory else None
        if age is not None:
            click.echo(f"(a snapshot, {age:.1f} s old: another process may be writing)", err=True)

    def show(
        self, data: BaseModel | Sequence[BaseModel | Mapping[str, Any]], table: Callable[[], None]
    ) -> None:
        """Print ``data`` as JSON where that was asked for, else call ``table``."""
        if self.as_json:
            print_json(data)
        else:
            table()
        self.note_snapshot()


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
    """Return a rich console; without a terminal it is wide enough to keep rows on a line."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, width=None if stream.isatty() else 120, highlight=False, soft_wrap=False
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

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, justify in columns:
        table.add_column(
            heading,
            justify="right" if justify == "right" else "left",
            overflow="fold",
            no_wrap=heading == "procedure",
        )
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    console().print(table)


def listed(counts: Mapping[str, int]) -> str:
    """Return counts as words: "3 strategies, 1 co-occurrences"."""
    return ", ".join(f"{count:,} {name.replace('_', '-')}" for name, count in counts.items())


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


def moment(_: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return the datetime of an option, as a callback of click."""
    from datetime import datetime

    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no ISO 8601 date and time") from error
    if moment.tzinfo is None:
        raise click.BadParameter(f"{value!r} has no time zone; add Z or an offset like +01:00")
    del parameter
    return moment


@contextmanager
def progress(label: str, context: Context) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield a callback (done, total) that draws a bar on a terminal, else None."""
    if context.as_json or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress

    with Progress(console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
