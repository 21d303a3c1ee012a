"""The command init."""

from __future__ import annotations

import click

from graphmem.cli.options import Options


@click.command()
@click.pass_obj
def init(options: Options) -> None:
    """Create the memory, or bring its indexes up to date.

    \b
    Example:
      graphmem --url ./runs.graph init
    """
    memory = options.memory(must_exist=False)
    version = memory.upkeep.initialize()
    done = {"url": memory.store.url, "schema_version": version}
    options.show(done, f"{memory.store.url} is ready (schema version {version})")
