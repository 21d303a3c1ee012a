"""The commands of memory.lessons, and of memory.people: preferences, knowledge and scopes."""

from __future__ import annotations

from typing import Any

import click

from graphmem.cli.options import Group, Options, example, moment, several
from graphmem.cli.printing import TEXT, cell, print_answer
from graphmem.printable import counted


@click.group(cls=Group)
def people() -> None:
    """Keep preferences of users, knowledge of the world, and what agents may learn and read.

    `graphmem list` shows preferences, knowledge and scopes.
    """


@people.command()
@example('--url ./airline.graph people prefer ann seat "on the aisle"')
@click.argument("user")
@click.argument("category")
@click.argument("text")
@click.option("--source", default="explicit_instruction", help="Or correction, or inferred.")
@moment("--at", "When it was said")
def prefer(options: Options, /, user: str, category: str, text: str, **given: Any) -> None:
    """Store that USER wants TEXT in a CATEGORY. It supersedes the earlier preference."""
    stored = options.memory(must_exist=False).people.prefer(user, category, text, **given)
    done = "stored" if stored.created else "known already"
    late = "" if stored.in_force else "; a later one is in force"
    options.show(stored, f"{done}: {cell(stored.user, 40)} wants {cell(stored.text, 60)}{late}")


@people.command()
@example('--url ./airline.graph people know refunds "they take five days" --user ann')
@example('people know refunds "3 days" --contradicts 3d6c9d1f5d6d8a8f6f2b4d3a1c0e7b52')
@click.argument("domain")
@click.argument("fact")
@click.option("--source", default="user_stated", help="Or documented, observed or inferred.")
@click.option("--user", help="Who stated it.")
@several("--contradicts", metavar="ID", help="A known fact that it contradicts.")
@moment("--at", "When it was stated")
@moment("--valid-from", "From when it holds")
@moment("--valid-to", "Until when it holds")
def know(
    options: Options, /, domain: str, fact: str, contradicts: tuple[str, ...], **given: Any
) -> None:
    """Store a FACT of a DOMAIN."""
    known = options.memory(must_exist=False).people
    stored = known.know(domain, fact, contradicts=contradicts or None, **given)
    done = "stored" if stored.created else "known already:"
    text = f"{done} knowledge {stored.id}, confidence {stored.confidence:.3f}"
    for other in stored.may_contradict:
        fact = cell(other.fact, 60)
        text += f"\nmay contradict {fact!r}; if it does, add --contradicts {other.id}"
    options.show(stored, text)


@people.command()
@example("people scope grace --can-learn 'sql_*' --cannot-learn sql_admin --inherit-from ada")
@example("--url ./airline.graph people scope grace --remove")
@click.argument("agent")
@several("--can-learn", metavar="TYPE", help="It learns only such tasks; * is any text.")
@several("--cannot-learn", metavar="TYPE", help="It never learns such tasks.")
@several("--share-with", metavar="AGENT", help="Who may read its lessons; * is all.")
@several("--inherit-from", metavar="AGENT", help="Whose lessons it reads, if that one shares them.")
@click.option("--min-occurrences", type=click.IntRange(1), help="It reads lessons from so many on.")
@click.option("--remove", is_flag=True, help="Remove the scope.")
def scope(
    options: Options, /, agent: str, can_learn: tuple[str, ...], remove: bool, **given: Any
) -> None:
    """Set or replace the scope of AGENT: what it may learn, and whose lessons it reads.

    Without a scope an agent can learn everything, but reads only its own lessons.
    """
    parts = {"can_learn": can_learn, **given}
    if remove is any(parts.values()):
        raise click.UsageError(
            "give what AGENT may learn or read, or --remove alone; `graphmem list scopes` shows all"
        )
    scopes = options.memory(must_exist=False).scopes
    if remove:
        removed = scopes.remove(agent)
        text = f"removed the scope of {agent}" if removed else f"{agent} had no scope"
        options.show({"removed": removed}, text)
    else:
        stored = scopes.set(agent, can_learn=can_learn or None, **given)
        options.show(stored, f"set the scope of {stored.agent}")


@click.group(cls=Group)
def lessons() -> None:
    """Derive rules for all tasks, and count strategies as one.

    `graphmem list` shows heuristics, anti-patterns, rules and mistakes.
    """


@lessons.command()
@example("--url ./airline.graph lessons consolidate --force")
@click.option("--force", is_flag=True, help="Run also if it is not due.")
@click.option("--model", is_flag=True, help="Ask the model of the settings as well.")
def consolidate(options: Options, force: bool, model: bool) -> None:
    """Derive rules that hold for more than one task, if it is due.

    The model is that of GRAPHMEM_MODEL_BASE_URL, GRAPHMEM_MODEL_NAME and GRAPHMEM_MODEL_KEY.
    """
    report = options.memory().lessons.consolidate(model or None, force=force)
    not_due = f"not due: {report.since:,} of {report.every:,} episodes since the last time"
    options.show(report, print_answer if report.done else f"{not_due} (--force does it now)")


@lessons.command()
@example('--url ./airline.graph lessons merge "check the fare rules" "look up the fare rules"')
@example('--url ./airline.graph lessons merge "check the fare rules" --undo')
@click.argument("strategy")
@click.argument("other", required=False)
@click.option("--undo", is_flag=True, help="Let the strategies in STRATEGY count separately again.")
def merge(options: Options, strategy: str, other: str | None, undo: bool) -> None:
    """Count OTHER as STRATEGY wherever lessons are read.

    Both are texts or ids; nothing recorded changes.
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
