"""The command restore."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell
from graphmem.printable import counted


@click.command()
@click.argument("folder", metavar="DIR")
@click.pass_obj
def restore(options: Options, folder: str) -> None:
    """Fill a new memory from the backup DIR.

    \b
    Example:
      graphmem --url ./restored.graph restore ./backups/monday
    """
    report = options.memory(must_exist=False).upkeep.restore(folder)
    options.show(
        report,
        lambda: click.echo(
            f"{counted(report.nodes, 'node')} ({counted(report.bytes, 'byte')}) restored to "
            f"{cell(report.path)}"
        ),
    )
