"""The command that shows which embedders there are."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_table

COLUMNS = (
    ("embedder", "left"),
    ("dimensions", "right"),
    ("what", "left"),
    ("in force", "left"),
    ("of the memory", "left"),
    ("to use it", "left"),
)


@click.command()
@click.pass_obj
def embedders(options: Options) -> None:
    """List the embedders, and which is in force.

    It also says which one the memory uses, and what others lack.

    No model is loaded. GRAPHMEM_EMBEDDER names the one to use.

    \b
    Examples:
      graphmem embedders
      GRAPHMEM_EMBEDDER=hashing graphmem --json embedders
    """
    from graphmem.search.embedding import embedders as known

    memory = options.memory(must_exist=False)
    built = memory.upkeep.embedded_with() if memory.store.exists() else None
    rows = [
        row.model_copy(update={"of_memory": row.name == built})
        for row in known(options.settings().embedder)
    ]

    def table() -> None:
        print_table(
            None,
            COLUMNS,
            [
                (
                    row.name,
                    row.dimensions,
                    row.what,
                    "yes" if row.in_force else "",
                    "yes" if row.of_memory else "",
                    row.missing or "ready",
                )
                for row in rows
            ],
        )

    options.show(rows, table)
