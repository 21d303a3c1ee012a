"""The command group, its options, and what happens to errors."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from graphmem import __version__
from graphmem.cli.options import Group, Options
from graphmem.printable import guarded, without_passwords

_SECTIONS = {
    "On a first day": (
        *("demo", "seed", "learn", "choose", "context", "recall", "strategies", "explain"),
        *("stats", "verify"),
    ),
    "More to ask": (
        *("episodes", "tasks", "show", "evidence", "similar", "communities", "predict"),
        *("calibrate", "evaluate", "query", "ui"),
    ),
    "Parts of a memory": (
        *("lessons", "policies", "people", "levels", "scopes", "events", "predictions", "cycles"),
        *("maintain", "upkeep"),
    ),
    "Setting up": (
        *("init", "mcp", "hooks", "doctor", "backup", "restore", "config", "formats"),
        *("embedders", "procedures"),
    ),
}
"""What the help lists, in order; each is in the module of its name in :mod:`graphmem.cli`."""
_HOOK = ["hooks", "run", "claude-code"]
"""A failure here must not stop the session of an agent: an exit code of 2 refuses its prompt."""
_COMMANDS = tuple(name for names in _SECTIONS.values() for name in names)


_GENERAL: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (
        ("--url",),
        {
            "metavar": "URL",
            "help": "A folder, memory:, neo4j://host:7687 or bolt://host:7687 "
            "[GRAPHMEM_URL; default: a folder in your data directory].",
        },
    ),
    (
        ("--namespace",),
        {"metavar": "NAME", "help": "Namespace [GRAPHMEM_NAMESPACE; default]."},
    ),
    (
        ("--json", "as_json"),
        {"is_flag": True, "help": "Print JSON instead of tables."},
    ),
    (
        ("--wait",),
        {
            "type": float,
            "metavar": "SECONDS",
            "help": "Wait for another writer [GRAPHMEM_WAIT; 5].",
        },
    ),
    (("--debug",), {"is_flag": True, "help": "Show the traceback of an error."}),
)
"""Options of all commands; they stand before or after a command."""


def _set(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Set an option that stands after the command."""
    if value not in (None, False):
        setattr(ctx.find_object(Options), option.name or "", value)


def _add_general(command: click.Command) -> None:
    """Let a command and its subcommands take the general options, except names that it has."""
    taken = {name for option in command.params for name in option.opts}
    command.params += [
        click.Option(names, **given, callback=_set, expose_value=False, hidden=True)
        for names, given in _GENERAL
        if names[0] not in taken
    ]
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            _add_general(inner)


def _general(command: click.decorators.FC) -> click.decorators.FC:
    """Give the group the general options, which its help tells."""
    for names, given in reversed(_GENERAL):
        command = click.option(*names, **given)(command)
    return command


class _Commands(Mapping[str, click.Command]):
    """The commands by name; to import all of them would take longer than most of them run."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in _COMMANDS:
            raise KeyError(name)
        command: click.Command = getattr(import_module(f"graphmem.cli.{name}"), name)
        _add_general(command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Group(Group):
    """The commands, listed by section."""

    def sections(self) -> Mapping[str, Sequence[str]]:
        return _SECTIONS


@click.group(
    cls=_Group,
    commands=_Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="These options stand before a command or after it: graphmem stats --json",
)
@_general
@click.version_option(__version__, prog_name="graphmem")
@click.pass_context
def cli(
    ctx: click.Context,
    url: str | None,
    namespace: str | None,
    as_json: bool,
    wait: float | None,
    debug: bool,
) -> None:
    """A memory of what works: learn from agents' logs, ask what to do, see why.

    \b
    Example:
      graphmem --url ./airline.graph seed logs/gpt-4o-airline.json
      graphmem --url ./airline.graph strategies --task 12
    """
    ctx.obj = Options(url=url, namespace=namespace, as_json=as_json, wait=wait, debug=debug)
    ctx.call_on_close(ctx.obj.close)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit with 2 for wrong usage, 1 for a failure."""
    from graphmem.errors import (
        GraphMemError,
        NotFoundError,
        ProcedureError,
        SettingsError,
        ValidationError,
    )

    # By default the garbage collector runs so often that it takes a tenth of a command's time.
    gc.set_threshold(100_000)
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    sys.stdout, sys.stderr = guarded(sys.stdout), guarded(sys.stderr)
    try:
        code = cli.main(arguments, prog_name="graphmem", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("stopped", err=True)
        code = 130
    except click.ClickException as error:
        if isinstance(error, click.NoSuchOption) and error.possibilities:
            near = _near(error.option_name, error.possibilities)
            error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
        text = without_passwords(error.format_message())
        if isinstance(error, click.UsageError):  # a list of choices has tabs
            click.UsageError(text.expandtabs(2), error.ctx).show()
        else:
            click.ClickException(text).show()
        code = error.exit_code
    except GraphMemError as error:
        _tell(error, debug=debug)
        usage = ValidationError | SettingsError | NotFoundError | ProcedureError
        code = 2 if isinstance(error, usage) else 1
    except BrokenPipeError:
        sys.stderr.close()
        code = 1
    except (OSError, MemoryError, RecursionError) as error:
        _tell(error, debug=debug)
        code = 1
    if any(arguments[at : at + 3] == _HOOK for at in range(len(arguments))):
        code = 0
    sys.exit(code if isinstance(code, int) else 0)


def _near(name: str, names: Sequence[str]) -> list[str]:
    """Return the options that are like one; click counts their dashes as alike."""
    from difflib import get_close_matches

    bare = {known.lstrip("-"): known for known in names}
    return [bare[near] for near in get_close_matches(name.lstrip("-"), bare)]


def _tell(error: Exception, *, debug: bool) -> None:
    """Print an error; with ``debug`` its traceback."""
    if debug:
        import traceback

        text = "".join(traceback.format_exception(error)).rstrip("\n")
    else:
        text = f"Error: {str(error) or type(error).__name__}"
    click.echo(without_passwords(text), err=True)
