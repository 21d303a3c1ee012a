"""The command formats."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_table


@click.command()
@click.option("--schema", is_flag=True, help="Print the JSON Schema of a line of jsonl.")
@click.pass_obj
def formats(options: Options, schema: bool) -> None:
    """List the log formats that seed understands.

    \b
    Example:
      graphmem formats --schema > episode.schema.json
    """
    if schema:
        from graphmem.seeding import jsonl

        print_json(jsonl.schema())
        return
    from graphmem.seeding import formats as known

    rows = [{"name": item.name, "doc": item.doc} for item in known().values()]
    if options.as_json:
        print_json(rows)
    else:
        print_table(
            None, [("format", "left"), ("what", "left")], [(r["name"], r["doc"]) for r in rows]
        )
