"""The commands of memory.lessons."""

from __future__ import annotations

import click

from graphmem.cli.options import Group, Options
from graphmem.cli.printing import TEXT, cell, print_answer
from graphmem.printable import counted


@click.group(cls=Group)
def lessons() -> None:
    """Derive rules for all tasks, and count strategies as one.

    `graphmem list` shows heuristics, anti-patterns, rules, mistakes and scores.
    """


@lessons.command()
@click.option("--force", is_flag=True, help="Run also if it is not due.")
@click.option("--model", is_flag=True, help="Ask the model of the settings as well.")
@click.pass_obj
def consolidate(options: Options, force: bool, model: bool) -> None:
    """Derive rules that hold for more than one task, if it is due.

    The model is that of GRAPHMEM_MODEL_BASE_URL, GRAPHMEM_MODEL_NAME and GRAPHMEM_MODEL_KEY.

    \b
    Example:
      graphmem --url ./airline.graph lessons consolidate --force
    """
    report = options.memory().lessons.consolidate(model or None, force=force)
    not_due = f"not due: {report.since:,} of {report.every:,} episodes since the last time"
    options.show(report, print_answer if report.done else f"{not_due} (--force does it now)")


@lessons.command()
@click.argument("strategy")
@click.argument("other", required=False)
@click.option("--undo", is_flag=True, help="Let the strategies in STRATEGY count separately again.")
@click.pass_obj
def merge(options: Options, strategy: str, other: str | None, undo: bool) -> None:
    """Count OTHER as STRATEGY wherever lessons are read.

    Both are texts or ids; nothing recorded changes.

    \b
    Examples:
      graphmem --url ./airline.graph lessons merge "check the fare rules" "look up the fare rules"
      graphmem --url ./airline.graph lessons merge "check the fare rules" --undo
    """
    if undo is (other is not None):
        raise click.UsageError("give OTHER, which is to count as STRATEGY, or --undo")
    found = options.memory().lessons
    if other is None:
        count = found.unmerge(strategy)
        text = f"{counted(count, 'merge')} undone" if count else "it was not merged"
        options.show({"unmerged": count}, text)
    else:
        options.show(
            {"id": found.merge(strategy, other)},
            f"{cell(other, TEXT)!r} counts as {cell(strategy, TEXT)!r} from now on; "
            "`graphmem lessons merge STRATEGY --undo` undoes it",
        )
