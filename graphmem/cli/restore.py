"""The command restore."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import cell


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
            f"{report.nodes:,} nodes ({report.bytes:,} bytes) restored to {cell(report.path)}"
        ),
    )
