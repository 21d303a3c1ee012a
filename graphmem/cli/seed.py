"""The command seed, and its progress bar."""

from __future__ import annotations

import codecs
import sys
from collections import Counter
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_rows, progress
from graphmem.files import writing
from graphmem.printable import counted, printable

if TYPE_CHECKING:
    from graphmem.seeding import Refusal, SeedReport

_Text = TextIO | codecs.StreamWriter


@click.command()
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option("--format", "format_name", metavar="NAME", help="Log format; default: by content.")
@click.option("--agent", help="Name of the agent, instead of the one in the log.")
@click.option(
    "--batch-size",
    type=click.IntRange(1, 100_000),
    default=100,
    show_default=True,
    help="Learn this many records in a transaction.",
)
@click.option("--limit", type=click.IntRange(1), help="Most records of each file.")
@click.option(
    "--outcomes",
    metavar="FILE",
    help="Outcomes by key, for records without one: CSV (key, success or score), or a JSON report.",
)
@click.option(
    "--strategy-from",
    metavar="WHAT",
    help="What counts as the strategy: tools, model, agent, or a field; default: the format's.",
)
@click.option("--evaluator", metavar="NAME", help="Whose judgement counts if a record has several.")
@click.option(
    "--on-error",
    type=click.Choice(["fail", "ignore"]),
    default="fail",
    show_default=True,
    help="If records were refused, exit with 1 or with 0. The others are learned.",
)
@click.option(
    "--refused",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Write refused records to FILE as JSON lines (- for standard output).",
)
@click.pass_obj
def seed(
    options: Options, /, logs: tuple[str, ...], on_error: str, refused: str | None, **how: Any
) -> None:
    """Learn from LOGs: files, folders or patterns.

    LOG can be - for standard input. Files can be gzipped.

    Known records are skipped, so you can run an interrupted seeding again.

    \b
    Example:
      graphmem --url ./airline.graph seed logs/gpt-4o-airline.json --format tau-bench
      graphmem --url ./fixes.graph seed output.jsonl --outcomes report.json --strategy-from model
    """
    from graphmem import seeding

    if options.as_json and refused == "-":
        raise click.UsageError("--json and --refused - both print on standard output")
    sources = seeding.sources(logs)
    if how["format_name"]:
        from graphmem.seeding.formats import find

        find(how["format_name"])
    memory = options.memory(must_exist=False)
    with ExitStack() as stack:
        sink = _sink(stack, refused)
        advance = stack.enter_context(progress("seeding", options, "records"))
        report = seeding.seed(
            memory,
            sources,
            progress=None if advance is None else lambda count: advance(count, None),
            on_refusal=(lambda refusal: _write_line(sink, refusal)) if sink else None,
            **how,
        )
    if options.as_json:
        print_json(report)
    else:
        _print_report(report, refused)
    if report.unmatched:
        keys = ", ".join(report.unmatched_keys[:5])
        more = ", ..." if report.unmatched > 5 else ""
        count = counted(report.unmatched, "key")
        click.echo(f"warning: no record has {count} of {how['outcomes']}: {keys}{more}", err=True)
    if report.refused and on_error == "fail":
        sys.exit(1)


def _sink(stack: ExitStack, refused: str | None) -> _Text | None:
    """Return what refusals are written to: a file that is there when all are read, or nothing."""
    if refused is None:
        return None
    if refused == "-":
        return sys.stdout
    return codecs.getwriter("utf-8")(stack.enter_context(writing(refused)))


def _write_line(sink: _Text, refusal: Refusal) -> None:
    sink.write(printable(refusal.model_dump_json()) + "\n")
    sink.flush()


def _print_report(report: SeedReport, refused: str | None) -> None:
    click.echo(
        f"{counted(report.created, 'episode')} learned, {report.skipped:,} known already, "
        f"{report.refused:,} refused, from {counted(report.files, 'file')}"
    )
    if report.refusals and refused is None:
        alike = Counter((item.field, item.reason) for item in report.refusals)
        firsts = {(item.field, item.reason): item for item in reversed(report.refusals)}
        shown = [(firsts[kind], number) for kind, number in islice(alike.items(), 20)]
        click.echo("Refused records")
        print_rows(
            shown,
            "file record field reason like_it",
            file=lambda row: row[0].file,
            record=lambda row: row[0].record,
            field=lambda row: row[0].field,
            reason=lambda row: row[0].reason,
            like_it=lambda row: row[1] - 1 or None,
        )
        more = report.refused - sum(number for _, number in shown)
        if more:
            click.echo(f"... and {more:,} more; --refused FILE lists all")
        elif report.refused > len(shown):
            click.echo("--refused FILE lists all")
