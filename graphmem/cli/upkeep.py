"""Commands that check, mend and remove: verify, rebuild, erase, forget, doctor, config."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, cell, listed, print_json, print_table, progress

if TYPE_CHECKING:
    from graphmem.config import Settings
    from graphmem.models import EraseReport


@click.command()
@click.pass_obj
def verify(context: Context) -> None:
    """Recompute every derived number from the facts and compare; exit with 1 on a difference.

    \b
    Example:
      graphmem --url ./airline.graph verify
    """
    with progress("verifying", context) as advance:
        report = context.memory().verify(on_progress=advance)

    def table() -> None:
        counts = listed(report.checked)
        if report.ok:
            click.echo(f"all numbers follow from the facts ({counts})")
            return
        print_table(
            f"{len(report.differences):,} differences; `graphmem rebuild` derives all anew",
            [(name, "left") for name in ("kind", "key", "field", "stored", "expected")],
            [
                (item.kind, item.key, item.field, item.stored, item.expected)
                for item in report.differences[:50]
            ],
        )

    context.show(report, table)
    if not report.ok:
        sys.exit(1)


@click.command()
@click.pass_obj
def rebuild(context: Context) -> None:
    """Derive every number anew from the facts, with the settings in force now.

    \b
    Example:
      graphmem --url ./airline.graph rebuild
    """
    with progress("rebuilding", context) as advance:
        report = context.memory().upkeep.rebuild(on_progress=advance)
    context.show(
        report,
        lambda: click.echo(
            f"{report.strategies:,} strategies, {report.outcomes:,} outcome edges, "
            f"{report.co_occurrences:,} co-occurrences, {report.tasks:,} tasks and "
            f"{report.agents:,} agents derived anew; {report.removed:,} without evidence removed"
        ),
    )


@click.command()
@click.argument("episode_ids", nargs=-1, metavar="[EPISODE]...")
@click.option("--agent", help="Everything of this agent instead.")
@click.option("--user", help="Everything of this user instead.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def erase(
    context: Context, episode_ids: tuple[str, ...], agent: str | None, user: str | None, yes: bool
) -> None:
    """Remove EPISODEs (by id), an agent or a user, and their exact share of every number.

    \b
    Examples:
      graphmem --url ./airline.graph erase 8005dd1d95cda4a638a0a9011c2bd1d5 --yes
      graphmem --url ./airline.graph erase --user ann
    """
    if sum((bool(episode_ids), agent is not None, user is not None)) != 1:
        raise click.UsageError("give the ids of EPISODEs, --agent NAME or --user NAME")
    what = f"{len(episode_ids)} episode(s)"
    if not episode_ids:
        what = f"all of agent {agent!r}" if user is None else f"all of user {user!r}"
    if not yes:
        _ask(context, "erasing", lambda: f"Erase {what} for good?")
    memory = context.memory()
    if episode_ids:
        reports = [memory.upkeep.erase(episode_id) for episode_id in episode_ids]
    else:
        reports = [memory.upkeep.erase(agent=agent, user=user)]

    def table() -> None:
        for report in reports:
            click.echo(_erased(report))
            _say_what_is_left(report.compacted, asked=report.episode_id is None)

    context.show(reports, table)


def _erased(report: EraseReport) -> str:
    if report.user is not None:
        return (
            f"erased user {cell(report.user, 60)} with {report.preferences:,} preference(s) and "
            f"{report.knowledge:,} fact(s) that nobody else stated"
        )
    gone = f", and {len(report.removed):,} node(s) that nothing else supported"
    gone = gone if report.removed else ""
    if report.agent is None:
        return f"erased {report.episode_id} with {report.steps} step(s){gone}"
    return (
        f"erased agent {cell(report.agent, 60)} with {report.episodes:,} episode(s), "
        f"{report.steps:,} step(s) and {report.predictions:,} prediction(s){gone}"
    )


def _say_what_is_left(compacted: bool, *, asked: bool) -> None:
    """Tell whether anything is left on disk, where that was asked for."""
    if compacted:
        click.echo("the files were written anew; nothing of it is left in them")
    elif asked:
        click.echo("the server may keep removed records in its files for a while")


def _or_any(_: click.Context, parameter: click.Parameter, value: str) -> float | None:
    """Return the number of an option, or None for "any", as a callback of click."""
    del parameter
    if value == "any":
        return None
    try:
        return float(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is neither a number nor 'any'") from error


@click.command()
@click.option(
    "--older-than",
    callback=_or_any,
    default="90",
    show_default=True,
    metavar="DAYS",
    help="Episodes that ended (else started, else were recorded) so long ago, or 'any'.",
)
@click.option(
    "--below-confidence",
    callback=_or_any,
    default="0.3",
    show_default=True,
    metavar="NUMBER",
    help="None of their strategies has so high a confidence, from 0 to 1, or 'any'.",
)
@click.option("--agent", help="Only episodes of this agent.")
@click.option("--dry-run", is_flag=True, help="Tell what would go; change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def forget(context: Context, /, dry_run: bool, yes: bool, **asked: Any) -> None:
    """Erase episodes that are old and taught nothing that is believed.

    \b
    Examples:
      graphmem --url ./airline.graph forget --older-than 30 --dry-run
      graphmem --url ./airline.graph forget --agent ada --below-confidence any --yes
    """
    upkeep = context.memory().upkeep
    if not dry_run and not yes:
        # Counted only where there is somebody to read it.
        _ask(
            context,
            "forgetting",
            lambda: (
                f"Forget {upkeep.forget(**asked, dry_run=True).episodes:,} episode(s) for good?"
            ),
        )
    report = upkeep.forget(**asked, dry_run=dry_run)

    def table() -> None:
        would = "would forget" if report.dry_run else "forgot"
        since = "" if report.before is None else f" from before {cell(report.before)} UTC"
        click.echo(f"{would} {report.episodes:,} episode(s) with {report.steps:,} step(s){since}")
        if report.removed:
            click.echo(f"and what nothing else supported: {listed(report.removed)}")
        if not report.dry_run and report.episodes:
            _say_what_is_left(report.compacted, asked=True)

    context.show(report, table)


def _ask(context: Context, what: str, question: Callable[[], str]) -> None:
    """Ask before what cannot be undone; where nobody can answer, --yes is needed."""
    if context.as_json or not sys.stdin.isatty():
        raise click.UsageError(f"{what} cannot be undone; confirm with --yes")
    click.confirm(question(), abort=True)


@click.command()
@click.pass_obj
def doctor(context: Context) -> None:
    """Check engine, versions, schema and indexes, and say how to mend what is wrong.

    \b
    Example:
      graphmem --url ./airline.graph doctor
    """
    from graphmem.cli.diagnosis import examine

    findings = examine(context)
    if context.as_json:
        print_json(findings)
    else:
        print_table(
            None,
            [("check", "left"), ("", "left"), ("found", "left"), ("remedy", "left")],
            [(f.check, "ok" if f.ok else "WRONG", f.found, f.remedy) for f in findings],
        )
    context.note_snapshot()
    if not all(finding.ok for finding in findings):
        sys.exit(1)


@click.command()
@click.pass_obj
def config(context: Context) -> None:
    """Show every setting, its value, and where it came from.

    \b
    Example:
      GRAPHMEM_Z=1.64 graphmem config
    """
    settings = context.settings()
    rows = list(_settings(context, settings))
    if context.as_json:
        print_json(rows)
    else:
        print_table(
            None,
            [(name, "left") for name in ("setting", "value", "from", "what")],
            [(row["setting"], str(row["value"]), row["from"], row["what"]) for row in rows],
        )


def _settings(context: Context, settings: Settings) -> Iterator[dict[str, Any]]:
    from graphmem.config import default_folder

    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if name == "password" and value is not None:
            value = "********"
        if name == "url" and value is None:
            value = str(default_folder())
        if getattr(context, name, None) is not None:
            source = f"--{name}"
        elif name in settings.model_fields_set:
            source = "environment"
        else:
            source = "default"
        yield {
            "setting": f"GRAPHMEM_{name.upper()}",
            "value": value,
            "from": source,
            "what": field.description,
        }
