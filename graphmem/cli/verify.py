"""The command verify."""

from __future__ import annotations

import sys

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_lines, print_table, progress
from graphmem.printable import counted, listed

SHOWN = 50
"""Differences in the table."""


@click.command()
@click.pass_obj
def verify(options: Options) -> None:
    """Derive every number from the facts again, and compare. It exits with 1 on a difference.

    \b
    Example:
      graphmem --url ./airline.graph verify
    """
    with progress("verifying", options, "facts") as advance:
        report = options.memory().verify(on_progress=advance)

    def table() -> None:
        counts = listed(report.checked) or "there are none"
        if report.ok:
            print_lines(f"all numbers follow from the facts ({counts})")
            return
        count = len(report.differences) + report.more
        print_table(
            f"{counted(count, 'difference')} ({listed(report.differing)}); `graphmem upkeep "
            "rebuild` derives all anew",
            [(name, "left") for name in ("kind", "key", "field", "stored", "expected")],
            [
                (item.kind, item.key, item.field, item.stored, item.expected)
                for item in report.differences[:SHOWN]
            ],
        )
        if count > SHOWN:
            click.echo(f"and {count - SHOWN:,} more")

    options.show(report, table)
    if not report.ok:
        sys.exit(1)
