"""The command calibrate, and its picture."""

from __future__ import annotations

from typing import Any

import click

from graphmem.cli import plotting
from graphmem.cli.options import Options
from graphmem.cli.predict import describe_strengths
from graphmem.cli.printing import print_table, progress

_BASELINES = {
    "global": "rate of all",
    "task": "rate of the task",
    "strategy": "rate of the strategy",
    "cell": "rate of the strategy on the task",
}


@click.command()
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
    memory = options.memory()
    with progress("predicting", options) as advance:
        calibration = memory.calibrate(**how, on_progress=advance)
    worked = f"{calibration.successes:,} of {calibration.episodes:,} episodes succeeded"
    if plot is not None:
        plotting.draw_reliability(calibration.bins, calibration.z, [worked], plot)

    def text() -> None:
        if not calibration.episodes:
            click.echo("no episodes yet")
        else:
            named: list[tuple[str, Any]] = [("this memory", calibration)]
            named += [(_BASELINES[one.name], one) for one in calibration.baselines]
            headings = ("predicted by", "Brier", "log loss", "AUC", "calibration error")
            print_table(headings, ((name, *_scores(one)) for name, one in named))
            click.echo(worked)
            click.echo(describe_strengths(calibration.strengths))
        if plot is not None:
            click.echo(f"drawn in {plot}")

    options.show(calibration, text)


def _scores(row: Any) -> tuple[str, ...]:
    values = (row.brier, row.log_loss, row.auc, row.ece)
    return tuple("" if value is None else f"{value:.4f}" for value in values)
