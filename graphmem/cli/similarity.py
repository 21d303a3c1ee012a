"""Commands on what is similar: similar, relink."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, cell, print_table, progress

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


def searchable(context: Context, *, for_text: bool = False) -> Memory:
    """Return the memory; where much waits to be embedded, a person sees a bar meanwhile.

    Args:
        context: the options before the command.
        for_text: a text will be searched for: load what that needs side by side.
    """
    memory = context.memory()
    if for_text:
        _load_beside(memory)
        for module in ("numpy", *(() if context.as_json else ("rich.table", "rich.console"))):
            import_module(module)
    if (
        sys.stderr.isatty()
        and not context.as_json
        and sum(memory.upkeep.pending().values()) >= MANY
    ):
        with progress("embedding what is new", context) as advance:
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
            return False  # the command meets it as well, and tells

    # Its threads are of use for linking many texts, but it takes time to start them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if memory.settings.embedder == name:
        minilm.load_beside(needed)


@click.command()
@click.argument("strategy")
@click.option("--limit", type=click.IntRange(1), default=10, show_default=True)
@click.pass_obj
def similar(context: Context, strategy: str, limit: int) -> None:
    """Show the strategies that say most nearly the same as STRATEGY (its id or text).

    \b
    Example:
      graphmem --url ./airline.graph similar "cancel_reservation" --limit 5
    """
    rows = searchable(context).similar(strategy, limit)

    def table() -> None:
        if rows:
            print_table(None, COLUMNS, map(_similar, rows))
        else:
            click.echo("there is no other strategy")

    context.show(rows, table)


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


@click.command()
@click.option(
    "--embedder",
    metavar="NAME",
    help="Embed all texts anew with this one from now on; `graphmem embedders` lists them.",
)
@click.pass_obj
def relink(context: Context, embedder: str | None) -> None:
    """Embed the texts that have no vector, and draw all edges between similar nodes anew.

    What is new is embedded at the next recall by itself: this does it beforehand, mends vectors
    that were damaged, and changes the embedder.

    \b
    Examples:
      graphmem --url ./airline.graph relink
      graphmem --url ./airline.graph relink --embedder hashing
    """
    with progress("embedding and linking", context) as advance:
        report = context.memory().upkeep.relink(embedder, on_progress=advance)
    context.show(
        report,
        lambda: click.echo(
            f"{report.embedded:,} of {report.strategies + report.tasks:,} texts embedded with "
            f"{report.embedder} ({report.dimensions} dimensions); {report.links:,} edges between "
            f"{report.strategies:,} strategies and between {report.tasks:,} tasks"
        ),
    )
