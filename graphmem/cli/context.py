"""The command context."""

from __future__ import annotations

import click

from graphmem.cli.options import Options
from graphmem.cli.printing import print_json, print_lines

AMPLE = 10_000
"""Tokens in which something fits if there is anything."""
FITS_NOT = "something is known, but nothing fits into {} tokens; give a greater --max-tokens"
UNKNOWN = (
    "too little is known of such tasks; `graphmem list tasks` shows what is known, and `graphmem "
    "recall` says which task is the most like it"
)


@click.command()
@click.argument("task")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Tokens at most, as the default embedder counts them.",
)
@click.option("--agent", help="Read as this agent; default: read everything.")
@click.option("--lens", metavar="NAME", help="Also what this lens on levels shows: planning ...")
@click.pass_obj
def context(
    options: Options, task: str, max_tokens: int, agent: str | None, lens: str | None
) -> None:
    """Write the lessons for TASK as text for a system prompt. TASK is its key or wording.

    \b
    Examples:
      graphmem --url ./airline.graph context "cancel a reservation" --max-tokens 300
      graphmem --url ./ops.graph context "deliver the orders" --agent ada --lens planning
    """
    memory = options.memory()
    text = memory.context(task, max_tokens=max_tokens, agent=agent, lens=lens)
    if options.as_json:
        from graphmem.text.tokens import count_tokens

        print_json({"task": task, "context": text, "tokens": count_tokens(text)})
    elif text:
        click.echo(text)
    else:
        more = memory.context(task, max_tokens=AMPLE, agent=agent, lens=lens)
        print_lines(FITS_NOT.format(max_tokens) if more else UNKNOWN, 0, err=True)
    options.note_snapshot()
