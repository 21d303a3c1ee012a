"""Serve the memory to browsers and to agents: ui, mcp, hooks."""

from __future__ import annotations

import functools
import json
import logging
import os
import shlex
import shutil
import sys
import webbrowser
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.main import Command, Group, Options, example, with_yes
from graphmem.cli.printing import print_json
from graphmem.integrations import extra

if TYPE_CHECKING:
    from graphmem.memory import Memory


@click.command(cls=Command)
@example("--url ./airline.graph ui")
@example("--url ./airline.graph ui --port 8766 --no-open")
@click.option("--host", default="127.0.0.1", help="Where it listens.")
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="0 is any free port.")
@click.option("--no-open", is_flag=True, help="Only print the address; open no browser.")
@click.option("--write", is_flag=True, help="Also offer what changes the memory.")
@click.option("--anyone", is_flag=True, help="Allow a HOST that other machines can reach.")
def ui(options: Options, host: str, port: int, no_open: bool, write: bool, anyone: bool) -> None:
    """Show the memory on a page in a browser.

    The page shows what works, why, and what is around it. It is for this machine alone; its
    address has a token that is new each time. It runs until Ctrl-C.
    """
    with extra("ui"):
        from graphmem.view.page import serve

    def announce(address: str) -> None:
        click.echo(f"the page is at {address}")
        click.echo("Ctrl-C ends it", err=True)
        if not no_open:
            webbrowser.open(address)

    serve(options.memory(), host, port, announce, write=write, anyone=anyone)


@click.command(cls=Command)
@example("--url ./runs.graph mcp")
@example("--url ./runs.graph mcp --agent ada --read-only")
@example("--url ./runs.graph mcp --http 127.0.0.1:8765 --token-file token.txt")
@click.option("--http", metavar="HOST:PORT", help="Serve over HTTP, at http://HOST:PORT/mcp.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="Requests bring the token in it."
)
@click.option("--agent", help="Speak for this agent alone, with its access rights.")
@click.option("--read-only", is_flag=True, help="Offer no tool that writes.")
@click.option("--admin", is_flag=True, help="Also offer the tool that erases.")
@click.option("--levels", is_flag=True, help="Also offer tools for levels.")
def mcp(options: Options, /, http: str | None, token_file: Path | None, **access: Any) -> None:
    """Serve the memory to agents by the Model Context Protocol.

    An agent starts this command itself; docs/how-to/mcp.md shows its settings. The first tool that
    needs the memory opens it.
    """
    if token_file is not None and http is None:
        raise click.UsageError("--token-file is for --http; standard input needs no token")
    with extra("mcp"):
        from graphmem.integrations.mcp.server import build, over_http, over_stdio
        from graphmem.integrations.mcp.tools import Access
    from graphmem.memory import Memory

    # What fails is said in a line, and its traceback where that was asked for.
    log = logging.StreamHandler()
    log.setFormatter(logging.Formatter("graphmem mcp: %(message)s"))
    if not options.debug:
        log.addFilter(_shorten)
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    settings = options.settings()
    server = build(
        lambda: Memory.open(settings.url, namespace=settings.namespace, settings=settings),
        Access(**access),
    )
    if http is None:
        over_stdio(server)
    else:
        over_http(server, http, token_file, lambda url: click.echo(f"serving at {url}", err=True))


def _shorten(record: logging.LogRecord) -> bool:
    """Say an error in its line, instead of the traceback below."""
    if record.exc_info and (error := record.exc_info[1]):
        record.msg, record.args = f"{record.getMessage()} ({type(error).__name__}: {error})", ()
    record.exc_info = record.exc_text = None
    return True


LONGEST = 50_000_000  # most bytes of a hook's input
PATIENCE = 2.0  # most seconds that a prompt waits for another writer, or for a server

for_program = click.argument("program", type=click.Choice(["claude-code"]), expose_value=False)


