"""Commands that check and mend: verify, rebuild, erase, doctor, config."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, listed, print_json, print_table, progress

if TYPE_CHECKING:
    from graphmem.config import Settings


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
        report = context.memory().rebuild(on_progress=advance)
    context.show(
        report,
        lambda: click.echo(
            f"{report.strategies:,} strategies, {report.outcomes:,} outcome edges, "
            f"{report.co_occurrences:,} co-occurrences, {report.tasks:,} tasks and "
            f"{report.agents:,} agents derived anew; {report.removed:,} without evidence removed"
        ),
    )


@click.command()
@click.argument("episode_ids", nargs=-1, required=True, metavar="EPISODE...")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def erase(context: Context, episode_ids: tuple[str, ...], yes: bool) -> None:
    """Remove EPISODEs (by id) and their exact share of every number.

    \b
    Example:
      graphmem --url ./airline.graph erase 8005dd1d95cda4a638a0a9011c2bd1d5 --yes
    """
    if not yes:
        if context.as_json or not sys.stdin.isatty():
            raise click.UsageError("erasing cannot be undone; confirm with --yes")
        click.confirm(f"Erase {len(episode_ids)} episode(s) for good?", abort=True)
    memory = context.memory()
    reports = [memory.erase(episode_id) for episode_id in episode_ids]

    def table() -> None:
        for report in reports:
            gone = f", and {len(report.removed)} node(s) that nothing else supported"
            click.echo(
                f"erased {report.episode_id} with {report.steps} step(s)"
                f"{gone if report.removed else ''}"
            )

    context.show(reports, table)


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
