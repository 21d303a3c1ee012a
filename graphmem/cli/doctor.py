"""The command doctor."""

from __future__ import annotations

import sys

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_table


@click.command()
@click.pass_obj
def doctor(options: Options) -> None:
    """Check engine, versions, schema and indexes, and say how to repair problems.

    \b
    Example:
      graphmem --url ./airline.graph doctor
    """
    from graphmem.cli.diagnosis import examine

    findings = examine(options)
    if options.as_json:
        print_json(findings)
    else:
        print_table(
            None,
            [("check", "left"), ("", "left"), ("found", "left"), ("remedy", "left")],
            [(f.check, "ok" if f.ok else "WRONG", f.found, f.remedy) for f in findings],
        )
    options.note_snapshot()
    if not all(finding.ok for finding in findings):
        sys.exit(1)