def _with(*options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return lambda command: functools.reduce(lambda inner, option: option(inner), options, command)


with_terms = _with(
    click.option("--max-tokens", type=click.IntRange(1), default=400, help="Tokens of a context."),
    click.option("--agent", help="Learn and read as this agent [claude-code; reads all]."),
    click.option("--strategy-from", default="tools", help="tools, model, agent, or a field."),
    click.option("--test-command", help="The outcome is how the last run of this command ended."),
    click.option("--outcome", metavar="MODULE:FUNCTION", help="It says the outcome of a run."),
)
"""What hooks learn and give."""
with_place = _with(
    click.option("--dry-run", is_flag=True, help="Show the change; make none."),
    with_yes,
    click.option("--local", is_flag=True, help="In .claude/settings.local.json: yours alone."),
    click.option("--user", is_flag=True, help="In your own settings: for all projects."),
)
"""Which file of settings is changed, and how."""


@click.group(cls=Group)
def hooks() -> None:
    """Let programs that run agents ask the memory, and learn."""


@hooks.command()
@example("hooks install claude-code --test-command pytest")
@example("--url ./runs.graph hooks install claude-code --local --yes")
@for_program
@with_terms
@with_place
def install(
    options: Options, /, user: bool, local: bool, yes: bool, dry_run: bool, **terms: Any
) -> None:
    """Write the hooks into the settings of PROGRAM.

    By default these are the settings of the project here.

    It shows the change first. Each prompt then gets its context, and the memory learns each session
    at its end.
    """
    from graphmem.integrations import claude_code

    _check_terms(terms)
    words = [
        word
        for name, value in sorted(terms.items())
        if value != getattr(claude_code.Terms, name)
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    command = shlex.join([*_program(options, shared=not (user or local)), *words])
    _change(options, _file(user, local), command, yes=yes, dry_run=dry_run)


@hooks.command()
@example("hooks uninstall claude-code")
@for_program
@with_place
def uninstall(options: Options, user: bool, local: bool, yes: bool, dry_run: bool) -> None:
    """Take the hooks out of the settings of PROGRAM. Nothing else changes."""
    _change(options, _file(user, local), None, yes=yes, dry_run=dry_run)


@hooks.command()
@example("--url ./runs.graph hooks run claude-code < hook.json")
@for_program
@with_terms
def run(options: Options, /, **terms: Any) -> None:
    """Answer a hook of PROGRAM, read from standard input.

    This is what the installed hooks run. It never fails: a problem is a line on standard error.
    """
    try:
        given = json.loads(sys.stdin.buffer.read(LONGEST))
        if not isinstance(given, dict):
            raise TypeError("the input of a hook is a JSON object")
        folder = os.environ.get("CLAUDE_PROJECT_DIR") or given.get("cwd")
        if isinstance(folder, str) and Path(folder).is_dir():
            os.chdir(folder)  # folders and the file of settings are relative to it
        from graphmem.integrations.claude_code import Learning, Terms, answer

        answered = answer(given, Terms(**terms), lambda asking: _open(options, asking=asking))
        if isinstance(answered, Learning):
            click.echo(str(answered))
            for problem in answered.problems:
                click.echo(f"graphmem: {problem}", err=True)
        elif answered is not None:
            click.echo(json.dumps(answered))
    except Exception as error:  # noqa: BLE001 - a session goes on, whatever happens here
        click.echo(f"graphmem: {str(error) or type(error).__name__}", err=True)


def _open(options: Options, *, asking: bool) -> Memory | None:
    """Open the memory; for a prompt wait only briefly, and return None if there is none."""
    if not asking:
        return options.memory(must_exist=False)
    from graphmem.config import default_folder
    from graphmem.search.embedding import minilm
    from graphmem.store import expanded

    settings = options.settings()
    place = expanded(settings.url or str(default_folder()))
    if ":" not in place and not Path(place).exists():
        return None  # this costs less than to import what opens it
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # to start its threads takes time
    if settings.embedder == minilm.MiniLM.name:
        minilm.load_beside(lambda: True)  # beside the imports: a fifth less to wait
    wait = PATIENCE if settings.wait is None else min(PATIENCE, settings.wait)
    memory = options.memory(must_exist=False, wait=wait)
    return memory if memory.store.exists() else None


def _check_terms(terms: dict[str, Any]) -> None:
    from graphmem.integrations.outcomes import judge_of

    if terms["outcome"] and terms["test_command"]:
        raise click.UsageError("give --outcome or --test-command, not both")
    judge_of(terms["outcome"])
    if terms["test_command"] is not None:
        try:
            words = shlex.split(terms["test_command"])
        except ValueError as error:
            raise click.UsageError(f"--test-command: {error}") from None
        if not words:
            raise click.UsageError("--test-command is empty")


def _program(options: Options, *, shared: bool) -> list[str]:
    """Return the beginning of the command that hooks run; what others share has no own paths."""
    from graphmem.printable import without_password

    url = options.settings().url
    if options.url is not None and without_password(options.url) != options.url:
        raise click.UsageError(
            "the url has a password, which must not stand in a file: set GRAPHMEM_USER and "
            "GRAPHMEM_PASSWORD"
        )
    if url == "memory:":
        raise click.UsageError("memory: forgets all at the end of each hook; name a folder")
    words = ["graphmem"]
    if not shared:
        installed = shutil.which("graphmem")
        words = [installed] if installed else [sys.executable, "-m", "graphmem"]
    if options.url is not None:
        is_own = ":" not in options.url and not shared
        words += ["--url", str(Path(options.url).absolute()) if is_own else options.url]
    if options.namespace is not None:
        words += ["--namespace", options.namespace]
    return [*words, "hooks", "run", "claude-code"]


def _file(user: bool, local: bool) -> Path:
    if user and local:
        raise click.UsageError("give --user or --local, not both")
    if user:
        own = os.environ.get("CLAUDE_CONFIG_DIR")
        return (Path(own) if own else Path.home() / ".claude") / "settings.json"
    return Path.cwd() / ".claude" / ("settings.local.json" if local else "settings.json")


def _change(options: Options, path: Path, command: str | None, *, yes: bool, dry_run: bool) -> None:
    from graphmem.integrations import claude_code

    before, after = claude_code.with_hooks(path, command)
    name, lines = str(path), (before or "").splitlines()
    diff = "\n".join(unified_diff(lines, after.splitlines(), name, name, lineterm=""))
    if not options.as_json:
        click.echo(diff or f"{name} stays as it is")
    done = bool(diff) and not dry_run
    if done:
        options.confirm(lambda: f"Change {name}?", yes=yes)
        claude_code.write(path, before, after)
    if options.as_json:
        print_json({"file": name, "changed": done, "diff": diff})
    elif done:
        click.echo(f"{name} is written")
