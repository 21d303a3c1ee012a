"""The command backup."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell
from graphmem.printable import counted


@click.command()
@click.argument("folder", metavar="DIR")
@click.pass_obj
def backup(options: Options, folder: str) -> None:
    """Write the whole memory to the new folder DIR. Others may write meanwhile.

    The folder is a memory itself: every command can read it.

    \b
    Example:
      graphmem --url ./airline.graph backup ./backups/monday
    """
    report = options.memory().upkeep.backup(folder)
    options.show(
        report,
        lambda: click.echo(
            f"{counted(report.nodes, 'node')} ({counted(report.bytes, 'byte')}) written to "
            f"{cell(report.path)}"
        ),
    )
