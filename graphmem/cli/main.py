"""The command group, its options, and what happens to errors."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import click

from graphmem import __version__, errors
from graphmem.cli.options import Group, Options
from graphmem.printable import guarded, without_passwords

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
