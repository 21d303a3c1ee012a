"""The command doctor."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell, print_json, print_table

if TYPE_CHECKING:
    from graphmem.models import LossReport


@click.command()
@click.option(
    "--accept-loss",
    is_flag=True,
    help="If files are missing, damaged or older: go on with what is there.",
)
@click.pass_obj
def doctor(options: Options, accept_loss: bool) -> None:
    """Check engine, files, schema and indexes; say what to repair.

    \b
    Examples:
      graphmem --url ./airline.graph doctor
      graphmem --url ./airline.graph doctor --accept-loss
    """
    from graphmem.cli.diagnosis import examine

    if accept_loss:
        loss = options.memory().upkeep.accept_loss()
        options.show(loss, lambda: _tell(loss))
        return

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


def _tell(loss: LossReport) -> None:
    if not loss.problems:
        click.echo("nothing is missing")
        return
    for problem in loss.problems:
        click.echo(f"accepted: {cell(problem)}")
    for path in loss.kept:
        click.echo(f"kept: {cell(path)}, until you remove it")
    click.echo("next: graphmem upkeep rebuild, then graphmem verify")
