"""Ask the memory before acting: choose, context, recall, predict, changes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.options import Options, at_most, moment, several
from graphmem.cli.printing import cell, print_json, print_rows, progress
from graphmem.printable import percent

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models.choices import Choice
    from graphmem.models.recall import Recall, RecallItem

MANY = 200
"""Texts that take about a second to embed."""
AMPLE = 10_000
"""Tokens in which something fits if there is anything."""
UNKNOWN = (
    "too little is known of such tasks; `graphmem list tasks` shows what is known, and `graphmem "
    "recall` says which task is the most like it"
)
with_rights = click.option("--agent", help="Use only what this agent may read.")
for_user = click.option("--user", help="Also what this user prefers.")
with_past = moment("--as-of", "From what was recorded by this time")


def open_for_search(options: Options) -> Memory:
    """Return the memory; load meanwhile in a thread the model, if the memory was embedded by it."""
    from graphmem.errors import GraphMemError
    from graphmem.search.embedding import minilm

    memory = options.memory()
    name = minilm.MiniLM.name

    def is_needed() -> bool:
        try:
            return memory.upkeep.embedded_with() == name
        except GraphMemError:
            return False  # the command meets it as well, and says so

    # Its threads help to link many texts, but it takes time to start them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if memory.settings.embedder == name:
        minilm.load_beside(is_needed)
    import numpy  # noqa: F401 - its import takes as long as that of the model

    embed_new_texts(memory, options)
    return memory


def embed_new_texts(memory: Memory, options: Options) -> None:
    """Embed texts without vectors, with a progress bar, if there are many, and a terminal."""
    visible = sys.stderr.isatty() and not options.as_json
    if visible and sum(memory.upkeep.pending().values()) >= MANY:
        with progress("embedding what is new", options) as advance:
            if memory.store.try_writing():
                memory.upkeep.relink(on_progress=advance)


@click.command()
@click.argument("task")
@click.argument("candidates", metavar="[CANDIDATE...]", nargs=-1)
@with_rights
@click.option(
    "--task-type", help="The type of the task; default: the known one, else that of its wording."
)
@click.option(
    "--explore", default="thompson", metavar="WAY", help="thompson, greedy, ucb or epsilon."
)
@click.option("--seed", type=int, help="A whole number from 0, which repeats the choice.")
@click.pass_obj
def choose(options: Options, /, task: str, candidates: tuple[str, ...], **how: Any) -> None:
    """Choose the strategy to try now on TASK.

    It is one of CANDIDATES; without any, one of the memory.

    Mostly it is what works; from time to time it is one that is not known well.

    \b
    Examples:
      graphmem --url ./airline.graph choose "change a seat" get_user_details think
      graphmem --url ./airline.graph --json choose "refund a flight" --explore greedy
    """
    choice = options.memory().choose(task, candidates or None, **how)
    options.show(choice, _print_choice)


def _print_choice(choice: Choice) -> None:
    click.echo(cell(choice.text))
    click.echo(f"  {cell(choice.why)}")
    print_rows(
        (choice, *choice.others),
        "strategy=text taken expected=probability% 95_%=low..high here=here_successes/here_trials "
        "on_tasks_like_it=near_successes/near_trials in_all=successes/trials it_fails_with",
        taken=lambda one: percent(one.propensity, 1),
        it_fails_with=lambda one: "; ".join(
            dict.fromkeys(warning.error_class for warning in one.warnings)
        ),
    )


@click.command()
@click.argument("task")
@click.option(
    "--max-tokens",
    type=click.IntRange(1),
    default=200,
    help="Tokens at most, as the default embedder counts them.",
)
@with_rights
@click.option("--lens", metavar="NAME", help="Also what this lens on levels shows: planning ...")
@for_user
@click.pass_obj
def context(options: Options, /, task: str, max_tokens: int, **reading: Any) -> None:
    """Write the lessons for TASK as text for a system prompt. TASK is its key or wording.

    \b
    Examples:
      graphmem --url ./airline.graph context "cancel a reservation" --max-tokens 300
      graphmem --url ./ops.graph context "deliver the orders" --agent ada --lens planning
    """
    memory = options.memory()
    text = memory.context(task, max_tokens=max_tokens, **reading)
    if options.as_json:
        from graphmem.text.tokens import count_tokens

        print_json({"task": task, "context": text, "tokens": count_tokens(text)})
    elif text:
        click.echo(text)
    elif memory.context(task, max_tokens=AMPLE, **reading):
        why = f"something is known, but nothing fits into {max_tokens} tokens"
        click.echo(f"{why}; give a greater --max-tokens", err=True)
    else:
        click.echo(UNKNOWN, err=True)
    options.note_snapshot()


@click.command()
@click.argument("text")
@at_most(5)
@with_rights
@several("--kind", "kinds", metavar="KIND", help="Only this: strategy, rule, heuristic or policy.")
@with_past
@for_user
@click.pass_obj
def recall(options: Options, /, text: str, kinds: tuple[Any, ...], **how: Any) -> None:
    """Show strategies that worked on tasks like TEXT.

    It also shows other items that fit, and what to avoid.

    At most --limit strategies come first, by what is expected of them, then at most 3 rules, 3
    heuristics and 3 policies. A score selects them: how similar the tasks are, times the lower
    bound of the expected success rate, times how recent the trials are.

    \b
    Examples:
      graphmem --url ./airline.graph recall "customer wants a refund for a cancelled flight"
      graphmem --url ./airline.graph --json recall "change a seat" --limit 3 --agent ada
      graphmem --url ./airline.graph recall "change a seat" --kind rule --kind policy
    """
    memory = open_for_search(options)
    recalled = memory.recall(text, kinds=kinds or None, **how)
    options.show(recalled, _print_recalled)


def _print_recalled(recalled: Recall) -> None:
    near, floor = recalled.nearest, recalled.floor
    if recalled.facts:
        print_rows(recalled.facts, "about text source at confidence")
    if not recalled.items and not recalled.warnings and recalled.facts:
        return
    if not recalled.items and not recalled.warnings:
        text = "nothing is known of such tasks; `graphmem list tasks` lists what is known"
        if near is not None and floor is not None and not recalled.tasks:
            text = (
                f"nothing known is like this: the nearest task is {cell(near.text, 60)!r} at "
                f"{near.similarity:.2f}, under the floor {floor:.2f}; try other words, or see "
                "`graphmem list tasks`"
            )
        click.echo(text)
        return
    if recalled.embedder == "hashing":
        click.echo("compared by words alone: the embedder `hashing` is not a model")
    by_kind: dict[str, list[RecallItem]] = {}
    for item in recalled.items:
        by_kind.setdefault(item.kind, []).append(item)
    for kind, items in by_kind.items():
        columns = f"{kind}=text what_is_known=said found_by score"
        print_rows(items, columns, found_by=_find_source)
    if recalled.warnings:
        print_rows(
            recalled.warnings,
            "avoid=strategy it_fails_with=error_class failures=occurrences worked=successes "
            "here=said instead=better_alternative.strategy",
        )


def _find_source(item: RecallItem) -> str:
    """Return the task, or another text, over which an item was found."""
    if item.kind != "strategy":
        return item.path[1]
    return item.path[-3] if len(item.path) > 2 else "its text"


@click.command()
@click.argument("task")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@with_rights
@with_past
@click.pass_obj
def predict(options: Options, /, task: str, strategies: tuple[str, ...], **how: Any) -> None:
    """Show the probability that STRATEGY works on TASK, and why. TASK is its key or wording.

    With several strategies: the probability that an episode with all of them succeeds.

    \b
    Examples:
      graphmem --url ./airline.graph predict 12 cancel_reservation
      graphmem --url ./airline.graph predict "change a seat" get_user_details think --agent ada
      graphmem --url ./airline.graph predict 12 cancel_reservation --as-of 2026-05-01T00:00Z
    """
    one = strategies[0] if len(strategies) == 1 else None
    several = None if one else strategies
    found = options.memory().predict(task, one, together=several, **how)
    options.show(found, click.echo)


@click.command()
@click.option("--task", help="Only of strategies tried on this task: its key, id or wording.")
@with_rights
@moment("--after", "Only changes since this time")
@click.pass_obj
def changes(options: Options, /, **how: Any) -> None:
    """Show what began to work better or worse, and when, the most certain first.

    \b
    Examples:
      graphmem --url ./airline.graph changes
      graphmem --url ./airline.graph --json changes --task 12 --after 2026-05-01T00:00Z
    """
    options.show_rows(
        options.memory().changes(**how),
        "strategy task since before=successes_before/trials_before "
        "since_then=successes_since/trials_since certain=certainty%",
        "nothing changed for certain; it takes some dated outcomes before and since",
        task=lambda one: "everywhere" if one.task is None else one.task,
    )
