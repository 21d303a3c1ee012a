"""The command similar, and how to open a memory for a search."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most
from graphmem.cli.printing import cell, progress

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models.similarity import SimilarStrategy

COLUMNS = (
    ("similarity", "right"),
    ("linked", "left"),
    ("strategy", "left"),
    ("worked", "right"),
    ("mean", "right"),
    ("at least", "right"),
    ("status", "left"),
)
TEXT = 90
"""Characters of a text in a table; --json has all of it."""
MANY = 200
"""Texts that take about a second to embed."""


def searchable(options: Options, *, for_text: bool = False) -> Memory:
    """Return the memory; show a progress bar if it must embed many texts.

    Args:
        options: the options of all commands.
        for_text: the command searches for a text: load what that needs in parallel.
    """
    memory = options.memory()
    if for_text:
        _load_beside(memory)
        for module in ("numpy", *(() if options.as_json else ("rich.table", "rich.console"))):
            import_module(module)
    if (
        sys.stderr.isatty()
        and not options.as_json
        and sum(memory.upkeep.pending().values()) >= MANY
    ):
        with progress("embedding what is new", options) as advance:
            if memory.store.try_writing():
                memory.upkeep.relink(on_progress=advance)
    return memory


def _load_beside(memory: Memory) -> None:
    """Open the graph in a thread, and load the model there if the memory was embedded with it."""
    from graphmem.errors import GraphMemError
    from graphmem.search.embedding import minilm

    name = minilm.MiniLM.name

    def needed() -> bool:
        try:
            return memory.upkeep.embedded_with() == name
        except GraphMemError:
            return False  # the command meets it as well, and says so

    # Its threads help to link many texts, but it takes time to start them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if memory.settings.embedder == name:
        minilm.load_beside(needed)


@click.command()
@click.argument("strategy")
@at_most(10)
@click.pass_obj
def similar(options: Options, strategy: str, limit: int) -> None:
    """Show the strategies with the texts most like STRATEGY. STRATEGY is its id or text.

    \b
    Example:
      graphmem --url ./airline.graph similar "cancel_reservation" --limit 5
    """
    rows = searchable(options).similar(strategy, limit)

    options.show_rows(rows, COLUMNS, _similar, "there is no other strategy")


def _similar(row: SimilarStrategy) -> tuple[Any, ...]:
    return (
        row.similarity,
        "yes" if row.linked else "",
        cell(row.text, TEXT),
        f"{row.successes} of {row.trials}",
        row.mean,
        row.lower,
        row.status,
    )
