"""The options of all commands, and the memory that they name."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.decorators import FC

from graphmem.cli.printing import print_json, print_lines, print_table

if TYPE_CHECKING:
    from pydantic import BaseModel

    from graphmem.config import Settings
    from graphmem.memory import Memory


Row = TypeVar("Row", bound="BaseModel | Mapping[str, Any]")
NAMES = 20
"""Most namespaces in the error for one that does not exist."""


class Group(click.Group):
    """Commands, each with the first sentence of its help as a whole, however narrow the screen."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help if nothing is given, as wrong usage but not as the text of an error."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def sections(self) -> Mapping[str, Sequence[str]]:
        """Return the names of the commands by the title that they stand under."""
        return {"Commands": sorted(self.commands)}

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        for title, names in self.sections().items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name, self.commands[name].get_short_help_str(1_000)) for name in names]
                )


as_agent = click.option("--agent", help="Act as this agent; default: anybody.")


def at_most(default: int, limit: int | None = None) -> Callable[[FC], FC]:
    """Return the option that says how many are shown."""
    kind = click.IntRange(1, limit)
    what = "Show this many at most."
    return click.option("--limit", type=kind, default=default, show_default=True, help=what)


def by_tags(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command three options of tags; it gets them as ``tags``, a Tags or None."""

    @functools.wraps(command)
    def tagged(
        *args: Any,
        any_of: tuple[str, ...],
        all_of: tuple[str, ...],
        none_of: tuple[str, ...],
        **named: Any,
    ) -> None:
        from graphmem.models import Tags

        given = any_of or all_of or none_of
        tags = Tags(any_of=any_of, all_of=all_of, none_of=none_of) if given else None
        command(*args, tags=tags, **named)

    for option in (
        click.option("--none-of", multiple=True, metavar="TAG", help="None of these tags."),
        click.option("--all-of", multiple=True, metavar="TAG", help="All of these tags."),
        click.option(
            "--tag", "any_of", multiple=True, help="At least one of these tags; can be repeated."
        ),
    ):
        tagged = option(tagged)
    return tagged


@dataclass
class Options:
    """The options of all commands."""

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
            NotFoundError: there is none, and ``must_exist``.
        """
        from graphmem.config import DEFAULT_NAMESPACE
        from graphmem.errors import NotFoundError
        from graphmem.memory import Memory

        if self._memory is None:
            settings = self.settings()
            # CLI queries do not count as agent reads, and need not write.
            quiet = settings.model_copy(update={"count_reads": False})
            memory = Memory.open(settings.url, namespace=settings.namespace, settings=quiet)
            if must_exist and not memory.store.exists():
                memory.close()
                raise NotFoundError(
                    f"no memory at {memory.store.url}; create one with `graphmem init` or "
                    "`graphmem seed`, or name another with --url"
                )
            if must_exist and settings.namespace != DEFAULT_NAMESPACE:
                _check_namespace(memory)
            self._memory = memory
        return self._memory

    def keep(self, memory: Memory) -> None:
        """Close this memory at the end, too."""
        self._memory = memory

    def close(self) -> None:
        """Close the memory, if a command opened it."""
        if self._memory is not None:
            memory, self._memory = self._memory, None
            memory.close()

    def note_snapshot(self) -> None:
        """Tell on stderr that the result may be older than what a writer has."""
        age = self._memory.store.snapshot_age if self._memory else None
        if age is not None:
            click.echo(f"(a snapshot, {age:.1f} s old: another process may be writing)", err=True)

    def show(
        self, data: BaseModel | Sequence[BaseModel | Mapping[str, Any]], table: Callable[[], None]
    ) -> None:
        """Print ``data`` as JSON if that was asked for, else call ``table``."""
        if self.as_json:
            print_json(data)
        else:
            table()
        self.note_snapshot()

    def show_rows(
        self,
        rows: Sequence[Row],
        columns: Sequence[tuple[str, str]],
        cells: Callable[[Row], Sequence[Any]],
        nothing: str,
    ) -> None:
        """Print rows as a table (``nothing`` if there are none), or as JSON."""

        def table() -> None:
            if rows:
                print_table(None, columns, map(cells, rows))
            else:
                print_lines(nothing, 0)

        self.show(rows, table)


def _check_namespace(memory: Memory) -> None:
    """Close the memory and raise if its namespace is empty, and others are not."""
    from graphmem.errors import NotFoundError

    try:
        names = sorted({row["namespace"] for row in memory.query("maintenance.inhabited")})
    except BaseException:
        memory.close()
        raise
    if names and memory.namespace not in names:
        memory.close()
        shown = ", ".join(names[:NAMES]) + (" ..." if len(names) > NAMES else "")
        raise NotFoundError(f"no namespace {memory.namespace!r} in this memory; there are: {shown}")


def moment(_: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    """Return the datetime of an option, as a callback of click."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not an ISO 8601 date and time") from error
    if moment.tzinfo is None:
        raise click.BadParameter(f"{value!r} has no time zone; add Z or an offset like +01:00")
    del parameter
    return moment


def json_object(_: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Return the JSON object of an option, or the list of objects of a repeatable one."""
    if isinstance(value, tuple):
        return [json_object(_, parameter, text) for text in value]
    if value is None:
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{value!r} is not JSON ({error})") from error
    if not isinstance(parsed, dict):
        raise click.BadParameter(f"{value!r} is not a JSON object, such as '{{\"seconds\": 30}}'")
    return parsed
