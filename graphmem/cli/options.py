"""The options of all commands, and the memory that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.decorators import FC

from graphmem.cli.printing import print_json, print_lines, print_rows

if TYPE_CHECKING:
    from graphmem.config import Settings
    from graphmem.memory import Memory

NAMESPACES = 20
"""Most namespaces in the error for one that does not exist."""


class Group(click.Group):
    """Commands, each with the first sentence of its help as a whole, however narrow the screen."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Print the help if nothing is given, as wrong usage but not as the text of an error."""
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name of an earlier version say what to type now."""
        if args and args[0] not in self.commands:
            from graphmem.cli.renamed import find_new_name

            path = [*ctx.command_path.split()[1:], *args]
            if (renamed := find_new_name(path)) is not None:
                raise click.UsageError(renamed, ctx)
        return super().resolve_command(ctx, args)

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
with_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def at_most(default: int) -> Callable[[FC], FC]:
    """Return the option that says how many are shown."""
    kind = click.IntRange(1)
    what = "Show this many at most."
    return click.option("--limit", type=kind, default=default, show_default=True, help=what)


def several(*names: str, **given: Any) -> Callable[[FC], FC]:
    """Return an option that can be repeated, and says so."""
    given["help"] += " Can be repeated."
    return click.option(*names, multiple=True, **given)


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

    def show(self, data: Any, text: str | Callable[[], None]) -> None:
        """Print ``data`` as JSON if that was asked for, else ``text``, or call it to print."""
        if self.as_json:
            print_json(data)
        elif isinstance(text, str):
            print_lines(text, 0)
        else:
            text()
        self.note_snapshot()

    def show_rows(
        self,
        rows: Sequence[Any],
        columns: str,
        nothing: str,
        **cells: Callable[[Any], Any],
    ) -> None:
        """Print rows as a table (``nothing`` if there are none), or as JSON; see ``print_rows``."""
        if rows:
            self.show(rows, lambda: print_rows(rows, columns, **cells))
        else:
            self.show(rows, nothing)

    def confirm(self, question: Callable[[], str], *, yes: bool) -> None:
        """Ask before what cannot be undone; if nobody can answer, --yes is needed."""
        import sys

        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise click.UsageError("this cannot be undone; confirm with --yes")
        click.confirm(question(), abort=True)


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
        shown = ", ".join(names[:NAMESPACES]) + (" ..." if len(names) > NAMESPACES else "")
        raise NotFoundError(f"no namespace {memory.namespace!r} in this memory; there are: {shown}")


def refuse_missing(error: ModuleNotFoundError, what: str, extra: str) -> NoReturn:
    """Say which extra installs what ``what`` needs; a module of ours that is missing is a bug."""
    if error.name is None or error.name.startswith("graphmem"):
        raise error
    raise click.ClickException(
        f"{what} needs {error.name}, which is not installed; in a clone of graphmem: pip install "
        f"-e '.[{extra}]'"
    ) from error


class Moment(click.ParamType[datetime]):
    """A date and time with a time zone."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the datetime that a text names."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not an ISO 8601 date and time", param, ctx)
        if moment.tzinfo is None:
            self.fail(f"{value!r} has no time zone; add Z or an offset like +01:00", param, ctx)
        return moment


class Json(click.ParamType[Any]):
    """A value as JSON; NaN and Infinity, which Python accepts, are refused."""

    name = "json"

    def __init__(self, *, of_object: bool = False) -> None:
        self._of_object = of_object

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that a text says."""
        if not isinstance(value, str):
            return value
        try:
            parsed = parse_json(value)
        except (ValueError, RecursionError) as error:
            self.fail(f"{value!r:.200} is not JSON ({error})", param, ctx)
        if self._of_object and not isinstance(parsed, dict):
            self.fail(f"{value!r:.200} is not a JSON object, such as '{{\"a\": 30}}'", param, ctx)
        return parsed


MOMENT = Moment()
JSON = Json()
JSON_OBJECT = Json(of_object=True)


def parse_json(text: str) -> Any:
    """Parse JSON; raise a ValueError for NaN and Infinity, which Python accepts."""

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not a JSON number")

    return json.loads(text, parse_constant=refuse)
