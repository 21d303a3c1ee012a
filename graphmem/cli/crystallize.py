"""The command that makes policies of what worked often enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli.context import Context, print_table
from graphmem.cli.policies import described, named

if TYPE_CHECKING:
    from graphmem.memory import Memory
    from graphmem.models import Candidate, CrystallizeReport

SHOWN = 20
"""Rows of a table; --json lists all."""


@click.command()
@click.option("--agent", help="Only this agent's; default: all agents, each by itself.")
@click.option("--min-events", type=int, help="Trials that it needs; default: the setting (3).")
@click.option("--threshold", type=float, help="Lower bound to pass; default: the setting (0.6).")
@click.option("--z", type=float, help="Normal quantile of the bound; default: the setting (1.96).")
@click.pass_obj
def crystallize(
    context: Context,
    agent: str | None,
    min_events: int | None,
    threshold: float | None,
    z: float | None,
) -> None:
    """Make policies of actions that worked often enough, and take back those that no longer do.

    \b
    Example:
      graphmem --url ./ops.graph crystallize --threshold 0.5
    """
    memory = context.memory()
    report = memory.policies.crystallize(agent, min_events=min_events, threshold=threshold, z=z)
    context.show(report, lambda: _print(memory, report))


def _print(memory: Memory, report: CrystallizeReport) -> None:
    click.echo(
        f"{len(report.created):,} created, {len(report.updated):,} updated, "
        f"{len(report.taken_back):,} taken back, {report.kept:,} kept as they are, "
        f"{report.below_count:,} below"
    )
    for title, found in (
        ("Created", report.created),
        ("Updated", report.updated),
        ("Taken back", report.taken_back),
    ):
        _table(memory, title, found, short=title == "Taken back")
    _table(memory, "The nearest of those below", report.below, short=True)
    click.echo(_needs(report))


def _table(memory: Memory, title: str, found: Sequence[Candidate], *, short: bool) -> None:
    """Print candidates; ``short`` of the threshold: also how far."""
    if not found:
        return
    columns = [("state", "left"), ("action", "left"), ("agent", "left"), ("worked", "right")]
    columns += [("lower bound", "right")]
    if short:
        columns += [("missing", "right"), ("successes in a row that would do", "right")]
    rows = []
    for item in found[:SHOWN]:
        policy = memory.policies.by_id(item.id)
        row: list[Any] = [described(policy), named(policy), item.agent]
        row += [f"{item.successes} of {item.trials}", item.lower]
        rows.append([*row, item.missing, item.more] if short else row)
    print_table(title, columns, rows)
    if len(found) > SHOWN:
        click.echo(f"... and {len(found) - SHOWN:,} more; --json lists all")


def _needs(report: CrystallizeReport) -> str:
    """Say what these thresholds ask for: "6 of 6 at z 1.96 is the least that passes 0.6"."""
    text = (
        f"{report.needed} of {report.needed} at z {report.z:g} is the least that passes "
        f"{report.threshold:g}"
    )
    asked = f" ({report.min_events} trials are asked for)"
    return text + asked if report.needed == report.min_events else text
