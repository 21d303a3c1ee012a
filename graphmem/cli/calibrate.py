"""The command calibrate, and its picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from graphmem.cli import plotting, predictions
from graphmem.cli.options import Options
from graphmem.cli.predict import described
from graphmem.cli.printing import print_table, progress

if TYPE_CHECKING:
    from graphmem.models.forecasts import Calibration


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
@click.option(
    "--by",
    type=click.Choice(["order", "time"]),
    default="order",
    show_default=True,
    help="In the order of recording, or by time.",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1_000),
    metavar="K",
    help="Predict each of K parts from the others, instead of from earlier episodes.",
)
@plotting.option("the reliability diagram")
@click.pass_obj
def calibrate(options: Options, /, plot: str | None, **how: Any) -> None:
    """Show how well the memory predicts past outcomes.

    It predicts each episode from earlier ones, and compares with simple predictors.

    \b
    Example:
      graphmem --url ./airline.graph calibrate --plot reliability.png
    """
    if plot is not None:
        plotting.check(plot)
    memory = options.memory()
    with progress("predicting", options) as advance:
        calibration = memory.calibrate(**how, on_progress=advance)
    if plot is not None:
        draw(calibration, Path(plot))

    def table() -> None:
        if not calibration.episodes:
            click.echo("no episodes yet")
        else:
            rows = [("this memory", *_scores(calibration))]
            rows += [(_BASELINES[one.name], *_scores(one)) for one in calibration.baselines]
            print_table(None, COLUMNS, rows)
            click.echo(f"{calibration.successes:,} of {calibration.episodes:,} episodes succeeded")
            click.echo(described(calibration.strengths))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(calibration, table)


def _scores(row: Any) -> tuple[str, ...]:
    values = (row.brier, row.log_loss, row.auc, row.ece)
    return tuple("" if value is None else f"{value:.4f}" for value in values)


def draw(calibration: Calibration, file: Path) -> None:
    """Draw the share of successes by predicted probability.

    Raises:
        OSError: the file cannot be written.
    """
    from graphmem.models.predictions import Reliability, ReliabilityBin

    rate = calibration.successes / calibration.episodes if calibration.episodes else None
    bins = tuple(
        ReliabilityBin(happened=one.successes, **one.model_dump(exclude={"successes"}))
        for one in calibration.bins
    )
    shown = Reliability(
        count=calibration.episodes,
        happened=calibration.successes,
        base_rate=rate,
        brier=calibration.brier,
        baseline=None if rate is None else rate * (1.0 - rate),
        log_loss=calibration.log_loss,
        calibration_error=calibration.ece,
        bins=bins,
        z=calibration.z,
    )
    predictions.draw(shown, file)
