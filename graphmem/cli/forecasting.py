"""The commands that say how likely something is to work, and how well that is foreseen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting, predictions
from graphmem.cli.context import Context, cell, print_table, progress

if TYPE_CHECKING:
    from graphmem.models.forecasts import Calibration, OutcomePrediction, PoolingStrengths

COLUMNS = (
    ("predicted by", "left"),
    ("Brier", "right"),
    ("log loss", "right"),
    ("AUC", "right"),
    ("calibration error", "right"),
)
_BASELINES = {
    "global": "rate of all",
    "task": "rate of the task",
    "strategy": "rate of the strategy",
    "cell": "rate of the strategy on the task",
}


@click.command()
@click.argument("task")
@click.argument("strategies", metavar="STRATEGY...", nargs=-1, required=True)
@click.option("--agent", help="By the episodes alone that this agent may read.")
@click.pass_obj
def predict(context: Context, task: str, strategies: tuple[str, ...], agent: str | None) -> None:
    """Say how likely it is that STRATEGY works on TASK, its key or wording, and why.

    With several strategies: that an episode succeeds which uses them together.

    \b
    Examples:
      graphmem --url ./airline.graph predict 12 cancel_reservation
      graphmem --url ./airline.graph predict "change a seat" get_user_details think --agent ada
    """
    found = context.memory().predict(task, strategies, agent)

    def text() -> None:
        for line in lines(found):
            click.echo(line)

    context.show(found, text)


def lines(found: OutcomePrediction) -> list[str]:
    """Return a predicted outcome in words."""
    bounds = f"{found.low:.3f} to {found.high:.3f} with 95 % credibility"
    tried = "tried once" if found.trials == 1 else f"tried {found.trials} times"
    basis = found.basis
    first = f"{found.probability:.3f} ({bounds}), {tried} on this task"
    return [first, *(f"  {cell(line)}" for line in basis.lines), f"  {_words(basis.strengths)}"]


def _words(strengths: PoolingStrengths) -> str:
    numbers = (
        f"strengths: task {strengths.task:g}, strategy {strengths.strategy:g}, "
        f"on the task {strengths.cell:g}; slopes {strengths.task_slope:g} and "
        f"{strengths.strategy_slope:g}"
    )
    if strengths.fitted:
        gained = f"{strengths.score:.1f} standard errors better than the defaults"
        return f"{numbers} (fitted to {strengths.trials:,} trials, {gained})"
    return f"{numbers} (the defaults)"


@click.command()
@click.option(
    "--by",
    type=click.Choice(["order", "time"]),
    default="order",
    show_default=True,
    help="As episodes were recorded, or by their times.",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1_000),
    metavar="K",
    help="Predict each of K parts from the others, instead of from what came before.",
)
@plotting.option("the reliability diagram")
@click.pass_obj
def calibrate(context: Context, /, plot: str | None, **how: Any) -> None:
    """Show how well the outcomes of the history are predicted, beside simple predictions.

    Each episode is predicted from those before it.

    \b
    Example:
      graphmem --url ./airline.graph calibrate --plot reliability.png
    """
    if plot is not None:
        plotting.check(plot)
    memory = context.memory()
    with progress("predicting", context) as advance:
        found = memory.calibrate(**how, on_progress=advance)
    if plot is not None:
        draw(found, Path(plot))

    def table() -> None:
        if not found.episodes:
            click.echo("no episodes yet")
        else:
            rows = [("this memory", *_scores(found))]
            rows += [(_BASELINES[one.name], *_scores(one)) for one in found.baselines]
            print_table(None, COLUMNS, rows)
            click.echo(f"{found.successes:,} of {found.episodes:,} episodes succeeded")
            click.echo(_words(found.strengths))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    context.show(found, table)


def _scores(row: Any) -> tuple[str, ...]:
    values = (row.brier, row.log_loss, row.auc, row.ece)
    return tuple("" if value is None else f"{value:.4f}" for value in values)


def draw(found: Calibration, file: Path) -> None:
    """Draw the share of successes by predicted probability.

    Raises:
        OSError: the file cannot be written.
    """
    from graphmem.models.predictions import Reliability, ReliabilityBin

    rate = found.successes / found.episodes if found.episodes else None
    bins = tuple(
        ReliabilityBin(happened=one.successes, **one.model_dump(exclude={"successes"}))
        for one in found.bins
    )
    shown = Reliability(
        count=found.episodes,
        happened=found.successes,
        base_rate=rate,
        brier=found.brier,
        baseline=None if rate is None else rate * (1.0 - rate),
        log_loss=found.log_loss,
        calibration_error=found.ece,
        bins=bins,
        z=found.z,
    )
    predictions.draw(shown, file)
