"""Commands for files of other projects, both ways: export and import."""

from __future__ import annotations

import sys
from typing import Any

import click

from graphmem.cli.context import Context, print_table

_FORMATS = click.Choice(["sentinel", "jsonl"])


@click.command()
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=_FORMATS,
    required=True,
    help="sentinel: a Sentinel memory; jsonl: graphmem's own JSON lines.",
)
@click.option(
    "--document",
    metavar="NAME",
    help="sentinel: only the imported file of this name [default: all episodes].",
)
@click.pass_obj
def export(context: Context, file: str, format_name: str, document: str | None) -> None:
    """Write all episodes to FILE, in place of what is there.

    \b
    Example:
      graphmem --url ./runs.graph export --format sentinel agent_memory.json
    """
    memory = context.memory()
    if format_name == "sentinel":
        report = memory.upkeep.export(file, "sentinel", document=document)
    elif document is not None:
        raise click.UsageError("--document is for --format sentinel")
    else:
        report = memory.upkeep.export(file, "jsonl")

    def table() -> None:
        click.echo(f"{report.episodes:,} episodes written to {file}")
        if report.derived:
            click.echo(f"derived from them: {', '.join(report.derived)}")
        if report.kept:
            click.echo(f"as they were imported: {', '.join(report.kept)}")

    context.show(report, table)


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "format_name",
    type=_FORMATS,
    required=True,
    help="sentinel: a Sentinel memory; jsonl: graphmem's own JSON lines.",
)
@click.option(
    "--name",
    metavar="NAME",
    help="sentinel: what the file is known by [default: its name without endings].",
)
@click.pass_obj
def import_(context: Context, file: str, format_name: str, name: str | None) -> None:
    """Learn all episodes of FILE, or none of a file that is damaged.

    \b
    Example:
      graphmem --url ./runs.graph import --format sentinel agent_memory.json
    """
    memory = context.memory(must_exist=False)
    if format_name == "sentinel":
        report = memory.upkeep.import_(file, "sentinel", document=name)
    elif name is not None:
        raise click.UsageError("--name is for --format sentinel")
    else:
        report = memory.upkeep.import_(file, "jsonl")

    def table() -> None:
        click.echo(f"{report.created:,} episodes learned, {report.skipped:,} known already")
        if report.kept:
            click.echo(f"kept as they are, not learned: {', '.join(report.kept)}")
        if report.refused:
            rows: list[tuple[Any, ...]] = [
                (item.source_key, item.field, item.reason) for item in report.refused[:20]
            ]
            title = f"{len(report.refused):,} refused"
            print_table(title, [(x, "left") for x in ("source key", "field", "reason")], rows)

    context.show(report, table)
    if report.refused:
        sys.exit(1)
