"""The command group, the options of all commands, the memory that they name, and errors."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import import_module
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.decorators import FC

from graphmem import __version__, errors
from graphmem.cli.printing import TEXT, print_answer, print_json, print_rows
from graphmem.printable import guarded, without_passwords

if TYPE_CHECKING:
    from graphmem.config import Settings
    from graphmem.memory import Memory

_EXAMPLE = "\n\n\b\nExample"
NAMESPACES = 20  # most namespaces in the error for one that does not exist
NO_TASK = (
    "nothing is known of this task: --task takes a key or the whole wording, as `graphmem list "
    "tasks` shows them; `graphmem recall` finds tasks that are like a text"
)
_NOW = {
    "strategies": "list strategies",
    "evidence": "explain STRATEGY` or `graphmem list episodes --strategy STRATEGY",
    "stats": "list",
    **{name: f"upkeep {name}" for name in ("verify", "rebuild")},
    "erase": "upkeep erase ID",
    "formats": "doctor formats",
    "config": "doctor settings",
    "procedures show": "procedures list NAME",
    **{
        f"policies {name}": f"memory.predictions.{name}"
        for name in ("expect", "resolve", "expire", "reliability")
    },
    "policies update": "memory.policies.update",
    "events consume": "memory.events.listen",
    **{f"levels {name}": f"memory.levels.{name}" for name in ("put", "remove", "pull")},
    "levels lens": "memory.levels.put_lens",
}
"""Former names of commands, and what to type now, or to call in Python."""

F = TypeVar("F", bound=Callable[..., object])


class Command(click.Command):
    """A command; its function gets the options of all commands first."""

    def __init__(self, name: str | None, callback: Callable[..., object], **given: Any) -> None:
        super().__init__(name, callback=click.pass_obj(callback), **given)


class Group(click.Group):
    """Commands, each with the first sentence of its help as a whole, however narrow the screen."""

    command_class = Command
    sections: Mapping[str, Sequence[str]] | None = None
    """The names of the commands by the title that they stand under."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a former name say what to type now."""
        if args and args[0] not in self.commands:
            words = [*ctx.command_path.split()[1:], *args]
            for old in (" ".join(words[:2]), words[0]):
                if old in _NOW:
                    now = _NOW[old]
                    now = f"`{now}` in Python" if "memory." in now else f"`graphmem {now}`"
                    raise click.UsageError(f"`graphmem {old}` is now {now}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        for title, names in (self.sections or {"Commands": sorted(self.commands)}).items():
            with formatter.section(title):
                texts = [self.commands[name].get_short_help_str(1_000) for name in names]
                formatter.write_dl(list(zip(names, texts, strict=True)))


as_agent = click.option("--agent", help="Act as this agent; default: anybody.")
with_yes = click.option("--yes", is_flag=True, help="Do not ask.")


def example(line: str) -> Callable[[F], F]:
    """Add an example to the help of a command."""

    def add(command: F) -> F:
        text, _, others = cleandoc(command.__doc__ or "").partition(_EXAMPLE)
        title = f"{_EXAMPLE}s:" if others else f"{_EXAMPLE}:"
        command.__doc__ = f"{text}{title}\n  graphmem {line}{others.partition(':')[2]}"
        return command

    return add


def at_most(default: int) -> Callable[[FC], FC]:
    """Return the option that says how many are shown."""
    what = "Show this many at most."
    return click.option("--limit", type=click.IntRange(1), default=default, help=what)


def several(*names: str, **given: Any) -> Callable[[FC], FC]:
    """Return an option that can be repeated, and says so."""
    given["help"] += " Can be repeated."
    return click.option(*names, multiple=True, **given)


def moment(name: str, what: str) -> Callable[[FC], FC]:
    """Return the option for a time."""
    what = f"{what}: ISO 8601 with time zone."
    return click.option(name, type=_parse_moment, metavar="TIME", help=what)


def _parse_moment(text: str) -> datetime:
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not an ISO 8601 date and time") from None
    if parsed.tzinfo is None:
        raise click.BadParameter(f"{text!r} has no time zone; add Z or an offset like +01:00")
    return parsed


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

    def memory(self, *, must_exist: bool = True, **changes: Any) -> Memory:
        """Open the memory that the options name, with changes of its settings."""
        from graphmem.config import DEFAULT_NAMESPACE
        from graphmem.memory import Memory

        if self._memory is not None:
            return self._memory
        # What people ask is not counted as reads of agents, and need not write.
        settings = self.settings().model_copy(update={"count_reads": False, **changes})
        self._memory = Memory.open(settings.url, namespace=settings.namespace, settings=settings)
        if must_exist and not self._memory.store.exists():
            raise errors.NotFoundError(
                f"no memory at {self._memory.store.url}; create one with `graphmem init` or "
                "`graphmem seed`, or name another with --url"
            )
        if must_exist and settings.namespace != DEFAULT_NAMESPACE:
            rows = self._memory.query("maintenance.inhabited")
            names = sorted({row["namespace"] for row in rows})
            if names and settings.namespace not in names:
                shown = ", ".join(names[:NAMESPACES]) + (" ..." if names[NAMESPACES:] else "")
                raise errors.NotFoundError(
                    f"no namespace {settings.namespace!r} in this memory; there are: {shown}"
                )
        return self._memory

    def close(self) -> None:
        """Close the memory, if a command opened it."""
        if self._memory is not None:
            self._memory.close()

    def note_snapshot(self) -> None:
        """Tell on stderr that the result may be older than what a writer has."""
        age = self._memory.store.snapshot_age if self._memory else None
        if age is not None:
            click.echo(f"(a snapshot, {age:.1f} s old: another process may be writing)", err=True)

    def show(self, data: Any, text: str | Callable[[Any], object] = print_answer) -> None:
        """Print ``data`` as JSON if that was asked for, else a text, or by a function of it."""
        if self.as_json:
            print_json(data)
        elif isinstance(text, str):
            click.echo(text)
        else:
            text(data)
        self.note_snapshot()

    def show_rows(
        self,
        rows: Sequence[Any],
        columns: str,
        nothing: str = "",
        limit: int = TEXT,
        /,
        **cells: Callable[[Any], Any],
    ) -> None:
        """Print rows as a table (``nothing`` if there are none), or as JSON; see ``print_rows``."""
        self.show(rows, (lambda _: print_rows(rows, columns, limit, **cells)) if rows else nothing)

    def confirm(self, question: Callable[[], str], *, yes: bool) -> None:
        """Ask before a change; if nobody can answer, --yes is needed."""
        if yes:
            return
        if self.as_json or not sys.stdin.isatty():
            raise click.UsageError("nobody can be asked here; confirm with --yes")
        click.confirm(question(), abort=True)


_SECTIONS = {
    "On a first day": (
        *("demo", "seed", "learn", "settle", "choose", "context", "recall", "predict", "explain"),
        *("list", "ui"),
    ),
    "More to ask": ("changes", "report", "query", "calibrate", "evaluate"),
    "Parts of a memory": ("lessons", "policies", "people", "levels", "events", "upkeep", "skills"),
    "Setting up": ("init", "doctor", "mcp", "hooks", "procedures"),
}
"""What the help lists, in order."""
_MODULES = {
    **dict.fromkeys(("choose", "context", "recall", "predict", "changes", "explain"), "asking"),
    **dict.fromkeys(("calibrate", "evaluate"), "asking"),
    **dict.fromkeys(("lessons", "list", "people", "report", "skills"), "parts"),
    **dict.fromkeys(("demo", "init", "learn", "seed", "settle"), "learning"),
    **dict.fromkeys(("procedures", "query"), "cypher"),
    **dict.fromkeys(("ui", "mcp", "hooks"), "serving"),
    "doctor": "upkeep",
    "events": "policies",
}
"""The modules of commands that share one; the others are in the module of their name."""
_COMMANDS = tuple(name for names in _SECTIONS.values() for name in names)
_HOOK = ["hooks", "run", "claude-code"]
"""A failure here must not stop the session of an agent: an exit code of 2 refuses its prompt."""

_GENERAL: dict[tuple[str, ...], dict[str, Any]] = {
    ("--url",): {
        "metavar": "URL",
        "help": "A folder, memory:, neo4j://host:7687 or bolt://host:7687 "
        "[GRAPHMEM_URL; default: a folder in your data directory].",
    },
    ("--namespace",): {"metavar": "NAME", "help": "Namespace [GRAPHMEM_NAMESPACE; default]."},
    ("--json", "as_json"): {"is_flag": True, "help": "Print JSON instead of tables."},
    ("--wait",): {
        "type": float,
        "metavar": "SECONDS",
        "help": "Wait for another writer [GRAPHMEM_WAIT; 5].",
    },
    ("--debug",): {"is_flag": True, "help": "Show the traceback of an error."},
}
"""Options of all commands; they stand before or after a command."""


def _set(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if value not in (None, False):
        setattr(ctx.find_object(Options), option.name or "", value)


def _add_general(command: click.Command) -> None:
    command.params += [
        click.Option(names, **given, callback=_set, expose_value=False, hidden=True)
        for names, given in _GENERAL.items()
    ]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_general(inner)


@cache
def _load(name: str) -> click.Command:
    if name not in _COMMANDS:
        raise KeyError(name)
    module = import_module(f"graphmem.cli.{_MODULES.get(name, name)}")
    command: click.Command = vars(module).get(name) or vars(module)[f"{name}_"]
    _add_general(command)
    return command


class _Commands(Mapping[str, click.Command]):
    """The commands by name; to import all of them would take longer than most of them run."""

    def __getitem__(self, name: str) -> click.Command:
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


@click.group(
    cls=Group,
    commands=_Commands(),
    params=[click.Option(names, **given) for names, given in _GENERAL.items()],
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
    epilog="These options stand before a command or after it: graphmem list --json",
)
@click.version_option(__version__, prog_name="graphmem")
@click.pass_context
def cli(ctx: click.Context, /, **general: Any) -> None:
    """A memory of what works: learn from agents' logs, ask what to do, see why.

    \b
    Example:
      graphmem --url ./airline.graph seed logs/gpt-4o-airline.json
      graphmem --url ./airline.graph list strategies --task airline/12
    """
    ctx.obj = Options(**general)
    ctx.call_on_close(ctx.obj.close)


cli.sections = _SECTIONS


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit with 2 for wrong usage, 1 for a failure."""
    # By default the garbage collector runs so often that it takes a tenth of a command's time.
    gc.set_threshold(100_000)
    arguments = sys.argv[1:] if arguments is None else arguments
    sys.stdout, sys.stderr = guarded(sys.stdout), guarded(sys.stderr)
    try:
        code = cli.main(arguments, prog_name="graphmem", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        code = 130
    except click.ClickException as error:
        code = error.exit_code
        text = without_passwords(error.format_message())
        if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the help
            click.echo(text, err=True)
        elif isinstance(error, click.UsageError):  # a list of choices has tabs
            click.UsageError(text.expandtabs(2), error.ctx).show()
        else:
            click.ClickException(text).show()
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    except (errors.GraphMemError, ImportError, OSError, MemoryError, RecursionError) as error:
        text = f"Error: {str(error) or type(error).__name__}"
        if "--debug" in arguments:
            text = "".join(traceback.format_exception(error)).rstrip("\n")
        click.echo(without_passwords(text), err=True)
        usage = errors.ValidationError | errors.SettingsError | errors.NotFoundError
        code = 2 if isinstance(error, usage | errors.ProcedureError) else 1
    if any(arguments[at : at + 3] == _HOOK for at in range(len(arguments))):
        code = 0
    sys.exit(code if isinstance(code, int) else 0)
